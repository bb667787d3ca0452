"""Work within a transaction of a session: the decisions of plain commands, run over the transaction's snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from mayflydb.engine import prices
from mayflydb.engine.commands import Command, Written
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Scope
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.cursors import ReadTime
from mayflydb.frontends.mongo.decisions import Decision, DecisionWorkspace, Steps
from mayflydb.frontends.mongo.reading import (
    MAX_SEEK_RECORDS,
    DocumentRow,
    ReadView,
    Selection,
    count_accesses,
    find_id_equality,
    index_of,
    match_rows,
    plan_query,
)
from mayflydb.frontends.mongo.sessions.retries import RetryableWrite
from mayflydb.frontends.mongo.spending import QUERY_PRICE, SpentUnits
from mayflydb.frontends.mongo.time_series.reading import read_by_ids
from mayflydb.model.errors import MayflyError, Overloaded, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.indexes.keys import keys_of
from mayflydb.query.mongo.indexes.planner import Plan

T = TypeVar("T")

_Request: TypeAlias = Callable[["TransactionWork"], Awaitable[Any]]

WRITE_CONFLICT_TEXT: Final = (
    "WriteConflict error: this operation conflicted with another operation. "
    "Please retry your operation or multi-document transaction."
)


class TransactionWork:
    """Decisions of one transaction, run one after the other. Their writes take effect when the transaction commits."""

    in_transaction = True

    def __init__(self, engine: Engine, snapshot: Snapshot, number: int) -> None:
        """`number`: the transaction's number in its session."""
        self.number = number
        self.snapshot = snapshot
        self.spent = SpentUnits()
        self.view: ReadView = SnapshotView(engine, snapshot, self.spent)
        self.retryable_write: RetryableWrite | None = None
        # Held by each command and by the commit: a commit waits for the command that is under way.
        self.lock = asyncio.Lock()
        self.ended = False

    @property
    def now(self) -> Instant:
        """The instant of the transaction, which all its commands share."""
        return self.snapshot.now

    def note_refusal(self) -> None:
        """Mark the transaction as failed: a refused statement aborts it."""
        self.ended = True

    async def get(self, collection: Collection, identity: Identity, now: Instant) -> Record | None:
        return await self.snapshot.get(collection.id, identity.partition, identity.key)

    async def perform(self, decide: Decision[T]) -> T:
        """Run a decision and return its reply. Raise MqlError 251 if the transaction has ended meanwhile."""
        # A decision asks by yielding a request. `resume` passes the answer in, or the error, so that the decision gets
        # both where it has asked. Before each step the transaction may have ended: by its lifetime, or with its
        # session.
        decision = decide(_SnapshotTransaction(self.now))
        resume: Callable[[], Any] = lambda: next(decision)  # noqa: E731
        while True:
            if self.ended:
                raise abort_error(self.number)
            try:
                asked: _Request = resume()
            except StopIteration as end:
                reply: T = end.value
                return reply
            resume = await self._carry_out(decision, asked)

    async def run(self, container: int, command: Command) -> Written:
        """Run a write in the snapshot. Errors: those of `Snapshot.run`."""
        try:
            written = await self.snapshot.run(container, command)
        except WriteConflict as conflict:
            raise WriteConflict(WRITE_CONFLICT_TEXT, **conflict.detail) from conflict
        except Overloaded as overloaded:
            # As in MongoDB: a transaction that has most of the memory would fail again, another one may be repeated.
            if 2 * self.snapshot.written_bytes > self.snapshot.bytes_limit:
                raise MqlError(313, overloaded.message) from overloaded
            raise WriteConflict(overloaded.message) from overloaded
        self.spent.add(container, prices.charge(written))
        return written

    async def _carry_out(self, decision: Generator[Any, Any, Any], asked: _Request) -> Callable[[], Any]:
        try:
            answer = await asked(self)
        except MayflyError as refusal:
            error = refusal
            return lambda: decision.throw(error)
        return lambda: decision.send(answer)


def abort_error(number: int) -> MqlError:
    """The error 251 of a transaction that was aborted."""
    return MqlError(251, f"Transaction with {{ txnNumber: {number} }} has been aborted.")


class _SnapshotTransaction:
    """The transaction that a decision gets in place of the writer's. Each yield is a request, which the snapshot answers."""

    def __init__(self, now: Instant) -> None:
        self.now = now

    shreds = False
    """Answers of statements are stored by the writer's transactions alone."""

    def on(self, container: int) -> Steps[DecisionWorkspace]:
        # A generator without a step. The writer's transaction reads the container here; the snapshot needs no read.
        return _SnapshotWorkspace(container)
        yield


class _SnapshotWorkspace:
    """One container of the snapshot."""

    remembers = True
    """Always True, since a change stream may be opened before the commit."""

    def __init__(self, container: int) -> None:
        self._container = container

    def seal(self) -> None:
        """The commit seals what it writes."""

    def get(self, partition: bytes, key: bytes) -> Steps[Record | None]:
        found: Record | None = yield lambda work: work.snapshot.get(self._container, partition, key)
        return found

    def run(self, command: Command) -> Steps[Written]:
        written: Written = yield lambda work: work.run(self._container, command)
        return written


class SnapshotView:
    """The view of a transaction: the state committed at its beginning, and its own writes."""

    keeps_clusters = False

    def __init__(self, engine: Engine, snapshot: Snapshot, spent: SpentUnits) -> None:
        """`spent`: counts the reads."""
        self._spent = spent
        self._engine = engine
        self._snapshot = snapshot

    def is_ordered(self, collection: Collection, selection: Selection) -> bool:
        return False

    async def rows(
        self, collection: Collection, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[DocumentRow]]:
        """Read by the planner's choice, each record once, at the transaction's instant. Raise WriteConflict."""
        ids = (
            find_id_equality(selection.query) if selection.env.collation.is_simple and selection.hint is None else None
        )
        if ids is not None and collection.series is None:
            collection.usage.accesses[collection.id_index.name] += 1
            records = await self._find_by_ids(collection, ids)
            self._spent.add_point_read(collection.id, records)
            yield [DocumentRow(record) for record in records]
            return
        seen: set[int] = set()
        plan = plan_query(collection, selection)
        count_accesses(collection, plan)
        self._spent.add(collection.id, QUERY_PRICE)
        # A hinted sparse or partial index must show only the documents that it contains.
        index = None if selection.hint is None else plan.index
        async for records in self._candidates(collection, plan):
            fresh = [record for record in records if record.seq not in seen]
            seen.update(record.seq for record in fresh)
            found = await match_rows(fresh, selection, read_time.evaluation)
            self._spent.add_query_read(collection.id, fresh, len(found))
            yield found if index is None else [row for row in found if keys_of(index, row.document)]

    def _candidates(self, collection: Collection, plan: Plan) -> AsyncIterator[list[Record]]:
        """A superset of the records that match."""
        if plan.kind == "either":
            return self._read_union(collection, plan)
        if plan.kind in ("walk", "seek"):
            return self._read_by_index(collection, plan)
        return self._scan(collection, plan.descending) if plan.kind == "scan" else self._read_ids(collection, plan)

    async def _scan(self, collection: Collection, descending: bool = False) -> AsyncIterator[list[Record]]:
        found = self._snapshot.scan(collection.id, Scope())
        if descending:
            records = [record async for batch in found for record in batch.records]
            records.reverse()
            yield records
            return
        async for batch in found:
            yield batch.records

    async def _read_ids(self, collection: Collection, plan: Plan) -> AsyncIterator[list[Record]]:
        if collection.series is not None:
            async for records in read_by_ids(plan.ids, partial(self._snapshot.scan, collection.id)):
                yield records
            return
        yield await self._find_by_ids(collection, plan.ids)

    async def _find_by_ids(self, collection: Collection, ids: Sequence[Any]) -> list[Record]:
        identities = dict.fromkeys(map(identity_of, ids))
        found = [await self._snapshot.get(collection.id, identity.partition, identity.key) for identity in identities]
        return [record for record in found if record is not None]

    async def _read_by_index(self, collection: Collection, plan: Plan) -> AsyncIterator[list[Record]]:
        index, indexes = index_of(collection, plan), self._engine.indexes
        # The index knows only the present. `Snapshot.fetch` therefore adds the versions of before, and the own writes;
        # the filter then decides on each.
        seqs = await indexes.seek(collection.node, index, [KeyRange(*each) for each in plan.ranges], MAX_SEEK_RECORDS)
        if seqs is None:
            async for records in self._scan(collection):
                yield records
            return
        async for records in self._snapshot.fetch(collection.id, seqs):
            yield records
        if not await indexes.has_all(collection.id, (index,)):
            raise MqlError(175, f"query plan killed :: caused by :: index of {collection.namespace} dropped")

    async def _read_union(self, collection: Collection, plan: Plan) -> AsyncIterator[list[Record]]:
        for branch in plan.branches:
            async for records in self._candidates(collection, branch):
                yield records
