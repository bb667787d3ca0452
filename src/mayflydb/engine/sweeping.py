"""One sweep, and the search for the next deadline. The deleting transaction itself decides by the rules what is due."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Set
from typing import Any, Literal

from mayflydb.engine.catalog import Node, Nodes, Run
from mayflydb.engine.insight import path_place
from mayflydb.engine.locks import Spared
from mayflydb.engine.ordered_histories import next_stamp
from mayflydb.engine.version_cache import VersionCache
from mayflydb.expiry.passes import Schedule, Upcoming, horizon_of, purge_instant
from mayflydb.expiry.ranges import DueRange, due_ranges, lanes
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    CompetingRule,
    Decision,
    Due,
    HeldRecords,
    LoadRow,
    NextDue,
    Outcome,
    Purge,
    Read,
    Store,
    ask,
)

PassOverride = Literal["none", "monitor", "all", "demanded"]
"""The passes for which a purge does not wait: none; those of the monitor; all; all, even if the container is paused."""


def overrides_pass(override: PassOverride, own: bool) -> bool:
    """Return whether a container, with its `own` schedule or without, is purged without waiting for a pass."""
    return override in ("all", "demanded") or (override == "monitor" and not own)


def schedule_of(node: Node, schedule: Schedule) -> Schedule:
    """Return the schedule of a container's passes: its own, or the given common one."""
    return schedule if node.definition.schedule is None else node.definition.schedule


def purge_due(
    nodes: Nodes,
    container: int,
    horizon: Instant,
    now: Instant,
    limit: int,
    how: str,
    schedule: Schedule | None = None,
    override: PassOverride = "none",
    version_cache: VersionCache | None = None,
    spared: Spared = (),
    shared: bool = True,
) -> Decision[None]:
    """Remove up to `limit` records that are due at `horizon` in this transaction, oldest first on each path.

    `schedule`: rules with passes purge records that were due at its last pass, or that of the container's own schedule; None:
    all due records, as with `override`. `version_cache`: gets the versions first, if a snapshot is open. `spared`: locked
    records, which stay, as do those that other nodes hold. `shared`: False if no other node writes in the container.
    """
    row = yield from ask(LoadRow(container))
    if row is None:
        return Outcome((), None)
    node = nodes.of(row)
    if node.definition.paused and (node.definition.paused != "purge" or override != "demanded"):
        return Outcome((), None)
    waits = schedule is not None and not overrides_pass(override, node.definition.schedule is not None)
    held = (yield from ask(HeldRecords(container, purging=True))) if shared else ()
    if held is None:
        return Outcome((), None)
    spared = (*spared, *held)
    ready = yield from _ready(node, horizon, schedule_of(node, schedule) if schedule and waits else None, spared)
    share = max(1, limit // max(1, len(ready)))
    if version_cache is not None and version_cache.wants_purged:
        for due in ready:
            records = yield from _read_due(container, due, share, frozenset(spared))
            version_cache.note_purge(container, row.lsn, records)
    history, orderer = bool(node.definition.history), node.definition.ordered
    stamp = (yield from next_stamp(orderer, {})) if history and orderer is not None and ready else None
    purges = tuple(
        Purge(
            container=container,
            path=due.path,
            upto=due.upto,
            limit=share,
            span=due.span,
            not_before=due.rule.not_before,
            cause=due.cause,
            rule_version=due.rule.version,
            purged=now,
            how=how,
            history=history,
            competing=_competing_rules(ready, n),
            stamp=stamp,
            spared=spared,
        )
        for n, due in enumerate(ready)
    )
    return Outcome(purges, None)


def _ready(
    node: Node, horizon: Instant, schedule: Schedule | None, spared: Spared
) -> Generator[Read[Any], Any, list[DueRange]]:
    """Return the ranges of a container in which a record is due."""
    ready = []
    for due in due_ranges(node.rules, horizon, schedule):
        oldest = yield from ask(NextDue(node.id, due.path, None, spared))
        if oldest is not None and oldest <= due.upto:
            ready.append(due)
    return ready


def _read_due(
    container: int, due: DueRange, limit: int, spared: Set[Identity]
) -> Generator[Read[Any], Any, list[Record]]:
    """Return the first records of a range in the order of their purge."""
    found: list[Record] = []
    after: tuple[int, int] | None = None
    while len(found) < limit:
        records = yield from ask(Due(container, due.path, due.upto, after, limit - len(found)))
        if not records:
            break
        found += [record for record in records if (record.partition, record.key) not in spared]
        after = path_place(records[-1], due.path)
    return found


def _competing_rules(ready: Sequence[DueRange], n: int) -> tuple[CompetingRule, ...]:
    """Return the other purges that may have an earlier deadline for a record of the n-th. No record is on both paths without
    a slot.
    """
    if isinstance(ready[n].path, int):
        others = [(m, due) for m, due in enumerate(ready) if m != n]
    else:
        others = [(m, due) for m, due in enumerate(ready) if isinstance(due.path, int)]
    return tuple(CompetingRule(due.path, due.span, due.rule.not_before, m < n) for m, due in others)


async def next_purge(
    store: Store, nodes: Nodes, container: int, schedule: Schedule, override: PassOverride = "none", spared: Spared = ()
) -> tuple[Upcoming | None, Schedule | None, Run | None]:
    """Return the next deadline and purge of a container, its own schedule, and its last stored run.

    None: no record expires, or nothing is purged now; `demanded` ignores a pause. Records that are `spared` do not count.
    """
    row = await store.read(LoadRow(container))
    node = None if row is None else nodes.of(row)
    if node is None or (node.definition.paused and (node.definition.paused != "purge" or override != "demanded")):
        return None, None, None
    return await _earliest(store, node, None, schedule, spared), node.definition.schedule, node.definition.run


async def next_deadline(store: Store, nodes: Nodes, container: int, after: Instant | None = None) -> Instant | None:
    """Return the earliest deadline of a container's stored records, greater than `after` if given; None: no record expires."""
    row = await store.read(LoadRow(container))
    found = None if row is None else await _earliest(store, nodes.of(row), after, None)
    return None if found is None else found.deadline


async def next_step(store: Store, nodes: Nodes, container: int, after: Instant, schedule: Schedule) -> Instant | None:
    """Return the first instant after `after` at which a record of a container may be purged; None: there is none."""
    row = await store.read(LoadRow(container))
    found = None if row is None else await _earliest(store, nodes.of(row), after, schedule)
    return None if found is None else found.purge


async def _earliest(
    store: Store, node: Node, after: Instant | None, schedule: Schedule | None, spared: Spared = ()
) -> Upcoming | None:
    earliest: Upcoming | None = None
    schedule = None if schedule is None else schedule_of(node, schedule)
    for lane in lanes(node.rules):
        # Records due at the last pass are gone; records due since then wait for the next.
        done = None if after is None else horizon_of(lane.rule, after, schedule)
        value = await store.read(NextDue(node.id, lane.path, None if done is None else lane.highest_due(done), spared))
        if value is not None:
            deadline = lane.deadline(value)
            earliest = Upcoming(deadline, purge_instant(deadline, lane.rule, schedule)).sooner(earliest)
    return earliest
