"""One sweep, and where the next deadline lies. What is due is decided by the rules inside the deleting transaction."""

from __future__ import annotations

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.expiry.ranges import due_ranges, lanes
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Decision, Load, NextDue, Outcome, Purge, Store, ask


def purge_due(nodes: Nodes, container: int, horizon: Instant, now: Instant, limit: int, how: str) -> Decision[None]:
    """Remove up to `limit` records that are due at `horizon`, oldest first on each path.

    A record that was refreshed, or whose rule was relaxed, before this transaction is not due in it and survives.
    """
    row = yield from ask(Load(container))
    if row is None:
        return Outcome((), None)
    node = nodes.of(row)
    if node.definition.paused:
        return Outcome((), None)
    ready = []
    for due in due_ranges(node.rules, horizon):
        oldest = yield from ask(NextDue(container, due.path, None))
        if oldest is not None and oldest <= due.upto:
            ready.append(due)
    share = max(1, limit // max(1, len(ready)))
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
            history=bool(node.definition.history),
        )
        for due in ready
    )
    return Outcome(purges, None)


async def next_purge(store: Store, nodes: Nodes, container: int) -> Instant | None:
    """The earliest deadline of a container's stored records; None: nobody dies, or nothing is purged now."""
    row = await store.read(Load(container))
    if row is None or nodes.of(row).definition.paused:
        return None
    return await _earliest(store, nodes.of(row), None)


async def next_deadline(store: Store, nodes: Nodes, container: int, after: Instant | None = None) -> Instant | None:
    """The earliest deadline of a container's stored records, beyond `after` if that is given; None: nobody dies."""
    row = await store.read(Load(container))
    return None if row is None else await _earliest(store, nodes.of(row), after)


async def _earliest(store: Store, node: Node, after: Instant | None) -> Instant | None:
    earliest: Instant | None = None
    for lane in lanes(node.rules):
        bound = None if after is None else lane.bound(after)
        value = await store.read(NextDue(node.id, lane.path, bound))
        if value is not None:
            deadline = lane.deadline(value)
            earliest = deadline if earliest is None else min(earliest, deadline)
    return earliest
