"""Query plans: instructions for a client that runs a query over several partition key ranges and merges the results.

The shape is that of `PartitionedQueryExecutionInfo`, as the public client libraries of Azure Cosmos DB read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.aggregates import PLAN_NAMES
from mayflydb.query.cosmos_sql.faults import composed_aggregate, unsupported
from mayflydb.query.cosmos_sql.keys import KeyPath
from mayflydb.query.cosmos_sql.printer import print_expression, print_select
from mayflydb.query.cosmos_sql.query import Query
from mayflydb.query.cosmos_sql.ranking import Ranking, Score, placeholders
from mayflydb.query.cosmos_sql.rewrite import rewrite_query
from mayflydb.query.cosmos_sql.scope import find_aggregate, is_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    Expression,
    FilterSlot,
    FunctionCall,
    Literal,
    Select,
    Subquery,
    output_names,
)
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

RangeOf: TypeAlias = Callable[[tuple[Value, ...]], tuple[str, str]]
"""Gives the effective partition keys (min, max) of a key or of a prefix; min and max of a whole key are equal."""

PLAN_VERSION: Final = 2
_UNSUPPORTED: Final = (
    "Query contains 1 or more unsupported features. "
    "Upgrade your SDK to a version that does support the requested features:"
)


def plan(
    query: Query, features: AbstractSet[str], partition_key_paths: Sequence[KeyPath], range_of: RangeOf, ranges: int = 1
) -> dict[str, Any]:
    """Return the plan of `query` as JSON values; BadQuery if the query has no plan, or needs a feature that the client does
    not list.

    `ranges`: the number of the container's partition key ranges.
    """
    select = query.statement.select
    if query.has_blocking_source:
        return _blocking_plan(query, features, ranges)
    # A query without FROM reads no document: it runs in one range.
    keys = query.key_prefixes(partition_key_paths) if query.reads_documents else []
    if query.program.grouping is not None:
        # ORDER BY has no effect on the one row of an aggregate, and no client could merge it.
        select = replace(select, order_by=())
    if query.ranking is not None:
        plan_info = {"hybridSearchQueryInfo": _hybrid_info(query, query.ranking)}
    else:
        alone = keys is not None and [len(key) for key in keys] == [len(partition_key_paths)]
        plan_info = {"queryInfo": _query_info(query, _without_merged_window(query, select, alone=alone))}
    _check_features(_required_features(query, select), features)
    return _build_plan(plan_info, list(_query_ranges(keys, range_of)))


def _without_merged_window(query: Query, select: Select, *, alone: bool) -> Select:
    """Remove what clients need not apply: TOP where no document is read, and OFFSET LIMIT where a single logical partition
    gives its rows as they are.
    """
    if not query.reads_documents:
        return replace(select, top=None)
    return replace(select, offset=None, limit=None) if alone and query.streams else select


def _build_plan(plan_info: dict[str, Any], ranges: list[dict[str, Any]]) -> dict[str, Any]:
    return {"partitionedQueryExecutionInfoVersion": PLAN_VERSION, **plan_info, "queryRanges": ranges}


def _check_features(needed: Iterable[str], features: AbstractSet[str]) -> None:
    missing = [feature for feature in needed if feature not in features]
    if missing:
        lines = (f"Query contained {feature}, which the calling client does not support." for feature in missing)
        raise BadQuery("\n".join([_UNSUPPORTED, *lines]))


_ALL_RANGES: Final = {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}
_FIRST_RANGE: Final = {"min": "", "max": "", "isMinInclusive": True, "isMaxInclusive": True}
"""The service writes this range as `[[],[]]`: its first partition key range answers."""


def _query_ranges(keys: list[tuple[Value, ...]] | None, range_of: RangeOf) -> Iterator[dict[str, Any]]:
    if not keys:
        # A query that cannot match still runs in one range, which gives the empty result.
        yield _ALL_RANGES if keys is None else _FIRST_RANGE
        return
    for low, high in sorted({range_of(key) for key in keys}):
        # A whole key is a point, which is empty unless both of its bounds belong to it.
        yield {"min": low, "max": high, "isMinInclusive": True, "isMaxInclusive": low == high}


def _required_features(query: Query, select: Select) -> Iterator[str]:
    """The features that a client must have, in the order in which a refusal lists them."""
    if query.ranking is not None:
        yield "HybridSearch"
        if query.ranking.weighted:
            yield "WeightedRankFusion"
        return
    names = [call.name.upper() for call in _aggregates(select)]
    needs = {
        "OrderBy": bool(select.order_by),
        "MultipleOrderBy": len(select.order_by) > 1,
        "NonStreamingOrderBy": query.program.nearest,
        "Distinct": select.distinct,
        "Top": select.top is not None,
        "OffsetAndLimit": select.offset is not None,
        "GroupBy": bool(select.group_by),
        "Aggregate": bool(names),
        "CompositeAggregate": "AVG" in names,
        "NonValueAggregate": bool(names) and select.value is None,
        "MultipleAggregates": len(names) > 1,
        "CountIf": "COUNTIF" in names,
        "ListAndSetAggregate": "MAKELIST" in names or "MAKESET" in names,
    }
    yield from (feature for feature, needed in needs.items() if needed)


def _aggregates(select: Select) -> list[FunctionCall]:
    """The aggregates of the SELECT list; BadQuery for an aggregate inside another expression, which no client can merge."""
    found: list[FunctionCall] = []
    for node in _selected_expressions(select):
        if isinstance(node, FunctionCall) and is_aggregate(node):
            found.append(node)
        elif find_aggregate(node) is not None:
            raise composed_aggregate()
    return found


def _selected_expressions(select: Select) -> list[Expression]:
    return [select.value] if select.value is not None else [item.expression for item in select.items]


def _query_info(query: Query, select: Select) -> dict[str, Any]:
    aggregates = _aggregates(select)
    grouped = bool(aggregates or select.group_by)
    aliased = grouped and select.value is None
    names = output_names(select)
    return {
        "distinctType": _distinct_type(select),
        "top": None if select.top is None else query.take,
        "offset": None if select.offset is None else query.skip,
        "limit": None if select.offset is None else query.take,
        "orderBy": ["Descending" if descending else "Ascending" for _, descending in query.program.orders],
        "orderByExpressions": [print_expression(order.expression) for order in select.order_by],
        "groupByExpressions": [print_expression(key) for key in select.group_by],
        "groupByAliases": names if aliased else [],
        "aggregates": [PLAN_NAMES[call.name.upper()] for call in aggregates] if select.value is not None else [],
        "groupByAliasToAggregateType": _alias_types(select, names) if aliased else {},
        "rewrittenQuery": rewrite_query(select, query.skip + (query.take or 0), grouped=grouped),
        "hasSelectValue": select.value is not None,
        "hasNonStreamingOrderBy": query.program.nearest,
        "dCountInfo": None,
    }


def _blocking_plan(query: Query, features: AbstractSet[str], ranges: int) -> dict[str, Any]:
    """The plan of a query with a blocking source.

    Clients count distinct values themselves; any other such query runs only where one range has all documents.
    """
    select = query.statement.select
    info: dict[str, Any] = {
        "distinctType": "None", "top": None, "offset": None, "limit": None, "orderBy": [], "orderByExpressions": [],
        "groupByExpressions": [], "groupByAliases": [], "aggregates": [], "groupByAliasToAggregateType": {},
        "rewrittenQuery": "", "hasSelectValue": select.value is not None, "hasNonStreamingOrderBy": False, "dCountInfo": None,
    }  # fmt: skip
    counted = counted_values(select)
    if counted is not None:
        _check_features(("DCount", "Distinct"), features)
        alias = "" if select.value is not None else output_names(select)[0]
        info |= {
            "distinctType": "Unordered", "rewrittenQuery": print_select(counted), "dCountInfo": {"dCountAlias": alias},
        }  # fmt: skip
    else:
        check_blocking_source(query, ranges)
    return _build_plan({"queryInfo": info}, [_ALL_RANGES])


def check_blocking_source(query: Query, ranges: int) -> None:
    """Raise Unsupported for a query over several partition key ranges whose results cannot be merged."""
    if query.has_blocking_source and ranges > 1:
        feature = "DISTINCT, GROUP BY, TOP, OFFSET LIMIT or an aggregate in the first subquery of FROM"
        first = query.statement.select.sources[0]
        raise unsupported(f"{feature} over several partition key ranges", first.start, first.end)


def counted_values(select: Select) -> Select | None:
    """Return the SELECT DISTINCT of a query that only counts its rows; None for any other query."""
    selected = _selected_expressions(select)
    inner = select.sources[0].expression
    plain = Select(
        value=select.value, items=select.items, sources=select.sources[:1], start=select.start, end=select.end
    )
    if plain != select or select.sources[0].unnest or len(selected) != 1 or not isinstance(inner, Subquery):
        return None
    found = inner.select
    simple = replace(found, top=None, group_by=(), order_by=(), offset=None, limit=None)
    nested = isinstance(found.sources[0].expression, Subquery)
    if not found.distinct or found != simple or nested or _aggregates(found) or not _counts_rows(selected[0]):
        return None
    return found


def _counts_rows(node: Expression) -> bool:
    """True for COUNT of a constant."""
    if not isinstance(node, FunctionCall) or node.udf or node.name.upper() != "COUNT":
        return False
    counted = node.arguments[0]
    return isinstance(counted, Literal) and counted.value is not UNDEFINED


def _distinct_type(select: Select) -> str:
    if not select.distinct:
        return "None"
    selected = _selected_expressions(select)
    if len(selected) == 1 and len(select.order_by) == 1:
        key = print_expression(select.order_by[0].expression)
        # Sorted by themselves, equal rows follow each other: the client need not remember all rows.
        return "Ordered" if print_expression(selected[0]) == key else "Unordered"
    return "Unordered"


def _alias_types(select: Select, names: Iterable[str]) -> dict[str, str | None]:
    return {
        name: PLAN_NAMES[node.name.upper()] if isinstance(node, FunctionCall) and is_aggregate(node) else None
        for name, node in zip(names, _selected_expressions(select), strict=True)
    }


def _hybrid_info(query: Query, ranking: Ranking) -> dict[str, Any]:
    stop = query.skip + (query.take or 0)
    components = ranking.components(placeholders(ranking), stop)
    return {
        "globalStatisticsQuery": print_select(ranking.statistics_query()),
        "componentQueryInfos": [
            _component_info(ranking, *each) for each in zip(ranking.scores, components, strict=True)
        ],
        "componentWithoutPayloadQueryInfos": [],
        "projectionQueryInfo": None,
        "componentWeights": [abs(score.weight) for score in ranking.scores] if ranking.weighted else [],
        "skip": None if ranking.select.offset is None else query.skip,
        "take": query.take,
        "requiresGlobalStatistics": bool(ranking.texts),
    }


def _component_info(ranking: Ranking, score: Score, component: Select) -> dict[str, Any]:
    # The Python client replaces the filter of ORDER BY together with the statistics, and only then.
    sent = replace(component, where=FilterSlot(condition=component.where)) if ranking.texts else component
    numbers = {
        name: node.value if isinstance(node, Literal) else None
        for name, node in (("top", component.top), ("offset", component.offset), ("limit", component.limit))
    }
    return {
        "distinctType": "None",
        **numbers,
        "orderBy": ["Descending" if score.descending else "Ascending"],
        "orderByExpressions": [print_expression(component.order_by[0].expression)],
        "groupByExpressions": [],
        "groupByAliases": [],
        "aggregates": [],
        "groupByAliasToAggregateType": {},
        "rewrittenQuery": print_select(sent),
        "hasSelectValue": False,
        "hasNonStreamingOrderBy": True,
        "dCountInfo": None,
    }
