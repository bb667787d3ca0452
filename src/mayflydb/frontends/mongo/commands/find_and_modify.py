"""The command findAndModify: change or remove one document, and return it."""

from __future__ import annotations

from functools import partial
from typing import Any

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.commands.writes import statement_ids
from mayflydb.frontends.mongo.resolving import build_env, ensure_collection, find_collection
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin_work, write_concern_error
from mayflydb.frontends.mongo.statements import DeleteStatement, UpdateStatement, retry_on_drop
from mayflydb.query.mongo.cheapness import is_cheap_projection, is_cheap_query
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import failed_to_parse
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.projection import compile_projection
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import MISSING, Document, encode

FIELDS = frozenset(
    {
        "query",
        "sort",
        "remove",
        "update",
        "new",
        "fields",
        "upsert",
        "bypassDocumentValidation",
        "collation",
        "arrayFilters",
        "hint",
        "let",
    }
)


async def find_and_modify(services: Services, call: Call) -> Document:
    """Change or remove one document. `value` of the answer: the document before the change, or after it with `new`; null if no
    document matched.
    """
    call.check_fields(FIELDS)
    body, name = call.body, call.name
    removes = arguments.flag(body, "remove", name)
    _check_arguments(body, removes)
    work = await begin_work(services, call)
    id = statement_ids(call, 1)[0]
    reply = await (_remove(services, call, work, id) if removes else _update(services, call, work, id))
    concern = write_concern_error(call)
    if concern is not None:
        reply["writeConcernError"] = concern
    return reply


def _check_arguments(body: Document, removes: bool) -> None:
    if removes and "update" in body:
        raise failed_to_parse("Cannot specify both an update and remove=true")
    if removes and body.get("upsert"):
        raise failed_to_parse("Cannot specify both upsert=true and remove=true ")
    if removes and body.get("new"):
        text = "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document"
        raise failed_to_parse(text)
    if not removes and "update" not in body:
        raise failed_to_parse("Either an update or remove=true must be specified")


async def _remove(services: Services, call: Call, work: UnitOfWork, id: int) -> Document:
    body, name = call.body, call.name
    query = arguments.document(body, "query", name) or {}
    deletion = DeleteStatement(services, call, body, query, arguments.document(body, "sort", name))
    collection = await find_collection(services, call)
    ran = await retry_on_drop(
        work, lambda: find_collection(services, call), lambda found: deletion.run(work, found, id)
    )
    if ran is None:
        await deletion.check()
    count, last, retried = (0, None, False) if ran is None else ran
    return await _build_answer(services, call, collection, {"n": count}, last, [id] if retried else [])


async def _update(services: Services, call: Call, work: UnitOfWork, id: int) -> Document:
    body, name = call.body, call.name
    query = arguments.document(body, "query", name) or {}
    upsert = arguments.flag(body, "upsert", name)
    order = arguments.document(body, "sort", name)
    modification = UpdateStatement(services, call, body, query, order, False, updates=body["update"], upsert=upsert)
    collection = await (ensure_collection(services, call) if upsert else find_collection(services, call))
    ran = None
    if collection is not None:
        ran = await retry_on_drop(
            work,
            lambda: ensure_collection(services, call) if upsert else find_collection(services, call),
            lambda found: modification.run(work, found, id),
        )
    if ran is None:
        await modification.check()
        return await _build_answer(services, call, None, {"n": 0, "updatedExisting": False}, None, [])
    done, retried = ran
    inserted = done.upserted is not MISSING
    last: Document = {"n": done.matched + inserted, "updatedExisting": done.matched > 0}
    if inserted:
        last["upserted"] = done.upserted
    value = done.after if arguments.flag(body, "new", name) else done.before
    return await _build_answer(services, call, collection, last, value, [id] if retried else [])


async def _build_answer(
    services: Services,
    call: Call,
    collection: Collection | None,
    last: Document,
    value: Document | None,
    retried: list[int],
) -> Document:
    fields = arguments.document(call.body, "fields", call.name)
    if fields and value is not None:
        env = await build_env(services, call, collection, call.body)
        query = arguments.document(call.body, "query", call.name) or {}
        text = None if collection is None else collection.text_index
        projecting = partial(_project, value, fields, env, query, text)
        cheap = env.collation.is_simple and is_cheap_projection(fields) and is_cheap_query(query)
        value = await services.evaluation_of(call).compute(cheap, len(encode(value)), projecting)
    answer: dict[str, Any] = {"lastErrorObject": last, "value": value}
    if retried:
        answer["retriedStmtIds"] = retried
    answer["ok"] = 1.0
    return answer


def _project(value: Document, fields: Document, env: Env, query: Document, text: TextIndex | None) -> Document:
    return compile_projection(fields, env, compile_filter(query, env, text)).apply(value)


HANDLERS = {
    "findAndModify": CommandEntry(find_and_modify, "write", help="changes or removes a document and gives it"),
    "findandmodify": CommandEntry(find_and_modify, "write", help="changes or removes a document and gives it"),
}
