"""Aggregate functions as small states: add every row's value, then ask for the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from mayflydb.query.cosmos_sql.numbers import double, number
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key, order_key


class Aggregate(Protocol):
    """One aggregate over one group."""

    def add(self, value: Value) -> None:
        """Take a row's value; undefined changes nothing."""

    def result(self) -> Value:
        """What the rows so far come to."""


class ValueCount:
    """Counts defined values."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
            self.count += 1

    def result(self) -> Value:
        return self.count


class CountIf(ValueCount):
    """Counts what is true."""

    __slots__ = ()

    def add(self, value: Value) -> None:
        if value is True:
            self.count += 1


class Sum:
    """Adds numbers; one value of another type makes the sum undefined, and over nothing it is 0."""

    __slots__ = ("count", "spoilt", "total")

    def __init__(self) -> None:
        self.total: float = 0
        self.count = 0
        self.spoilt = False

    def add(self, value: Value) -> None:
        if type(value) in NUMBERS:
            self.total += double(value)
            self.count += 1
        elif value is not UNDEFINED:
            self.spoilt = True

    def result(self) -> Value:
        return UNDEFINED if self.spoilt else number(self.total)


class Average(Sum):
    """The mean; undefined over nothing."""

    __slots__ = ()

    def result(self) -> Value:
        if self.spoilt or not self.count:
            return UNDEFINED
        return number(double(self.total) / self.count)


class Minimum:
    """The least of null < booleans < numbers < strings; an array or object makes it undefined, as does nothing at all."""

    __slots__ = ("best", "key", "spoilt")

    def __init__(self) -> None:
        self.best: Value = UNDEFINED
        self.key: Any = None
        self.spoilt = False

    def add(self, value: Value) -> None:
        kind = type(value)
        if kind is list or kind is dict:
            self.spoilt = True
        elif value is not UNDEFINED:
            key = order_key(value)
            if self.key is None or self.precedes(key, self.key):
                self.best, self.key = value, key

    @staticmethod
    def precedes(key: Any, best: Any) -> bool:
        """Whether `key` beats the best one so far."""
        return bool(key < best)

    def result(self) -> Value:
        return UNDEFINED if self.spoilt else self.best


class Maximum(Minimum):
    """The greatest, by the same order."""

    __slots__ = ()

    @staticmethod
    def precedes(key: Any, best: Any) -> bool:
        return bool(key > best)


class MakeList:
    """All defined values."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Value] = []

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
            self.items.append(value)

    def result(self) -> Value:
        return self.items


class MakeSet:
    """All defined values, the same ones once."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[bytes, Value] = {}

    def add(self, value: Value) -> None:
        if value is not UNDEFINED:
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
"""By upper-case name; each takes one argument."""

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
"""What query plans call them."""
