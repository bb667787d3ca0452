"""One update or delete statement: the search for its documents, the decision, and repetitions.

The search runs first, outside of the writer. The decision then checks each document again within its own transaction.
If a concurrent transaction changed them first, the statement starts again, so that it changes exactly what matches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.engine import prices
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import reserve
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.cursors import ReadTime
from mayflydb.frontends.mongo.decisions import Decision, DecisionTransaction, DecisionWorkspace, Steps
from mayflydb.frontends.mongo.preparing import Changes, PreparedInsert
from mayflydb.frontends.mongo.reading import Selection, bytes_of, find_exact_id, read_rows
from mayflydb.frontends.mongo.resolving import build_env, compile_selection
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.time_series.restrictions import check_delete, check_update
from mayflydb.frontends.mongo.writing import DeleteResult, DocumentWriter, UpdateResult
from mayflydb.model.errors import OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.cheapness import is_cheap_update
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, failed_to_parse, type_mismatch
from mayflydb.query.mongo.update import Update, compile_update
from mayflydb.query.mongo.values import MISSING, Document, is_number, type_name

T = TypeVar("T")
C = TypeVar("C", Collection, Collection | None)

BATCH_SIZE: Final = 64
"""Documents that one transaction of a statement with `multi` changes."""


class ConcurrentInsert(MqlError):
    """An upsert found nothing to update, but a unique value of its new document is taken."""


async def retry_on_drop(
    work: UnitOfWork, find: Callable[[], Awaitable[Collection | None]], act: Callable[[Collection], Awaitable[T]]
) -> T | None:
    """Act on a collection. If it is dropped meanwhile, act on the new collection of this name. None: there is none."""
    collection = await find()
    while collection is not None:
        try:
            return await act(collection)
        except OwnerNotFound:
            # A transaction keeps the collection of its snapshot: its drop ends the transaction.
            successor = None if work.in_transaction else await find()
            # The same collection again: the error was about another container.
            if work.in_transaction or (successor is not None and successor.id == collection.id):
                raise
            collection = successor
    return None


class Execution(msgspec.Struct, frozen=True):
    """One execution of a statement on a collection. `id`: the statement's number within a retryable write."""

    work: UnitOfWork
    collection: Collection
    writer: DocumentWriter
    id: int


class WriteStatement(msgspec.Struct, frozen=True):
    """An update or delete. `given`: the statement's document, decoded. `many`: True for all documents that match `query`, False
    for the first by `order`.
    """

    services: Services
    call: Call
    given: Document
    query: Document
    order: Document | None = None
    many: bool = False

    @property
    def returns_documents(self) -> bool:
        """True if the answer contains the changed document."""
        return self.call.name in ("findAndModify", "findandmodify")

    async def _advance_now(self) -> Instant:
        # The writer may be at a later instant: a document that has expired there must not be found again.
        return max(self.call.now, await self.services.engine.now())

    def read_time(self, now: Instant) -> ReadTime:
        """The read of the search, as of an instant."""
        return ReadTime(now, self.services.evaluation_of(self.call))

    async def check(self) -> None:
        """Raise the errors that `run` would raise for an invalid statement, where there is no collection to run it on."""
        await self.compile(self.compile_selection, None, await self.build_env(None))

    async def build_env(self, collection: Collection | None) -> Env:
        return await build_env(self.services, self.call, collection, self.given)

    def compile_selection(self, collection: Collection | None, env: Env) -> Selection:
        limit = 0 if self.many else 1
        return compile_selection(
            collection, env, self.query, self.order, arguments.hint(self.given), limit=limit, by_identity=True
        )

    async def compile(self, function: Callable[[C, Env], T], collection: C, env: Env) -> T:
        """Return the result of a function that compiles the statement: on a thread if it is large or costly."""
        if self.call.is_cheap:
            return function(collection, env)
        return await self.services.evaluation_of(self.call).compute(False, self.call.size, function, collection, env)

    def is_cheap(self, selection: Selection, writer: DocumentWriter) -> bool:
        """Return True if a decision may match and check small documents itself."""
        return self.call.is_cheap and writer.is_cheap and (selection.filter is None or selection.is_cheap)

    async def prepare(self, execution: Execution, changes: Changes, identities: Sequence[Identity]) -> Changes:
        """Compute the changes of documents on a thread, as the documents are now."""
        now = await self._advance_now()
        records = []
        for identity in identities:
            record = await execution.work.get(execution.collection, identity, now)
            if record is not None:
                records.append((identity, record))
        size = bytes_of(record for _, record in records)
        evaluation = self.services.evaluation_of(self.call)
        found = await evaluation.compute(changes.cheap, size, execution.writer.prepare_changes, changes, records)
        return msgspec.structs.replace(changes, prepared={**changes.prepared, **found})

    async def find_identities(
        self, work: UnitOfWork, collection: Collection, selection: Selection, now: Instant
    ) -> tuple[list[Identity], bool]:
        """Find the identities of documents that match, and return whether a search found them.

        A query for one `_id` gives the identity without a search; the document may not exist.
        """
        ids = find_exact_id(self.query, selection.env, selection.hint)
        if ids is not None and collection.series is None:
            collection.usage.accesses[collection.id_index.name] += 1
            return [identity_of(id) for id in ids], False
        # A document whose key moves forward during a walk of the index is read twice. The dict keeps its identity once.
        found: dict[Identity, None] = {}
        async for batch in read_rows(work.view, collection, selection, self.read_time(now)):
            found.update(dict.fromkeys(Identity(row.record.partition, row.record.key) for row in batch))
        return list(found), True


def _parse_query(given: Document, name: str) -> Document:
    query = arguments.document(given, "q", name)
    if query is None:
        raise arguments.missing_argument("q", name)
    return query


class UpdateStatement(WriteStatement, frozen=True):
    """An update statement. `updates`: operators, a replacement, or a pipeline."""

    updates: Document | list[Document] = {}
    upsert: bool = False
    constants: Document = {}

    @classmethod
    def parse(cls, services: Services, call: Call, given: Document) -> UpdateStatement:
        """Parse a statement of the command `update`. Raise MqlError 40414 and 14 for missing arguments and wrong types, 9."""
        name = "update.updates"
        query = _parse_query(given, name)
        if "u" not in given:
            raise arguments.missing_argument("u", name)
        many = arguments.flag(given, "multi", name)
        updates = given["u"]
        if many and type(updates) is dict and not next(iter(updates), "").startswith("$"):
            raise failed_to_parse("multi update is not supported for replacement-style update")
        order = arguments.document(given, "sort", name)
        if many and order is not None:
            raise failed_to_parse("Cannot specify sort with multi=true")
        return cls(
            services,
            call,
            given,
            query,
            order,
            many,
            updates=updates,
            upsert=arguments.flag(given, "upsert", name),
            constants=arguments.document(given, "c", name) or {},
        )

    def _compile_both(self, collection: Collection | None, env: Env) -> tuple[Selection, Update]:
        check_update(collection, self.query, self.updates, self.many, self.upsert)
        return self.compile_selection(collection, env), self.compile_update(env)

    async def check(self) -> None:
        await self.compile(self._compile_both, None, await self.build_env(None))

    def compile_update(self, env: Env) -> Update:
        """Compile the update. Raise MqlError 9 for a value that is no update, and the errors of `compile_update`."""
        if type(self.updates) not in (dict, list):
            raise failed_to_parse("Update argument must be either an object or an array")
        filters = self.given.get("arrayFilters")
        if filters is not None and type(filters) is not list:
            raise type_mismatch("update.updates.arrayFilters", type_name(filters), "array")
        if self.constants:
            if type(self.updates) is not list:
                raise MqlError(51198, "Constant values may only be specified for pipeline updates")
            env = msgspec.structs.replace(env, variables={**env.variables, **self.constants})
        return compile_update(self.updates, env, filters or ())

    async def run(self, work: UnitOfWork, collection: Collection, id: int) -> tuple[UpdateResult, bool]:
        """Run the update. Return its result, and whether an earlier attempt of the retryable write had executed it.

        Raise MqlError 16500 over budget. `id`: the statement's number within a retryable write.
        """
        await reserve(self.services, self.call, collection, prices.replace(0))
        env = await self.build_env(collection)
        selection, update = await self.compile(self._compile_both, collection, env)
        writer = DocumentWriter(
            collection, env, not arguments.flag(self.call.body, "bypassDocumentValidation", self.call.name)
        )
        execution = Execution(work, collection, writer, id)
        cheap = self.is_cheap(selection, writer) and is_cheap_update(self.updates, self.given.get("arrayFilters") or ())
        changes = Changes(selection.filter, update, cheap)
        now = self.call.now
        while True:
            identities, was_read = await self.find_identities(work, collection, selection, now)
            try:
                if self.many:
                    return await self._run_many(execution, changes, identities), False
                # If the search found documents and none matches any more, another may match now: search again before
                # inserting.
                may_insert = self.upsert and not (identities and was_read)
                result, retried = await self._run_one(execution, changes, identities, may_insert)
            except ConcurrentInsert:
                # If the document that was inserted meanwhile matches, the statement updates it.
                now = await self._advance_now()
                if work.in_transaction or not [
                    row async for row in read_rows(work.view, collection, selection, self.read_time(now))
                ]:
                    raise
                continue
            had_effect = result.matched or result.upserted is not MISSING
            # Repeated only if a search found documents that no longer match. An `_id` needs no search: its answer is
            # final.
            if had_effect or retried or not identities or not was_read:
                return result, retried
            now = await self._advance_now()

    async def _run_one(
        self, execution: Execution, changes: Changes, identities: Sequence[Identity], may_insert: bool
    ) -> tuple[UpdateResult, bool]:
        unprepared, new = (() if changes.cheap else identities), None
        while True:
            if unprepared:
                changes = await self.prepare(execution, changes, unprepared)
            decide = self._build_decision(execution, changes, identities, may_insert, new)
            result, retried = await execution.work.perform(decide)
            if not result.unprepared and not result.needs_insert:
                return result, retried
            unprepared = result.unprepared
            if result.needs_insert:
                new = await self._prepare_upsert(execution.writer, changes)

    def _build_decision(
        self,
        execution: Execution,
        changes: Changes,
        identities: Sequence[Identity],
        may_insert: bool,
        new: PreparedInsert | None,
    ) -> Decision[tuple[UpdateResult, bool]]:
        container, writer, id = execution.collection.id, execution.writer, execution.id
        retryable_write = execution.work.retryable_write

        def decide(transaction: DecisionTransaction) -> Steps[tuple[UpdateResult, bool]]:
            if retryable_write is not None:
                yield from retryable_write.load(transaction)
                before, answer = retryable_write.find_answer(id)
                if before:
                    return _decode_outcome(answer or {}), True
            workspace = yield from transaction.on(container)
            result = yield from writer.update(workspace, identities, changes, False)
            if result.unprepared:
                return result, False
            if not result.matched and may_insert:
                result = yield from self._insert_new(writer, workspace, changes, new)
                if result.needs_insert:
                    return result, False
            # An answer without effect is recorded only if nothing was found. Otherwise the statement may run again.
            if retryable_write is not None and (result.matched or result.upserted is not MISSING or not identities):
                retryable_write.record(id, _encode_outcome(result, self.returns_documents))
                yield from retryable_write.save(transaction)
            return result, False

        return decide

    def _make_id(self) -> Any:
        return self.services.ids.generate(self.call.now)

    async def _prepare_upsert(self, writer: DocumentWriter, changes: Changes) -> PreparedInsert:
        compute = self.services.evaluation_of(self.call).compute
        return await compute(changes.cheap, 0, writer.prepare_upsert, self.query, changes.update, self._make_id)

    def _insert_new(
        self, writer: DocumentWriter, workspace: DecisionWorkspace, changes: Changes, new: PreparedInsert | None
    ) -> Steps[UpdateResult]:
        """Insert the new document of an upsert. `new`: it is prepared; None: the result may say that it must be."""
        if new is None and not changes.cheap:
            return UpdateResult(needs_insert=True)
        assert changes.update is not None
        try:
            if new is None:
                return (yield from writer.upsert(workspace, self.query, changes.update, self._make_id))
            yield from writer.insert(workspace, new.document, new.raw, new.draft)
            return UpdateResult(0, 0, new.document["_id"], None, new.document)
        except MqlError as refusal:
            if refusal.code != 11000:
                raise
            raise ConcurrentInsert(refusal.code, refusal.message, refusal.labels, **refusal.fields) from None

    async def _run_many(self, execution: Execution, changes: Changes, identities: Sequence[Identity]) -> UpdateResult:
        work, writer, container = execution.work, execution.writer, execution.collection.id
        matched = modified = 0
        # Like MongoDB's, an update of many documents is not atomic. Each batch is a transaction of its own, so that
        # others get their turn at the writer.
        for first in range(0, len(identities), BATCH_SIZE):
            some: Sequence[Identity] = identities[first : first + BATCH_SIZE]
            batch = msgspec.structs.replace(changes, prepared={})
            unprepared = () if changes.cheap else some
            while some:
                if unprepared:
                    batch = await self.prepare(execution, batch, unprepared)
                result = await work.perform(partial(_update_many, container, writer, some, batch))
                matched, modified = matched + result.matched, modified + result.modified
                some = unprepared = result.unprepared
        if matched or not self.upsert:
            return UpdateResult(matched, modified)
        new = None if changes.cheap else await self._prepare_upsert(writer, changes)

        def insert(transaction: DecisionTransaction) -> Steps[UpdateResult]:
            workspace = yield from transaction.on(container)
            return (yield from self._insert_new(writer, workspace, changes, new))

        return await work.perform(insert)


def _update_many(
    container: int,
    writer: DocumentWriter,
    identities: Sequence[Identity],
    changes: Changes,
    transaction: DecisionTransaction,
) -> Steps[UpdateResult]:
    workspace = yield from transaction.on(container)
    return (yield from writer.update(workspace, identities, changes, True))


def _encode_outcome(result: UpdateResult, with_documents: bool) -> Document:
    """Encode the result of an update as a retryable write stores it."""
    outcome: Document = {"matched": result.matched, "modified": result.modified}
    if result.upserted is not MISSING:
        outcome["upserted"] = result.upserted
    if with_documents:
        outcome.update({"before": result.before, "after": result.after})
    return outcome


def _decode_outcome(answer: Document) -> UpdateResult:
    return UpdateResult(
        int(answer.get("matched", 0)),
        int(answer.get("modified", 0)),
        answer.get("upserted", MISSING),
        answer.get("before"),
        answer.get("after"),
    )


class DeleteStatement(WriteStatement, frozen=True):
    """A delete statement."""

    @classmethod
    def parse(cls, services: Services, call: Call, given: Document) -> DeleteStatement:
        """Parse a statement of the command `delete`. Raise MqlError 40414 and 14, and 9 for a limit other than 0 and 1."""
        name = "delete.deletes"
        query = _parse_query(given, name)
        limit: Any = given.get("limit")
        if limit is None:
            raise arguments.missing_argument("limit", name)
        if is_number(limit) and arguments.clamp_number(limit) not in (0, 1):
            raise failed_to_parse(f"The limit field in delete objects must be 0 or 1. Got {limit}")
        limit = arguments.whole_number(given, "limit", name)
        return cls(services, call, given, query, None, limit == 0)

    async def run(self, work: UnitOfWork, collection: Collection, id: int) -> tuple[int, Document | None, bool]:
        """Run the delete. Return the number of deleted documents, the last of them, and whether an earlier attempt of the
        retryable write had executed it. Raise MqlError 16500 over budget.
        """
        check_delete(collection, self.order)
        await reserve(self.services, self.call, collection, prices.DELETE)
        env = await self.build_env(collection)
        selection = await self.compile(self.compile_selection, collection, env)
        writer = DocumentWriter(collection, env)
        execution = Execution(work, collection, writer, id)
        changes = Changes(selection.filter, None, self.is_cheap(selection, writer))
        now = self.call.now
        while True:
            identities, was_read = await self.find_identities(work, collection, selection, now)
            total, last, retried = 0, None, False
            # Once at least: also a delete that finds nothing records its answer, if it is a retryable write.
            for first in range(0, max(1, len(identities)), BATCH_SIZE):
                some = identities[first : first + BATCH_SIZE]
                count, last, retried = await self._run_batch(execution, changes, some)
                total += count
            if self.many or total or retried or not identities or not was_read:
                return total, last, retried
            now = await self._advance_now()

    async def _run_batch(
        self, execution: Execution, changes: Changes, identities: Sequence[Identity]
    ) -> tuple[int, Document | None, bool]:
        total = 0
        unprepared = () if changes.cheap or changes.filter is None else identities
        while True:
            if unprepared:
                changes = await self.prepare(execution, changes, unprepared)
            decide = self._build_decision(execution, changes, identities)
            result, retried = await execution.work.perform(decide)
            total += result.count
            if not result.unprepared:
                return total, result.last, retried
            unprepared = result.unprepared
            # Of many, the others are deleted already.
            identities = unprepared if self.many else identities

    def _build_decision(
        self, execution: Execution, changes: Changes, identities: Sequence[Identity]
    ) -> Decision[tuple[DeleteResult, bool]]:
        container, writer, id = execution.collection.id, execution.writer, execution.id
        retryable_write = execution.work.retryable_write

        def decide(transaction: DecisionTransaction) -> Steps[tuple[DeleteResult, bool]]:
            if retryable_write is not None:
                yield from retryable_write.load(transaction)
                before, answer = retryable_write.find_answer(id)
                if before:
                    outcome = answer or {}
                    return DeleteResult(int(outcome.get("n", 0)), outcome.get("before")), True
            workspace = yield from transaction.on(container)
            result = yield from writer.delete(workspace, identities, changes, self.many, self.returns_documents)
            if result.unprepared:
                return result, False
            if retryable_write is not None and (result.count or not identities):
                kept = {"before": result.last} if self.returns_documents else {}
                retryable_write.record(id, {"n": result.count, **kept})
                yield from retryable_write.save(transaction)
            return result, False

        return decide
