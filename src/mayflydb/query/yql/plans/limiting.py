"""ORDER BY, LIMIT and OFFSET of SELECT and UNION."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.query.yql import conversions
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.relations import LimitRows, SortKey
from mayflydb.query.yql.plans.trees import nodes
from mayflydb.query.yql.plans.values import NO_RUN, convert, sort_key
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Member, Name, OrderItem, Parameter
from mayflydb.query.yql.types import NULL, UINT64, OptionalType, format_long


def bind_sort_keys(
    binder: Binder, order: Sequence[OrderItem], values: Sequence[Expression]
) -> tuple[tuple[SortKey, ...], list[Expression]]:
    """The sort keys for ORDER BY, and the expressions to append to `values` for them."""
    extra: list[Expression] = []
    keys = []
    for each in order:
        value = binder.expression(each.value)
        if value.constant and not any(isinstance(node, (Name, Member, Parameter)) for node in nodes(each.value)):
            raise fault("Unable to ORDER BY constant expression", each.value.at)
        place = next((i for i, known in enumerate((*values, *extra)) if known is value), None)
        if place is None:
            place = len(values) + len(extra)
            extra.append(value)
        keys.append(SortKey(place, sort_key(value.type, each.value.at), each.descending))
    return tuple(keys), extra


def bind_limits(
    context: Context, names: Names, limit: Tree | None, offset: Tree | None
) -> tuple[Evaluate | None, Evaluate | None]:
    """Bind LIMIT and OFFSET. Faults: neither a Uint64 nor a literal that fits one."""
    return _count(context, names, limit, "Take"), _count(context, names, offset, "Skip")


def _count(context: Context, names: Names, tree: Tree | None, function: str) -> Evaluate | None:
    if tree is None:
        return None
    value = Binder(context, names).expression(tree)
    if value.type == NULL:
        return value.evaluate
    to = OptionalType(UINT64) if isinstance(value.type, OptionalType) else UINT64
    found = convert(value, to)
    # A constant of a signed type is accepted if its value is not negative.
    if found is None and value.constant and conversions.common_type([value.type, UINT64]) is not None:
        number = value.evaluate((), NO_RUN)
        found = value if isinstance(number, int) and number >= 0 else None
    if found is None:
        raise type_fault(function, f"Failed to convert type: {format_long(value.type)} to Uint64", tree.at)
    return found.evaluate


def limit_rows(relation: Relation, limit: Evaluate | None, offset: Evaluate | None) -> Relation:
    return relation if limit is None and offset is None else LimitRows(relation, limit, offset)
