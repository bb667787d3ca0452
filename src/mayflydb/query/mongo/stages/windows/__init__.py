"""`$setWindowFields`: fields computed from the neighbours of a document."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mayflydb.query.mongo.expressions import Expression, compile_expression, frame_of
from mayflydb.query.mongo.expressions.core import field_values
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.paths import field_path, split_path
from mayflydb.query.mongo.sort import Sort, compile_sort
from mayflydb.query.mongo.stages.base import (
    MemoryMeter,
    Stage,
    StageScope,
    check_fields,
    require_field,
    split_batches,
)
from mayflydb.query.mongo.stages.fields import with_field
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.stages.windows.functions import (
    ACCUMULATORS,
    Partition,
    WindowFunction,
    compile_window_accumulator,
)
from mayflydb.query.mongo.stages.windows.ordered import ORDERED
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, type_name
from mayflydb.query.sorting import sort_in_runs


class SetWindowFields(msgspec.Struct, frozen=True):
    """`$setWindowFields`. `sorted_by`: the path of a sort by one field, else None."""

    scope: StageScope
    partition_by: Expression | None
    order: Sort | None
    sorted_by: tuple[str, ...] | None
    output: Mapping[tuple[str, ...], WindowFunction]

    async def run(self, batches: Batches) -> Batches:
        parts: dict[OrderKey, list[Document]] = {}
        meter = MemoryMeter("$setWindowFields", self.scope.memory_limit)
        async for batch in batches:
            for document in batch:
                meter.add(document)
                parts.setdefault(self._partition_key(document), []).append(document)
        for key, _ in sort_in_runs([*parts.items()], lambda part: part[0]):
            for batch in split_batches(self._compute_fields(parts.pop(key))):
                yield batch

    def _partition_key(self, document: Document) -> OrderKey:
        if self.partition_by is None:
            return (0, ())
        value = self.partition_by(frame_of(document, self.scope.env))
        if type(value) is list:
            raise MqlError(14, "An expression used to partition cannot evaluate to value of type array")
        return self.scope.env.collation.order_key(None if value is MISSING else value)

    def _compute_fields(self, documents: list[Document]) -> list[Document]:
        order, env = self.order, self.scope.env
        if order is not None:
            documents = order.order(documents)
        path = self.sorted_by
        partition = Partition(
            [frame_of(document, env) for document in documents],
            [field_values(document, path) if path else MISSING for document in documents],
            [order.key(document) if order else None for document in documents],
        )
        columns = [(path, function.values(partition)) for path, function in self.output.items()]
        for path, values in columns:
            documents = [with_field(each, path, value) for each, value in zip(documents, values, strict=True)]
        return documents


def compile_set_window_fields(spec: Value, scope: StageScope) -> Stage:
    """Compile `$setWindowFields`."""
    if type(spec) is not dict:
        raise failed_to_parse(f"the $setWindowFields stage specification must be an object, found {type_name(spec)}")
    check_fields(spec, ("partitionBy", "sortBy", "output"), "$setWindowFields")
    output = require_field(spec, "output", "$setWindowFields")
    sort_by = spec.get("sortBy")
    for name, value in (("output", output), ("sortBy", sort_by)):
        if type(value) is not dict and name in spec:
            message = (
                f"BSON field '$setWindowFields.{name}' is the wrong type '{type_name(value)}', expected type 'object'"
            )
            raise MqlError(14, message)
    partition_by = compile_expression(spec["partitionBy"], scope.env) if "partitionBy" in spec else None
    order = compile_sort(sort_by, scope.env) if sort_by is not None else None
    functions: dict[tuple[str, ...], WindowFunction] = {}
    for path, each in output.items():
        parts = field_path(path)
        if any(parts[: len(other)] == other or other[: len(parts)] == parts for other in functions):
            raise MqlError(6307900, "$setWindowFields 'output' specification contains two conflicting paths")
        functions[parts] = _compile_function(path, each, sort_by, scope)
    sorted_by = split_path(next(iter(sort_by))) if sort_by and len(sort_by) == 1 else None
    return SetWindowFields(scope, partition_by, order, sorted_by, functions)


def _compile_function(path: str, spec: Value, sort_by: Document | None, scope: StageScope) -> WindowFunction:
    if type(spec) is not dict:
        raise failed_to_parse(f"The field '{path}' must be an object")
    for name in spec:
        if name in ORDERED:
            return ORDERED[name](name, spec, sort_by, scope.env)
        if name in ACCUMULATORS:
            return compile_window_accumulator(name, spec, sort_by, scope.env)
        if name.startswith("$"):
            raise failed_to_parse(f"Unrecognized window function, {name}")
    first = next(iter(spec), "")
    raise failed_to_parse("Expected a $-prefixed window function" + (f", {first}" if first else ""))
