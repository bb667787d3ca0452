"""Binding of SELECT."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans import grouping, windows
from mayflydb.query.yql.plans.access import choose_access_path
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import BoundQuery
from mayflydb.query.yql.plans.columns import Columns, bind_columns
from mayflydb.query.yql.plans.joins import bind_from
from mayflydb.query.yql.plans.limiting import bind_limits, bind_sort_keys, limit_rows
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.relations import DistinctRows, FilterRows, OneRow, Scan, SortRows, project
from mayflydb.query.yql.plans.scopes import EMPTY, Field, RowScope, slot
from mayflydb.query.yql.plans.trees import required_names
from mayflydb.query.yql.plans.values import bind_condition
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Item, Name, Select


def bind_select(context: Context, names: Names, tree: Select) -> BoundQuery:
    limit, offset = bind_limits(context, names, tree.limit, tree.offset)
    relation: Relation = OneRow()
    scope, ordered, exact, table = EMPTY, False, False, None
    if tree.source is not None:
        source = bind_from(context, names, tree.source, required_names(tree), tree.where)
        relation, table = source.relation, source.table
        scope = RowScope(source.fields, source.sources, source.shared, bool(tree.source.joins))
    binder = Binder(context, names, scope)
    plain = not grouping.is_grouped(tree)
    if table is not None and isinstance(relation, Scan):
        order = tree.order if plain and not tree.distinct else ()
        choice = choose_access_path(binder, relation, table, tree, order)
        relation, ordered, exact = choice.scan, choice.ordered, choice.exact
        # The read may stop at LIMIT only if each row that is read is a row of the result, in the result's order.
        if limit is not None and exact and plain and _is_streaming(tree, ordered):
            relation = msgspec.structs.replace(relation, limit=_rows_to_read(limit, offset))
    if tree.where is not None:
        for call in grouping.aggregate_calls(tree.where):
            raise fault("Can not use aggregated values in filtering", call.at)
        keep = bind_condition(binder.expression(tree.where), "Where", tree.where.at)
        # The condition is bound in both cases, since binding may refuse it.
        relation = relation if exact else FilterRows(relation, keep)
    if not plain:
        relation, binder = grouping.bind_group(binder, relation, tree)
    relation, binder = windows.bind_windows(binder, relation, tree)
    columns = bind_columns(binder, tree.items, tree.without)
    bound = _bind_result(binder, relation, columns, tree, ordered, _rows_to_read(limit, offset))
    return msgspec.structs.replace(bound, relation=limit_rows(bound.relation, limit, offset))


def _is_streaming(tree: Select, ordered: bool) -> bool:
    """True if the first rows read are the first rows of the result."""
    return (ordered or not tree.order) and not tree.distinct and not windows.has_windows(tree)


def _rows_to_read(limit: Evaluate | None, offset: Evaluate | None) -> Evaluate | None:
    """The number of rows to read for LIMIT and OFFSET, skipped rows included."""
    # Skipped rows are read too.
    if limit is None or offset is None:
        return limit
    return lambda row, run: None if (n := limit(row, run)) is None else n + (offset(row, run) or 0)


def _bind_result(
    binder: Binder, relation: Relation, columns: Columns, tree: Select, ordered: bool, limit: Evaluate | None
) -> BoundQuery:
    """Bind the projection, DISTINCT and ORDER BY, which may name columns of the result and of its source."""
    fields = tuple(_result_field(name, each, binder) for name, each in columns)
    values = [each for _, each in columns]
    width = binder.width
    if tree.distinct:
        keys = tuple(comparison.group_key(each.type) for each in fields)
        relation = DistinctRows(project(relation, values, width), keys)
        # DISTINCT leaves the columns of the result alone, so ORDER BY cannot name others.
        values, width = [slot(each.type, i) for i, each in enumerate(fields)], len(fields)
        written = _values_by_tree(tree, values)
        over = Binder(binder.context, binder.names, RowScope([_without_source(each) for each in fields]), written)
    else:
        # ORDER BY finds a name among the columns of the result before those of the source.
        bound_trees: dict[Tree, Expression] = {
            Name(tree.at, name, quoted): each for name, each in columns for quoted in (False, True)
        }
        over = Binder(binder.context, binder.names, binder.scope, {**binder.bound_trees, **bound_trees}, binder.width)
        over.grouped = binder.grouped
    if ordered or not tree.order:
        return BoundQuery(project(relation, values, width), fields)
    keys_of, extra = bind_sort_keys(over, tree.order, values)
    relation = project(relation, [*values, *extra], width)
    return BoundQuery(SortRows(relation, keys_of, len(values), limit), fields)


def _values_by_tree(tree: Select, values: Sequence[Expression]) -> dict[Tree, Expression]:
    """The value of each expression of the list, so that ORDER BY may repeat the expression; {} if the list has a star."""
    trees = [each for each in tree.items if isinstance(each, Item)]
    if len(trees) != len(tree.items):
        return {}
    return {each.value: value for each, value in zip(trees, values, strict=True)}


def _without_source(field: Field) -> Field:
    return Field(field.name, field.type)


def _result_field(name: str, value: Expression, binder: Binder) -> Field:
    return Field(name, value.type, literal=value if value.literal else None)
