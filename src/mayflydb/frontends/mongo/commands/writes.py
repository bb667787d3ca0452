"""The commands insert, update and delete: batches of statements, each with its own outcome.

Rules: https://github.com/mongodb/specifications/blob/master/source/crud/crud.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
from bson import Int64

from mayflydb.engine import prices
from mayflydb.engine.commands import Draft
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import try_reserve
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.decisions import DecisionTransaction, DecisionWorkspace, Steps
from mayflydb.frontends.mongo.documents import prepare_insert
from mayflydb.frontends.mongo.resolving import build_env, ensure_collection, find_collection
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin_work, write_concern_error
from mayflydb.frontends.mongo.statements import DeleteStatement, UpdateStatement, retry_on_drop
from mayflydb.frontends.mongo.writing import DocumentWriter
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import check_stage_names
from mayflydb.query.mongo.values import MISSING, Document, decode

MAX_STATEMENTS: Final = 100_000
"""Maximum statements of one command: `maxWriteBatchSize` of hello."""
INSERT_BATCH: Final = 128
"""Documents that one transaction inserts. A command with many documents must not keep other clients waiting."""

PIPELINE_PREFIX: Final = b"\x04u\x00"
"""The first bytes of the field `u` as a BSON array: the update is a pipeline."""

UPDATE_FIELDS: Final = frozenset({"q", "u", "c", "multi", "upsert", "arrayFilters", "collation", "hint", "sort"})
DELETE_FIELDS: Final = frozenset({"q", "limit", "collation", "hint"})


_RAW: Final = attrgetter("raw")


class WriteOutcome:
    """The outcome of the statements so far."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.n = 0
        self.modified = 0
        self.upserted: list[Document] = []
        self.errors: list[Document] = []
        self.retried: list[int] = []

    @classmethod
    def begin(cls, call: Call, work: UnitOfWork) -> WriteOutcome:
        """An empty outcome. Within a transaction it is always ordered: an error ends the transaction."""
        return cls(arguments.flag(call.body, "ordered", call.name, True) or work.in_transaction)

    @property
    def stopped(self) -> bool:
        """True if no more statements are to be run."""
        return self.ordered and bool(self.errors)

    def add_error(self, index: int, error: MqlError) -> None:
        """Add the error of a statement."""
        line: Document = {"index": index, "code": error.code}
        line.update(
            {name: error.fields[name] for name in ("keyPattern", "keyValue", "errInfo") if name in error.fields}
        )
        self.errors.append({**line, "errmsg": error.message})

    def reply(self, call: Call, **rest: Any) -> Document:
        answer: Document = {"n": self.n, **rest}
        if self.upserted:
            answer["upserted"] = self.upserted
        if self.errors:
            answer["writeErrors"] = self.errors
        if self.retried:
            answer["retriedStmtIds"] = self.retried
        concern = write_concern_error(call)
        if concern is not None:
            answer["writeConcernError"] = concern
        answer["ok"] = 1.0
        return answer


RunStatement: TypeAlias = Callable[[Services, Call, UnitOfWork, WriteOutcome, int, int, Document], Awaitable[bool]]
"""Runs one statement, given its position and its number. Returns True if an earlier attempt had executed it."""


def raw_statements(call: Call, field: str) -> list[bytes]:
    """The raw statements of a command. Raise MqlError 40414, and 16 for none or too many."""
    found = call.sequences.get(field)
    if found is None:
        raise arguments.missing_argument(field, call.name)
    if not 1 <= len(found) <= MAX_STATEMENTS:
        raise MqlError(16, f"Write batch sizes must be between 1 and {MAX_STATEMENTS}. Got {len(found)} operations.")
    return found


def statement_ids(call: Call, count: int) -> Sequence[int]:
    """The number of each statement within its retryable write. Raise MqlError 72 unless there is one for each."""
    given = arguments.array(call.body, "stmtIds", call.name) if "stmtIds" in call.body else None
    if given is None:
        first = arguments.whole_number(call.body, "stmtId", call.name, 0) or 0
        return range(first, first + count)
    if "stmtId" in call.body:
        raise MqlError(72, "May not specify both stmtId and stmtIds in write command")
    if len(given) != count or any(type(each) not in (int, Int64) for each in given):
        raise MqlError(72, "Number of statement ids must match the number of batch entries")
    return [int(each) for each in given]


async def insert(services: Services, call: Call) -> Document:
    """Insert documents. The documents of one command are not one transaction."""
    call.check_fields({"documents", "ordered", "bypassDocumentValidation"})
    raws = raw_statements(call, "documents")
    work = await begin_work(services, call)
    outcome = WriteOutcome.begin(call, work)
    await ensure_collection(services, call)  # The collection is created even if no document can be inserted.
    ids = statement_ids(call, len(raws))
    for first in range(0, len(raws), INSERT_BATCH):
        places = range(first, min(first + INSERT_BATCH, len(raws)))
        if sum(map(len, raws[first : places.stop])) <= CHEAP_BYTES:
            inserts = [Insert.prepare(services, call, index, ids[index], raws[index]) for index in places]
        else:
            inserts = await prepare_inserts(services, call, places, ids, raws)
        await insert_batch(services, call, work, outcome, inserts, lambda: ensure_collection(services, call))
        if outcome.stopped:
            break
    return outcome.reply(call)


async def prepare_inserts(
    services: Services,
    call: Call,
    places: Sequence[int],
    ids: Sequence[int] | Mapping[int, int],
    raws: Sequence[bytes] | Mapping[int, bytes],
) -> list[Insert]:
    """Decode and check the documents at some places of a command; together they may be large."""

    def prepare() -> list[Insert]:
        return [Insert.prepare(services, call, index, ids[index], raws[index]) for index in places]

    return await services.evaluation_of(call).compute(True, sum(len(raws[index]) for index in places), prepare)


class Insert(msgspec.Struct, frozen=True):
    """A document to insert: its position in the command, and its number within a retryable write.

    `refusal`: an error that does not depend on stored data. `draft`: what is stored, if that was computed ahead.
    """

    index: int
    id: int
    raw: bytes
    document: Document = {}
    refusal: MqlError | None = None
    draft: Draft | None = None

    @classmethod
    def prepare(cls, services: Services, call: Call, index: int, id: int, raw: bytes) -> Insert:
        try:
            document, kept = prepare_insert(raw, services.ids, call.now)
        except MqlError as refusal:
            return cls(index, id, raw, refusal=refusal)
        return cls(index, id, kept, document)


async def refuse_over_budget(
    services: Services, call: Call, collection: Collection, inserts: Sequence[Insert], ordered: bool
) -> Sequence[Insert]:
    """Reserve the price of each insert; where the budget is used up, set `refusal`.

    `ordered`: leave out everything after the first refusal.
    """
    if services.engine.budgets is None:
        return inserts
    found: list[Insert] = []
    for insert in inserts:
        refusal = insert.refusal or await try_reserve(services, call, collection, prices.create(len(insert.raw)))
        found.append(insert if refusal is None else msgspec.structs.replace(insert, refusal=refusal))
        if refusal is not None and ordered:
            break
    return found


class Inserter:
    """Inserts documents, several in each transaction."""

    def __init__(self, work: UnitOfWork, writer: DocumentWriter, outcome: WriteOutcome) -> None:
        self._work = work
        self._writer = writer
        self._outcome = outcome

    async def perform(self, inserts: Sequence[Insert], collection: Collection) -> None:
        """Insert these documents in one transaction."""
        retryable_write = self._work.retryable_write

        def decide(transaction: DecisionTransaction) -> Steps[list[tuple[Insert, bool | MqlError]]]:
            if retryable_write is not None:
                yield from retryable_write.load(transaction)
            workspace = yield from transaction.on(collection.id)
            done: list[tuple[Insert, bool | MqlError]] = []
            for insert in inserts:
                done.append((insert, (yield from self._insert_one(workspace, insert))))
                # The documents before the refused one stay inserted: the decision commits what it has done.
                if self._outcome.ordered and isinstance(done[-1][1], MqlError):
                    break
            if retryable_write is not None:
                yield from retryable_write.save(transaction)
            return done

        for insert, result in await self._work.perform(decide):
            if isinstance(result, MqlError):
                self._outcome.add_error(insert.index, result)
                self._work.note_refusal()
                continue
            self._outcome.n += 1
            if result:
                self._outcome.retried.append(insert.id)

    def _insert_one(self, workspace: DecisionWorkspace, insert: Insert) -> Steps[bool | MqlError]:
        """Insert one document. Return True if an earlier attempt had inserted it; return the error if it is refused."""
        retryable_write = self._work.retryable_write
        if retryable_write is not None and retryable_write.find_answer(insert.id)[0]:
            return True
        try:
            if insert.refusal is not None:
                raise insert.refusal
            yield from self._writer.insert(workspace, insert.document, insert.raw, insert.draft)
        except MqlError as refusal:
            return refusal
        if retryable_write is not None:
            retryable_write.record(insert.id, None)
        return False


async def insert_batch(
    services: Services,
    call: Call,
    work: UnitOfWork,
    outcome: WriteOutcome,
    inserts: Sequence[Insert],
    find: Callable[[], Awaitable[Collection]],
) -> None:
    """Insert these documents in one transaction into the collection that `find` returns or creates."""
    validates = not arguments.flag(call.body, "bypassDocumentValidation", call.name)

    async def act(collection: Collection) -> None:
        writer = DocumentWriter(collection, await build_env(services, call, collection, {}), validates)
        affordable = await refuse_over_budget(services, call, collection, inserts, outcome.ordered)
        if not writer.is_cheap or sum(map(len, map(_RAW, affordable))) > CHEAP_BYTES:
            affordable = await services.evaluation_of(call).compute(False, 0, _prepare_drafts, writer, affordable)
        await Inserter(work, writer, outcome).perform(affordable, collection)

    await retry_on_drop(work, find, act)


def _prepare_drafts(writer: DocumentWriter, inserts: Sequence[Insert]) -> list[Insert]:
    """Compute what is stored of each document that is not refused yet."""
    found = []
    for insert in inserts:
        if insert.refusal is None:
            try:
                draft = writer.prepare_insert(insert.document, insert.raw).draft
            except MqlError as refusal:
                insert = msgspec.structs.replace(insert, refusal=refusal)
            else:
                insert = msgspec.structs.replace(insert, draft=draft)
        found.append(insert)
    return found


async def update(services: Services, call: Call) -> Document:
    """Update one or all documents that match a query, or insert one where none does."""
    call.check_fields({"updates", "ordered", "bypassDocumentValidation", "let"})
    for raw in call.sequences.get("updates", ()):
        if PIPELINE_PREFIX in raw:
            # An unknown stage fails the whole command, not only its statement.
            if len(raw) <= CHEAP_BYTES:
                _check_update_stages(raw)
            else:
                await services.evaluation_of(call).compute(False, len(raw), _check_update_stages, raw)
    outcome = await _run_statements(services, call, "updates", UPDATE_FIELDS, _update_one)
    return outcome.reply(call, nModified=outcome.modified)


def _check_update_stages(raw: bytes) -> None:
    updates = decode(raw).get("u")
    check_stage_names(updates if type(updates) is list else [])


async def delete(services: Services, call: Call) -> Document:
    """Delete one or all documents that match a query."""
    call.check_fields({"deletes", "ordered", "let"})
    outcome = await _run_statements(services, call, "deletes", DELETE_FIELDS, _delete_one)
    return outcome.reply(call)


async def _run_statements(
    services: Services, call: Call, field: str, fields: frozenset[str], run_one: RunStatement
) -> WriteOutcome:
    raws = raw_statements(call, field)
    work = await begin_work(services, call)
    outcome = WriteOutcome.begin(call, work)
    ids = statement_ids(call, len(raws))
    for index, raw in enumerate(raws):
        try:
            call.note_statement(raw)
            if len(raw) <= CHEAP_BYTES:
                given = decode(raw)
            else:
                given = await services.evaluation_of(call).compute(False, len(raw), decode, raw)
            unknown = next((name for name in given if name not in fields), None)
            if unknown is not None:
                raise MqlError(40415, f"BSON field '{call.name}.{field}.{unknown}' is an unknown field.")
            if await run_one(services, call, work, outcome, index, ids[index], given):
                outcome.retried.append(ids[index])
        except MqlError as error:
            outcome.add_error(index, error)
            work.note_refusal()
            if outcome.stopped:
                break
    return outcome


async def _update_one(
    services: Services, call: Call, work: UnitOfWork, outcome: WriteOutcome, index: int, id: int, given: Document
) -> bool:
    modification = UpdateStatement.parse(services, call, given)
    if modification.many and work.retryable_write is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with multi=true")
    ran = await retry_on_drop(
        work,
        lambda: ensure_collection(services, call) if modification.upsert else find_collection(services, call),
        lambda collection: modification.run(work, collection, id),
    )
    if ran is None:
        await modification.check()
        return False
    done, retried = ran
    outcome.n += done.matched
    outcome.modified += done.modified
    if done.upserted is not MISSING:
        outcome.n += 1
        outcome.upserted.append({"index": index, "_id": done.upserted})
    return retried


async def _delete_one(
    services: Services, call: Call, work: UnitOfWork, outcome: WriteOutcome, index: int, id: int, given: Document
) -> bool:
    deletion = DeleteStatement.parse(services, call, given)
    if deletion.many and work.retryable_write is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with limit=0")
    ran = await retry_on_drop(
        work, lambda: find_collection(services, call), lambda collection: deletion.run(work, collection, id)
    )
    if ran is None:
        await deletion.check()
        return False
    count, _, retried = ran
    outcome.n += count
    return retried


HANDLERS = {
    "insert": CommandEntry(insert, "write", help="adds documents"),
    "update": CommandEntry(update, "write", help="changes documents"),
    "delete": CommandEntry(delete, "write", help="removes documents"),
}
