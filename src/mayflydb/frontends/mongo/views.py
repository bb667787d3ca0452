"""Checks of view definitions when a view is created or changed. An invalid one would fail at every read.

Rules: https://www.mongodb.com/docs/manual/core/views/create-view/
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.pipelines import MAX_VIEW_DEPTH, CollectionSource
from mayflydb.frontends.mongo.resolving import build_env
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sessions.work import ImmediateWork
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.stages import compile_pipeline
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.validation import check_collection
from mayflydb.query.mongo.values import Document, encode, type_name

MAX_PIPELINE_BYTES: Final = 16 * 1024 * 1024

_STAGES_WITHOUT_COLLECTION: Final = frozenset({"$currentOp", "$listSessions", "$listLocalSessions", "$documents"})
_WRITING_STAGES: Final = frozenset({"$out", "$merge"})


async def check_view(services: Services, call: Call, name: str, options: Document) -> None:
    """Check `viewOn` and `pipeline` of a view called `name`. Nulls are removed from the pipeline.

    Raise MqlError 14, 2 and 73 for an invalid collection, 5 for a cycle, 165 for too deep a chain of views, 195 for too
    large a pipeline, and the errors of pipelines.
    """
    below = arguments.text(options, "viewOn", call.name)
    if not below:
        raise bad_value("'viewOn' cannot be empty")
    check_collection(call.database, below)
    stages = arguments.array(options, "pipeline", call.name) if options.get("pipeline") is not None else []
    stages = options["pipeline"] = [each for each in stages if each is not None]
    for position, stage in enumerate(stages):
        if type(stage) is not dict:
            raise type_mismatch(f"{call.name}.pipeline.{position}", type_name(stage), "object")
    _check_stages(call, stages)
    if len(encode({"pipeline": stages})) > MAX_PIPELINE_BYTES:
        raise MqlError(195, f"The view pipeline is too large: it exceeds {MAX_PIPELINE_BYTES} bytes")
    env = await build_env(services, call, None, {})
    source = CollectionSource(services, call, ImmediateWork(services, call), env, services.read_time_of(call))
    # Compiled only for its errors.
    compiling = partial(compile_pipeline, stages, env, source, text=TextIndex({}))
    await services.evaluation_of(call).compute(True, call.size, compiling)
    await _check_chain(services.collections, call.database, name, below)
    await _check_reads(services.collections, call.database, name, {below, *read_by(call.database, stages)})


def _check_stages(call: Call, stages: list[Any]) -> None:
    first = next(iter(stages[0]), "") if stages else ""
    if first == "$changeStream":
        raise MqlError(40573, "$changeStream cannot be used in a view definition")
    if first in _STAGES_WITHOUT_COLLECTION:
        raise MqlError(73, f"{first} cannot be used in a view definition: it reads no collection")
    if stages and next(iter(stages[-1]), "") in _WRITING_STAGES:
        raise MqlError(167, f"{next(iter(stages[-1]))} cannot be used in a view definition: {call.database}")


def read_by(database: str, stages: Sequence[Any]) -> set[str]:
    """Return the collections of a database that the stages of a valid pipeline read, at any depth."""
    found: set[str] = set()
    pending = list(stages)
    while pending:
        stage = pending.pop()
        name: str = next(iter(stage), "")
        given: Any = stage.get(name)
        if name == "$facet":
            pending += [each for inner in given.values() for each in inner]
        elif name in _READING_STAGES:
            given = given if type(given) is dict else {"coll": given}
            pending += given.get("pipeline") or ()
            source = given.get(_READING_STAGES[name])
            if type(source) is dict:
                source = source.get("coll") if source.get("db", database) == database else None
            if type(source) is str:
                found.add(source)
    return found


_READING_STAGES: Final = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}
"""Stages that read another collection, with the argument that names it."""


async def _check_reads(collections: Collections, database: str, name: str, first: set[str]) -> None:
    """Raise MqlError 5 if what the view reads leads back to it. Views that are part of another cycle are looked at once."""
    seen: set[str] = set()
    pending = [(each, f"{database}.{name}") for each in sorted(first)]
    while pending:
        below, path = pending.pop()
        path = f"{path} => {database}.{below}"
        if below == name:
            raise MqlError(5, f"View cycle detected: {path}")
        if below in seen:
            continue
        seen.add(below)
        found = await collections.find(database, below)
        if found is not None and found.view_on is not None:
            reads = {found.view_on, *read_by(database, found.options.get("pipeline", ()))}
            pending += [(each, path) for each in sorted(reads)]


async def _check_chain(collections: Collections, database: str, name: str, below: str) -> None:
    """Raise MqlError 5 for a cycle and 165 for too long a chain of views."""
    path = [name]
    while True:
        if below in path:
            cycle = " => ".join(f"{database}.{each}" for each in (*path, below))
            raise MqlError(5, f"View cycle detected: {cycle}")
        path.append(below)
        found = await collections.find(database, below)
        if found is None or found.view_on is None:
            return
        if len(path) > MAX_VIEW_DEPTH:
            raise MqlError(165, f"View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}")
        below = found.view_on
