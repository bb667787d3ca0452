"""`$lookup`: joins by equal values, with one read for each batch of documents, and joins by pipelines with variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
from bson import Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, compile_expression, frame_of
from mayflydb.query.mongo.expressions.core import check_variable
from mayflydb.query.mongo.faults import MqlError, failed_to_parse, type_mismatch
from mayflydb.query.mongo.paths import field_path, find_values, split_path
from mayflydb.query.mongo.stages.base import Stage, StageScope, SubPipeline, collect_documents, no_documents, one_batch
from mayflydb.query.mongo.stages.fields import with_field
from mayflydb.query.mongo.stages.source import Batches, Namespace
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, encode, format_value, type_name
from mayflydb.query.sorting import sort_in_runs

# --- by equal values -------------------------------------------------------------------------------------------------


def join_values(document: Document, path: str) -> list[Value]:
    """Return the join values of a document: the values at the path, the elements of arrays, null if the path is missing."""
    found = find_values(document, split_path(path), False) or [None]
    values: list[Value] = []
    for value in found:
        if type(value) is list:
            values += value
        else:
            values.append(None if value is MISSING else value)
    return values


def equals_any(path: str, values: Iterable[Value]) -> Document:
    """Return the query for documents with one of the values at a path. A regular expression matches only itself."""
    plain: list[Value] = []
    patterns: list[Value] = []
    for value in values:
        (patterns if type(value) in (Regex, re.Pattern) else plain).append(value)
    query: Document = {path: {"$in": plain}}
    return {"$or": [query, *({path: {"$eq": each}} for each in patterns)]} if patterns else query


class JoinIndex:
    """Documents of a collection, indexed by their values at a path."""

    __slots__ = ("_documents", "_env", "_found", "_places")

    def __init__(self, documents: list[Document], path: str, env: Env) -> None:
        self._documents = documents
        self._env = env
        self._places: dict[OrderKey, list[int]] = {}
        self._found: dict[frozenset[OrderKey], list[Document]] = {}
        parts, key_of = split_path(path), env.collation.order_key
        for place, document in enumerate(documents):
            for key in {key_of(None if each is MISSING else each) for each in find_values(document, parts)}:
                self._places.setdefault(key, []).append(place)

    def find(self, values: Iterable[Value]) -> list[Document]:
        """Return the documents with one of the values, in the order in which they were read. Equal values share one list."""
        keys = frozenset(map(self._env.collation.order_key, values))
        found = self._found.get(keys)
        if found is None:
            # The places of one key are in order.
            lists = [self._places[key] for key in keys if key in self._places]
            places = lists[0] if len(lists) == 1 else sort_in_runs([*{place for each in lists for place in each}], int)
            found = self._found[keys] = [self._documents[place] for place in places]
        return found


async def read_matching(scope: StageScope, namespace: Namespace, path: str, values: Iterable[Value]) -> JoinIndex:
    """Read the documents of a collection with one of the values at a path, with one query."""
    key_of = scope.env.collation.order_key
    # By comparison key: 5 and 5.0 are one value of the query.
    distinct = list({key_of(value): value for value in values}.values())
    documents = await collect_documents(scope.source.find(namespace, equals_any(path, distinct))) if distinct else []
    return JoinIndex(documents, path, scope.env)


# --- the stage -------------------------------------------------------------------------------------------------------


class Lookup(msgspec.Struct):
    """`$lookup`. `let`: expressions over the document. `local` and `foreign`: both set, or both empty."""

    scope: StageScope
    namespace: Namespace
    into: tuple[str, ...]
    local: str
    foreign: str
    let: Mapping[str, Expression]
    pipeline: Value
    inner: SubPipeline | None
    cached_result: list[Document] | None = None

    async def run(self, batches: Batches) -> Batches:
        async for batch in batches:
            joined = None
            if self.foreign:
                values = (value for document in batch for value in join_values(document, self.local))
                joined = await read_matching(self.scope, self.namespace, self.foreign, values)
            # Results are cached for one batch only, which bounds the memory.
            known: dict[bytes, list[Document]] = {}
            out = []
            for document in batch:
                if joined is None:
                    found = await self._run_pipeline(document, known)
                else:
                    found = joined.find(join_values(document, self.local))
                    if self.inner is not None:
                        inner = self._compile_inner(self._evaluate_let(document))
                        found = await collect_documents(inner.run_over(one_batch(found)))
                out.append(with_field(document, self.into, found))
            yield out

    async def _run_pipeline(self, document: Document, known: dict[bytes, list[Document]]) -> list[Document]:
        """Return the pipeline's result for a document. The result is cached by the values of the variables."""
        if not self.let:
            if self.cached_result is None:
                self.cached_result = await self._read({})
            return self.cached_result
        variables = self._evaluate_let(document)
        # Bytes of BSON tell values apart by type, which a join by pipeline may depend on.
        key = encode({name: value for name, value in variables.items() if value is not MISSING})
        found = known.get(key)
        if found is None:
            found = known[key] = await self._read(variables)
        return found

    async def _read(self, variables: Mapping[str, Value]) -> list[Document]:
        inner = self._compile_inner(variables)
        return await collect_documents(
            inner.run_over(no_documents()) if inner.has_own_source else inner.read(self.namespace)
        )

    def _evaluate_let(self, document: Document) -> dict[str, Value]:
        frame = frame_of(document, self.scope.env)
        return {name: expression(frame) for name, expression in self.let.items()}

    def _compile_inner(self, variables: Mapping[str, Value]) -> SubPipeline:
        """Compile the pipeline with these variables as constants. A compiled pipeline runs once."""
        return self.scope.with_variables(variables).sub_pipeline(self.pipeline, "$lookup")


_FIELDS = ("from", "as", "localField", "foreignField", "let", "pipeline")
_TEXTS = ("as", "localField", "foreignField")
_DEEPEST = 200


def compile_lookup(spec: Value, scope: StageScope) -> Stage:
    """Compile `$lookup`, all forms."""
    if type(spec) is not dict:
        raise failed_to_parse(f"the $lookup stage specification must be an object, but found {type_name(spec)}")
    given = _parse_arguments(spec)
    let = {check_variable(name): compile_expression(each, scope.env) for name, each in given.get("let", {}).items()}
    inner = None
    if "pipeline" in given:
        # Compiled once without values, so that an invalid pipeline is refused before any document is read.
        inner = scope.with_variables(dict.fromkeys(let, MISSING)).sub_pipeline(given["pipeline"], "$lookup")
    if "from" not in given and not (inner is not None and inner.has_own_source):
        raise failed_to_parse("must specify 'from' field for a $lookup")
    local, foreign = given.get("localField", ""), given.get("foreignField", "")
    for path in (local, foreign):
        if path and len(field_path(path)) > _DEEPEST:
            raise MqlError(15, f"FieldPath is too long: {len(field_path(path))} parts, {_DEEPEST} at most")
    namespace = (scope.source.database, given.get("from", ""))
    return Lookup(scope, namespace, field_path(given["as"]), local, foreign, let, given.get("pipeline"), inner)


def _parse_arguments(spec: Document) -> Document:
    """Return the arguments that are given: null is none, and so is an empty path."""
    for name, value in spec.items():
        _check_argument(name, value)
    given = {
        name: value
        for name, value in spec.items()
        if value is not None and (value != "" or name not in ("localField", "foreignField"))
    }
    if "as" not in given:
        raise MqlError(40414, "BSON field '$lookup.as' is missing but a required field")
    if ("localField" in given) != ("foreignField" in given):
        raise failed_to_parse("$lookup requires both or neither of 'localField' and 'foreignField' to be specified")
    if "pipeline" not in given:
        if "localField" not in given:
            raise failed_to_parse(
                "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
            )
        if "let" in given:
            raise failed_to_parse("$lookup with a 'let' argument must also specify 'pipeline'")
    return given


def _check_argument(name: str, value: Value) -> None:
    """Raise MqlError 40415 for an unknown argument; for one of a wrong type 14, and 9 for `from`."""
    if name not in _FIELDS:
        raise MqlError(40415, f"BSON field '$lookup.{name}' is an unknown field.")
    if value is None and name in (*_TEXTS, "let"):
        return
    if name in _TEXTS and type(value) is not str:
        raise type_mismatch(f"$lookup.{name}", type_name(value), "string")
    if name == "let" and type(value) is not dict:
        raise type_mismatch(f"$lookup.{name}", type_name(value), "object")
    if name == "pipeline" and type(value) is not list:
        raise type_mismatch(f"$lookup.{name}", type_name(value), "array")
    if name == "from" and type(value) is not str:
        raise failed_to_parse(f"$lookup argument 'from: {format_value(value)}' must be a string, is {type_name(value)}")
