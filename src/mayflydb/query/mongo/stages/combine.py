"""The stages that begin, join or end pipelines: `$documents` and reports, `$unionWith`, `$facet`, `$out`, `$merge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from mayflydb.query.mongo.expressions import Expression, compile_expression, frame_of
from mayflydb.query.mongo.expressions.core import check_variable
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.paths import field_path
from mayflydb.query.mongo.stages.base import (
    MemoryMeter,
    Stage,
    StageScope,
    SubPipeline,
    check_fields,
    close_batches,
    collect_documents,
    no_documents,
    one_batch,
    require_document,
    require_field,
    split_batches,
)  # fmt: skip
from mayflydb.query.mongo.stages.source import Batches, Merge, MergeRow, Namespace, Out, PipelineSource
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, type_name

# --- beginnings ------------------------------------------------------------------------------------------------------


class DocumentsStage:
    """`$documents`: begins a pipeline with the documents that its expression yields."""

    __slots__ = ("_expression", "_scope")

    def __init__(self, expression: Expression, scope: StageScope) -> None:
        self._expression = expression
        self._scope = scope

    async def run(self, batches: Batches) -> Batches:
        value = self._expression(frame_of({}, self._scope.env))
        if type(value) is not list:
            raise MqlError(5858203, f"$documents: an array is expected, but found {type_name(value)}")
        for each in value:
            if type(each) is not dict:
                raise MqlError(
                    40228,
                    "'newRoot' expression must evaluate to an object, but resulting value was: "
                    f"{format_value(each)}. Type of resulting value: '{type_name(each)}'. Input document: {{}}",
                )
        for part in split_batches(value):
            yield part


def compile_documents(spec: Value, scope: StageScope) -> Stage:
    """Compile `$documents`."""
    return DocumentsStage(compile_expression(spec, scope.env), scope)


class SourceStage:
    """A stage whose documents the source provides: `$collStats`, `$indexStats`, `$currentOp`, `$changeStream`, ..."""

    __slots__ = ("_source", "name", "spec")

    def __init__(self, name: str, spec: Value, source: PipelineSource) -> None:
        self.name = name
        self.spec = spec
        self._source = source

    def run(self, batches: Batches) -> Batches:
        return self._source.stage_documents(self.name, self.spec)


_ARGUMENT_ERRORS: Final = {"$indexStats": 28803, "$collStats": 5447000}
"""The errors of arguments that are no documents, of stages that have one of their own."""


def compile_source_stage(name: str) -> Callable[[Value, StageScope], Stage]:
    """Return the compiler of a stage that the source provides. In a sub-pipeline it raises MqlError 238."""

    def compile_stage(spec: Value, scope: StageScope) -> Stage:
        if scope.enclosing:
            raise MqlError(238, f"{name} within {scope.enclosing} is not supported")
        if type(spec) is not dict and name in ("$currentOp", "$listLocalSessions", "$listSessions"):
            raise type_mismatch(name, type_name(spec), "object")
        if type(spec) is not dict and name in _ARGUMENT_ERRORS:
            raise MqlError(_ARGUMENT_ERRORS[name], f"{name} must take a nested object but found: {type_name(spec)}")
        if type(spec) is not dict:
            raise failed_to_parse(f"{name} must take a nested object but found: {format_value({name: spec})[2:-2]}")
        return SourceStage(name, spec, scope.source)

    return compile_stage


# --- $unionWith ------------------------------------------------------------------------------------------------------


class _UnionWith(msgspec.Struct, frozen=True):
    namespace: Namespace
    inner: SubPipeline

    async def run(self, batches: Batches) -> Batches:
        async for batch in batches:
            yield batch
        inner = self.inner
        # The second collection is opened only when the first one has been read.
        more = inner.run_over(no_documents()) if inner.has_own_source else inner.read(self.namespace)
        try:
            async for batch in more:
                yield batch
        finally:
            await close_batches(more)


def compile_union_with(spec: Value, scope: StageScope) -> Stage:
    """Compile `$unionWith`, both forms."""
    database = scope.source.database
    if type(spec) is str:
        return _UnionWith((database, spec), scope.sub_pipeline([], "$unionWith"))
    if type(spec) is not dict:
        raise failed_to_parse(
            f"the $unionWith stage specification must be an object or string, but found {type_name(spec)}"
        )
    check_fields(spec, ("coll", "pipeline"), "$unionWith")
    collection = spec.get("coll")
    if collection is not None and type(collection) is not str:
        found = type_name(collection)
        raise MqlError(14, f"BSON field '$unionWith.coll' is the wrong type '{found}', expected type 'string'")
    inner = scope.sub_pipeline(spec.get("pipeline", []), "$unionWith")
    if collection is None and not inner.has_own_source:
        raise failed_to_parse(
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage"
        )
    return _UnionWith((database, collection or ""), inner)


# --- $facet ----------------------------------------------------------------------------------------------------------


class _Facet(msgspec.Struct, frozen=True):
    facets: Mapping[str, SubPipeline]
    memory_limit: int

    async def run(self, batches: Batches) -> Batches:
        documents: list[Document] = []
        meter = MemoryMeter("$facet", self.memory_limit)
        async for batch in batches:
            for document in batch:
                meter.add(document)
            documents += batch
        yield [
            # Every facet reads the same documents; stages never change documents in place.
            {name: await collect_documents(inner.run_over(one_batch(documents))) for name, inner in self.facets.items()}
        ]


def compile_facet(spec: Value, scope: StageScope) -> Stage:
    """Compile `$facet`."""
    if type(spec) is not dict or not spec:
        raise MqlError(40169, f"the $facet specification must be a non-empty object, but found: {format_value(spec)}")
    facets = {}
    for name, pipeline in spec.items():
        if "." in name:
            raise MqlError(16412, "FieldPath field names may not contain '.'. Consider using $getField or $setField.")
        field_path(name)
        if type(pipeline) is not list:
            raise MqlError(40170, f"arguments to $facet must be arrays, {name} is type {type_name(pipeline)}")
        for stage in pipeline:
            require_document(
                stage, 40171, "elements of arrays in $facet spec must be non-empty objects, " + name + " argument is {}"
            )
        facets[name] = scope.sub_pipeline(pipeline, "$facet")
    return _Facet(facets, scope.memory_limit)


# --- $out, $merge ----------------------------------------------------------------------------------------------------


class WriteStage:
    """The last stage of a pipeline that writes its documents: `$out` or `$merge`. The reader of the pipeline writes them."""

    __slots__ = ("_let", "_scope", "target")

    def __init__(self, target: Out | Merge, scope: StageScope, let: Mapping[str, Expression] | None = None) -> None:
        self.target = target
        self._scope = scope
        self._let = let or {}

    def run(self, batches: Batches) -> Batches:
        """Pass the documents on: they are written by the reader of the pipeline (`Pipeline.writer`)."""
        return batches

    @property
    def computes(self) -> bool:
        """True if the rows hold values of expressions."""
        return any(name != "new" for name in self._let)

    def build_rows(self, documents: Sequence[Document]) -> list[MergeRow]:
        """Return the rows of `$merge` for some documents."""
        return [self._build_row(document) for document in documents]

    def _build_row(self, document: Document) -> MergeRow:
        frame = frame_of(document, self._scope.env)
        values = {name: expression(frame) for name, expression in self._let.items()}
        return MergeRow(document, {name: value for name, value in values.items() if value is not MISSING})


def compile_out(spec: Value, scope: StageScope) -> Stage:
    """Compile `$out`."""
    if type(spec) is str:
        return WriteStage(Out(_check_namespace("$out", scope.source.database, spec)), scope)
    require_document(spec, 16990, "$out only supports a string or object argument, but found {}")
    check_fields(spec, ("db", "coll", "timeseries"), "$out")
    given = {name: value for name, value in spec.items() if value is not None}
    database, collection = require_field(given, "db", "$out"), require_field(given, "coll", "$out")
    return WriteStage(Out(_check_namespace("$out", database, collection), spec.get("timeseries")), scope)


_WHEN_MATCHED: Final = ("replace", "keepExisting", "merge", "fail")
_WHEN_NOT_MATCHED: Final = ("insert", "discard", "fail")


def compile_merge(spec: Value, scope: StageScope) -> Stage:
    """Compile `$merge`. The writer checks that a unique index covers `on` (51183)."""
    if type(spec) is str:
        return WriteStage(
            Merge(_check_namespace("$merge", scope.source.database, spec), ("_id",), "merge", "insert"), scope
        )
    if type(spec) is not dict:
        raise MqlError(14, f"$merge requires a string or object argument, but found {type_name(spec)}")
    check_fields(spec, ("into", "on", "let", "whenMatched", "whenNotMatched"), "$merge")
    into = require_field(spec, "into", "$merge")
    matched, not_matched = spec.get("whenMatched", "merge"), spec.get("whenNotMatched")
    not_matched = "insert" if not_matched is None else not_matched
    _check_modes(matched, not_matched)
    let = _merge_variables(spec, matched, scope)
    target = Merge(_parse_into(into, scope), _parse_on(spec.get("on", "_id")), matched, not_matched)
    return WriteStage(target, scope, let)


def _check_modes(matched: Value, not_matched: Value) -> None:
    if type(matched) not in (str, list):
        raise MqlError(
            51191, f"$merge 'whenMatched' field must be either a string or an array, but found {type_name(matched)}"
        )
    if type(matched) is str and matched not in _WHEN_MATCHED:
        raise bad_value(f"Enumeration value '{matched}' for field 'whenMatched' is not a valid value.")
    if type(matched) is list and not all(type(stage) is dict for stage in matched):
        raise MqlError(14, "Each element of the 'pipeline' array must be an object")
    if type(not_matched) is not str:
        raise type_mismatch("$merge.whenNotMatched", type_name(not_matched), "string")
    if not_matched not in _WHEN_NOT_MATCHED:
        raise bad_value(f"Enumeration value '{not_matched}' for field '$merge.whenNotMatched' is not a valid value.")
    if matched in ("keepExisting", "fail") and not_matched != "insert":
        raise MqlError(
            51181,
            f"Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: {not_matched}' is not supported",
        )


def _merge_variables(spec: Document, matched: Value, scope: StageScope) -> dict[str, Expression]:
    if type(matched) is not list:
        if spec.get("let") is not None:
            raise MqlError(51199, f"Cannot use 'let' variables with 'whenMatched: {matched}' mode")
        return {}
    let = {} if spec.get("let") is None else spec["let"]
    if type(let) is not dict:
        raise MqlError(14, f"BSON field '$merge.let' is the wrong type '{type_name(let)}', expected type 'object'")
    if let.get("new", "$$ROOT") != "$$ROOT":
        raise MqlError(51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'")
    return {
        check_variable(name): compile_expression(each, scope.env) for name, each in {**let, "new": "$$ROOT"}.items()
    }


def _parse_into(into: Value, scope: StageScope) -> Namespace:
    if type(into) is str:
        return _check_namespace("$merge", scope.source.database, into)
    require_document(into, 51178, "$merge 'into' field must be either a string or an object, but found {}")
    check_fields(into, ("db", "coll"), "$merge.into")
    if "coll" in into and into["coll"] is None:
        raise MqlError(5786801, "$merge 'into' field must have a 'coll' that is not null")
    database = into.get("db") or scope.source.database
    return _check_namespace("$merge", database, require_field(into, "coll", "$merge.into"))


def _parse_on(on: Value) -> tuple[str, ...]:
    if type(on) is str:
        field_path(on)
        return (on,)
    if type(on) is not list:
        raise MqlError(
            51186, f"$merge 'on' field must be either a string or an array of strings, but found {type_name(on)}"
        )
    if not on:
        raise MqlError(51187, "If explicitly specifying $merge 'on', must include at least one field")
    for number, path in enumerate(on):
        if type(path) is not str:
            raise MqlError(51134, f"$merge 'on' array elements must be strings, but found {type_name(path)}")
        if path in on[:number]:
            raise MqlError(31465, f"Found a duplicate field '{path}'")
        field_path(path)
    return tuple(on)


_LONGEST_NAMESPACE: Final = 255
_NAMESPACE_CODES: Final = {"$out": (20, 17385, 31321), "$merge": (73, 31319, 31320)}
"""Codes for an illegal name, a special collection, an internal database."""


def _check_namespace(stage: str, database: Value, collection: Value) -> Namespace:
    for name, value in (("db", database), ("coll", collection)):
        if type(value) is not str:
            found = type_name(value)
            raise MqlError(14, f"BSON field '{stage}.{name}' is the wrong type '{found}', expected type 'string'")
    illegal, special, internal = _NAMESPACE_CODES[stage]
    if not database or not collection or "\0" in collection or collection[0] == ".":
        raise MqlError(73, f"Invalid {stage} target namespace: '{database}.{collection}'")
    if "$" in collection or len(f"{database}.{collection}".encode()) > _LONGEST_NAMESPACE:
        raise MqlError(illegal, f"Invalid {stage} target namespace: '{database}.{collection}'")
    if collection.startswith("system."):
        raise MqlError(special, f"Cannot {stage} to special collection: {collection}")
    if database in ("admin", "config", "local"):
        raise MqlError(internal, f"Cannot {stage} to internal database: {database}")
    return database, collection
