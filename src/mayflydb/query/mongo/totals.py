"""Sums, averages, deviations and extremes of values that arrive one by one, for accumulators and expressions."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from decimal import Decimal

from bson import Decimal128, Int64

from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.decimal_powers import DECIMAL
from mayflydb.query.mongo.numbers import Number
from mayflydb.query.mongo.values import MISSING, NUMBERS, OrderKey, Value


class Sum:
    """The sum of the numbers among the values.

    Integers are added exactly, doubles with compensated rounding errors, decimals separately.
    """

    __slots__ = ("_carried", "_decimal", "_doubles", "_integers", "_kinds", "_plain", "count")

    def __init__(self) -> None:
        self.count = 0
        self._integers = 0
        self._doubles = 0.0
        self._carried = 0.0
        # The sum without compensation. After an infinity the compensation is NaN, and this sum is the result.
        self._plain = 0.0
        self._decimal = Decimal(0)
        self._kinds: set[type] = set()

    def add(self, value: Value) -> None:
        """Add a value. Values that are no numbers are ignored."""
        kind = type(value)
        if kind is int or kind is Int64:
            self._integers += int(value)
        elif kind is float:
            self._plain += value
            self._carry(value)
        elif kind is Decimal128:
            self._decimal = DECIMAL.add(self._decimal, value.to_decimal())
        else:
            return
        self.count += 1
        self._kinds.add(kind)

    def _carry(self, value: float) -> None:
        # The error of this addition (Knuth's TwoSum) is exact and is added up on its own.
        total = self._doubles + value
        back = total - self._doubles
        self._carried += (self._doubles - (total - back)) + (value - back)
        self._doubles = total

    def result(self) -> Number:
        """Return the sum in the widest type of the numbers; an int32 of 0 for none."""
        if Decimal128 in self._kinds:
            return Decimal128(DECIMAL.add(self._decimal, self._other_decimals()))
        if float in self._kinds:
            return self._double_sum()
        return numbers.integer_result(self._integers, Int64 in self._kinds)

    def average(self) -> Number | None:
        """Return the average: a double, or a decimal if a number is one; None for no numbers."""
        if not self.count:
            return None
        if Decimal128 in self._kinds:
            total = DECIMAL.add(self._decimal, self._other_decimals())
            return Decimal128(DECIMAL.divide(total, Decimal(self.count)))
        if float in self._kinds:
            return self._double_sum() / self.count
        return self._integers / self.count

    def _other_decimals(self) -> Decimal:
        doubles = numbers.decimal_of(self._double_part()) if float in self._kinds else Decimal(0)
        return DECIMAL.add(Decimal(self._integers), doubles)

    def _double_part(self) -> float:
        exact = self._doubles + self._carried
        return exact if math.isfinite(exact) else self._plain

    def _double_sum(self) -> float:
        part = self._double_part()
        if not self._integers or not math.isfinite(part):
            return part
        # An integer sum beyond 2^53 is split into two doubles, so that `fsum` adds without an intermediate rounding.
        high = float(self._integers)
        total = math.fsum((self._doubles, self._carried, high, float(self._integers - int(high))))
        return total


class Deviation:
    """The standard deviation of the numbers among the values, by Welford's recurrence; always a double."""

    __slots__ = ("_count", "_mean", "_squares")

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: Value) -> None:
        """Add a value. Values that are no numbers are ignored."""
        if type(value) not in NUMBERS:
            return
        number = numbers.double_of(value)
        self._count += 1
        # No squares of the numbers themselves: their difference would lose its digits.
        delta = number - self._mean
        self._mean += delta / self._count
        self._squares += delta * (number - self._mean)

    def result(self, sample: bool) -> float | None:
        """Return the deviation of the population or sample; None for too few numbers."""
        count = self._count - sample
        if count < 1:
            return None
        return math.sqrt(self._squares / count) if math.isfinite(self._squares) else math.nan


class Extreme:
    """The smallest or largest value that is neither null nor missing."""

    __slots__ = ("_best", "_key", "_largest", "value")

    def __init__(self, key: Callable[[Value], OrderKey], largest: bool) -> None:
        self._key = key
        self._largest = largest
        self._best: OrderKey | None = None
        self.value: Value = None

    def add(self, value: Value) -> None:
        """Add a value. Among equal values the first one is kept."""
        if value is None or value is MISSING:
            return
        key = self._key(value)
        best = self._best
        if best is None or (key > best if self._largest else key < best):
            self._best = key
            self.value = value


def pick_extremes(values: Iterable[Value], count: int, key: Callable[[Value], OrderKey], largest: bool) -> list[Value]:
    """Return the `count` smallest or largest values, in that order, without null and missing ones."""
    present = [value for value in values if value is not None and value is not MISSING]
    return heapq.nlargest(count, present, key) if largest else heapq.nsmallest(count, present, key)


def mean(values: Iterable[Value]) -> Value:
    """Return the average of the numbers among the values; None for no numbers."""
    total = Sum()
    for value in values:
        total.add(value)
    return total.average()


def percentile(ordered: list[float], share: float) -> float | None:
    """Return the smallest value at or below which a share of the sorted numbers lies; None for no numbers."""
    if not ordered:
        return None
    # The nearest rank; nothing is interpolated.
    return ordered[max(0, min(len(ordered), math.ceil(share * len(ordered))) - 1)]
