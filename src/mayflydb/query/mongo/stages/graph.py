"""`$graphLookup`: follows references through a collection, breadth first."""

from __future__ import annotations

import msgspec
from bson import Int64

from mayflydb.query.mongo.expressions import Expression, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter, compile_filter
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.paths import field_path, find_values, split_path
from mayflydb.query.mongo.stages.base import MemoryMeter, Stage, StageScope, collect_documents, require_document
from mayflydb.query.mongo.stages.fields import with_field
from mayflydb.query.mongo.stages.lookup import JoinIndex, equals_any
from mayflydb.query.mongo.stages.source import Batches, Namespace
from mayflydb.query.mongo.values import (
    INT64_MAX,
    MISSING,
    Document,
    OrderKey,
    Value,
    format_value,
    is_number,
    type_name,
)

_MAX_CACHED_VALUES = 10_000
"""The maximum number of values whose documents are cached between the documents of the pipeline."""


class GraphLookup(msgspec.Struct):
    """`$graphLookup`. `max_depth`: the number of levels after the first; None for all."""

    scope: StageScope
    namespace: Namespace
    start: Expression
    from_path: str
    to_path: str
    into: tuple[str, ...]
    max_depth: int | None
    depth: tuple[str, ...] | None
    restriction: Filter | None
    documents_by_value: dict[OrderKey, list[Document]] = {}

    async def run(self, batches: Batches) -> Batches:
        async for batch in batches:
            yield [with_field(document, self.into, await self._find_reachable(document)) for document in batch]

    async def _find_reachable(self, document: Document) -> list[Document]:
        value = self.start(frame_of(document, self.scope.env))
        wanted = value if type(value) is list else [None if value is MISSING else value]
        key_of = self.scope.env.collation.order_key
        reached: dict[OrderKey, Document] = {}
        asked: set[OrderKey] = set()
        meter = MemoryMeter("$graphLookup", self.scope.memory_limit)
        level = 0
        while wanted and (self.max_depth is None or level <= self.max_depth):
            front = {key: value for value in wanted if (key := key_of(value)) not in asked}
            # Each value is looked up once, so that cycles of references end.
            asked |= front.keys()
            await self._fetch_unknown(front)
            wanted = []
            for key in front:
                for found in self.documents_by_value[key]:
                    identity = key_of(found.get("_id", MISSING))
                    if identity not in reached:
                        meter.add(found)
                        reached[identity] = found if self.depth is None else with_field(found, self.depth, Int64(level))
                        wanted += self._references(found)
            level += 1
        return list(reached.values())

    async def _fetch_unknown(self, front: dict[OrderKey, Value]) -> None:
        """Read the documents that match unknown values, with one query, and cache them by value."""
        if len(self.documents_by_value) > _MAX_CACHED_VALUES:
            # Cleared only before a level is read, so that all values of the level are cached afterwards.
            self.documents_by_value.clear()
        unknown = {key: value for key, value in front.items() if key not in self.documents_by_value}
        if not unknown:
            return
        query = equals_any(self.to_path, unknown.values())
        documents = await collect_documents(self.scope.source.find(self.namespace, query))
        if self.restriction is not None:
            documents = [document for document in documents if self.restriction.matches(document)]
        joined = JoinIndex(documents, self.to_path, self.scope.env)
        for key, value in unknown.items():
            self.documents_by_value[key] = joined.find([value])

    def _references(self, document: Document) -> list[Value]:
        values: list[Value] = []
        for value in find_values(document, split_path(self.from_path), False):
            if type(value) is list:
                values += value
            elif value is not MISSING:
                values.append(value)
        return values


_NEEDED = ("from", "as", "startWith", "connectFromField", "connectToField")
_STRINGS = ("from", "as", "connectFromField", "connectToField", "depthField")


def compile_graph_lookup(spec: Value, scope: StageScope) -> Stage:
    """Compile `$graphLookup`."""
    require_document(spec, 40327, "the $graphLookup stage specification must be an object, but found {}")
    for name, value in spec.items():
        _check_argument(name, value)
    if any(name not in spec for name in _NEEDED):
        message = "'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified."
        raise MqlError(40105, f"$graphLookup requires {message}")
    for name in ("connectFromField", "connectToField"):
        field_path(spec[name])
    return GraphLookup(
        scope,
        (scope.source.database, spec["from"]),
        compile_expression(spec["startWith"], scope.env),
        spec["connectFromField"],
        spec["connectToField"],
        field_path(spec["as"]),
        exact_integer(spec["maxDepth"]) if "maxDepth" in spec else None,
        field_path(spec["depthField"]) if "depthField" in spec else None,
        compile_filter(spec["restrictSearchWithMatch"], scope.env) if "restrictSearchWithMatch" in spec else None,
        {},
    )


def _check_argument(name: str, value: Value) -> None:
    if name in _STRINGS:
        if type(value) is not str:
            raise MqlError(40103, f"expected string as argument for {name}, found: {format_value(value)}")
    elif name == "maxDepth":
        if not is_number(value):
            raise MqlError(40100, f"maxDepth requires numeric argument, found type: {type_name(value)}")
        depth = exact_integer(value)
        if depth is None or depth > INT64_MAX:
            raise MqlError(40102, f"maxDepth could not be represented as a long long: {format_value(value)}")
        if depth < 0:
            raise MqlError(40101, f"maxDepth requires a nonnegative argument, found: {format_value(value)}")
    elif name == "restrictSearchWithMatch":
        if type(value) is not dict:
            message = "$graphLookup argument 'restrictSearchWithMatch' must be an object, found: "
            raise MqlError(40185, message + type_name(value))
    elif name != "startWith":
        raise MqlError(40104, f"Unknown argument to $graphLookup: {name}")
