"""insert, update, delete: statements in batches, each with its own outcome.

Rules: https://github.com/mongodb/specifications/blob/master/source/crud/crud.md
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from mayflydb.engine.transactions import Transaction
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call, Command
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.documents import to_store
from mayflydb.frontends.mongo.statements import Deletion, Modification, environment, existing, writable
from mayflydb.frontends.mongo.work import Work, begin, concern_error
from mayflydb.frontends.mongo.writing import Steps, Writer
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import MISSING, Document, decode

MOST: Final = 100_000
CHUNK: Final = 128
"""Documents that are inserted in one transaction: a command of many must not keep others waiting."""

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

    @property
    def stopped(self) -> bool:
        """Whether no more statements are to be tried."""
        return self.ordered and bool(self.errors)

    def refused(self, index: int, error: MqlError) -> None:
        """A statement failed."""
        line: Document = {"index": index, "code": error.code}
        line.update({name: error.fields[name] for name in ("keyPattern", "keyValue", "errInfo") if name in error.fields})
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


One: TypeAlias = Callable[[Call, Work, Outcome, int, int, Document], Awaitable[bool]]
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
    """The number of each statement within its numbered write."""
    given = call.body.get("stmtIds")
    if given is not None:
        return [int(each) for each in given]
    first = int(call.body.get("stmtId", 0))
    return range(first, first + count)


async def insert(call: Call) -> Document:
    """Add documents. Those in one command are not one transaction."""
    call.fields({"documents", "ordered", "bypassDocumentValidation"})
    raws = statements(call, "documents")
    outcome = Outcome(arguments.flag(call.body, "ordered", call.name, True))
    work = await begin(call)
    collection = await writable(call, work)
    env = environment(call, collection, {})
    writer = Writer(collection, env, not arguments.flag(call.body, "bypassDocumentValidation", call.name))
    ids = statement_ids(call, len(raws))
    for first in range(0, len(raws), CHUNK):
        chunk = [(first + n, raw) for n, raw in enumerate(raws[first : first + CHUNK])]
        await _insert_some(call, work, collection, writer, outcome, chunk, ids)
        if outcome.stopped:
            break
    return outcome.reply(call)


async def _insert_some(
    call: Call,
    work: Work,
    collection: Collection,
    writer: Writer,
    outcome: Outcome,
    chunk: Sequence[tuple[int, bytes]],
    ids: Sequence[int],
) -> None:
    data = call.app.data
    prepared: list[tuple[int, Document, bytes] | tuple[int, MqlError]] = []
    for index, raw in chunk:
        try:
            prepared.append((index, *to_store(raw, data.ids, call.now)))
        except MqlError as error:
            prepared.append((index, error))
    attempt = work.attempt

    def body(transaction: Transaction) -> Steps[tuple[int, list[tuple[int, MqlError]], list[int]]]:
        done, errors, retried = 0, [], []
        if attempt is not None:
            yield from attempt.load(transaction)
        space = yield from transaction.on(collection.id)
        for index, *what in prepared:
            if attempt is not None and attempt.answer(ids[index])[0]:
                done += 1
                retried.append(ids[index])
                continue
            try:
                if isinstance(what[0], MqlError):
                    raise what[0]
                yield from writer.insert(space, what[0], what[1])
                done += 1
                if attempt is not None:
                    attempt.note(ids[index], None)
            except MqlError as error:
                errors.append((index, error))
                if outcome.ordered:
                    break
        if attempt is not None:
            yield from attempt.save(transaction)
        return done, errors, retried

    done, errors, retried = await work.perform(body)
    outcome.n += done
    outcome.retried += retried
    for index, error in errors:
        outcome.refused(index, error)


async def update(call: Call) -> Document:
    """Change documents, one or all that match a query; or insert one where none does."""
    call.fields({"updates", "ordered", "bypassDocumentValidation", "let"})
    outcome = await _each(call, "updates", UPDATE_FIELDS, _update_one)
    return outcome.reply(call, nModified=outcome.modified)


async def delete(call: Call) -> Document:
    """Remove documents, one or all that match a query."""
    call.fields({"deletes", "ordered", "let"})
    outcome = await _each(call, "deletes", DELETE_FIELDS, _delete_one)
    return outcome.reply(call)


async def _each(call: Call, field: str, fields: frozenset[str], one: One) -> Outcome:
    outcome = Outcome(arguments.flag(call.body, "ordered", call.name, True))
    raws = statements(call, field)
    work = await begin(call)
    ids = statement_ids(call, len(raws))
    for index, raw in enumerate(raws):
        try:
            given = decode(raw)
            unknown = next((name for name in given if name not in fields), None)
            if unknown is not None:
                raise MqlError(40415, f"BSON field '{call.name}.{field}.{unknown}' is an unknown field.")
            if await one(call, work, outcome, index, ids[index], given):
                outcome.retried.append(ids[index])
        except MqlError as error:
            if work.aborts:
                raise
            outcome.refused(index, error)
            if outcome.stopped:
                break
    return outcome


async def _update_one(call: Call, work: Work, outcome: Outcome, index: int, id: int, given: Document) -> bool:
    modification = Modification.of_statement(call, given)
    if modification.many and work.attempt is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with multi=true")
    collection = await existing(call) if not modification.upsert else await writable(call, work)
    if collection is None:
        return False
    done, retried = await modification.run(work, collection, id)
    outcome.n += done.matched
    outcome.modified += done.modified
    if done.upserted is not MISSING:
        outcome.n += 1
        outcome.upserted.append({"index": index, "_id": done.upserted})
    return retried


async def _delete_one(call: Call, work: Work, outcome: Outcome, index: int, id: int, given: Document) -> bool:
    deletion = Deletion.of_statement(call, given)
    if deletion.many and work.attempt is not None:
        raise MqlError(72, "Cannot use (or request) retryable writes with limit=0")
    collection = await existing(call)
    if collection is None:
        return False
    count, _, retried = await deletion.run(work, collection, id)
    outcome.n += count
    return retried


COMMANDS = {
    "insert": Command(insert, "write", help="adds documents"),
    "update": Command(update, "write", help="changes documents"),
    "delete": Command(delete, "write", help="removes documents"),
}
