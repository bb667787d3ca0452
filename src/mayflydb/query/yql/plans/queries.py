"""Queries: SELECT, VALUES, UNION and its kin, or what stands for one."""

from __future__ import annotations

from collections.abc import Callable

from mayflydb.query.yql import conversions
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.plans.binder import Binder, Context
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.relations import Cut, Written
from mayflydb.query.yql.plans.scopes import Field, Names
from mayflydb.query.yql.plans.sources import Bound, query_source
from mayflydb.query.yql.plans.values import NO_RUN, converted, met
from mayflydb.query.yql.syntax import Compound, Query, Select, SourceOf, Values
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import NULL, UINT64, OptionalType, format_long

__all__ = ["Bound", "bind_query", "cut", "limits"]


def bind_query(context: Context, names: Names, query: Query) -> Bound:
    """A query's relation and columns. Faults: tables, names, types."""
    context.depth += 1
    try:
        return _QUERIES[query.__class__](context, names, query)
    finally:
        context.depth -= 1


def _select(context: Context, names: Names, query: Select) -> Bound:
    from mayflydb.query.yql.plans.select import bind_select

    return bind_select(context, names, query)


def _compound(context: Context, names: Names, query: Compound) -> Bound:
    from mayflydb.query.yql.plans.compounds import bind_compound

    return bind_compound(context, names, query)


def _values(context: Context, names: Names, query: Values) -> Bound:
    """VALUES: columns `column0`, `column1`, ... of types that all rows agree on."""
    binder = Binder(context, names)
    rows = [[binder.expression(each) for each in row] for row in query.rows]
    if len({len(row) for row in rows}) != 1:
        raise fault("All rows of VALUES must have the same number of values", query.at)
    columns = [met([row[index] for row in rows], "AsList", query.at) for index in range(len(rows[0]))]
    cells = [tuple(column[1][place].evaluate for column in columns) for place in range(len(rows))]
    fields = tuple(
        Field(f"column{index}", type, literal=_literal(expressions))
        for index, (type, expressions) in enumerate(columns)
    )
    return Bound(Written(tuple(cells)), fields)


def _literal(expressions: list[Expression]) -> Expression | None:
    return expressions[0] if len(expressions) == 1 and expressions[0].literal else None


def _source(context: Context, names: Names, query: SourceOf) -> Bound:
    return query_source(context, names, query)


_QUERIES: dict[type, Callable[..., Bound]] = {
    Select: _select,
    Compound: _compound,
    Values: _values,
    SourceOf: _source,
}


def limits(
    context: Context, names: Names, limit: Tree | None, offset: Tree | None
) -> tuple[Evaluate | None, Evaluate | None]:
    """LIMIT and OFFSET as numbers. Faults: they are not Uint64, nor literals that could be."""
    return _count(context, names, limit, "Take"), _count(context, names, offset, "Skip")


def _count(context: Context, names: Names, tree: Tree | None, function: str) -> Evaluate | None:
    if tree is None:
        return None
    value = Binder(context, names).expression(tree)
    if value.type == NULL:
        return value.evaluate
    to = OptionalType(UINT64) if isinstance(value.type, OptionalType) else UINT64
    found = converted(value, to)
    if found is None and value.constant and conversions.common([value.type, UINT64]) is not None:
        number = value.evaluate((), NO_RUN)
        found = value if isinstance(number, int) and number >= 0 else None
    if found is None:
        raise type_fault(function, f"Failed to convert type: {format_long(value.type)} to Uint64", tree.at)
    return found.evaluate


def cut(relation: Relation, limit: Evaluate | None, offset: Evaluate | None) -> Relation:
    return relation if limit is None and offset is None else Cut(relation, limit, offset)
