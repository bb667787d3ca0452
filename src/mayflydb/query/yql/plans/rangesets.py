"""Key ranges from conditions on several columns at once: lists of tuples, and OR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql.expression import Evaluate
from mayflydb.query.yql.plans.constraints import OUTSIDE, ToColumn
from mayflydb.query.yql.plans.relations import Ranges
from mayflydb.query.yql.schemas import KeyRange, Run
from mayflydb.query.yql.types import Value

Orders = tuple[Callable[[Value], Any], ...]
"""The sort keys of a key's columns."""

# Values stand between as (1, key). So a bound of fewer columns lies before all keys that begin with it, or behind them.
_BEFORE, _AFTER = (0,), (2,)


def merge_ranges(ranges: Sequence[KeyRange], orders: Orders) -> tuple[KeyRange, ...]:
    """Merge ranges that touch or overlap, and return them in ascending order."""
    placed = sort_in_runs(
        [(_lower(each, orders), _upper(each, orders), each) for each in ranges], lambda each: each[:2]
    )
    found: list[KeyRange] = []
    end: Any = None
    for low, high, each in placed:
        # The range is empty.
        if low >= high:
            continue
        if end is None or low > end:
            found.append(each)
            end = high
        elif high > end:
            last = found[-1]
            found[-1] = KeyRange(last.lower, each.upper, last.lower_open, each.upper_open)
            end = high
    return tuple(found)


def _position(values: Sequence[Value], orders: Orders) -> list[Any]:
    return [(1, order(value)) for order, value in zip(orders, values, strict=False)]


def _lower(within: KeyRange, orders: Orders) -> list[Any]:
    """The position of a lower bound among keys: before all keys that begin with it, or with `lower_open` behind them."""
    return [*_position(within.lower, orders), _AFTER if within.lower_open else _BEFORE]


def _upper(within: KeyRange, orders: Orders) -> list[Any]:
    return [*_position(within.upper, orders), _BEFORE if within.upper_open else _AFTER]


class RangeUnion(msgspec.Struct, frozen=True):
    """The union of several range sets."""

    of_each: tuple[Ranges, ...]
    orders: Orders

    def of(self, run: Run) -> tuple[KeyRange, ...]:
        return merge_ranges([part for each in self.of_each for part in each.of(run)], self.orders)


class TupleRanges(msgspec.Struct, frozen=True):
    """The ranges of `(a, b) IN ((1, 2), ...)`, from the items of `value`.

    `picks`: for each of the first columns of the key its index in an item, and the conversion to its type.
    """

    value: Evaluate
    picks: tuple[tuple[int, ToColumn], ...]
    orders: Orders

    def of(self, run: Run) -> tuple[KeyRange, ...]:
        found = []
        for item in self.value((), run) or ():
            if item is None:
                continue
            values = [None if item[place] is None else to_column(item[place]) for place, to_column in self.picks]
            # A NULL equals nothing, and a value outside of the column's type is in no row.
            if not any(each is None or each is OUTSIDE for each in values):
                found.append(KeyRange(tuple(values), tuple(values)))
        return merge_ranges(found, self.orders)
