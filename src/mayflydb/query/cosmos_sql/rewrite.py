"""Rewriting of queries that run over several partition key ranges: clients send the rewritten text, whose rows they can
merge.

Sources: the plans that the public test suites of the client libraries expect.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mayflydb.query.cosmos_sql.printer import print_expression, print_select
from mayflydb.query.cosmos_sql.scope import ROOT, is_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    HIGHEST_COUNT,
    Array,
    Expression,
    Field,
    FilterSlot,
    FunctionCall,
    Literal,
    Logical,
    Name,
    Object,
    Order,
    Path,
    Select,
    SelectItem,
    output_names,
)  # fmt: skip


def rewrite_query(select: Select, stop: int, *, grouped: bool) -> str:
    """The text for each range; empty if it is the original text. `stop`: the row at which OFFSET LIMIT ends."""
    if grouped:
        return print_select(_rewrite_grouped(select))
    if select.order_by:
        return print_select(_rewrite_sorted(select, stop))
    if select.distinct and (select.top is not None or select.offset is not None):
        return print_select(_without_window(select))
    if select.offset is not None:
        return print_select(from_first_row(select, stop))
    return ""


def _rewrite_grouped(select: Select) -> Select:
    """A query for partial aggregates. DISTINCT, TOP and LIMIT are left to the client, which alone has whole groups."""
    plain = _without_window(replace(select, distinct=False))
    if not select.group_by and select.value is not None:
        return replace(plain, value=_payload_value(select.value))
    items = [SelectItem(expression=_payload(select), alias="payload")]
    if select.group_by:
        items.insert(0, SelectItem(expression=_wrap_items(select.group_by), alias="groupByItems"))
    return replace(plain, value=None, items=tuple(items))


def _payload(select: Select) -> Expression:
    if select.value is not None:
        return _payload_value(select.value)
    values = (_partial_aggregate(item.expression) for item in select.items)
    return object_of(zip(output_names(select), values, strict=True))


def _payload_value(node: Expression) -> Expression:
    return Array(items=(_partial_aggregate(node),)) if is_aggregate(node) else node


def _partial_aggregate(node: Expression) -> Expression:
    """An aggregate in the form that clients can merge; any other expression unchanged."""
    if not isinstance(node, FunctionCall) or not is_aggregate(node):
        return node
    name = node.name.upper()
    # Means cannot be merged; sums and counts can.
    if name == "AVG":
        return object_of(
            [("item", object_of([("sum", _with_name(node, "SUM")), ("count", _with_name(node, "COUNT"))]))]
        )
    if name in ("MIN", "MAX"):
        # The count tells clients which ranges had no value at all.
        counted = object_of([(name.lower(), node), ("count", _with_name(node, "COUNT"))])
        return object_of([("item", node), ("item2", counted)])
    return object_of([("item", node)])


def _with_name(call: FunctionCall, name: str) -> FunctionCall:
    return FunctionCall(name=name, arguments=call.arguments, udf=False)


def object_of(fields: Iterable[tuple[str, Expression]]) -> Object:
    """An object constructor."""
    return Object(fields=tuple(Field(name=name, value=value) for name, value in fields))


def _wrap_items(nodes: Iterable[Expression]) -> Array:
    """`[{"item": a}, {"item": b}]`: an undefined value stays visible as `{}`."""
    return Array(items=tuple(object_of([("item", node)]) for node in nodes))


def _rewrite_sorted(select: Select, stop: int) -> Select:
    """A query for rows with their sort keys. DISTINCT removes TOP and LIMIT: a range cannot know the duplicates in the
    others.
    """
    found = with_sort_keys(select, select.order_by, payload_expression(select))
    found = replace(found, distinct=False, where=FilterSlot(condition=found.where))
    if select.distinct:
        return _without_window(found)
    return found if select.offset is None else from_first_row(found, stop)


def with_sort_keys(select: Select, order_by: tuple[Order, ...], payload: Expression) -> Select:
    """A query for rows `{_rid, orderByItems, payload}` in this order, without rows whose `payload` is undefined."""
    source = select.sources[0]
    plain = isinstance(source.expression, Name) and not source.unnest
    document = (source.alias or print_expression(source.expression)) if plain else ROOT
    items = (
        SelectItem(expression=Path(base=Name(name=document), steps=(Literal(value="_rid"),)), alias=None),
        SelectItem(expression=_wrap_items(order.expression for order in order_by), alias="orderByItems"),
        SelectItem(expression=payload, alias="payload"),
    )
    return replace(
        select, star=False, value=None, items=items, where=_defined_rows_condition(select), order_by=order_by
    )


def _defined_rows_condition(select: Select) -> Expression | None:
    """WHERE, and that VALUE is defined: an undefined VALUE is no row, and clients expect a payload in each row."""
    if select.value is None or isinstance(select.value, Name):
        return select.where
    defined = FunctionCall(name="IS_DEFINED", arguments=(select.value,), udf=False)
    return defined if select.where is None else Logical(operator="AND", operands=(select.where, defined))


def payload_expression(select: Select) -> Expression:
    """The output of a SELECT as one expression."""
    if select.star:
        source = select.sources[0]
        if source.alias is not None:
            return Name(name=source.alias)
        node = source.expression
        # The last step of a path without an alias need not be a name.
        return Path(base=Name(name=ROOT), steps=node.steps) if isinstance(node, Path) else node
    return select.value if select.value is not None else _payload(select)


def _without_window(select: Select) -> Select:
    """The query without TOP and OFFSET LIMIT."""
    return replace(select, top=None, offset=None, limit=None)


def from_first_row(select: Select, stop: int) -> Select:
    """The query with OFFSET 0: OFFSET counts over all ranges, so each range must return the skipped rows as well."""
    return replace(select, offset=Literal(value=0), limit=Literal(value=min(stop, HIGHEST_COUNT)))
