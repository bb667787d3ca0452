"""The command explain: the plan of a command, and on request the cost of its reads. Nothing is written.

Shapes: https://www.mongodb.com/docs/manual/reference/command/explain/
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import need_of_writes, right_of
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.commands.handshake import version_text
from mayflydb.frontends.mongo.cursors import ReadTime
from mayflydb.frontends.mongo.pipelines import CollectionSource
from mayflydb.frontends.mongo.reading import CommittedView, Selection, plan_query, read_rows
from mayflydb.frontends.mongo.resolving import build_env, compile_selection, find_collection, find_text_index
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.work import ImmediateWork, begin_work
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.indexes.explain import (
    ExplainedCommand,
    RunCounts,
    Verb,
    execution_stats,
    explanation,
    query_planner,
)
from mayflydb.query.mongo.indexes.planner import Plan
from mayflydb.query.mongo.projection import compile_projection
from mayflydb.query.mongo.stages import compile_pipeline
from mayflydb.query.mongo.values import Document, type_name

VERBOSITIES: Final = ("queryPlanner", "executionStats", "allPlansExecution")


class ExplainedRead(msgspec.Struct, frozen=True):
    """The read to explain, and the stages of a pipeline that run after it."""

    command: ExplainedCommand
    selection: Selection
    rest: list[Document] = []


async def explain(services: Services, call: Call) -> Document:
    """Return the plan of find, aggregate, count, distinct, update, delete or findAndModify, to those who may run it."""
    call.check_fields({"verbosity"})
    verbosity = call.body.get("verbosity", "allPlansExecution")
    if verbosity not in VERBOSITIES:
        raise bad_value("verbosity must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}")
    command = arguments.document(call.body, call.name, call.name) or {}
    name = next(iter(command), "")
    if name not in _READS:
        if name in services.handlers:
            raise MqlError(20, f"Explain is not supported for the command '{name}'")
        raise MqlError(59, f"Explain failed due to unknown command: {name}")
    # A plan and its counts tell of documents what the command itself would.
    services.require_right(call, right_of(name, command, services.handlers[name].right))
    return await explain_command(services, msgspec.structs.replace(call, name=name, body=command), verbosity)


async def explain_command(services: Services, call: Call, verbosity: str) -> Document:
    """Return the answer of explain to a command."""
    started = services.monotonic()
    target = arguments.collection_name(call.body, call.name)
    collection = await services.collections.find(call.database, target)
    if collection is not None and collection.view_on is not None:
        raise MqlError(238, f"explain of a command on a view is not supported: {collection.namespace}")
    read = await _READS[call.name](services, call, collection)
    plan = Plan("none")
    if collection is not None:
        plan = await services.evaluation_of(call).compute(True, call.size, plan_query, collection, read.selection)
    counted = None
    if verbosity != "queryPlanner":
        counted = await _measure_read(services, call, collection, read, started)
    return _build_reply(
        services, call, f"{call.database}.{target}", plan, read, counted, verbosity == "allPlansExecution"
    )


def _build_reply(
    services: Services,
    call: Call,
    namespace: str,
    plan: Plan,
    read: ExplainedRead,
    counted: RunCounts | None,
    everything: bool,
) -> Document:
    host, _, port = services.options.advertise.rpartition(":")
    build = {"version": version_text(services.options), "gitVersion": f"mayfly-{services.options.version}"}
    server = {"host": socket.gethostname() or host, "port": int(port or 0), **build}
    reply = explanation(plan, read.command, namespace, call.body, server, counted)
    if counted is not None and everything:
        reply["executionStats"] = execution_stats(plan, read.command, counted, True)
    if not read.rest:
        return reply
    cursor: Document = {"queryPlanner": query_planner(plan, read.command, namespace)}
    if counted is not None:
        cursor["executionStats"] = reply["executionStats"]
    stages = [{"$cursor": cursor}, *read.rest]
    return {"explainVersion": "1", "stages": stages, **{name: reply[name] for name in ("command", "serverInfo", "ok")}}


async def _measure_read(
    services: Services, call: Call, collection: Collection | None, read: ExplainedRead, started: int
) -> RunCounts:
    """Run the read and count its cost. `hidden`: documents that would match but are hidden as expired."""
    if collection is None:
        return RunCounts(0, 0, 0)
    work = await begin_work(services, call)
    if not isinstance(work, ImmediateWork) or not isinstance(work.view, CommittedView):
        raise MqlError(263, "Operation not permitted in transaction :: caused by :: explain")
    view = work.view
    returned = await _count(view, collection, read.selection, services.read_time_of(call))
    # Noted before the counts of hidden documents, which read again.
    keys, documents = view.keys_read, view.documents_read
    hidden = 0
    if any(rule.hides for rule in collection.node.rules):
        # The same read without rules of expiry: the difference is what they hide.
        definition = msgspec.structs.replace(collection.node.definition, rules=())
        node = msgspec.structs.replace(collection.node, definition=definition)
        bare = Collection(node, collection.database, collection.contract)
        every = msgspec.structs.replace(read.selection, skip=0, limit=0)
        hidden = await _count(view, bare, every, services.read_time_of(call)) - await _count(
            view, collection, every, services.read_time_of(call)
        )
    writes = read.command.verb in ("update", "delete", "count")
    spent = (services.monotonic() - started) // 1000
    return RunCounts(0 if writes else returned, keys, documents, hidden, spent)


async def _count(view: CommittedView, collection: Collection, selection: Selection, read_time: ReadTime) -> int:
    total = 0
    async for batch in read_rows(view, collection, selection, read_time):
        total += len(batch)
    return total


# --- commands --------------------------------------------------------------------------------------------------------


async def _read_of_find(services: Services, call: Call, collection: Collection | None) -> ExplainedRead:
    body, name = call.body, call.name
    env = await build_env(services, call, collection, body)
    query, sort = arguments.document(body, "filter", name) or {}, arguments.document(body, "sort", name)
    skip = arguments.whole_number(body, "skip", name, 0) or 0
    limit = abs(int(body.get("limit") or 0))
    projection = arguments.document(body, "projection", name)

    def compile_both() -> Selection:
        selection = compile_selection(collection, env, query, sort, arguments.hint(body), skip, limit)
        if projection:
            compile_projection(projection, env, selection.filter)
        return selection

    selection = await services.evaluation_of(call).compute(True, call.size, compile_both)
    return ExplainedRead(ExplainedCommand(query, "find", sort, projection, skip, limit), selection)


async def _read_of_query(services: Services, call: Call, collection: Collection | None) -> ExplainedRead:
    """The read of count and distinct."""
    body, name = call.body, call.name
    query = arguments.document(body, "query", name) or {}
    skip, limit = arguments.whole_number(body, "skip", name, 0) or 0, abs(int(body.get("limit") or 0))
    env = await build_env(services, call, collection, body)
    compiling = partial(compile_selection, collection, env, query, None, arguments.hint(body), skip, limit)
    selection = await services.evaluation_of(call).compute(True, call.size, compiling)
    verb: Verb = "count" if name == "count" else "distinct"
    return ExplainedRead(ExplainedCommand(query, verb, None, None, skip, limit), selection)


async def _read_of_statement(services: Services, call: Call, collection: Collection | None) -> ExplainedRead:
    """The read of a single update or delete statement."""
    await find_collection(services, call)
    field = "updates" if call.name == "update" else "deletes"
    given = arguments.array(call.body, field, call.name)
    if len(given) != 1 or type(given[0]) is not dict:
        raise MqlError(72, "explained write batches must be of size 1")
    (statement,) = given
    query = arguments.document(statement, "q", f"{call.name}.{field}") or {}
    many = bool(statement.get("multi")) if field == "updates" else not statement.get("limit")
    sort = arguments.document(statement, "sort", f"{call.name}.{field}")
    return await _read_of_write(
        services, call, collection, statement, query, sort, 0 if many else 1, field == "deletes"
    )


async def _read_of_find_and_modify(services: Services, call: Call, collection: Collection | None) -> ExplainedRead:
    body = call.body
    query, sort = arguments.document(body, "query", call.name) or {}, arguments.document(body, "sort", call.name)
    return await _read_of_write(services, call, collection, body, query, sort, 1, bool(body.get("remove")))


async def _read_of_write(
    services: Services,
    call: Call,
    collection: Collection | None,
    given: Document,
    query: Document,
    sort: Document | None,
    limit: int,
    removes: bool,
) -> ExplainedRead:
    env = await build_env(services, call, collection, given)
    compiling = partial(compile_selection, collection, env, query, sort, arguments.hint(given), limit=limit)
    selection = await services.evaluation_of(call).compute(True, call.size, compiling)
    return ExplainedRead(ExplainedCommand(query, "delete" if removes else "update", sort), selection)


async def _read_of_aggregate(services: Services, call: Call, collection: Collection | None) -> ExplainedRead:
    body, name = call.body, call.name
    stages = arguments.array(body, "pipeline", name)
    env = await build_env(services, call, collection, body)
    source = CollectionSource(services, call, await begin_work(services, call), env, services.read_time_of(call))
    compute = services.evaluation_of(call).compute
    compiling = partial(compile_pipeline, stages, env, source, text=find_text_index(collection))
    pipeline = await compute(True, call.size, compiling)
    if pipeline.target is not None:
        services.require_right(call, "write", pipeline.target.target[0], need_of_writes(*pipeline.target.target))
    if pipeline.has_own_source:
        raise failed_to_parse("explain of a pipeline that reads no documents is not supported")
    head = pipeline.head
    selecting = partial(
        compile_selection, collection, env, head.query, head.sort, arguments.hint(body), head.skip, head.limit or 0
    )
    selection = await compute(True, call.size, selecting)
    command = ExplainedCommand(head.query, "find", head.sort, None, head.skip, head.limit or 0)
    return ExplainedRead(command, selection, stages[pipeline.head_length :])


_READS: Final[Mapping[str, Callable[[Services, Call, Collection | None], Awaitable[ExplainedRead]]]] = {
    "find": _read_of_find,
    "aggregate": _read_of_aggregate,
    "count": _read_of_query,
    "distinct": _read_of_query,
    "update": _read_of_statement,
    "delete": _read_of_statement,
    "findAndModify": _read_of_find_and_modify,
    "findandmodify": _read_of_find_and_modify,
}


def wants_explain(body: Mapping[str, Any], name: str) -> bool:
    """Return True if `aggregate` asks to be explained instead of run."""
    value = body.get("explain")
    if value is not None and type(value) is not bool:
        raise type_mismatch(f"{name}.explain", type_name(value), "bool")
    return bool(value)


HANDLERS = {"explain": CommandEntry(explain, "read", help="tells how a command finds its documents")}
