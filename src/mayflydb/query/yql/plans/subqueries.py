"""Subqueries as values. They name no column of the row around them, so each is evaluated once in a statement."""

from __future__ import annotations

from typing import Any, Literal

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.binder import HANDLERS, Binder, LambdaArgument, NamedExpression
from mayflydb.query.yql.plans.bound import BoundQuery, bind_query
from mayflydb.query.yql.syntax import Compound, Query, QuerySource, Select, Subquery, Values
from mayflydb.query.yql.types import BOOL, ListType, Type, optional


def is_query(value: Any) -> bool:
    return isinstance(value, (Select, Values, Compound, QuerySource))


def bind_subquery(binder: Binder, tree: Subquery) -> Expression:
    return _bind_once(binder, tree.query, "exists" if tree.exists else "scalar")


def bind_scalar(binder: Binder, query: Query) -> Expression:
    """Bind a query as a value: the only column of its first row, or NULL."""
    return _bind_once(binder, query, "scalar")


def bind_column(binder: Binder, query: Query) -> Expression:
    """Bind a query behind IN: the only column of all rows, as a list."""
    return _bind_once(binder, query, "list")


def _bind_once(binder: Binder, query: Query, mode: Literal["scalar", "list", "exists"]) -> Expression:
    """Bind a subquery once in a statement, so that the same tree has the same value.

    Trees are known by `id`; the context keeps them, so no id is reused within the statement.
    """
    context, key = binder.context, (id(query), mode)
    if key not in context.memo:
        bound = _bind(binder, query)
        if mode == "exists":
            type: Type = BOOL
        else:
            type = _single_column_type(bound, query)
            type = optional(type) if mode == "scalar" else ListType(type)
        context.kept_trees.append(query)
        context.memo[key] = _prelude_value(type, context.add_subquery(bound.relation, mode)), False
    found = context.memo[key][0]
    assert isinstance(found, Expression)
    return found


def _bind(binder: Binder, query: Query) -> BoundQuery:
    context = binder.context
    row_uses = context.row_uses
    names = {name: each for name, each in binder.names.items() if not is_local(each)}
    bound = bind_query(context, names, query)
    # The columns inside belong to the subquery's own rows: its value is the same for each row around it.
    context.row_uses = row_uses
    return bound


def is_local(entry: LambdaArgument | NamedExpression) -> bool:
    """True if a name depends on the arguments of a lambda; subqueries cannot use these."""
    return isinstance(entry, LambdaArgument) or entry.binder.width > 0


def _single_column_type(bound: BoundQuery, query: Query) -> Type:
    if len(bound.fields) != 1:
        raise fault("Source used in expression should contain one concrete column", query.at)
    return bound.fields[0].type


def _prelude_value(type: Type, number: int) -> Expression:
    return Expression(type, lambda row, run: run.computed[number])


HANDLERS[Subquery] = bind_subquery
