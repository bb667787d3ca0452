"""Searches for the next deadline and the next purge of a container."""

from __future__ import annotations

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.engine.locks import Spared
from mayflydb.expiry.agenda import ContainerState
from mayflydb.expiry.passes import Schedule, Upcoming, horizon_of, upcoming_of
from mayflydb.expiry.ranges import lanes
from mayflydb.model.instant import Instant
from mayflydb.store.interface import LoadRow, NextDue, Store


def schedule_of(node: Node, schedule: Schedule) -> Schedule:
    """Return the schedule of a container's passes: its own, or the given common one."""
    return schedule if node.definition.schedule is None else node.definition.schedule


async def read_state(
    store: Store, nodes: Nodes, container: int, schedule: Schedule, ignores_pause: bool = False, spared: Spared = ()
) -> ContainerState | None:
    """Read the state of a container for the agenda; None: it is gone.

    `schedule`: the common one. Records that are `spared` do not count.
    """
    row = await store.read(LoadRow(container))
    if row is None:
        return None
    node = nodes.of(row)
    if node.definition.paused and not (node.definition.paused == "purge" and ignores_pause):
        return ContainerState(None)
    # Whatever a request overrides: only a person's confirmation, or other rules, release it.
    if node.definition.held is not None or node.definition.undelete is not None:
        return ContainerState(None)
    ahead = await _find_upcoming(store, node, None, schedule_of(node, schedule), spared)
    run = node.definition.run
    return ContainerState(ahead, node.definition.schedule, None if run is None else run.instant)


async def next_deadline(store: Store, nodes: Nodes, container: int, after: Instant | None = None) -> Instant | None:
    """Return the earliest deadline of a container's stored records, greater than `after` if given; None: no record expires."""
    row = await store.read(LoadRow(container))
    deadlines: list[Instant] = []
    for lane in lanes(() if row is None else nodes.of(row).rules):
        value = await store.read(NextDue(container, lane.path, None if after is None else lane.highest_due(after)))
        if value is not None:
            deadlines.append(lane.deadline(value))
    return min(deadlines, default=None)


async def next_step(store: Store, nodes: Nodes, container: int, after: Instant, schedule: Schedule) -> Instant | None:
    """Return the first instant after `after` at which a record of a container may be purged; None: there is none."""
    row = await store.read(LoadRow(container))
    if row is None:
        return None
    node = nodes.of(row)
    found = await _find_upcoming(store, node, after, schedule_of(node, schedule))
    return None if found is None else found.purge


async def _find_upcoming(
    store: Store, node: Node, after: Instant | None, schedule: Schedule, spared: Spared = ()
) -> Upcoming | None:
    """Find the purges ahead in a container after an instant; `after` None: all of them."""
    earliest: Upcoming | None = None
    for lane in lanes(node.rules):
        # Records due at the last pass are gone; records due since then wait for the next.
        done = None if after is None else horizon_of(lane.rule, after, schedule)
        value = await store.read(NextDue(node.id, lane.path, None if done is None else lane.highest_due(done), spared))
        if value is not None:
            earliest = upcoming_of(lane.deadline(value), lane.rule, schedule).sooner(earliest)
    return earliest
