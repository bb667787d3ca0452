"""insert, update, delete: statements in batches, each with its own outcome.

Rules: https://github.com/mongodb/specifications/blob/master/source/crud/crud.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from bson import Int64

from mayflydb.engine import budget
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import unaffordable
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.decisions import DecisionSpace, DecisionTransaction, Steps
from mayflydb.frontends.mongo.documents import to_store
from mayflydb.frontends.mongo.resolving import environment, existing, writable
from mayflydb.frontends.mongo.services import Command, Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin, concern_error
from mayflydb.frontends.mongo.statements import Deletion, Modification, retry_if_dropped
from mayflydb.frontends.mongo.writing import Writer
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import check_stage_names
from mayflydb.query.mongo.values import MISSING, Document, decode

MOST: Final = 100_000
CHUNK: Final = 128
"""Documents that are inserted in one transaction: a command of many must not keep others waiting."""

PIPELINE: Final = b"\x04u\x00"
"""How an update that is a pipeline begins, as an element."""

UPDATE_FIELDS: Final = frozenset({"q", "u", "c", "multi", "upsert", "arrayFilters", "collation", "hint", "sort"})
DELETE_FIELDS: Final = frozenset({"q", "limit", "collation", "hint"})


class Outcome:
    """What has become of the statements so far."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.n = 0
        self.modified = 0
        self.upserted: list[Document] = []
        self.errors: list[Document] = []
        self.retried: list[int] = []

    @classmethod
    def of(cls, call: Call, work: UnitOfWork) -> Outcome:
        """As the command asks for; where an error ends more than its statement, nothing is tried after it."""
        return cls(arguments.flag(call.body, "ordered", call.name, True) or work.aborts)

    @property
    def stopped(self) -> bool:
        """Whether no more statements are to be tried."""
        return self.ordered and bool(self.errors)

    def refused(self, index: int, error: MqlError) -> None:
        """A statement failed."""
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
        concern = concern_error(call)
        if concern is not None:
            answer["writeConcernError"] = concern
        answer["ok"] = 1.0
        return answer


One: TypeAlias = Callable[[Services, Call, UnitOfWork, Outcome, int, int, Document], Awaitable[bool]]
"""Does one statement, with its index and number; whether it had been done before."""


def statements(call: Call, field: str) -> list[bytes]:
    """The raw statements of a command. MqlError 40414, 16 for none or too many."""
    found = call.sequences.get(field)
    if found is None:
        raise arguments.missing(field, call.name)
    if not 1 <= len(found) <= MOST:
        raise MqlError(16, f"Write batch sizes must be between 1 and {MOST}. Got {len(found)} operations.")
    return found


def statement_ids(call: Call, count: int) -> Sequence[int]:
    """The number of each statement within its numbered write. MqlError 72 for other than one each."""
    given = arguments.array(call.body, "stmtIds", call.name) if "stmtIds" in call.body else None
    if given is None:
        first = arguments.whole(call.body, "stmtId", call.name, 0) or 0
        return range(first, first + count)
    if "stmtId" in call.body:
        raise MqlError(72, "May not specify both stmtId and stmtIds in write command")
    if len(given) != count or any(type(each) not in (int, Int64) for each in given):
        raise MqlError(72, "Number of statement ids must match the number of batch entries")
    return [int(each) for each in given]


async def insert(services: Services, call: Call) -> Document:
    """Add documents. Those in one command are not one transaction."""
    call.fields({"documents", "ordered", "bypassDocumentValidation"})
    raws = statements(call, "documents")
    work = await begin(services, call)
    outcome = Outcome.of(call, work)
    await writable(services, call)  # Made even if no document can be added.
    ids = statement_ids(call, len(raws))
    for first in range(0, len(raws), CHUNK):
        chunk = enumerate(raws[first : first + CHUNK], first)
        inserts = [Insert.of(services, call, index, ids[index], raw) for index, raw in chunk]
        await insert_some(services, call, work, outcome, inserts, lambda: writable(services, call))
        if outcome.stopped:
            break
    return outcome.reply(call)


class Insert(msgspec.Struct, frozen=True):
    """A document to add: its place among those of the command, and its number within a numbered write.

    `refusal`: why it cannot be added, whatever is there already.
    """

    index: int
    id: int
    raw: bytes
    document: Document = {}
    refusal: MqlError | None = None

    @classmethod
    def of(cls, services: Services, call: Call, index: int, id: int, raw: bytes) -> Insert:
        try:
            document, kept = to_store(raw, services.ids, call.now)
        except MqlError as refusal:
            return cls(index, id, raw, refusal=refusal)
        return cls(index, id, kept, document)


async def afforded(
    services: Services, call: Call, collection: Collection, inserts: Sequence[Insert], ordered: bool
) -> Sequence[Insert]:
    """The same; those that are over the budget will be refused, and if `ordered`, none after the first of them is here."""
    if services.engine.budgets is None:
        return inserts
    found: list[Insert] = []
    for insert in inserts:
        refusal = insert.refusal or await unaffordable(services, call, collection, budget.create(len(insert.raw)))
        found.append(insert if refusal is None else msgspec.structs.replace(insert, refusal=refusal))
        if refusal is not None and ordered:
            break
    return found


class Insertion:
    """Adds documents, some in each transaction."""

    def __init__(self, work: UnitOfWork, writer: Writer, outcome: Outcome) -> None:
        self._work = work
        self._writer = writer
        self._outcome = outcome

    async def perform(self, inserts: Sequence[Insert], collection: Collection) -> None:
        """Add these in one transaction."""
        attempt = self._work.attempt

        def body(transaction: DecisionTransaction) -> Steps[list[tuple[Insert, bool | MqlError]]]:
            if attempt is not None:
                yield from attempt.load(transaction)
            space = yield from transaction.on(collection.id)
            done: list[tuple[Insert, bool | MqlError]] = []
            for insert in inserts:
                done.append((insert, (yield from self._one(space, insert))))
                if self._outcome.ordered and isinstance(done[-1][1], MqlError):
                    break
            if attempt is not None:
                yield from attempt.save(transaction)
            return done

        for insert, came_of_it in await self._work.perform(body):
            if isinstance(came_of_it, MqlError):
                self._outcome.refused(insert.index, came_of_it)
                self._work.fail()
                continue
            self._outcome.n += 1
            if came_of_it:
                self._outcome.retried.append(insert.id)

    def _one(self, space: DecisionSpace, insert: Insert) -> Steps[bool | MqlError]:
        """Whether it had been added before; or why it cannot be."""
        attempt = self._work.attempt
        if attempt is not None and attempt.answer(insert.id)[0]:
            return True
        try:
            if insert.refusal is not None:
                raise insert.refusal
            yield from self._writer.insert(space, insert.document, insert.raw)
        except MqlError as refusal:
            return refusal
        if attempt is not None:
            attempt.note(insert.id, None)
        return False


async def insert_some(
    services: Services,
    call: Call,
    work: UnitOfWork,
    outcome: Outcome,
    inserts: Sequence[Insert],
    find: Callable[[], Awaitable[Collection]],
) -> None:
    """Add these in one transaction, to the collection that `find` makes if it is missing."""
    validated = not arguments.flag(call.body, "bypassDocumentValidation", call.name)

    async def act(collection: Collection) -> None:
        writer = Writer(collection, environment(services, call, collection, {}), validated)
        affordable = await afforded(services, call, collection, inserts, outcome.ordered)
        await Insertion(work, writer, outcome).perform(affordable, collection)

    await retry_if_dropped(work, find, act)


async def update(services: Services, call: Call) -> Document:
    """Change documents, one or all that match a query; or insert one where none does."""
    call.fields({"updates", "ordered", "bypassDocumentValidation", "let"})
    for raw in call.sequences.get("updates", ()):
        if PIPELINE in raw:
            # A stage that does not exist fails the command, not its statement.
            updates = decode(raw).get("u")
            check_stage_names(updates if type(updates) is list else [])
    outcome = await _each(services, call, "updates", UPDATE_FIELDS, _update_one)
    return outcome.reply(call, nModified=outcome.modified)


async def delete(services: Services, call: Call) -> Document:
    """Remove documents, one or all that match a query."""
    call.fields({"deletes", "ordered", "let"})
    outcome = await _each(services, call, "deletes", DELETE_FIELDS, _delete_one)
    return outcome.reply(call)


async def _each(services: Services, call: Call, field: str, fields: frozenset[str], one: One) -> Outcome:
    raws = statements(call, field)
    work = await begin(services, call)
    outcome = Outcome.of(call, work)
    ids = statement_ids(call, len(raws))
    for index, raw in enumerate(raws):
        try:
            given = decode(raw)
            unknown = next((name for name in given if name not in fields), None)
            if unknown is not None:
                raise MqlError(40415, f"BSON field '{call.name}.{field}.{unknown}' is an unknown field.")
            if await one(services, call, work, outcome, index, ids[index], given):
                outcome.retried.append(ids[index])
        except MqlError as error:
            outcome.refused(index, error)
            work.fail()
            if outcome.stopped:
                break
    return outcome


async def _update_one(
    services: Services, call: Call, work: UnitOfWork, outcome: Outcome, index: int, id: int, given: Document
) -> bool:
    modification = Modification.of_statement(services, call, given)
    if modification.many and work.attempt is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with multi=true")
    ran = await retry_if_dropped(
        work,
        lambda: writable(services, call) if modification.upsert else existing(services, call),
        lambda collection: modification.run(work, collection, id),
    )
    if ran is None:
        modification.check()
        return False
    done, retried = ran
    outcome.n += done.matched
    outcome.modified += done.modified
    if done.upserted is not MISSING:
        outcome.n += 1
        outcome.upserted.append({"index": index, "_id": done.upserted})
    return retried


async def _delete_one(
    services: Services, call: Call, work: UnitOfWork, outcome: Outcome, index: int, id: int, given: Document
) -> bool:
    deletion = Deletion.of_statement(services, call, given)
    if deletion.many and work.attempt is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with limit=0")
    ran = await retry_if_dropped(
        work, lambda: existing(services, call), lambda collection: deletion.run(work, collection, id)
    )
    if ran is None:
        deletion.check()
        return False
    count, _, retried = ran
    outcome.n += count
    return retried


HANDLERS = {
    "insert": Command(insert, "write", help="adds documents"),
    "update": Command(update, "write", help="changes documents"),
    "delete": Command(delete, "write", help="removes documents"),
}
