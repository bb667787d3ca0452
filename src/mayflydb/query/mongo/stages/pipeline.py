"""Pipelines: stages compiled, checked for their place, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import has_text_search, text_search
from mayflydb.query.mongo.stages import basic, buckets, combine, gaps, group, shapes
from mayflydb.query.mongo.stages.base import MEMORY_LIMIT, FilterStage, Stage, StageCompiler, StageScope
from mayflydb.query.mongo.stages.basic import MatchStage
from mayflydb.query.mongo.stages.chain import run_stages
from mayflydb.query.mongo.stages.combine import DocumentsStage, SourceStage, WriteStage, compile_source_stage
from mayflydb.query.mongo.stages.fields import add_fields
from mayflydb.query.mongo.stages.graph import compile_graph_lookup
from mayflydb.query.mongo.stages.group import Group
from mayflydb.query.mongo.stages.head import head_of, is_number_one, join_queries, limit_sorts, strip_variables
from mayflydb.query.mongo.stages.lookup import compile_lookup
from mayflydb.query.mongo.stages.rank_fusion import HYBRID_STAGES, RankFusion, compile_rank_fusion
from mayflydb.query.mongo.stages.source import Batches, Merge, Namespace, Out, PipelineSource
from mayflydb.query.mongo.stages.windows import compile_set_window_fields
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import MISSING, Value

_SOURCE_STAGES: Final = (
    "$collStats",
    "$indexStats",
    "$currentOp",
    "$listLocalSessions",
    "$listSessions",
    "$changeStream",
    "$listCatalog",
    "$planCacheStats",
)

STAGES: Final[Mapping[str, StageCompiler]] = {
    "$addFields": add_fields("$addFields"),
    "$bucket": buckets.compile_bucket,
    "$bucketAuto": buckets.compile_bucket_auto,
    "$count": basic.compile_count,
    "$densify": gaps.compile_densify,
    "$documents": combine.compile_documents,
    "$facet": combine.compile_facet,
    "$fill": gaps.compile_fill,
    "$graphLookup": compile_graph_lookup,
    "$group": group.compile_group,
    "$limit": basic.compile_limit,
    "$lookup": compile_lookup,
    "$match": basic.compile_match,
    "$merge": combine.compile_merge,
    "$out": combine.compile_out,
    "$project": shapes.compile_project,
    "$rankFusion": lambda spec, scope: compile_rank_fusion(spec, scope, is_stage),
    "$redact": shapes.compile_redact,
    "$replaceRoot": shapes.compile_replace_root,
    "$replaceWith": shapes.compile_replace_with,
    "$sample": basic.compile_sample,
    "$set": add_fields("$set"),
    "$setWindowFields": compile_set_window_fields,
    "$skip": basic.compile_skip,
    "$sort": basic.compile_sort_stage,
    "$sortByCount": group.compile_sort_by_count,
    "$unionWith": combine.compile_union_with,
    "$unset": shapes.compile_unset,
    "$unwind": shapes.compile_unwind,
    **{name: compile_source_stage(name) for name in _SOURCE_STAGES},
}

UNSUPPORTED_STAGES: Final = frozenset({
    "$changeStreamSplitLargeEvent", "$geoNear", "$listSampledQueries", "$querySettings", "$queryStats",
    "$scoreFusion", "$shardedDataDistribution",
})  # fmt: skip
"""Stages of MongoDB that are refused by name."""

ATLAS_STAGES: Final = frozenset({"$listSearchIndexes", "$search", "$searchMeta", "$vectorSearch"})
"""Stages that exist in Atlas only, refused with the code of a server outside of Atlas."""


def is_stage(name: str) -> bool:
    """Return whether MongoDB has a stage of a name, supported or not."""
    return name in STAGES or name in UNSUPPORTED_STAGES or name in ATLAS_STAGES


MAX_STAGES: Final = 1000
"""The maximum number of stages of a pipeline, as on the server."""

MAX_DEPTH: Final = 20
"""The maximum nesting of sub-pipelines, as on the server."""

_FIRST: Final = frozenset({"$documents", *_SOURCE_STAGES})
_LAST: Final = frozenset({"$out", "$merge"})
_NOT_IN_FACET: Final = frozenset({"$facet", "$geoNear", "$search", "$searchMeta", "$vectorSearch"}) | _FIRST | _LAST


class Pipeline:
    """A compiled pipeline; it runs once. `head`: the query that the collection is read with before `run`."""

    __slots__ = ("_scope", "_stages", "_tail", "head")

    def __init__(self, stages: Sequence[Stage], scope: StageScope) -> None:
        self._stages = stages
        self._scope = scope
        self.head, count = head_of(stages)
        self._tail = stages[count:]

    @property
    def has_own_source(self) -> bool:
        """True if the first stage produces documents: no collection is read, and `run` ignores its argument."""
        return bool(self._stages) and isinstance(self._stages[0], DocumentsStage | SourceStage)

    @property
    def head_length(self) -> int:
        """The number of stages that the head replaces."""
        return len(self._stages) - len(self._tail)

    @property
    def writer(self) -> WriteStage | None:
        """The final `$out` or `$merge`, whose documents the reader of the pipeline writes; None without one."""
        last = self._stages[-1] if self._stages else None
        return last if isinstance(last, WriteStage) else None

    @property
    def target(self) -> Out | Merge | None:
        """The target of a final `$out` or `$merge`; None without one."""
        return None if self.writer is None else self.writer.target

    @property
    def count_only(self) -> tuple[Value, str] | None:
        """(`_id`, field) if the pipeline only counts documents: it yields `{_id, field: number}`, or nothing for 0."""
        if len(self._tail) != 1 or not isinstance(self._tail[0], Group):
            return None
        group = self._tail[0]
        if group.constant is MISSING or len(group.fields) != 1:
            return None
        ((name, spec),) = group.fields.items()
        return (group.constant, name) if set(spec) == {"$sum"} and is_number_one(spec["$sum"]) else None

    def run(self, batches: Batches) -> Batches:
        """Run the stages behind the head over the documents that the head found."""
        return run_stages(self._tail, batches)

    def run_over(self, batches: Batches) -> Batches:
        """Run all stages over some documents."""
        return run_stages(self._stages, batches)

    def read(self, namespace: Namespace) -> Batches:
        """Run all stages over a collection. Its leading `$match` stages become the query of the read."""
        env = self._scope.env
        queries = [stage.query for stage in self._stages[: _leading_matches(self._stages)]]  # type: ignore[attr-defined]
        query, exact = strip_variables(join_queries(queries), env)
        # A query without variables may find too much; then the `$match` stages run again.
        rest = self._stages[len(queries) :] if exact else self._stages
        return run_stages(rest, self._scope.source.find(namespace, query))


def _leading_matches(stages: Sequence[Stage]) -> int:
    for at, stage in enumerate(stages):
        if not isinstance(stage, MatchStage):
            return at
    return len(stages)


# --- compiling -------------------------------------------------------------------------------------------------------


def compile_pipeline(
    pipeline: Value, env: Env, source: PipelineSource, memory_limit: int = MEMORY_LIMIT, text: TextIndex | None = None
) -> Pipeline:
    """Compile an array of stages. MqlError 14, 40323, 40324, 40601, 40602, and the errors of the stages.

    `memory_limit`: bytes that one stage may keep; MqlError 292 beyond. `text`: the text index of the collection.
    """
    return _compile(pipeline, StageScope(env, source, _compile, memory_limit, text=text))


def _compile(pipeline: Value, scope: StageScope) -> Pipeline:
    if type(pipeline) is not list:
        raise MqlError(14, "'pipeline' option must be specified as an array")
    if len(pipeline) > MAX_STAGES:
        raise MqlError(7749501, f"Pipeline length must be no longer than {MAX_STAGES} stages.")
    if scope.depth > MAX_DEPTH:
        raise MqlError(232, f"Maximum number of nested sub-pipelines exceeded. Limit is {MAX_DEPTH}")
    stages: list[Stage] = []
    for at, spec in enumerate(pipeline):
        if type(spec) is not dict:
            raise MqlError(14, "Each element of the 'pipeline' array must be an object")
        if len(spec) != 1:
            raise MqlError(40323, "A pipeline stage specification object must contain exactly one field.")
        ((name, value),) = spec.items()
        make = STAGES.get(name)
        if make is None:
            raise _unknown_stage_error(name)
        _check_place(name, value, at, len(pipeline) - 1, scope)
        stages.append(make(value, scope))
        scope = _scope_after(stages[-1], at, scope)
    limit_sorts(stages)
    return Pipeline(stages, scope)


def _scope_after(stage: Stage, at: int, scope: StageScope) -> StageScope:
    """Return the scope of the next stage. Only the first stage may have `$text`; the score is lost when a stage
    changes documents.
    """
    if scope.text is not None and not at and isinstance(stage, MatchStage):
        search = text_search(stage.query, scope.text)
        return scope.with_score(None if search is None else search.score)
    if isinstance(stage, RankFusion):
        return scope.with_score(stage.scores)
    keeps = isinstance(stage, FilterStage | basic.SortStage | basic.SkipStage | basic.LimitStage)
    return scope if scope.text is None and (keeps or scope.score is None) else scope.with_score(None)


def _unknown_stage_error(name: str) -> MqlError:
    if name in ATLAS_STAGES:
        return MqlError(31082, f"{name} is not supported by Mayfly: search indexes are a part of Atlas")
    if name in UNSUPPORTED_STAGES:
        return MqlError(238, f"{name} is not supported")
    return MqlError(40324, f"Unrecognized pipeline stage name: '{name}'")


def _check_place(name: str, spec: Value, at: int, last: int, scope: StageScope) -> None:
    if scope.enclosing == "$facet" and name in _NOT_IN_FACET:
        raise MqlError(40600, f"{name} is not allowed to be used within a $facet stage")
    if name in _LAST:
        if scope.enclosing == "$lookup":
            raise MqlError(51047, f"{name} is not allowed within a $lookup's sub-pipeline")
        if scope.enclosing == "$unionWith":
            raise MqlError(31441, f"{name} is not allowed within a $unionWith's sub-pipeline")
        if at != last:
            raise MqlError(40601, f"{name} can only be the final stage in the pipeline")
    if name == "$match" and at and has_text_search(spec):
        raise MqlError(17313, "$match with $text is only allowed as the first pipeline stage")
    if name in HYBRID_STAGES and at:
        raise MqlError(10170100, f"{name} can only be the first stage of a pipeline")
    if name in _FIRST and at:
        raise MqlError(40602, f"{name} is only valid as the first stage in a pipeline")
