"""Window functions: accumulators over the documents of a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any, Final, Protocol

import msgspec
from bson import Decimal128

from mayflydb.query.mongo.accumulators import Accumulator, compile_accumulator
from mayflydb.query.mongo.decimal_powers import DECIMAL
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, Frame, compile_expression
from mayflydb.query.mongo.faults import failed_to_parse
from mayflydb.query.mongo.numbers import decimal_of, double_of, to_decimal128
from mayflydb.query.mongo.stages.windows.bounds import WHOLE, WindowBounds, compile_window
from mayflydb.query.mongo.values import Document, Value, is_number


class Partition(msgspec.Struct, frozen=True):
    """The documents of one partition, sorted.

    `values`: the sort values, for a sort by one field. `keys`: equal for documents that tie.
    """

    frames: Sequence[Frame]
    values: Sequence[Value]
    keys: Sequence[object]


class WindowFunction(Protocol):
    """Computes one output field for all documents of a partition."""

    def values(self, partition: Partition) -> list[Value]:
        """Return the field's value for each document; MISSING for no value."""


ACCUMULATORS: Final = frozenset({
    "$addToSet", "$avg", "$bottom", "$bottomN", "$concatArrays", "$count", "$covariancePop", "$covarianceSamp", "$first",
    "$firstN", "$last", "$lastN", "$max", "$maxN", "$median", "$min", "$minN", "$percentile", "$push", "$setUnion",
    "$stdDevPop", "$stdDevSamp", "$sum", "$top", "$topN",
})  # fmt: skip

_ANY_ORDER: Final = frozenset({"$sum", "$avg", "$min", "$max", "$count", "$minN", "$maxN", "$stdDevPop", "$stdDevSamp"})
"""Accumulators whose result does not depend on the order of the documents."""


class WindowAccumulator(msgspec.Struct, frozen=True):
    """An accumulator over a window. A window that only grows costs one step for each document; others are accumulated
    anew each time.
    """

    make: Callable[[], Accumulator]
    window: WindowBounds
    any_order: bool

    def values(self, partition: Partition) -> list[Value]:
        spans = self.window.spans(partition.values)
        if self.window.lower is None:
            return self._accumulate_growing(partition.frames, [stop for _, stop in spans])
        if self.window.upper is None and self.any_order:
            # Read backwards, a window that reaches to the end only grows.
            count = len(spans)
            return self._accumulate_growing(partition.frames[::-1], [count - start for start, _ in spans[::-1]])[::-1]
        values: list[Value] = []
        for at, (start, stop) in enumerate(spans):
            # Documents with one sort value have one window.
            if at and spans[at - 1] == (start, stop):
                values.append(values[-1])
                continue
            accumulator = self.make()
            for frame in partition.frames[start:stop]:
                accumulator.add(frame)
            values.append(accumulator.result())
        return values

    def _accumulate_growing(self, frames: Sequence[Frame], stops: Sequence[int]) -> list[Value]:
        values: list[Value] = []
        accumulator = self.make()
        done = -1
        for stop in stops:
            if stop == done:
                values.append(values[-1])
                continue
            for frame in frames[max(done, 0) : stop]:
                accumulator.add(frame)
            done = stop
            value = accumulator.result()
            # The accumulator may extend the list that it has returned, so the list is copied.
            values.append(value.copy() if type(value) in (list, dict) else value)
        return values


def compile_window_accumulator(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    """Compile `{$sum: ..., window: ...}`."""
    for field in spec:
        if field not in (name, "window"):
            raise failed_to_parse(f"Window function found an unknown argument: {field}")
    window = compile_window(spec["window"], sort_by, env) if "window" in spec else WHOLE
    if name == "$count" and spec[name] != {}:
        raise failed_to_parse("$count only accepts an empty object as input")
    make = (
        compile_covariance(name, spec[name], env)
        if name in _COVARIANCES
        else compile_accumulator(name, spec[name], env)
    )
    return WindowAccumulator(make, window, name in _ANY_ORDER)


# --- covariance ------------------------------------------------------------------------------------------------------

_COVARIANCES: Final = {"$covariancePop": 0, "$covarianceSamp": 1}
"""The number subtracted from the count of pairs in the denominator."""


class _Covariance:
    """An accumulator of the covariance. Pairs that are not two numbers are ignored.

    It computes with doubles, and with decimals from the first decimal on.
    """

    __slots__ = ("_count", "_less", "_means", "_pair", "_product")

    def __init__(self, pair: Expression, less: int) -> None:
        self._pair = pair
        self._less = less
        self._count = 0
        self._means: tuple[Any, Any] = (0.0, 0.0)
        self._product: Any = 0.0

    def add(self, frame: Frame) -> None:
        found = self._pair(frame)
        if type(found) is not list or len(found) != 2 or not (is_number(found[0]) and is_number(found[1])):
            return
        x, y = found
        if Decimal128 in (type(x), type(y)) and type(self._product) is float:
            self._means = DECIMAL.create_decimal(self._means[0]), DECIMAL.create_decimal(self._means[1])
            self._product = DECIMAL.create_decimal(self._product)
        if type(self._product) is float:
            self._add(double_of(x), double_of(y))
        else:
            with localcontext(DECIMAL):
                self._add(decimal_of(x), decimal_of(y))

    def _add(self, x: Any, y: Any) -> None:
        self._count += 1
        mean_x, mean_y = self._means
        away = x - mean_x
        mean_x += away / self._count
        mean_y += (y - mean_y) / self._count
        # Welford's recurrence for two variables: the new mean of y, the old distance from the mean of x.
        self._means = mean_x, mean_y
        self._product += away * (y - mean_y)

    def result(self) -> Value:
        count = self._count - self._less
        if count <= 0:
            return None
        if type(self._product) is float:
            return self._product / count
        return to_decimal128(DECIMAL.divide(self._product, Decimal(count)))


def compile_covariance(name: str, spec: Value, env: Env) -> Callable[[], Accumulator]:
    """Return the factory of `$covariancePop` or `$covarianceSamp`. An operand that is no array of two numbers gives null."""
    pair = compile_expression(spec, env)
    return lambda: _Covariance(pair, _COVARIANCES[name])
