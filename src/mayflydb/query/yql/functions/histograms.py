"""HISTOGRAM and its family: bins of a position and a frequency, of which there is a limited number.

A histogram is a Struct of its kind, its bins in order of their positions, the least and the greatest value, and the sum of
the weights. An adaptive histogram with too many bins merges the two neighbours that lose the least by it.

Source: https://ydb.tech/docs/en/yql/reference/builtins/aggregation#histogram, and `library/cpp/histogram/adaptive` and
`yql/essentials/udfs/common/histogram` of https://github.com/ydb-platform/ydb. Ben-Haim and Tom-Tov (2010).
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, TypeAlias

from mayflydb.query.yql.expression import AggregateBuilder, Aggregation, Expression, Invocation
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.aggregates import Values, nullable_like
from mayflydb.query.yql.functions.support import argument_fault, count_operands, evaluate_constant, value_at
from mayflydb.query.yql.types import (
    DOUBLE,
    INTEGERS,
    NULL,
    NUMBERS,
    STRING,
    ListType,
    StructType,
    Value,
    bare,
    format_type,
)

BIN: Final = StructType((("Frequency", DOUBLE), ("Position", DOUBLE)))
HISTOGRAM: Final = StructType(
    (("Bins", ListType(BIN)), ("Kind", STRING), ("Max", DOUBLE), ("Min", DOUBLE), ("WeightsSum", DOUBLE))
)
"""The type of a histogram; its values are tuples in this order."""

_MOST_BINS: Final = 1 << 16
"""The limit of the bins of histograms over a fixed scale, and the greatest that a query can ask for."""

Quality: TypeAlias = Callable[[float, float, float, float], float]
"""Returns the loss by merging two bins: (position, frequency, position, frequency)."""


def _by_distance(left: float, one: float, right: float, two: float) -> float:
    return right - left


def _by_weight(left: float, one: float, right: float, two: float) -> float:
    return one + two


def _by_ward(left: float, one: float, right: float, two: float) -> float:
    return one * two / (one + two) * (left - right) ** 2


class Bins:
    """The bins of one histogram, in order of their positions. `limit`: the number of bins."""

    def __init__(self, limit: int, quality: Quality) -> None:
        self._limit, self._quality = limit, quality
        self.positions: list[float] = []
        self.frequencies: list[float] = []
        self._losses: list[float] = []
        self.least, self.greatest, self.total = math.inf, -math.inf, 0.0

    def add(self, value: float, weight: float) -> None:
        """Add a value. Values without a weight do not count. Faults: nan, infinity."""
        if not math.isfinite(value) or not math.isfinite(weight):
            raise fault(f"Histogram: bad value {value:f} weight {weight:f}")
        if weight <= 0:
            return
        self.total += weight
        self.least, self.greatest = min(self.least, value), max(self.greatest, value)
        self._insert(value, weight)
        if len(self.positions) > self._limit:
            self._merge()

    def _insert(self, value: float, weight: float) -> None:
        at = bisect_left(self.positions, value)
        if at < len(self.positions) and self.positions[at] == value:
            self.frequencies[at] += weight
        else:
            self.positions.insert(at, value)
            self.frequencies.insert(at, weight)
            if len(self.positions) > 1:
                self._losses.insert(min(at, len(self._losses)), 0.0)
        for gap in (at - 1, at):
            self._measure(gap)

    def _measure(self, gap: int) -> None:
        """Compute the loss of merging the bins `gap` and `gap + 1`."""
        if 0 <= gap < len(self._losses):
            p, f = self.positions, self.frequencies
            self._losses[gap] = self._quality(p[gap], f[gap], p[gap + 1], f[gap + 1])

    def _merge(self) -> None:
        if not self._losses:
            return
        at = self._losses.index(min(self._losses))
        p, f = self.positions, self.frequencies
        weight = f[at] + f[at + 1]
        # The mean lies between both, so the order stays.
        p[at] = (p[at] * f[at] + p[at + 1] * f[at + 1]) / weight
        f[at] = weight
        del p[at + 1], f[at + 1], self._losses[at]
        for gap in (at - 1, at):
            self._measure(gap)

    def result(self, kind: bytes) -> Value:
        """The histogram as a value of the type HISTOGRAM."""
        bins = list(zip(self.frequencies, self.positions, strict=True))
        if not bins:
            return [], kind, 0.0, 0.0, 0.0
        return bins, kind, self.greatest, self.least, self.total


def _check_number(call: Invocation, given: Expression) -> Expression:
    if given.type != NULL and bare(given.type) not in NUMBERS:
        raise argument_fault(call, f"Expected numeric type, but got: {format_type(given.type)}")
    return given


def _adaptive(kind: str, quality: Quality) -> AggregateBuilder:
    """`HISTOGRAM(value [, weight] [, bins])`: an integer literal behind the value is the number of bins."""

    def build(call: Invocation) -> Aggregation:
        count = count_operands(call, 1, 3)
        given = _check_number(call, value_at(call, 0))
        last = value_at(call, count - 1)
        limited = count > 1 and last.literal and bare(last.type) in INTEGERS
        if count == 3 and not limited:
            raise argument_fault(
                call, f"{call.name} for case with 3 arguments should have third argument of integer type"
            )
        limit = evaluate_constant(last, call) if limited else 100
        if not 1 <= limit <= _MOST_BINS:
            raise argument_fault(call, f"Expected a number of bins from 1 to {_MOST_BINS}")
        weighted = count - limited == 2
        if weighted:
            _check_number(call, value_at(call, 1))

        def step(state: Value, values: Values) -> Value:
            weight = values[1] if weighted else 1
            if values[0] is None or weight is None:
                return state
            state = Bins(limit, quality) if state is None else state
            state.add(float(values[0]), float(weight))
            return state

        name = kind.encode()
        return Aggregation(
            nullable_like(given, HISTOGRAM),
            lambda: None,
            step,
            lambda state: None if state is None else state.result(name),
        )

    return build


Scale: TypeAlias = Callable[[float, float, float, float], float]
"""The position of a value's bin: (value, step, least, greatest)."""


def _linear(value: float, step: float, least: float, greatest: float) -> float:
    if value < least:
        return least
    return greatest if value > greatest else math.floor(value / step + 0.5) * step


def _logarithmic(value: float, step: float, least: float, greatest: float) -> float:
    if value <= 0:
        # The logarithm of 0 is minus infinity, whose power is 0; there is none of a negative number.
        return max(0.0, least) if value == 0 else math.nan
    power = math.log(value) / math.log(step)
    below, above = step ** math.floor(power), step ** math.ceil(power)
    nearest = below if abs(value - above) > abs(value - below) else above
    return min(max(nearest, least), greatest)


def _fixed_scale(kind: str, scale: Scale) -> AggregateBuilder:
    """`LinearHistogram(value [, step [, least [, greatest]]])`; for a logarithmic one the step is the base."""

    def build(call: Invocation) -> Aggregation:
        count = count_operands(call, 1, 4)
        given = _check_number(call, value_at(call, 0))
        limits = [10.0, -sys.float_info.max, sys.float_info.max]
        for index in range(1, count):
            limits[index - 1] = float(evaluate_constant(_check_number(call, value_at(call, index)), call))
        step_size, least, greatest = limits
        if step_size <= 0 or (scale is _logarithmic and step_size == 1):
            raise argument_fault(call, "Expected a positive step, and not 1 for a logarithmic histogram")

        def step(state: Value, values: Values) -> Value:
            if values[0] is None:
                return state
            state = Bins(sys.maxsize, _by_ward) if state is None else state
            position = scale(float(values[0]), step_size, least, greatest)
            if not (scale is _logarithmic and math.isnan(position)):
                state.add(position, 1.0)
            if len(state.positions) > _MOST_BINS:
                raise fault(f"{call.name} has more than {_MOST_BINS} bins", call.position)
            return state

        name = kind.encode()
        return Aggregation(
            nullable_like(given, HISTOGRAM),
            lambda: None,
            step,
            lambda state: None if state is None else state.result(name),
        )

    return build


_WARD: Final = _adaptive("AdaptiveWard", _by_ward)
_LOGARITHMIC: Final = _fixed_scale("Logarithmic", _logarithmic)
AGGREGATES: Final[dict[str, AggregateBuilder]] = {
    "histogram": _WARD,
    "hist": _WARD,
    "adaptivewardhistogram": _WARD,
    "adaptivedistancehistogram": _adaptive("AdaptiveDistance", _by_distance),
    "adaptiveweighthistogram": _adaptive("AdaptiveWeight", _by_weight),
    "linearhistogram": _fixed_scale("Linear", _linear),
    "logarithmichistogram": _LOGARITHMIC,
    "loghistogram": _LOGARITHMIC,
}
