"""bulkWrite: inserts, updates and deletes in several collections with one command.

Rules: https://github.com/mongodb/specifications/blob/master/source/crud/bulk-write.md
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final

import msgspec

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import need_of_writes
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.writes import (
    INSERT_BATCH,
    WriteOutcome,
    insert_batch,
    prepare_inserts,
    raw_statements,
    statement_ids,
)
from mayflydb.frontends.mongo.cursors import Cursor, CursorItem
from mayflydb.frontends.mongo.documents import cursor_reply
from mayflydb.frontends.mongo.resolving import ensure_collection_in, find_collection_in
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.arguments import check_transaction_database
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin_work, write_concern_error
from mayflydb.frontends.mongo.statements import DeleteStatement, UpdateStatement, retry_on_drop
from mayflydb.model.errors import OutcomeUnknown, Overloaded
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.values import MISSING, Document, decode, encode

NAMESPACE: Final = "admin.$cmd.bulkWrite"

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "insert": frozenset({"insert", "document"}),
    "update": frozenset(
        {
            "update",
            "filter",
            "updateMods",
            "multi",
            "upsert",
            "arrayFilters",
            "hint",
            "collation",
            "constants",
            "sort",
            "upsertSupplied",
        }
    ),
    "delete": frozenset({"delete", "filter", "multi", "hint", "collation"}),
}


class BulkOperation(msgspec.Struct, frozen=True):
    """One element of `ops`.

    `index`: its position. `id`: the number of the statement within a retryable write. `kind`: insert, update or delete.
    `given`: the document, decoded; `raw`: its bytes.
    """

    index: int
    id: int
    kind: str
    namespace: tuple[str, str]
    given: Document
    raw: bytes


class BulkResults:
    """The results of the operations so far, and the totals."""

    def __init__(self, ordered: bool, errors_only: bool) -> None:
        self.ordered = ordered
        self._errors_only = errors_only
        self.lines: list[bytes] = []
        self.retried: list[int] = []
        self.totals = dict.fromkeys(("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"), 0)

    @property
    def stopped(self) -> bool:
        """True if no more operations are to be run."""
        return self.ordered and bool(self.totals["nErrors"])

    def add(self, operation: BulkOperation, n: int, retried: bool, totals: Mapping[str, int], **rest: Any) -> None:
        """Add a successful operation. `totals`: the numbers that it adds to the totals."""
        for name, number in totals.items():
            self.totals[name] += number
        if retried:
            self.retried.append(operation.id)
        if not self._errors_only:
            self.lines.append(encode({"ok": 1.0, "idx": operation.index, "n": n, **rest}))

    def add_error(self, operation: BulkOperation, error: Document) -> None:
        """Add a failed operation. `error`: in the form of an element of `writeErrors`."""
        self.totals["nErrors"] += 1
        found = {name: value for name, value in error.items() if name != "index"}
        counts = {"n": 0, "nModified": 0} if operation.kind == "update" else {"n": 0}
        self.lines.append(encode({"ok": 0.0, "idx": operation.index, **found, **counts}))


async def bulk_write(services: Services, call: Call) -> bytes:
    """Run the operations, and return the totals and a cursor over the result of each operation."""
    call.check_fields({"ops", "nsInfo", "errorsOnly", "ordered", "let", "bypassDocumentValidation", "cursor"})
    operations = await _parse_operations(services, call)
    work = await begin_work(services, call)
    if work.retryable_write is not None and any(each.given.get("multi") for each in operations):
        raise MqlError(72, "Cannot use (or request) retryable writes with multi=true")
    # In a transaction, an error ends the transaction, so nothing runs after it.
    ordered = arguments.strict_flag(call.body, "ordered", call.name, True) or work.in_transaction
    results = BulkResults(ordered, arguments.strict_flag(call.body, "errorsOnly", call.name))
    for run in _group_inserts(operations):
        if run[0].kind == "insert":
            await _insert(services, call, work, results, run)
        else:
            await _update_or_delete(services, call, work, results, run[0])
        if results.stopped:
            break
    if results.totals["nErrors"]:
        work.note_refusal()
    return await _reply(services, call, results)


async def _parse_operations(services: Services, call: Call) -> list[BulkOperation]:
    ops, namespaces = raw_statements(call, "ops"), [_parse_namespace(services, call, each) for each in _name_info(call)]
    ids = statement_ids(call, len(ops))
    for each in ops:
        call.note_statement(each)
    evaluation, operations = services.evaluation_of(call), []
    for index, each in enumerate(ops):
        operations.append(
            await evaluation.compute(True, len(each), _parse_operation, index, ids[index], each, namespaces)
        )
    return operations


def _name_info(call: Call) -> list[bytes]:
    if call.body.get("nsInfo") is not None:
        arguments.array(call.body, "nsInfo", call.name)
    if call.sequences.get("nsInfo") == []:
        raise bad_value("bulkWrite needs at least one namespace")
    return raw_statements(call, "nsInfo")


def _parse_namespace(services: Services, call: Call, data: bytes) -> tuple[str, str]:
    given = decode(data)
    for field in given:
        if field != "ns":
            raise MqlError(40415, f"BSON field 'bulkWrite.nsInfo.{field}' is an unknown field.")
    database, dot, name = arguments.text(given, "ns", "bulkWrite.nsInfo").partition(".")
    if not dot:
        raise MqlError(73, f"Invalid namespace specified '{database}'")
    services.require_right(call, "write", database, need_of_writes(database, name))
    if call.transaction is not None:
        check_transaction_database(database)
    return database, name


def _parse_operation(index: int, id: int, data: bytes, namespaces: Sequence[tuple[str, str]]) -> BulkOperation:
    given = decode(data)
    kind = next(iter(given), "")
    allowed = FIELDS.get(kind)
    if allowed is None:
        raise MqlError(40415, f"BSON field 'bulkWrite.ops.{kind}' is an unknown field.")
    unknown = next((field for field in given if field not in allowed), None)
    if unknown is not None:
        raise MqlError(40415, f"BSON field 'bulkWrite.ops.{unknown}' is an unknown field.")
    if given[kind] is None:
        raise arguments.missing_argument(kind, "bulkWrite.ops")
    where = arguments.whole_number(given, kind, "bulkWrite.ops")
    _check_types(kind, given)
    if where is None or where >= len(namespaces):
        raise bad_value(f"BulkWrite ops entry {index} has an invalid nsInfo index: {given[kind]}")
    return BulkOperation(index, id, kind, namespaces[where], given, data)


def _check_types(kind: str, given: Document) -> None:
    """Raise MqlError 40414 for what an operation lacks; 14, 9 for wrong types: these are errors of the whole command."""
    name = "bulkWrite.ops"
    wanted = "document" if kind == "insert" else "filter"
    if arguments.document(given, wanted, name) is None:
        raise arguments.missing_argument(wanted, name)
    if kind == "update":
        if "updateMods" not in given:
            raise arguments.missing_argument("updateMods", name)
        if type(given["updateMods"]) not in (dict, list):
            raise failed_to_parse("Update argument must be either an object or an array")
        if given.get("arrayFilters") is not None:
            arguments.array(given, "arrayFilters", name)
    if type(arguments.hint(given)) not in (NoneType, str, dict):
        raise failed_to_parse("Hint must be a string or an object")
    for field in ("multi", "upsert"):
        arguments.strict_flag(given, field, name)
    for field in ("constants", "collation", "sort"):
        arguments.document(given, field, name)


def _group_inserts(operations: Sequence[BulkOperation]) -> list[list[BulkOperation]]:
    """Group consecutive inserts into one collection, up to INSERT_BATCH of them.

    Every other operation is a group of its own.
    """
    runs: list[list[BulkOperation]] = []
    for each in operations:
        last = runs[-1] if runs else None
        if (
            last
            and each.kind == last[0].kind == "insert"
            and each.namespace == last[0].namespace
            and len(last) < INSERT_BATCH
        ):
            last.append(each)
        else:
            runs.append([each])
    return runs


async def _insert(
    services: Services, call: Call, work: UnitOfWork, results: BulkResults, run: Sequence[BulkOperation]
) -> None:
    outcome = WriteOutcome(results.ordered)
    try:
        await ensure_collection_in(services, call, *run[0].namespace)
    except MqlError as error:
        # Ordered: only the first is reported, since the others were never tried.
        for each in run[:1] if results.ordered else run:
            results.add_error(each, {"code": error.code, "errmsg": error.message})
        return
    raws = {each.index: _document_bytes(each.raw) for each in run}
    inserts = await prepare_inserts(services, call, list(raws), {each.index: each.id for each in run}, raws)
    await insert_batch(
        services, call, work, outcome, inserts, lambda: ensure_collection_in(services, call, *run[0].namespace)
    )
    refused = {error["index"]: error for error in outcome.errors}
    for each in run:
        if each.index in refused:
            results.add_error(each, refused[each.index])
            if results.ordered:
                return
        else:
            results.add(each, 1, each.id in outcome.retried, {"nInserted": 1})


def _document_bytes(data: bytes) -> bytes:
    """The bytes of the field `document`."""
    return next(data[each.value : each.end] for each in raw.elements(data) if each.name == b"document")


async def _update_or_delete(
    services: Services, call: Call, work: UnitOfWork, results: BulkResults, operation: BulkOperation
) -> None:
    try:
        if operation.kind == "update":
            await _update(services, call, work, results, operation)
        else:
            await _delete(services, call, work, results, operation)
    except MqlError as error:
        outcome = WriteOutcome(results.ordered)
        outcome.add_error(operation.index, error)
        results.add_error(operation, outcome.errors[0])


async def _update(
    services: Services, call: Call, work: UnitOfWork, results: BulkResults, operation: BulkOperation
) -> None:
    given = operation.given
    statement = {field: value for field, value in given.items() if field not in ("update", "filter", "updateMods")}
    statement.update(q=given["filter"], u=given["updateMods"], c=given.get("constants"))
    modification = UpdateStatement.parse(services, call, statement)
    ran = await retry_on_drop(
        work,
        lambda: (
            ensure_collection_in(services, call, *operation.namespace)
            if modification.upsert
            else find_collection_in(services, call, *operation.namespace)
        ),
        lambda collection: modification.run(work, collection, operation.id),
    )
    if ran is None:
        await modification.check()
        results.add(operation, 0, False, {}, nModified=0)
        return
    done, retried = ran
    totals = {"nMatched": done.matched, "nModified": done.modified}
    if done.upserted is MISSING:
        results.add(operation, done.matched, retried, totals, nModified=done.modified)
    else:
        results.add(operation, 1, retried, {"nUpserted": 1}, nModified=0, upserted={"_id": done.upserted})


async def _delete(
    services: Services, call: Call, work: UnitOfWork, results: BulkResults, operation: BulkOperation
) -> None:
    given = operation.given
    many = arguments.flag(given, "multi", "bulkWrite.ops")
    deletion = DeleteStatement.parse(services, call, {**given, "q": given["filter"], "limit": 0 if many else 1})
    ran = await retry_on_drop(
        work,
        lambda: find_collection_in(services, call, *operation.namespace),
        lambda collection: deletion.run(work, collection, operation.id),
    )
    if ran is None:
        await deletion.check()
    count, _, retried = (0, None, False) if ran is None else ran
    results.add(operation, count, retried, {"nDeleted": count})


async def _reply(services: Services, call: Call, results: BulkResults) -> bytes:
    async def lines() -> AsyncIterator[list[CursorItem]]:
        yield [(None, line) for line in results.lines]

    options = arguments.document(call.body, "cursor", call.name) or {}
    cursor = Cursor(NAMESPACE, lines(), services.read_time_of(call), lambda: (), 0, call.session_id)
    cursor.transaction, cursor.owner = call.transaction, call.owner
    # Without a batch size, a batch holds as many results as fit: all are known already.
    batch = await cursor.next_batch(arguments.whole_number(options, "batchSize", call.name), call.now)
    try:
        id = 0 if cursor.exhausted else services.cursors.add(cursor)
    except Overloaded as error:
        # The writes are done, and a refusal would deny it.
        raise OutcomeUnknown(error.message) from error
    rest: dict[str, Any] = dict(results.totals)
    if results.retried:
        rest["retriedStmtIds"] = results.retried
    concern = write_concern_error(call)
    if concern is not None:
        rest["writeConcernError"] = concern
    return cursor_reply(NAMESPACE, id, batch, True, **rest)


HANDLERS = {
    "bulkWrite": CommandEntry(bulk_write, "anyone", admin_only=True, help="writes to several collections"),
}
