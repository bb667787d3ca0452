"""The opening of change streams."""

from __future__ import annotations

from typing import Any

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import INTERNAL_DATABASES, Collection
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.streams.cursor import StreamCursor
from mayflydb.frontends.mongo.streams.events import EventBuilder
from mayflydb.frontends.mongo.streams.feed import Feed, StreamScope
from mayflydb.frontends.mongo.streams.options import ALLOWED_STAGES, StreamOptions, parse_stream_options
from mayflydb.query.mongo.cheapness import is_cheap_pipeline
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.stages import PipelineSource, compile_pipeline
from mayflydb.query.mongo.values import Document


def is_change_stream(stages: list[Any]) -> bool:
    """Return True if a pipeline begins with `$changeStream`."""
    return bool(stages) and isinstance(stages[0], dict) and "$changeStream" in stages[0]


async def open_stream(
    services: Services,
    call: Call,
    target: Any,
    collection: Collection | None,
    stages: list[Document],
    env: Env,
    source: PipelineSource,
) -> StreamCursor:
    """Open the cursor of a pipeline that begins with `$changeStream`.

    Raise MqlError 40573, 166, 73, 20, and those of arguments.
    """
    if services.options.topology == "standalone":
        raise MqlError(40573, "The $changeStream stage is only supported on replica sets")
    level = (call.body.get("readConcern") or {}).get("level", "majority")
    if level != "majority":
        text = f"readConcern level '{level}' is not supported: $changeStream only supports majority read concern"
        raise MqlError(72, text)
    spec = stages[0]["$changeStream"]
    options = parse_stream_options(spec)
    scope, namespace = _resolve_scope(call, target, options)
    if collection is not None and collection.view_on is not None:
        raise MqlError(166, f"Namespace {namespace} is a view, not a collection")
    if collection is not None and collection.series is not None:
        raise MqlError(166, f"Namespace {namespace} is a timeseries collection, which has no change stream")
    # Errors of stages have priority over the error of a stage that streams exclude.
    compute = services.evaluation_of(call).compute
    await compute(True, call.size, compile_pipeline, stages, env, source)
    for name in (next(iter(stage)) for stage in stages[1:]):
        if name not in ALLOWED_STAGES:
            raise MqlError(20, f"{name} is not permitted in a $changeStream pipeline")
    pipeline = None
    if len(stages) > 1:
        pipeline = await compute(True, call.size, compile_pipeline, stages[1:], env, source)
    cheap = call.is_cheap and env.collation.is_simple and is_cheap_pipeline(stages[1:])
    # History begins before the position is taken, so that no change falls between.
    orderer = await services.collections.start_histories(scope.database, scope.collection, call.now)
    engine = services.engine
    feed = Feed(engine, scope, orderer)
    token = options.resume_after
    if token is not None:
        await feed.resume(token, call.now, services.options.change_stream_retention)
    elif options.start_at is not None:
        await feed.begin_at(options.start_at, call.now, services.options.change_stream_retention)
    else:
        await feed.begin_now(call.now)
    builder = EventBuilder(engine, feed, scope, options, services.collections)
    last_token = token if token is not None and token.purpose == "last" else None
    read_time = services.read_time_of(call)
    notifier = engine.reaper.notifier
    return StreamCursor(namespace, feed, builder, pipeline, cheap, call.session_id, notifier, read_time, last_token)


def _resolve_scope(call: Call, target: Any, options: StreamOptions) -> tuple[StreamScope, str]:
    if options.all_databases:
        if call.database != "admin" or type(target) is str:
            text = "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database"
            raise MqlError(72, f"{text}, and with no collection name")
        return StreamScope(), "admin.$cmd.aggregate"
    if call.database in INTERNAL_DATABASES:
        raise MqlError(73, f"$changeStream may not be opened on the internal {call.database} database")
    if type(target) is str:
        if target.startswith("system."):
            raise MqlError(73, f"$changeStream may not be opened on the internal {call.database}.{target} collection")
        return StreamScope(call.database, target), f"{call.database}.{target}"
    return StreamScope(call.database), f"{call.database}.$cmd.aggregate"
