"""FLATTEN BY: one row for each item of a container. FLATTEN COLUMNS: one column for each member of a struct.

Source: https://ydb.tech/docs/en/yql/reference/syntax/select/flatten
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import product
from math import prod

import msgspec

from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.binder import Binder, Context, Names
from mayflydb.query.yql.plans.bound import BoundQuery
from mayflydb.query.yql.plans.names import bind_part
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS, project, reserve_rows
from mayflydb.query.yql.plans.scopes import Field, RowScope, slot
from mayflydb.query.yql.schemas import Run, Tables
from mayflydb.query.yql.syntax import Item, Member, Name, Source
from mayflydb.query.yql.types import DictType, ListType, OptionalType, StructType, TupleType, Type, Value, format_long

Items = Callable[[Value], Sequence[Value]]


class FlattenRows(msgspec.Struct, frozen=True):
    """FLATTEN BY: for each row the combinations of the items of its containers.

    `items`: for each container its value, its items, and the index of the column that takes one item; the index behind
    the row adds a column.
    """

    source: Relation
    items: tuple[tuple[Evaluate, Items, int], ...]

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        async for batch in self.source.batches(run, tables):
            found = []
            for row in batch:
                lists = [listed(of(row, run)) for of, listed, _ in self.items]
                # Several containers give each combination of their items. Reserved before any is built: two lists of
                # 100,000 items would be 10^10 rows.
                reserve_rows(run, prod(map(len, lists)))
                for values in product(*lists):
                    fresh = list(row)
                    for value, (_, _, place) in zip(values, self.items, strict=True):
                        fresh[place : place + 1] = [value]
                    found.append(tuple(fresh))
                    if len(found) >= BATCH_ROWS:
                        yield found
                        run.budget += len(found)
                        found = []
            yield found
            run.budget += len(found)


def bind_flatten(
    context: Context, names: Names, bound: BoundQuery, alias: str, flatten: tuple[str, tuple[Item, ...]], source: Source
) -> BoundQuery:
    """Bind FLATTEN over `bound`. Faults: a value that is no container of the requested kind."""
    mode, trees = flatten
    binder = Binder(context, names, RowScope(bound.fields, bound.sources))
    if mode == "COLUMNS":
        return _flatten_columns(bound, alias)
    fields = list(bound.fields)
    items = []
    for tree in trees:
        value = binder.expression(tree.value)
        type, listed = _find_items(value, mode, source)
        name = tree.name or _name(tree)
        place = next((i for i, each in enumerate(fields) if each.name == name), len(fields))
        field = Field(name, type, alias)
        fields[place : place + 1] = [field]
        items.append((value.evaluate, listed, place))
    relation = FlattenRows(bound.relation, tuple(items))
    return BoundQuery(relation, tuple(fields), sources=bound.sources)


def _name(item: Item) -> str:
    if isinstance(item.value, (Name, Member)) and isinstance(item.value.name, str):
        return item.value.name
    raise fault("FLATTEN BY of an expression needs a name: AS", item.at)


def _find_items(value: Expression, mode: str, source: Source) -> tuple[Type, Items]:
    """The type of the items of a container, and the function that lists them."""
    type = value.type
    if mode == "OPTIONAL" and isinstance(type, OptionalType):
        return type.item, _present
    inner = type.item if isinstance(type, OptionalType) else type
    if isinstance(inner, ListType) and mode in ("", "LIST"):
        return inner.item, _items
    if isinstance(inner, DictType) and mode in ("", "DICT"):
        return TupleType((inner.key, inner.payload)), _pairs
    if isinstance(type, OptionalType) and mode == "":
        return type.item, _present
    wanted = mode.lower() or "list, dict or optional"
    raise fault(f"FLATTEN BY expects {wanted}, but got: {format_long(type)}", source.at)


def _present(value: Value) -> Sequence[Value]:
    return () if value is None else (value,)


def _items(value: Value) -> Sequence[Value]:
    return value or ()


def _pairs(value: Value) -> Sequence[Value]:
    return tuple(value.items()) if value else ()


def _flatten_columns(bound: BoundQuery, alias: str) -> BoundQuery:
    fields: list[Field] = []
    values: list[Expression] = []
    for place, field in enumerate(bound.fields):
        of = slot(field.type, place)
        struct = field.type.item if isinstance(field.type, OptionalType) else field.type
        if not isinstance(struct, StructType):
            fields.append(field)
            values.append(of)
            continue
        for name, _ in struct.members:
            member = bind_part(of, name, of)
            fields.append(Field(name, member.type, alias))
            values.append(member)
    return BoundQuery(project(bound.relation, values, len(bound.fields)), tuple(fields), sources=bound.sources)
