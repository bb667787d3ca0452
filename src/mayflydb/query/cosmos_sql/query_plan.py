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
from mayflydb.query.cosmos_sql.scope import ROOT, find_aggregate, is_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Call,
    Expression,
    Field,
    FilterSlot,
    Item,
    Literal,
    Logical,
    Name,
    Object,
    Path,
    Select,
    output_names,
)  # fmt: skip
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
    missing = [feature for feature in _needed(query, select) if feature not in features]
    if missing:
        lines = (f"Query contained {feature}, which the calling client does not support." for feature in missing)
        raise BadQuery("\n".join([_UNSUPPORTED, *lines]))
    return {
        "partitionedQueryExecutionInfoVersion": PLAN_VERSION,
        "queryInfo": _query_info(query, select),
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
    return (feature for feature, needed in needs.items() if needed)


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
        "rewrittenQuery": _rewritten(query, select, grouped=grouped),
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


# Rewriting.


def _rewritten(query: Query, select: Select, *, grouped: bool) -> str:
    """What to send to each range; empty for the original text."""
    if grouped:
        return print_select(_rewritten_groups(select))
    if select.order_by:
        return print_select(_rewritten_order(query, select))
    if select.offset is not None:
        return print_select(_from_the_start(query, select))
    return ""


def _rewritten_groups(select: Select) -> Select:
    """Partial aggregates; DISTINCT, TOP and LIMIT are left to the client, which alone sees whole groups."""
    plain = replace(select, distinct=False, top=None, offset=None, limit=None)
    if not select.group_by and select.value is not None:
        return replace(plain, value=_payload_value(select.value))
    items = [Item(expression=_payload(select), alias="payload")]
    if select.group_by:
        items.insert(0, Item(expression=_wrapped(select.group_by), alias="groupByItems"))
    return replace(plain, value=None, items=tuple(items))


def _payload(select: Select) -> Expression:
    if select.value is not None:
        return _payload_value(select.value)
    values = (_partial(item.expression) for item in select.items)
    return _object(zip(output_names(select), values, strict=True))


def _payload_value(node: Expression) -> Expression:
    return Array(items=(_partial(node),)) if is_aggregate(node) else node


def _partial(node: Expression) -> Expression:
    """An aggregate in the form that clients can merge; anything else as it is."""
    if not isinstance(node, Call) or not is_aggregate(node):
        return node
    name = node.name.upper()
    if name == "AVG":
        return _object([("item", _object([("sum", _like(node, "SUM")), ("count", _like(node, "COUNT"))]))])
    if name in ("MIN", "MAX"):
        counted = _object([(name.lower(), node), ("count", _like(node, "COUNT"))])
        return _object([("item", node), ("item2", counted)])
    return _object([("item", node)])


def _like(call: Call, name: str) -> Call:
    return Call(name=name, arguments=call.arguments, udf=False)


def _object(fields: Iterable[tuple[str, Expression]]) -> Object:
    return Object(fields=tuple(Field(name=name, value=value) for name, value in fields))


def _wrapped(nodes: Iterable[Expression]) -> Array:
    """`[{"item": a}, {"item": b}]`: an undefined value stays visible as `{}`."""
    return Array(items=tuple(_object([("item", node)]) for node in nodes))


def _rewritten_order(query: Query, select: Select) -> Select:
    """Rows with their sort keys. DISTINCT leaves no place for TOP or LIMIT: a range cannot know which rows are duplicates."""
    source = select.sources[0]
    plain = isinstance(source.expression, Name) and not source.unnest
    document = (source.alias or print_expression(source.expression)) if plain else ROOT
    items = (
        Item(expression=Path(base=Name(name=document), steps=(Literal(value="_rid"),)), alias=None),
        Item(expression=_wrapped(order.expression for order in select.order_by), alias="orderByItems"),
        Item(expression=_ordered_payload(select), alias="payload"),
    )
    slot = FilterSlot(condition=_kept(select))
    rewritten = replace(select, distinct=False, star=False, value=None, items=items, where=slot)
    if select.distinct:
        return replace(rewritten, top=None, offset=None, limit=None)
    return rewritten if select.offset is None else _from_the_start(query, rewritten)


def _kept(select: Select) -> Expression | None:
    """WHERE. An undefined VALUE is no row, and clients take each row's payload for granted."""
    if select.value is None or isinstance(select.value, Name):
        return select.where
    defined = Call(name="IS_DEFINED", arguments=(select.value,), udf=False)
    return defined if select.where is None else Logical(operator="AND", operands=(select.where, defined))


def _ordered_payload(select: Select) -> Expression:
    if select.star:
        source = select.sources[0]
        if source.alias is not None:
            return Name(name=source.alias)
        node = source.expression
        # A path without an alias may end in no name at all.
        return Path(base=Name(name=ROOT), steps=node.steps) if isinstance(node, Path) else node
    return select.value if select.value is not None else _payload(select)


def _from_the_start(query: Query, select: Select) -> Select:
    """OFFSET counts over all ranges, so that each must give the skipped rows as well."""
    return replace(select, offset=Literal(value=0), limit=Literal(value=query.skip + (query.take or 0)))
