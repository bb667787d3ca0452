"""Access paths: the key and the ranges that a WHERE allows to read, and whether the rows come in the requested order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import msgspec

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Evaluate
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.constraints import (
    Constraint,
    column_of,
    constraints,
    find_column_conversion,
    not_null_bounds,
)
from mayflydb.query.yql.plans.membership import bind_collection
from mayflydb.query.yql.plans.rangesets import RangeUnion, TupleRanges
from mayflydb.query.yql.plans.relations import Ranges, Scan
from mayflydb.query.yql.plans.trees import conjuncts
from mayflydb.query.yql.schemas import KeyRange, Row, Run, Table
from mayflydb.query.yql.syntax import Binary, In, Item, ListLiteral, Member, Name, OrderItem, Select, TupleLiteral
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import NULL, ListType, TupleType, Type, Value, bare, is_optional

MAX_RANGES = 10_000
"""A condition with more ranges reads fewer and longer ones."""


class ColumnOrder(msgspec.Struct, frozen=True):
    """A column of a key. `key`: the sort key of its values."""

    name: str
    nullable: bool
    key: Callable[[Value], Any]


class KeyRanges(msgspec.Struct, frozen=True):
    """Ranges of a key: `equal` has the constraints on values of each of the first columns; `bounds` limit the column
    after these."""

    columns: tuple[ColumnOrder, ...]
    equal: tuple[tuple[Constraint, ...], ...]
    bounds: tuple[Constraint, ...] = ()

    def of(self, run: Run) -> tuple[KeyRange, ...]:
        lists: list[list[Value]] = []
        for column, group in zip(self.columns, self.equal, strict=False):
            values = _intersect_values(column, group, run)
            if not values:
                return ()
            lists.append(values)
        cut = len(lists)
        # Only lists of several values multiply. With one such list the path may be exact, so no column may be cut off:
        # no filter would check it afterwards.
        while sum(len(each) > 1 for each in lists[:cut]) > 1 and prod(map(len, lists[:cut])) > MAX_RANGES:
            cut -= 1
        prefixes = product(*lists[:cut])
        if cut < len(lists) or not self.bounds:
            return tuple(KeyRange(prefix, prefix) for prefix in prefixes)
        return tuple(self._ranges_with_bounds(run, prefixes))

    def _ranges_with_bounds(self, run: Run, prefixes: Iterator[Row]) -> Iterator[KeyRange]:
        column = self.columns[len(self.equal)]
        # No comparison is true for NULL, the least value: the range begins behind it, also if only an upper bound is
        # given.
        low: tuple[Value, ...] = (None,) if column.nullable else ()
        high: tuple[Value, ...] = ()
        low_open, high_open = column.nullable, False
        for each in self.bounds:
            bound = each.find_bound(run)
            if bound is None:
                continue
            if isinstance(bound, bool):
                return
            value, open_, upper = bound
            if upper and (not high or _is_tighter(column, high[0], value, high_open, open_)):
                high, high_open = (value,), open_
            elif not upper and (not low or _is_tighter(column, value, low[0], low_open, open_)):
                low, low_open = (value,), open_
        # Bounds that leave nothing, such as `a > 5 AND a < 3`, make no range.
        if low and high:
            first, last = column.key(low[0]), column.key(high[0])
            if first > last or (first == last and (low_open or high_open)):
                return
        for prefix in prefixes:
            yield KeyRange(prefix + low, prefix + high, low_open, high_open)


def _is_tighter(column: ColumnOrder, more: Value, less: Value, was_open: bool, is_open: bool) -> bool:
    """True if a new bound is tighter than the old one. `more` is the new one of two lower bounds, and the old one of
    two upper ones."""
    first, second = column.key(more), column.key(less)
    return bool(first > second or (first == second and is_open and not was_open))


def _intersect_values(column: ColumnOrder, group: tuple[Constraint, ...], run: Run) -> list[Value]:
    """The values that all constraints allow, in order, each once."""
    allowed: dict[Any, Value] | None = None
    for each in group:
        values = {column.key(value): value for value in each.values(run)}
        allowed = values if allowed is None else {key: v for key, v in allowed.items() if key in values}
    assert allowed is not None
    if len(allowed) < 2:
        return list(allowed.values())
    return [allowed[key] for key in sort_in_runs(list(allowed), lambda key: key)]


class AccessPath(msgspec.Struct, frozen=True):
    """An access path of a table. `ordered`: its rows come in the requested order. `exact`: its rows are those that
    match the WHERE."""

    scan: Scan
    ordered: bool
    exact: bool


def choose_access_path(
    binder: Binder, scan: Scan, table: Table, tree: Select, order: Sequence[OrderItem]
) -> AccessPath:
    """Choose how to read `scan`'s table for the WHERE of `tree`, in the requested order if a key has that order.

    An index is read if the query names it, or if the WHERE limits its key and not the primary key.
    """
    parts = conjuncts(tree.where)
    found: list[Constraint] = []
    exact = True
    for part in parts:
        known = constraints(binder, part)
        exact = exact and bool(known) and all(each.exact for each in known)
        found.extend(known)
    best: tuple[tuple[str, ...], str | None] | None = None
    chosen = _key_columns(table, scan.index)
    if scan.index is None and _score_key(chosen, found) == 0:
        # An index is tried only if the WHERE says nothing about the primary key. One that may be behind its table
        # (async) is read only where VIEW names it.
        for index in table.indexes:
            if index.ready and index.kind != "async":
                columns = _key_columns(table, index.name)
                if _score_key(columns, found) > (_score_key(best[0], found) if best else 0):
                    best = columns, index.name
    index_name = scan.index
    if best is not None:
        chosen, index_name = best
    ranges, used = _build_ranges(table, chosen, found)
    if _score_key(chosen, found) == 0 and (other := _multi_column_ranges(binder, table, chosen, parts)) is not None:
        ranges, exact = other, False
    ordered, descending = _order_direction(chosen, found, order, tree, binder)
    # Two lists may multiply to more than MAX_RANGES. The ranges are cut then (KeyRanges.of), and a filter must follow.
    exact = exact and used == len(found) and (ranges is None or sum(map(_is_list, found)) < 2)
    scan = msgspec.structs.replace(scan, index=index_name, ranges=ranges, descending=descending)
    return AccessPath(scan, ordered, exact)


def _multi_column_ranges(binder: Binder, table: Table, key: tuple[str, ...], parts: Sequence[Tree]) -> Ranges | None:
    """Ranges from one condition on several columns: OR, or a list of tuples."""
    types = {each.name: each.type for each in table.columns}
    orders = tuple(comparison.sort_key(types[name]) for name in key)
    for part in parts:
        found = _or_ranges(binder, table, key, part, orders)
        if isinstance(part, In) and isinstance(part.operand, TupleLiteral) and not part.negated:
            found = _tuple_ranges(binder, part, part.operand.items, key, orders)
        if found is not None:
            return found
    return None


def _or_ranges(
    binder: Binder, table: Table, key: tuple[str, ...], part: Tree, orders: tuple[Callable[[Value], Any], ...]
) -> Ranges | None:
    """Ranges of `a = 1 OR a = 2 AND b > 3`, if each side limits the key."""
    sides: list[Tree] = []
    # A list instead of recursion: a chain of ORs may be deep.
    left = [part]
    while left:
        node = left.pop()
        if isinstance(node, Binary) and node.operator == "OR":
            left.extend((node.right, node.left))
        else:
            sides.append(node)
    if len(sides) < 2:
        return None
    found: list[Ranges] = []
    for side in sides:
        conditions = conjuncts(side)
        known = [each for part in conditions for each in constraints(binder, part) or not_null_bounds(binder, part)]
        if not _score_key(key, known):
            return None
        ranges, _ = _build_ranges(table, key, known)
        if ranges is None:
            return None
        found.append(ranges)
    return RangeUnion(tuple(found), orders)


def _tuple_ranges(
    binder: Binder,
    part: In,
    names: Sequence[Tree],
    key: tuple[str, ...],
    orders: tuple[Callable[[Value], Any], ...],
) -> Ranges | None:
    values, items = _bind_items(binder, part.collection)
    if values is None or not isinstance(items, TupleType) or len(items.items) != len(names):
        return None
    columns = {}
    for place, (tree, type) in enumerate(zip(names, items.items, strict=True)):
        column = column_of(binder, tree)
        to_column = None if column is None else find_column_conversion(bare(type), column[1])
        if column is not None and to_column is not None:
            columns[column[0]] = place, to_column
    picks = []
    for name in key:
        if name not in columns:
            break
        picks.append(columns[name])
    return TupleRanges(values, tuple(picks), orders) if picks else None


def _bind_items(binder: Binder, collection: Tree) -> tuple[Evaluate | None, Type]:
    """The list behind IN, and the type of its items without NULL; None if the list depends on the row or its types
    differ."""
    if isinstance(collection, (ListLiteral, TupleLiteral)):
        written = [binder.bind_invariant(each) for each in collection.items]
        evaluates = tuple(each.evaluate for each, _ in written)
        if len({each.type for each, _ in written}) != 1 or not all(same for _, same in written):
            return None, NULL
        return (lambda row, run: [each(row, run) for each in evaluates]), bare(written[0][0].type)
    values, invariant = bind_collection(binder, collection)
    container = bare(values.type)
    if not invariant or not isinstance(container, ListType):
        return None, NULL
    return values.evaluate, bare(container.item)


def _is_list(constraint: Constraint) -> bool:
    return constraint.kind == "in"


def _key_columns(table: Table, index: str | None) -> tuple[str, ...]:
    """The columns of the primary key, or those of an index followed by the rest of the primary key."""
    if index is None:
        return table.key
    columns = next(each.columns for each in table.indexes if each.name == index)
    return (*columns, *(name for name in table.key if name not in columns))


def _score_key(key: tuple[str, ...], found: Sequence[Constraint]) -> int:
    """Score how far constraints determine a key: 2 for each of the first columns with given values, 1 for a bound on
    the next one."""
    fixed = {each.column for each in found if each.kind != "bound"}
    bounded = {each.column for each in found if each.kind == "bound"}
    points = 0
    for name in key:
        if name in fixed:
            points += 2
            continue
        return points + (name in bounded)
    return points


def _build_ranges(table: Table, key: tuple[str, ...], found: Sequence[Constraint]) -> tuple[Ranges | None, int]:
    """The ranges of a key, and how many of the constraints they include."""
    types = {each.name: each.type for each in table.columns}
    columns = tuple(ColumnOrder(n, is_optional(types[n]), comparison.sort_key(types[n])) for n in key)
    equal: list[tuple[Constraint, ...]] = []
    used = 0
    for name in key:
        group = tuple(each for each in found if each.column == name and each.kind != "bound")
        bounds = tuple(each for each in found if each.column == name and each.kind == "bound")
        # Behind a column without given values, rows are not in the order of the next column, which narrows nothing
        # then.
        if not group:
            if not bounds and not equal:
                return None, 0
            return KeyRanges(columns, tuple(equal), bounds), used + len(bounds)
        equal.append(group)
        used += len(group)
    return KeyRanges(columns, tuple(equal)), used


def _order_direction(
    key: tuple[str, ...], found: Sequence[Constraint], order: Sequence[OrderItem], tree: Select, binder: Binder
) -> tuple[bool, bool]:
    """True if rows in the order of `key` satisfy ORDER BY, and True if the key must be read in descending order for
    that."""
    if not order:
        return False, False
    # A list of values is no single value: its ranges follow each other, and the next column begins anew in each.
    fixed = {each.column for each in found if each.kind == "eq"}
    descending = order[0].descending
    place = 0
    for item in order:
        name = find_order_column(binder, item, tree)
        if name is None or item.descending != descending:
            return False, False
        if name in fixed:
            continue
        # A column with one value does not matter for the order, in the key nor in ORDER BY.
        while place < len(key) and key[place] in fixed:
            place += 1
        if place == len(key) or key[place] != name:
            return False, False
        place += 1
    return True, descending


def find_order_column(binder: Binder, item: OrderItem, tree: Select) -> str | None:
    """The table's column that an item of ORDER BY names; None for any other expression."""
    value = item.value
    if isinstance(value, Member):
        if isinstance(value.of, Name) and value.of.name in binder.scope.sources:
            return str(value.name)
        return None
    if not isinstance(value, Name):
        return None
    for each in tree.items:
        if isinstance(each, Item) and each.name == value.name:
            if isinstance(each.value, Name):
                return each.value.name
            return None
    return value.name
