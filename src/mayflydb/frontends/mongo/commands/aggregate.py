"""The command aggregate: pipelines over a collection, a view, or the database itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import need_of_writes
from mayflydb.frontends.mongo.as_of import AS_OF
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import reserve
from mayflydb.frontends.mongo.commands.explain import explain_command, wants_explain
from mayflydb.frontends.mongo.commands.queries import first_batch_reply
from mayflydb.frontends.mongo.concerns import is_linearizable
from mayflydb.frontends.mongo.cursors import Cursor
from mayflydb.frontends.mongo.pipelines import CollectionSource, encode_batches
from mayflydb.frontends.mongo.resolving import build_env, find_text_index
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.work import begin_work
from mayflydb.frontends.mongo.spending import QUERY_PRICE
from mayflydb.frontends.mongo.streams.open import is_change_stream, open_stream
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.numbers import double_of
from mayflydb.query.mongo.stages import compile_pipeline
from mayflydb.query.mongo.values import Document, is_number, type_name

FIELDS: Final = frozenset(
    {
        "pipeline",
        "cursor",
        "explain",
        "allowDiskUse",
        "bypassDocumentValidation",
        "collation",
        "hint",
        "let",
        "fromMongos",
        "needsMerge",
    }
)

NON_DOCUMENT_STAGES: Final = frozenset(
    {
        "$changeStream",
        "$collStats",
        "$currentOp",
        "$indexStats",
        "$listCatalog",
        "$listLocalSessions",
        "$listSessions",
        "$planCacheStats",
    }
)
"""First stages that read something other than documents."""

WRITING_STAGES: Final = frozenset({"$out", "$merge"})


async def aggregate(services: Services, call: Call) -> Document | bytes:
    """Return the first batch of a pipeline's results."""
    call.check_fields(FIELDS)
    body, name = call.body, call.name
    target = body[name]
    stages, options = _check_arguments(body, name)
    if wants_explain(body, name):
        return await _explanation(services, call)
    if options is None:
        raise failed_to_parse("The 'cursor' option is required, except for aggregate with the explain argument")
    collection, namespace = None, f"{call.database}.$cmd.aggregate"
    if type(target) is str:
        collection = await services.collections.find(call.database, target)
        namespace = f"{call.database}.{target}"
    else:
        _check_agnostic(target)
    work = await begin_work(services, call)
    read_time = services.read_time_of(call)
    env = await build_env(services, call, collection, body)
    source = CollectionSource(services, call, work, env, read_time)
    _check_as_of(call, stages)
    if work.in_transaction:
        _check_in_transaction(stages[0] if stages else {}, NON_DOCUMENT_STAGES)
    if is_change_stream(stages):
        stream = await open_stream(services, call, target, collection, stages, env, source)
        return await first_batch_reply(services, call, stream, arguments.whole_number(options or {}, "batchSize", name))
    # The whole pipeline is checked before anything is read.
    compiling = partial(compile_pipeline, stages, env, source, text=find_text_index(collection))
    pipeline = await services.evaluation_of(call).compute(True, call.size, compiling)
    if type(target) is not str and not pipeline.has_own_source:
        text = "{aggregate: 1} is not valid for "
        raise MqlError(
            73,
            text + f"'{next(iter(stages[0]))}'; a collection is required." if stages else text + "an empty pipeline.",
        )
    if work.in_transaction:
        _check_in_transaction(stages[-1] if stages else {}, WRITING_STAGES)
    if pipeline.target is not None:
        services.require_right(call, "write", pipeline.target.target[0], need_of_writes(*pipeline.target.target))
    if pipeline.target is not None and is_linearizable(call):
        raise MqlError(72, "$out and $merge cannot be used with a 'linearizable' read concern")
    if collection is not None:
        await reserve(services, call, collection, QUERY_PRICE)
    items = source.read_as(encode_batches, collection, stages, arguments.hint(body))
    cursor = Cursor(namespace, items, read_time, lambda: (), 0, call.session_id)
    return await first_batch_reply(services, call, cursor, arguments.whole_number(options or {}, "batchSize", name))


def _check_arguments(body: Document, name: str) -> tuple[list[Any], Document | None]:
    """Return the pipeline and `cursor`. Raise MqlError 14 for wrong types, among them null, and 40414."""
    for field, kind in (("pipeline", "array"), ("cursor", "object")):
        if field in body and body[field] is None:
            raise type_mismatch(f"{name}.{field}", "null", kind)
    arguments.strict_flag(body, "allowDiskUse", name)
    arguments.flag(body, "bypassDocumentValidation", name)
    return arguments.array(body, "pipeline", name), arguments.document(body, "cursor", name)


def _check_agnostic(target: Any) -> None:
    """Raise MqlError 73 for a target that is no number, 2 for a number other than 1."""
    if not is_number(target):
        raise MqlError(73, f"collection name has invalid type {type_name(target)}")
    if double_of(target) != 1:
        raise bad_value("Invalid command format: the 'aggregate' field must specify a collection name or 1")


async def _explanation(services: Services, call: Call) -> Document:
    if call.body.get("writeConcern") is not None:
        raise failed_to_parse("Aggregation explain does not support the 'writeConcern' option")
    return await explain_command(services, call, "queryPlanner")


def _check_as_of(call: Call, stages: Sequence[Any]) -> None:
    """Raise MqlError 72 for a pipeline as of another instant that writes, or reads something other than documents."""
    if call.as_of is None or not stages:
        return
    for stage, refused in ((stages[0], NON_DOCUMENT_STAGES), (stages[-1], WRITING_STAGES)):
        name = _name_stage(stage)
        if name in refused:
            raise MqlError(72, f"{AS_OF} is not supported by Mayfly with the stage {name}")


def _check_in_transaction(stage: Any, refused: frozenset[str]) -> None:
    """Raise MqlError 263 for a stage that a transaction cannot contain: its reads or writes would not be part of the
    snapshot."""
    name = _name_stage(stage)
    if name in refused:
        text = "Operation not permitted in transaction :: caused by :: Aggregation stage"
        raise MqlError(263, f"{text} {name} cannot run within a multi-document transaction")


def _name_stage(stage: Any) -> str:
    """Return the name of a stage; empty if it is no document, which is refused when the pipeline is compiled."""
    return next(iter(stage), "") if isinstance(stage, dict) else ""


HANDLERS = {"aggregate": CommandEntry(aggregate, "read", help="runs a pipeline")}
