"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from typing import Any

import msgspec

from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import BoundQuery, bind_query
from mayflydb.query.yql.plans.limiting import bind_limits, bind_sort_keys, limit_rows
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import DistinctRows, SortRows, collect_rows, project
from mayflydb.query.yql.plans.scopes import Field, RowScope, slot
from mayflydb.query.yql.plans.values import constant, require_common_type
from mayflydb.query.yql.schemas import Run, Tables
from mayflydb.query.yql.syntax import Compound
from mayflydb.query.yql.types import NULL, Value


class AppendRows(msgspec.Struct, frozen=True):
    """The rows of several relations, one relation after the other."""

    sources: tuple[Relation, ...]

    def inputs(self) -> tuple[Relation, ...]:
        return self.sources

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        for each in self.sources:
            async for batch in each.batches(run, tables):
                yield batch


class MatchRows(msgspec.Struct, frozen=True):
    """INTERSECT (`keep`) or EXCEPT: rows of `left` that `right` has, or has not.

    `all`: each row of `right` matches only one row of `left`.
    """

    left: Relation
    right: Relation
    keys: tuple[Callable[[Value], Hashable], ...]
    keep: bool
    all: bool

    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        rows = await collect_rows(self.right, run, tables)
        counts: Counter[Any] = Counter(map(self._key, rows))
        async for batch in self.left.batches(run, tables):
            found = []
            for row in batch:
                key = self._key(row)
                there = counts[key] > 0 if self.all else key in counts
                # With ALL each row of the right side is used up by one match.
                if self.all and there:
                    counts[key] -= 1
                if there is self.keep:
                    found.append(row)
            yield found
        run.budget += len(rows)

    def _key(self, row: Sequence[Value]) -> Hashable:
        return tuple([key(value) for key, value in zip(self.keys, row, strict=True)])


def bind_compound(context: Context, names: Names, tree: Compound) -> BoundQuery:
    limit, offset = bind_limits(context, names, tree.limit, tree.offset)
    left, right = bind_query(context, names, tree.left), bind_query(context, names, tree.right)
    first, second, fields = _align_columns(context, left, right, tree)
    keys = tuple(comparison.group_key(each.type) for each in fields)
    relation: Relation
    if tree.operator.startswith("UNION"):
        relation = AppendRows((first, second))
        if tree.operator == "UNION":
            relation = DistinctRows(relation, keys)
    else:
        every = tree.operator.endswith("ALL")
        relation = MatchRows(first, second, keys, tree.operator.startswith("INTERSECT"), every)
        if not every:
            relation = DistinctRows(relation, keys)
    if tree.order:
        values: list[Expression] = [slot(each.type, index) for index, each in enumerate(fields)]
        sorts, extra = bind_sort_keys(Binder(context, names, RowScope(fields)), tree.order, values)
        relation = SortRows(project(relation, [*values, *extra], len(fields)), sorts, len(fields))
    return BoundQuery(limit_rows(relation, limit, offset), fields)


def _align_columns(
    context: Context, left: BoundQuery, right: BoundQuery, tree: Compound
) -> tuple[Relation, Relation, tuple[Field, ...]]:
    """Give both sides the same columns: by name, with NULL for missing ones, or with PRAGMA PositionalUnionAll by
    position."""
    if context.positional_union:
        if len(left.fields) != len(right.fields):
            raise fault(
                f"Mismatch number of columns in {tree.operator}: {len(left.fields)} and {len(right.fields)}", tree.at
            )
        right = msgspec.structs.replace(
            right,
            fields=tuple(
                msgspec.structs.replace(b, name=a.name) for a, b in zip(left.fields, right.fields, strict=True)
            ),
        )
    sides = (
        RowScope([_without_source(each) for each in left.fields]),
        RowScope([_without_source(each) for each in right.fields]),
    )
    names = dict.fromkeys((*(each.name for each in left.fields), *(each.name for each in right.fields)))
    columns: list[tuple[Expression, Expression]] = []
    fields = []
    for name in names:
        values = [_value(bound, scope.find(name)) for bound, scope in zip((left, right), sides, strict=True)]
        type, converted = require_common_type(values, tree.operator.split()[0].capitalize(), tree.at)
        fields.append(Field(name, type))
        columns.append((converted[0], converted[1]))
    return (
        project(left.relation, [each[0] for each in columns], len(left.fields)),
        project(right.relation, [each[1] for each in columns], len(right.fields)),
        tuple(fields),
    )


def _without_source(field: Field) -> Field:
    return Field(field.name, field.type)


def _value(bound: BoundQuery, index: int | None) -> Expression:
    if index is None:
        return constant(NULL, None)
    return bound.fields[index].literal or slot(bound.fields[index].type, index)
