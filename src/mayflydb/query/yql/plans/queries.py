"""Binding of VALUES, and the registry of all kinds of queries.

The module that binds scripts imports this one, so that `bound.bind_query` finds each kind.
"""

from __future__ import annotations

from collections.abc import Callable

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import QUERIES, BoundQuery
from mayflydb.query.yql.plans.compounds import bind_compound
from mayflydb.query.yql.plans.relations import ValueRows
from mayflydb.query.yql.plans.scopes import Field
from mayflydb.query.yql.plans.select import bind_select
from mayflydb.query.yql.plans.sources import bind_query_source
from mayflydb.query.yql.plans.values import require_common_type
from mayflydb.query.yql.syntax import Compound, QuerySource, Select, Values


def bind_values(context: Context, names: Names, query: Values) -> BoundQuery:
    """Bind VALUES: columns `column0`, `column1`, ... of the common types of all rows."""
    binder = Binder(context, names)
    rows = [[binder.expression(each) for each in row] for row in query.rows]
    if len({len(row) for row in rows}) != 1:
        raise fault("All rows of VALUES must have the same number of values", query.at)
    columns = [require_common_type([row[index] for row in rows], "AsList", query.at) for index in range(len(rows[0]))]
    cells = [tuple(column[1][place].evaluate for column in columns) for place in range(len(rows))]
    fields = tuple(
        Field(f"column{index}", type, literal=_literal(expressions))
        for index, (type, expressions) in enumerate(columns)
    )
    return BoundQuery(ValueRows(tuple(cells)), fields)


def _literal(expressions: list[Expression]) -> Expression | None:
    return expressions[0] if len(expressions) == 1 and expressions[0].literal else None


REGISTERED: dict[type, Callable[..., BoundQuery]] = {
    Select: bind_select,
    Compound: bind_compound,
    Values: bind_values,
    QuerySource: bind_query_source,
}


QUERIES.update(REGISTERED)
