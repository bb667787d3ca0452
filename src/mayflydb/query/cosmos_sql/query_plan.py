"""Query plans: how a client must run a query over several partition key ranges and merge what they answer.

The shape is the one of `PartitionedQueryExecutionInfo`, as the public client libraries of Azure Cosmos DB read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.aggregates import PLAN_NAMES
from mayflydb.query.cosmos_sql.compile import COMPOSITION
from mayflydb.query.cosmos_sql.faults import bad_query
from mayflydb.query.cosmos_sql.keys import KeyPath
from mayflydb.query.cosmos_sql.printer import print_expression, print_select
from mayflydb.query.cosmos_sql.query import Query
from mayflydb.query.cosmos_sql.ranking import Ranking, Score, placeholders
from mayflydb.query.cosmos_sql.rewrite import rewritten
from mayflydb.query.cosmos_sql.scope import find_aggregate, is_aggregate
from mayflydb.query.cosmos_sql.syntax import Call, Expression, FilterSlot, Literal, Select, output_names
from mayflydb.query.cosmos_sql.values import Value

RangeOf: TypeAlias = Callable[[tuple[Value, ...]], tuple[str, str]]
"""The effective partition keys (min, max) of a key or a prefix of one; equal for a whole key."""

PLAN_VERSION: Final = 2
_UNSUPPORTED: Final = (
    "Query contains 1 or more unsupported features. "
    "Upgrade your SDK to a version that does support the requested features:"
)


def plan(
    query: Query, features: AbstractSet[str], partition_key_paths: Sequence[KeyPath], range_of: RangeOf
) -> dict[str, Any]:
    """The plan of `query` as JSON values; BadQuery if it needs a feature the client does not list, or has no plan."""
    select = query.statement.select
    if query.program.grouping is not None:
        # Without effect, and no client could merge it.
        select = replace(select, order_by=())
    if query.ranking is not None:
        what = {"hybridSearchQueryInfo": _hybrid_info(query, query.ranking)}
    else:
        what = {"queryInfo": _query_info(query, select)}
    missing = [feature for feature in _needed(query, select) if feature not in features]
    if missing:
        lines = (f"Query contained {feature}, which the calling client does not support." for feature in missing)
        raise BadQuery("\n".join([_UNSUPPORTED, *lines]))
    return {
        "partitionedQueryExecutionInfoVersion": PLAN_VERSION,
        **what,
        "queryRanges": list(_ranges(query.key_prefixes(partition_key_paths), range_of)),
    }


def _ranges(keys: list[tuple[Value, ...]] | None, range_of: RangeOf) -> Iterator[dict[str, Any]]:
    if not keys:
        # A query that can match nothing still runs somewhere, and answers with its empty result.
        yield {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}
        return
    for low, high in sorted({range_of(key) for key in keys}):
        yield {"min": low, "max": high, "isMinInclusive": True, "isMaxInclusive": low == high}


def _needed(query: Query, select: Select) -> Iterator[str]:
    """The features a client must have, in the order in which a refusal lists them."""
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


def _aggregates(select: Select) -> list[Call]:
    """The aggregates of the SELECT list; BadQuery for one that is part of something else, which no client can merge."""
    found: list[Call] = []
    for node in _selected(select):
        if isinstance(node, Call) and is_aggregate(node):
            found.append(node)
        elif (inner := find_aggregate(node)) is not None:
            raise bad_query(COMPOSITION, inner.start, inner.end)
    return found


def _selected(select: Select) -> list[Expression]:
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
        "rewrittenQuery": rewritten(select, query.skip + (query.take or 0), grouped=grouped),
        "hasSelectValue": select.value is not None,
        "hasNonStreamingOrderBy": query.program.nearest,
        "dCountInfo": None,
    }


def _distinct_type(select: Select) -> str:
    if not select.distinct:
        return "None"
    selected = _selected(select)
    if len(selected) == 1 and len(select.order_by) == 1:
        key = print_expression(select.order_by[0].expression)
        return "Ordered" if print_expression(selected[0]) == key else "Unordered"
    return "Unordered"


def _alias_types(select: Select, names: Iterable[str]) -> dict[str, str | None]:
    return {
        name: PLAN_NAMES[node.name.upper()] if isinstance(node, Call) and is_aggregate(node) else None
        for name, node in zip(names, _selected(select), strict=True)
    }


def _hybrid_info(query: Query, asked: Ranking) -> dict[str, Any]:
    stop = query.skip + (query.take or 0)
    components = asked.components(placeholders(asked), stop)
    return {
        "globalStatisticsQuery": print_select(asked.statistics()),
        "componentQueryInfos": [_component_info(asked, *each) for each in zip(asked.scores, components, strict=True)],
        "componentWithoutPayloadQueryInfos": [],
        "projectionQueryInfo": None,
        "componentWeights": [abs(score.weight) for score in asked.scores] if asked.weighted else [],
        "skip": None if asked.select.offset is None else query.skip,
        "take": query.take,
        "requiresGlobalStatistics": bool(asked.texts),
    }


def _component_info(asked: Ranking, score: Score, component: Select) -> dict[str, Any]:
    # The Python client replaces the filter of ORDER BY together with the figures, and only then.
    sent = replace(component, where=FilterSlot(condition=component.where)) if asked.texts else component
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
