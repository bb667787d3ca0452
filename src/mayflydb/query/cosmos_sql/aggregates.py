"""Aggregate functions as accumulators: `add` takes the value of each row, `result` gives the aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from mayflydb.query.cosmos_sql.numbers import normalize_number, to_double
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key, order_key


class Aggregate(Protocol):
    """One aggregate over one group."""

    def add(self, value: Value) -> None:
        """Add the value of a row; undefined changes nothing."""

    def result(self) -> Value:
        """The aggregate over the rows that were added so far."""


class ValueCount:
    """COUNT: the number of defined values."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
            self.count += 1

    def add_many(self, value: Value, count: int) -> None:
        """Add one value as often as `count` says."""
        if value is not UNDEFINED:
            self.count += count

    def result(self) -> Value:
        return self.count


class CountIf(ValueCount):
    """COUNTIF: the number of values that are true."""

    __slots__ = ()

    def add(self, value: Value) -> None:
        if value is True:
            self.count += 1


class Sum:
    """SUM of numbers; 0 over no rows. A value of another type makes the sum undefined."""

    __slots__ = ("count", "has_wrong_type", "total")

    def __init__(self) -> None:
        self.total: float = 0
        self.count = 0
        self.has_wrong_type = False

    def add(self, value: Value) -> None:
        if type(value) in NUMBERS:
            self.total += to_double(value)
            self.count += 1
        elif value is not UNDEFINED:
            self.has_wrong_type = True

    def result(self) -> Value:
        return UNDEFINED if self.has_wrong_type else normalize_number(self.total)


class Average(Sum):
    """AVG: the mean; undefined over no rows."""

    __slots__ = ()

    def result(self) -> Value:
        if self.has_wrong_type or not self.count:
            return UNDEFINED
        return normalize_number(to_double(self.total) / self.count)


class Minimum:
    """MIN: the least of null < booleans < numbers < strings.

    An array or object makes the result undefined, and so does a group without values.
    """

    __slots__ = ("best", "has_wrong_type", "key")

    def __init__(self) -> None:
        self.best: Value = UNDEFINED
        self.key: Any = None
        self.has_wrong_type = False

    def add(self, value: Value) -> None:
        kind = type(value)
        if kind is list or kind is dict:
            self.has_wrong_type = True
        elif value is not UNDEFINED:
            key = order_key(value)
            if self.key is None or self.precedes(key, self.key):
                self.best, self.key = value, key

    @staticmethod
    def precedes(key: Any, best: Any) -> bool:
        """True if `key` replaces the best key so far."""
        return bool(key < best)

    def result(self) -> Value:
        return UNDEFINED if self.has_wrong_type else self.best


class Maximum(Minimum):
    """MAX: the greatest, in the order of `Minimum`."""

    __slots__ = ()

    @staticmethod
    def precedes(key: Any, best: Any) -> bool:
        return bool(key > best)


class MakeList:
    """MAKELIST: all defined values."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Value] = []

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
            self.items.append(value)

    def result(self) -> Value:
        return self.items


class MakeSet:
    """MAKESET: all defined values without duplicates."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[bytes, Value] = {}

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
            # Of equal values, such as 5 and 5.0, the first is kept.
            self.items.setdefault(group_key(value), value)

    def result(self) -> Value:
        return list(self.items.values())


AGGREGATES: Final[dict[str, Callable[[], Aggregate]]] = {
    "COUNT": ValueCount,
    "COUNTIF": CountIf,
    "SUM": Sum,
    "AVG": Average,
    "MIN": Minimum,
    "MAX": Maximum,
    "MAKELIST": MakeList,
    "MAKESET": MakeSet,
}
"""The aggregates by upper-case name; each takes one argument."""

PLAN_NAMES: Final = {
    "COUNT": "Count",
    "COUNTIF": "CountIf",
    "SUM": "Sum",
    "AVG": "Average",
    "MIN": "Min",
    "MAX": "Max",
    "MAKELIST": "MakeList",
    "MAKESET": "MakeSet",
}
"""The names of the aggregates in query plans."""
