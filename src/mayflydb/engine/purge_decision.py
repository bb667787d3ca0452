"""The decision of one sweep: the transaction that deletes also decides, by the rules as they are in it, what is due."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node, Nodes, row_of
from mayflydb.engine.expiry_counts import path_place
from mayflydb.engine.lifecycle.archive_ledger import room_of
from mayflydb.engine.lifecycle.record_purge import ALONE, Surroundings, begin_purge, count_others, expire_each
from mayflydb.engine.lifecycle.rolling_up import with_held
from mayflydb.engine.locks import Spared
from mayflydb.engine.ordered_histories import next_stamp
from mayflydb.engine.transactions import ExpirableRecords
from mayflydb.engine.upcoming import schedule_of
from mayflydb.engine.version_cache import VersionCache
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
    None: the store tells it. `children`: the number of removed children, by container. `waits`: the container's archive must
    accept what was purged before. `written`: the records that it has written and that may expire.
    """

    ends: tuple[Instant, ...]
    purged: tuple[Purged, ...] | None = None
    children: Mapping[int, int] = {}
    waits: bool = False
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
    surroundings: Surroundings = ALONE,
) -> Decision[SweepReply]:
    """Remove up to `limit` due records for a request in this transaction, oldest first on each path.

    `schedule`: rules with passes purge records that were due at its last pass, or that of the container's own schedule; None:
    all due records, as where the request overrides the pass. `version_cache`: gets the versions first, if a snapshot is open.
    `spared`: locked records, which stay, as do those that other nodes hold. `shared`: False if no other node writes in the
    container.

    Nothing is purged while the container, its guard or an undelete says so, or if its rules are not `rules` any longer.
    """
    row = yield from ask(LoadRow(container))
    if row is None:
        return Outcome((), NOTHING)
    node = nodes.of(row)
    if not _may_purge(nodes, node, request) or (rules is not None and node.rules != rules):
        return Outcome((), NOTHING)
    if not (limit := (yield from room_of(node.definition, limit))):
        return Outcome((), SweepReply((), waits=True))
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
        return (yield from _purge_each(nodes, node, request, ready, ends, share, spared, version_cache, surroundings))
    return (yield from _purge_ranges(node, row.lsn, request, ready, ends, share, spared, version_cache))


def _purge_ranges(
    node: Node,
    lsn: int,
    request: PurgeRequest,
    ready: Sequence[DueRange],
    ends: tuple[Instant, ...],
    limit: int,
    spared: Spared,
    version_cache: VersionCache | None,
) -> Decision[SweepReply]:
    """Have the store remove up to `limit` due records of each range."""
    # The store deletes without reading values. Only an open snapshot is worth reading them.
    if version_cache is not None and version_cache.wants_purged:
        for due in ready:
            records = yield from _read_due(node.id, due, limit, frozenset(spared))
            version_cache.note_purge(node.id, lsn, records)
    orderer = node.definition.ordered if node.definition.history else None
    stamp = (yield from next_stamp(orderer, {})) if orderer is not None and ready else None
    purges = tuple(_build_purge(node, request, ready, n, limit, stamp, spared) for n in range(len(ready)))
    return Outcome(purges, SweepReply(ends))


def _may_purge(nodes: Nodes, node: Node, request: PurgeRequest) -> bool:
    """Return whether the container lets a purge in: it may have been paused or held since it was chosen."""
    definition = node.definition
    if definition.holds and not nodes.hold_filters.knows(definition.holds):
        return False
    if definition.paused and (definition.paused != "purge" or request.override != "demanded"):
        return False
    return definition.held is None and definition.undelete is None


def _purge_each(
    nodes: Nodes,
    node: Node,
    request: PurgeRequest,
    ready: Sequence[DueRange],
    ends: tuple[Instant, ...],
    limit: int,
    spared: Spared,
    version_cache: VersionCache | None,
    surroundings: Surroundings,
) -> Decision[SweepReply]:
    """Remove up to `limit` due records of each range one by one."""
    transaction = begin_purge(nodes, node, request, surroundings)
    if transaction is None:
        return Outcome((), NOTHING)
    due = []
    for each in ready:
        records = yield from _read_due(node.id, each, limit, frozenset(spared))
        due.append((each, records))
    done = yield from expire_each(nodes, transaction, node, request, due, limit, surroundings)
    if version_cache is not None and version_cache.wants_purged:
        # Sweeps are decided on another thread, where versions may only be queued.
        for id, replaced in transaction.replaced_versions():
            version_cache.note_purge(id, transaction.lsn(id), [each.record for each in replaced])
    held = node.definition.held_roll_up if ready else None
    released = () if held is None else (PutRow(row_of(with_held(node, None))),)
    children = count_others(done.removed, node.id)
    return Outcome(
        (*transaction.changes, *released), SweepReply(ends, done.purged, children, written=transaction.expirables)
    )


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
