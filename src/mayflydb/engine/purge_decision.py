"""The decision of one sweep: the transaction that deletes also decides, by the rules as they are in it, what is due."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Set
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node, Nodes, row_of
from mayflydb.engine.expiry_counts import path_place
from mayflydb.engine.locks import Spared
from mayflydb.engine.ordered_histories import next_stamp
from mayflydb.engine.rolling_up import RollUps, with_held
from mayflydb.engine.transactions import ExpirableRecords, WriteTransaction
from mayflydb.engine.upcoming import schedule_of
from mayflydb.engine.version_cache import VersionCache
from mayflydb.expiry.deadline import earliest_expiry
from mayflydb.expiry.passes import Schedule, end_of_grace
from mayflydb.expiry.ranges import DueRange, purge_ranges
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
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
    Purged,
    PutRow,
    Read,
    ask,
)


class SweepReply(msgspec.Struct, frozen=True):
    """The reply of a sweep. `ends`: of each purge, its earliest deadline with its grace. `purged`: the result of each purge;
    None: the store tells it. `written`: the records that it has written and that may expire.
    """

    ends: tuple[Instant, ...]
    purged: tuple[Purged, ...] | None = None
    written: tuple[ExpirableRecords, ...] = ()


NOTHING: Final = SweepReply(())


def purge_due(
    nodes: Nodes,
    container: int,
    limit: int,
    request: PurgeRequest,
    schedule: Schedule | None = None,
    version_cache: VersionCache | None = None,
    spared: Spared = (),
    shared: bool = True,
    rules: Sequence[Rule] | None = None,
    roll_ups: RollUps | None = None,
) -> Decision[SweepReply]:
    """Remove up to `limit` due records for a request in this transaction, oldest first on each path.

    `schedule`: rules with passes purge records that were due at its last pass, or that of the container's own schedule; None:
    all due records, as where the request overrides the pass. `version_cache`: gets the versions first, if a snapshot is open.
    `spared`: locked records, which stay, as do those that other nodes hold. `shared`: False if no other node writes in the
    container. `roll_ups`: writes the aggregates of containers that are rolled up.

    Nothing is purged while the container, its guard or an undelete says so, or if its rules are not `rules` any longer.
    """
    row = yield from ask(LoadRow(container))
    if row is None:
        return Outcome((), NOTHING)
    node = nodes.of(row)
    if not _may_purge(node, request) or (rules is not None and node.rules != rules):
        return Outcome((), NOTHING)
    waits = schedule is not None and not request.overrides_pass(node.definition.schedule is not None)
    held = (yield from ask(HeldRecords(container, purging=True))) if shared else ()
    # Other nodes have locked more records than a purge can leave out.
    if held is None:
        return Outcome((), NOTHING)
    spared = (*spared, *held)
    ready, ends = yield from _ready(
        node, request.horizon, schedule_of(node, schedule) if schedule and waits else None, spared
    )
    # Equal shares, so that no rule waits behind the long backlog of another.
    share = max(1, limit // max(1, len(ready)))
    if node.expires_by_record:
        return (
            yield from _expire_each(
                nodes, node, row.lsn, request, ready, ends, share, frozenset(spared), version_cache, roll_ups
            )
        )
    # The store deletes without reading values. Only an open snapshot is worth reading them.
    if version_cache is not None and version_cache.wants_purged:
        for due in ready:
            records = yield from _read_due(container, due, share, frozenset(spared))
            version_cache.note_purge(container, row.lsn, records)
    return Outcome((yield from _build_purges(node, request, ready, share, spared)), SweepReply(ends))


def _may_purge(node: Node, request: PurgeRequest) -> bool:
    """Return whether the container lets a purge in: it may have been paused or held since it was chosen."""
    definition = node.definition
    if definition.paused and (definition.paused != "purge" or request.override != "demanded"):
        return False
    return definition.held is None and definition.undelete is None


def _expire_each(
    nodes: Nodes,
    node: Node,
    lsn: int,
    request: PurgeRequest,
    ready: Sequence[DueRange],
    ends: tuple[Instant, ...],
    limit: int,
    spared: Set[Identity],
    version_cache: VersionCache | None,
    roll_ups: RollUps | None,
) -> Decision[SweepReply]:
    """Remove up to `limit` due records of each range one by one, where something happens to each record that expires."""
    rolls_up = node.definition.lifecycle.roll_up is not None
    if rolls_up and roll_ups is None:
        return Outcome((), NOTHING)
    transaction = roll_ups.begin(request.now) if roll_ups and rolls_up else WriteTransaction(nodes, request.now)
    space = yield from transaction.on(node.id)
    rules = [due.rule for due in ready]
    purged = []
    for due in ready:
        records = yield from _read_due(node.id, due, limit, spared)
        # As in the store's own purge, a record that expires earlier by another rule is left to that rule.
        own = [record for record in records if (found := earliest_expiry(record, rules)) and found[1] is due.rule]
        for record in own:
            yield from space.expire(record, rules, request.trigger)
        purged.append(Purged(len(own), sum(len(record.value) for record in own)))
        if version_cache is not None and version_cache.wants_purged:
            version_cache.note_purge(node.id, lsn, own)
    if roll_ups is None or not rolls_up or not ready:
        return Outcome(transaction.changes, SweepReply(ends, tuple(purged)))
    yield from roll_ups.roll_up(transaction)
    for container, replaced in transaction.replaced_versions():
        if version_cache is not None and container != node.id:
            version_cache.note(container, replaced)
    released = () if node.definition.held_roll_up is None else (PutRow(row_of(with_held(node, None))),)
    return Outcome((*transaction.changes, *released), SweepReply(ends, tuple(purged), transaction.expirables))


def _build_purges(
    node: Node, request: PurgeRequest, ready: Sequence[DueRange], share: int, spared: Spared
) -> Generator[Read[Any], Any, tuple[Purge, ...]]:
    """Return the purges of up to `share` records of each range."""
    orderer = node.definition.ordered if node.definition.history else None
    stamp = (yield from next_stamp(orderer, {})) if orderer is not None and ready else None
    return tuple(_build_purge(node, request, ready, n, share, stamp, spared) for n in range(len(ready)))


def _build_purge(
    node: Node,
    request: PurgeRequest,
    ready: Sequence[DueRange],
    n: int,
    limit: int,
    stamp: bytes | None,
    spared: Spared,
) -> Purge:
    """Build the purge of the n-th of the ranges that have due records."""
    due = ready[n]
    return Purge(
        container=node.id,
        path=due.path,
        upto=due.upto,
        limit=limit,
        span=due.span,
        not_before=due.rule.not_before,
        cause=due.cause,
        rule_version=due.rule.version,
        purged=request.now,
        how=request.trigger,
        history=bool(node.definition.history),
        competing=_competing_rules(ready, n),
        stamp=stamp,
        spared=spared,
    )


def _ready(
    node: Node, horizon: Instant, schedule: Schedule | None, spared: Spared
) -> Generator[Read[Any], Any, tuple[list[DueRange], tuple[Instant, ...]]]:
    """Return the ranges of a container with a record to purge, and the earliest end in each: a deadline with its grace."""
    ready = []
    ends = []
    for due in purge_ranges(node.rules, horizon, schedule):
        oldest = yield from ask(NextDue(node.id, due.path, None, spared))
        if oldest is not None and oldest <= due.upto:
            ready.append(due)
            ends.append(end_of_grace(due.deadline(oldest), due.rule))
    return ready, tuple(ends)


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
