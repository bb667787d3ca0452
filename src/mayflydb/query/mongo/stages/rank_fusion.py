"""`$rankFusion`: several rankings of a collection as one, by reciprocal ranks.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/rankFusion/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import msgspec

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.filter import has_text_search, text_search
from mayflydb.query.mongo.numbers import double_of, is_nan
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages.base import (
    MemoryMeter,
    Stage,
    StageScope,
    SubPipeline,
    collect_documents,
    one_batch,
    require_field,
    split_batches,
)
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.text import FusedScores
from mayflydb.query.mongo.values import Document, OrderKey, Value, is_number, type_name
from mayflydb.query.sorting import sort_in_runs

_NAME: Final = "$rankFusion"
HYBRID_STAGES: Final = frozenset({"$rankFusion", "$scoreFusion"})
_CONSTANT: Final = 60
_SELECTIONS: Final = frozenset(
    {"$limit", "$match", "$sample", "$search", "$skip", "$sort", "$vectorSearch", "$geoNear"}
)
_RANKED: Final = frozenset({"$geoNear", "$search", "$vectorSearch"})
_DESCRIPTION: Final = (
    "value output by reciprocal rank fusion algorithm, computed as sum of (weight * (1 / (60 + rank))) across input"
    " pipelines from which this document is output, from:"
)

_Key = Callable[[Document], Any]


class _Ranking(msgspec.Struct, frozen=True):
    """One input. `key`: equal keys of neighbours share a rank; `by_score`: the documents come in the order of it first."""

    name: str
    pipeline: SubPipeline
    weight: float
    key: _Key
    by_score: bool


class RankFusion:
    """The stage. `scores`: of the documents that it has put out."""

    __slots__ = ("_details", "_key_of", "_limit", "_rankings", "scores")

    def __init__(self, rankings: list[_Ranking], details: bool, scope: StageScope) -> None:
        self._rankings = rankings
        self._details = details
        self._limit = scope.memory_limit
        self._key_of = scope.env.collation.order_key
        self.scores = FusedScores(details)

    async def run(self, batches: Batches) -> Batches:
        documents: list[Document] = []
        meter = MemoryMeter(_NAME, self._limit)
        async for batch in batches:
            for document in batch:
                meter.add(document)
                documents.append(document)
        ranks: dict[OrderKey, dict[str, int]] = {}
        found: dict[OrderKey, Document] = {}
        for ranking in self._rankings:
            for rank, document in await _rank(ranking, documents):
                key = self._key_of(document.get("_id"))
                found.setdefault(key, document)
                ranks.setdefault(key, {})[ranking.name] = rank
        for key, document in found.items():
            self._note(document, ranks[key])
        ordered = sort_in_runs([*found.items()], lambda each: (-self.scores(each[1]), each[0]))
        for part in split_batches([document for _, document in ordered]):
            yield part

    def _note(self, document: Document, ranks: Mapping[str, int]) -> None:
        known = [each for each in self._rankings if each.name in ranks]
        score = sum((each.weight / (_CONSTANT + ranks[each.name]) for each in known), 0.0)
        details: Document | None = None
        if self._details:
            lines = [self._describe(each, ranks) for each in self._rankings]
            details = {"value": score, "description": _DESCRIPTION, "details": lines}
        self.scores.note(document, score, details)

    @staticmethod
    def _describe(ranking: _Ranking, ranks: Mapping[str, int]) -> Document:
        line: Document = {"inputPipelineName": ranking.name, "rank": ranks.get(ranking.name, "NA")}
        return {**line, "weight": ranking.weight, "details": []} if ranking.name in ranks else line


async def _rank(ranking: _Ranking, documents: list[Document]) -> list[tuple[int, Document]]:
    ordered = await collect_documents(ranking.pipeline.run_over(one_batch(documents)))
    if ranking.by_score:
        ordered = sort_in_runs(ordered, ranking.key)
    return list(_number(ordered, ranking.key))


def _number(ordered: list[Document], key: _Key) -> Iterator[tuple[int, Document]]:
    """Documents with their ranks: neighbours with equal keys share one, and the next rank is higher by their number."""
    rank = 1
    for _, group in groupby(ordered, key):
        equal = list(group)
        for document in equal:
            yield rank, document
        rank += len(equal)


# --- compiling -------------------------------------------------------------------------------------------------------


def compile_rank_fusion(spec: Value, scope: StageScope, is_stage: Callable[[str], bool]) -> Stage:
    """Compile `$rankFusion`. `is_stage`: whether there is a stage of a name."""
    if type(spec) is not dict:
        raise failed_to_parse(f"{_NAME} requires a nested object as an argument, found: {type_name(spec)}")
    _check_fields(spec, ("input", "combination", "scoreDetails"), _NAME)
    inputs = _document(spec, "input", _NAME)
    _check_fields(inputs, ("pipelines",), f"{_NAME}.input")
    pipelines = _document(inputs, "pipelines", f"{_NAME}.input")
    details = spec.get("scoreDetails")
    if details is not None and type(details) is not bool:
        raise type_mismatch(f"{_NAME}.scoreDetails", type_name(details), "bool")
    if not pipelines:
        raise bad_value(f"{_NAME} requires at least one pipeline")
    for name, pipeline in pipelines.items():
        _check_pipeline(name, pipeline)
        _check_stages(pipeline, is_stage)
    weights = _parse_weights(spec, pipelines)
    rankings = [_compile_ranking(name, each, weights.get(name, 1.0), scope) for name, each in pipelines.items()]
    return RankFusion(rankings, bool(details), scope)


def _check_fields(given: Document, known: tuple[str, ...], owner: str) -> None:
    for field in given:
        if field not in known:
            raise MqlError(40415, f"BSON field '{owner}.{field}' is an unknown field.")


def _document(given: Document, field: str, owner: str) -> Document:
    value = require_field({name: each for name, each in given.items() if each is not None}, field, owner)
    if type(value) is not dict:
        raise type_mismatch(f"{owner}.{field}", type_name(value), "object")
    return value


def _parse_weights(spec: Document, pipelines: Document) -> dict[str, float]:
    if spec.get("combination") is None:
        return {}
    combination = _document(spec, "combination", _NAME)
    _check_fields(combination, ("weights",), f"{_NAME}.combination")
    given = _document(combination, "weights", f"{_NAME}.combination")
    if len(given) > len(pipelines):
        raise MqlError(9460301, f"{_NAME} has more weights than pipelines")
    for name, weight in given.items():
        if name not in pipelines:
            raise MqlError(9967500, f"{_NAME} has a weight for a pipeline that it has not: {name}")
        if not is_number(weight):
            raise MqlError(13118, f"{_NAME} weights must be numbers, but {name} is {type_name(weight)}")
        if is_nan(weight) or double_of(weight) < 0:
            raise MqlError(9460300, f"{_NAME} weights must not be negative, but {name} is {weight}")
    return {name: double_of(weight) for name, weight in given.items()}


def _check_pipeline(name: str, pipeline: Value) -> None:
    """Raise MqlError for a name that no field may have, and for a pipeline that does more than to rank and select."""
    if not name:
        raise MqlError(15998, "FieldPath field names may not be empty strings.")
    if name.startswith("$"):
        raise MqlError(16410, f"{_NAME} pipeline names may not start with '$': {name}")
    if "." in name:
        raise MqlError(16412, f"{_NAME} pipeline names may not contain '.': {name}")
    if type(pipeline) is not list:
        raise type_mismatch(f"{_NAME}.input.pipelines.{name}", type_name(pipeline), "array")
    if not pipeline:
        raise MqlError(9834300, f"{_NAME} input pipeline '{name}' must not be empty")
    if not all(type(stage) is dict for stage in pipeline):
        raise MqlError(14, "Each element of the 'pipeline' array must be an object")


def _check_stages(pipeline: list[Document], is_stage: Callable[[str], bool]) -> None:
    """Raise MqlError 40323, 40324, 10473002, 10170100, 9191103 and 9191100."""
    if any(len(stage) != 1 for stage in pipeline):
        raise MqlError(40323, "A pipeline stage specification object must contain exactly one field.")
    names = [next(iter(stage)) for stage in pipeline]
    for at, (name, stage) in enumerate(zip(names, pipeline, strict=True)):
        if not is_stage(name):
            raise MqlError(40324, f"Unrecognized pipeline stage name: '{name}'")
        if name in HYBRID_STAGES:
            code, where = (
                (10170100, "can only be the first stage of a pipeline") if at else (10473002, "is not allowed")
            )
            raise MqlError(code, f"{name} {where} in an input pipeline of {_NAME}")
        changes = name == "$geoNear" and {"distanceField", "includeLocs"} & set(stage[name] or ())
        if name not in _SELECTIONS or changes:
            raise MqlError(
                9191103, f"{name} is not allowed in an input pipeline of {_NAME}, since it changes documents"
            )
    if not (names[0] in _RANKED or "$sort" in names or _is_text_search(pipeline[0])):
        raise MqlError(9191100, f"an input pipeline of {_NAME} must begin with a ranked stage, or have a $sort")


def _is_text_search(stage: Document) -> bool:
    return type(stage.get("$match")) is dict and has_text_search(stage["$match"])


def _compile_ranking(name: str, pipeline: list[Document], weight: float, scope: StageScope) -> _Ranking:
    # A `$text` is allowed at the beginning, as it is at the beginning of the whole pipeline.
    env = msgspec.structs.replace(scope.env, score=None)
    inner = msgspec.structs.replace(scope, env=env, enclosing=_NAME, depth=scope.depth + 1)
    compiled = scope.compile_inner(pipeline, inner)
    sorts = [stage["$sort"] for stage in pipeline if "$sort" in stage]
    if sorts:
        order = compile_sort(sorts[-1], env)
        return _Ranking(name, compiled, weight, order.key, False)
    search = text_search(pipeline[0]["$match"], scope.text)
    if search is None:
        return _Ranking(name, compiled, weight, id, False)
    score = search.score
    return _Ranking(name, compiled, weight, lambda document: -score(document), True)
