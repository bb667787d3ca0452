"""Bugs, planted one at a time: each is a way in which a database with expiry has gone wrong somewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import apsw
from msgspec.structs import replace

from mayflydb.clock import SystemClock, Trust
from mayflydb.engine import sweeper, workspace
from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_counts import ExpiryCounts
from mayflydb.engine.lifecycle.guard import Pass
from mayflydb.engine.locks import Locks
from mayflydb.engine.purge_decision import SweepReply, purge_due
from mayflydb.engine.record_decisions import TAKEN, expiry_event, resolve_draft
from mayflydb.engine.scans import Batch, Scope
from mayflydb.engine.sweeper import Sweeper
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry import deadline
from mayflydb.expiry.ranges import due_ranges
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest, Sweep
from mayflydb.frontends.cosmos import values
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    AddVersion,
    Allocate,
    Change,
    Committed,
    Count,
    Decision,
    Delete,
    Due,
    Get,
    LoadRow,
    Outcome,
    Purge,
    Scan,
    SetNumber,
    ask,
)
from mayflydb.store.sqlite import changes, connection, directory, directory_rounds
from mayflydb.store.sqlite.checkpoint import WriteAheadLog
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.record_cache import RecordCache
from mayflydb.store.sqlite.space import Space
from mayflydb.store.sqlite.transaction import Transaction
from mayflydb.store.sqlite.writer import Writer
from mayflydb.store.write_queues import Refusal

Bug = Callable[[], AbstractContextManager[object]]


def boundary() -> AbstractContextManager[object]:
    """Dead after the deadline instead of at it."""
    return patch.object(deadline, "_has_passed", lambda instant, now: instant is not None and instant < now)


@contextmanager
def purge_without_recheck() -> Iterator[None]:
    """The sweep deletes the list it picked, whatever has become of the records since."""

    async def sweep(self: Sweeper, planned: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
        container = planned.container
        row = await self._store.read(LoadRow(container))
        assert row is not None
        rules = self._nodes.of(row).rules
        picked: list[Record] = []
        for due in due_ranges(rules, request.horizon):
            found = await self._store.read(Due(container, due.path, due.upto, None, limit))
            picked.extend(found)

        def decide() -> Decision[int]:
            deletes = []
            for record in picked[:limit]:
                current = yield from ask(Get(container, record.partition, record.key))
                if current is not None:
                    lsn, _ = yield from ask(Allocate(container, False))
                    event = expiry_event(container, record, rules, request.now, lsn, request.trigger)
                    deletes.append(Delete(container, current, event))
            return Outcome(tuple(deletes), len(deletes))

        removed = (await self._store.write(decide, "sweep")).reply
        self._agenda.mark_unknown(container)
        return removed

    with patch.object(Sweeper, "_sweep", sweep):
        yield


@contextmanager
def rule_as_of_the_pick() -> Iterator[None]:
    """The sweep decides in its transaction, but by the rule that was in force when it was picked."""
    sweep = Sweeper._sweep
    rows: dict[int, Any] = {}

    async def early(self: Sweeper, planned: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
        rows[planned.container] = await self._store.read(LoadRow(planned.container))
        return await sweep(self, planned, limit, request, permit)

    def decide(nodes: Any, container: int, *rest: Any) -> Decision[SweepReply]:
        decision = purge_due(nodes, container, *rest)
        asked = decision.send(None)
        assert isinstance(asked, LoadRow)
        answer: Any = rows[container]
        while True:
            try:
                answer = yield decision.send(answer)
            except StopIteration as end:
                outcome: Outcome[SweepReply] = end.value
                return outcome

    # Both for as long as the bug is planted: a sweep that is abandoned takes off a patch of its own at any later time.
    with patch.object(Sweeper, "_sweep", early), patch.object(sweeper, "purge_due", decide):
        yield


@contextmanager
def default_copied() -> Iterator[None]:
    """A record without an own ttl is stored with the container's default as its own."""

    def copied(command: Command, visible: Record | None, rules: Sequence[Rule]) -> Draft:
        draft = resolve_draft(command, visible, rules)
        default = rules[0].after if rules else None
        own = default if draft.override is None else draft.override
        return Draft(draft.value, own, draft.anchor, draft.entries)

    with patch.object(workspace, "resolve_draft", copied):
        yield


@contextmanager
def answer_before_commit() -> Iterator[None]:
    """Clients are told of success while the commit is still on its way."""

    async def commit(self: Writer, done: list[tuple[Any, Any, Any]], *rest: Any, **named: Any) -> None:
        for job, reply, purged in done:
            if not job.future.done() and not isinstance(reply, Refusal):
                job.future.set_result(Committed(reply, self._transaction.commit_seq + 1, purged, 0))
        for _ in range(10):
            await asyncio.sleep(0)
        await original(self, done, *rest, **named)

    original = Writer._commit
    with patch.object(Writer, "_commit", commit):
        yield


@contextmanager
def get_shows_the_dead() -> Iterator[None]:
    """A point read without the filter."""

    async def get(self: Engine, container: Node, partition: bytes, key: bytes, now: Instant) -> Record | None:
        return await self.store.read(Get(container.id, partition, key))

    with patch.object(Engine, "get", get):
        yield


@contextmanager
def scan_shows_the_dead() -> Iterator[None]:
    """A scan without the filter."""

    async def scan(
        self: Engine, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int = 256
    ) -> AsyncIterator[Batch]:
        records = await self.store.read(Scan(container.id, scope.lower, scope.upper, scope.order, after, 10_000))
        if records:
            yield Batch(records, Position(records[-1].partition, records[-1].seq))

    with patch.object(Engine, "scan", scan):
        yield


@contextmanager
def the_dead_hold_unique_values() -> Iterator[None]:
    """The unique check without the filter."""

    def split_holders(
        holders: Sequence[Record], visible: Record | None, rules: Sequence[Rule], now: Instant
    ) -> tuple[list[Record], list[Record]]:
        return [], [holder for holder in holders if visible is None or holder.seq != visible.seq]

    with patch.object(workspace, "split_holders", split_holders):
        yield


@contextmanager
def the_dead_hold_names() -> Iterator[None]:
    """A record that is to get another key meets whoever had it, however long ago."""

    def check_key_free(holder: Record | None, rules: Sequence[Rule], now: Instant) -> list[Record]:
        if holder is not None:
            raise Conflict(TAKEN)
        return []

    with patch.object(workspace, "check_key_free", check_key_free):
        yield


@contextmanager
def count_includes_the_dead() -> Iterator[None]:
    """A count without the filter."""

    async def usage(self: ExpiryCounts, container: Node, now: Instant) -> tuple[int, int]:
        totals = await self._store.read(Count(container.id, with_bytes=True))
        return totals.records, -(-totals.value_bytes // 1024)

    with patch.object(ExpiryCounts, "usage", usage):
        yield


@contextmanager
def _after_purge(statement: str) -> Iterator[None]:
    purge = changes.purge

    def changed(db: apsw.Connection, counters: Counters, change: Purge) -> Any:
        last = db.execute("SELECT coalesce(max(id), 0) FROM expiry").get
        done = purge(db, counters, change)
        db.execute(statement, {"last": last})
        return done

    with patch.dict(changes.APPLY, {Purge: changed}):
        yield


def event_lost() -> AbstractContextManager[object]:
    """A purge without its events."""
    return _after_purge("DELETE FROM expiry WHERE id > :last")


_COLUMNS = "container, partition, key, lsn, anchor, override, cause, rule_version, deadline, purged, how"


def event_doubled() -> AbstractContextManager[object]:
    """A purge that writes each event twice, past the unique key."""
    return _after_purge(
        f"INSERT INTO expiry(version, {_COLUMNS}) SELECT version + 1000000, {_COLUMNS} FROM expiry WHERE id > :last"
    )


@contextmanager
def event_in_its_own_transaction() -> Iterator[None]:
    """Events are held back and written by the next commit."""
    columns = f"version, {_COLUMNS}"
    committed, prepare = Transaction.publish, Transaction.prepare

    def hold(self: Transaction) -> None:
        db = self.connection
        held = db.execute(f"SELECT {columns} FROM expiry WHERE id > ?", (getattr(self, "last_event", 0),)).fetchall()
        db.execute("DELETE FROM expiry WHERE id > ?", (getattr(self, "last_event", 0),))
        marks = ",".join("?" * 12)
        for event in getattr(self, "held", []):
            db.execute(f"INSERT INTO expiry({columns}) VALUES({marks})", event)
        self.held = held  # type: ignore[attr-defined]
        self.last_event = db.execute("SELECT coalesce(max(id), 0) FROM expiry").get  # type: ignore[attr-defined]
        prepare(self)

    with patch.object(Transaction, "prepare", hold), patch.object(Transaction, "publish", committed):
        yield


def purge_not_remembered() -> AbstractContextManager[object]:
    """A sweep writes its events, and nothing into the history."""
    return patch.object(changes, "add_expired_versions", lambda connection, change, lsn: None)


@contextmanager
def history_in_its_own_transaction() -> Iterator[None]:
    """What a group remembers is committed after the group."""
    apply, committed = Transaction._apply, Transaction.publish

    def later(self: Transaction, change: Change) -> Any:
        if isinstance(change, AddVersion):
            self.__dict__.setdefault("later", []).append(change)
            return None
        return apply(self, change)

    def commit(self: Transaction) -> None:
        committed(self)
        for change in self.__dict__.pop("later", []):
            apply(self, change)

    with patch.object(Transaction, "_apply", later), patch.object(Transaction, "publish", commit):
        yield


@contextmanager
def no_event_for_the_overwritten() -> Iterator[None]:
    """A write over a dead record leaves no event."""

    def purge_hidden(self: Workspace, dead: Record, is_succeeded: bool = False) -> Any:
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        yield from self._remove(dead, lsn)

    with patch.object(Workspace, "purge_hidden", purge_hidden):
        yield


def synchronous_normal() -> AbstractContextManager[object]:
    """Commits that are not synced."""
    return patch.dict(connection.FILE, {"synchronous": 1})


@contextmanager
def mark_without_a_lease() -> Iterator[None]:
    """The clock's mark is believed to be saved, and only some later commit would have saved it."""

    async def reserve(self: Timekeeper, lead: int | None) -> None:
        self._high.mark_reserved(self._high.next_reservation(lead))

    with patch.object(Timekeeper, "_reserve", reserve):
        yield


def any_number_is_a_ttl() -> AbstractContextManager[object]:
    """NaN, booleans and zero are taken for seconds."""

    def seconds(value: object) -> int | None:
        return int(value) if isinstance(value, (int, float)) and value == value and abs(value) < 2**31 else 0

    return patch.object(values, "_ttl_seconds", seconds)


@contextmanager
def horizon_ignored() -> Iterator[None]:
    """Purging goes by the present, whatever the clock's fence says."""

    def purge(nodes: Any, container: int, limit: int, request: PurgeRequest, *rest: Any) -> Decision[SweepReply]:
        return purge_due(nodes, container, limit, replace(request, horizon=request.now), *rest)

    with patch.object(sweeper, "purge_due", purge):
        yield


def fence_off() -> AbstractContextManager[object]:
    """A stepped clock is trusted."""
    return patch.object(SystemClock, "horizon", SystemClock.now)


def jump_believed_at_once() -> AbstractContextManager[object]:
    """Reads and purges follow a jump of the host's clock."""

    def look(self: Trust, wall: int, boot: int, stepped: bool) -> None:
        self.follow(wall, boot)

    return patch.object(Trust, "look", look)


def mark_stays_after_a_rejection() -> AbstractContextManager[object]:
    """A rejected time stays in the store."""

    async def lower(self: Timekeeper, lead: int, changes: tuple[SetNumber, ...] = ()) -> None:
        self._high.mark_reserved(self.clock.now() + lead)

    return patch.object(Timekeeper, "_lower_mark", lower)


@contextmanager
def goes_on_after_a_failed_sync() -> Iterator[None]:
    """A failed fsync is an error like any other."""
    create = Writer.__init__

    def calm(self: Writer, transaction: Any, log: Any, thread: Any, halt: Any, *others: Any) -> None:
        create(self, transaction, log, thread, lambda reason: None, *others)

    with patch.object(Writer, "__init__", calm):
        yield


@contextmanager
def a_full_disk_ends_the_writer() -> Iterator[None]:
    """A checkpoint that finds the disk full raises into the writer's loop, and nobody notices that it ended."""

    async def run(self: Writer) -> None:
        await self._process_queues()

    with patch.object(WriteAheadLog, "_attempt", lambda self, work: work()), patch.object(Writer, "_run", run):
        yield


def a_full_disk_keeps_its_reserve() -> AbstractContextManager[object]:
    """Writes are refused on a full disk, and the reserve, without which the log cannot be copied, stays."""
    return patch.object(Space, "release", lambda self: self._judge(True))


def late_write_revives() -> AbstractContextManager[object]:
    """A write decides by the time its request came in, although others have been told a later one."""
    return patch.object(Engine, "_write_instant", lambda self, now: now)


def purged_but_remembered() -> AbstractContextManager[object]:
    """What a sweep removes stays among the records that are kept as objects."""
    return patch.object(RecordCache, "forget_container", lambda self, container: None)


def overwritten_but_remembered() -> AbstractContextManager[object]:
    """A commit does not reach the records that are kept as objects."""
    return patch.object(RecordCache, "keep", keep_once)


def keep_once(recent: RecordCache, container: int, record: Record) -> None:
    if recent.get(container, record.partition, record.key) is None:
        _keep(recent, container, record)


_keep = RecordCache.keep


def a_round_removes_the_living() -> AbstractContextManager[object]:
    """A round through the directory removes the places of all records between the first and the last that were purged."""
    statement = directory_rounds._REMOVE.replace("substr(?10, record - ?8 + 1, 1) = x'01'", "?10 IS NOT NULL")
    assert statement != directory_rounds._REMOVE
    return patch.object(directory_rounds, "_REMOVE", statement)


def a_range_takes_the_living_along() -> AbstractContextManager[object]:
    """A sweep notes its first and its last record as a range, whatever lives between."""
    return patch.object(directory, "is_run", lambda number, first, last: True)


def purge_of_what_is_locked() -> AbstractContextManager[object]:
    """A purge removes records that an open transaction has written."""
    return patch.object(Locks, "spared_records", lambda self, container: ())


def lock_during_a_purge() -> AbstractContextManager[object]:
    """A transaction locks a record that a purge under way is about to remove, and is told that it has written it."""

    async def at_once(self: Locks, container: int) -> None:
        pass

    return patch.object(Locks, "_wait_for_purges", at_once)


def plain_write_does_not_wait() -> AbstractContextManager[object]:
    """A write outside of transactions changes what an open one has written."""
    return patch.object(Locks, "check", lambda self, container, identity, holder: None)


BUGS: Mapping[str, tuple[Bug, str]] = {
    "boundary": (boundary, "walk"),
    "purge without recheck": (purge_without_recheck, "walk"),
    "rule as of the pick": (rule_as_of_the_pick, "walk"),
    "default copied into records": (default_copied, "walk"),
    "answer before commit": (answer_before_commit, "power cuts"),
    "get shows the dead": (get_shows_the_dead, "walk"),
    "scan shows the dead": (scan_shows_the_dead, "walk"),
    "the dead hold unique values": (the_dead_hold_unique_values, "walk"),
    "the dead hold names": (the_dead_hold_names, "walk"),
    "count includes the dead": (count_includes_the_dead, "walk"),
    "event lost": (event_lost, "walk"),
    "event doubled": (event_doubled, "walk"),
    "event in its own transaction": (event_in_its_own_transaction, "power cuts"),
    "purge not remembered": (purge_not_remembered, "walk"),
    "history in its own transaction": (history_in_its_own_transaction, "power cuts"),
    "no event for the overwritten": (no_event_for_the_overwritten, "walk"),
    "synchronous normal": (synchronous_normal, "power cuts"),
    "mark without a lease": (mark_without_a_lease, "time over power cuts"),
    "mark without a lease, on disk": (mark_without_a_lease, "power cuts"),
    "any number is a ttl": (any_number_is_a_ttl, "ttl values"),
    "horizon ignored": (horizon_ignored, "walk"),
    "fence off": (fence_off, "fence"),
    "jump believed at once": (jump_believed_at_once, "fence"),
    "mark stays after a rejection": (mark_stays_after_a_rejection, "verdict"),
    "goes on after a failed sync": (goes_on_after_a_failed_sync, "failing syncs"),
    "a full disk ends the writer": (a_full_disk_ends_the_writer, "full disk"),
    "a full disk keeps its reserve": (a_full_disk_keeps_its_reserve, "reserve"),
    "late write revives": (late_write_revives, "late write"),
    "purged but remembered": (purged_but_remembered, "walk"),
    "a round removes the living": (a_round_removes_the_living, "walk"),
    "a round removes the living, on disk": (a_round_removes_the_living, "power cuts"),
    "a range takes the living along": (a_range_takes_the_living_along, "walk"),
    "a range takes the living along, on disk": (a_range_takes_the_living_along, "power cuts"),
    "purge of what is locked": (purge_of_what_is_locked, "open transactions"),
    "plain write does not wait": (plain_write_does_not_wait, "open transactions"),
    "overwritten but remembered": (overwritten_but_remembered, "walk"),
}
"""Name -> (how to plant it, the check that must catch it)."""
