"""Window functions that depend on the order of a partition: ranks, shifts, fills, rates, areas, moving averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from bson import DatetimeMS, Decimal128

from mayflydb.query.mongo.dates import UNITS
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.numbers import (
    add,
    decimal_of,
    divide,
    double_of,
    exact_int32,
    exact_integer,
    multiply,
    subtract,
)
from mayflydb.query.mongo.stages.windows.bounds import WHOLE, WindowBounds, compile_window
from mayflydb.query.mongo.stages.windows.functions import Partition, WindowFunction
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, is_number, type_name

# --- ranks -----------------------------------------------------------------------------------------------------------


class _Rank(msgspec.Struct, frozen=True):
    name: str

    def values(self, partition: Partition) -> list[Value]:
        if self.name == "$documentNumber":
            return list(range(1, len(partition.frames) + 1))
        ranks: list[Value] = []
        for place, key in enumerate(partition.keys):
            if place and key == partition.keys[place - 1]:
                ranks.append(ranks[-1])
            elif self.name == "$rank":
                ranks.append(place + 1)
            else:
                ranks.append(ranks[-1] + 1 if place else 1)
        return ranks


def _compile_rank(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    if len(spec) != 1:
        raise MqlError(5371601, "Rank style window functions take no other arguments")
    if sort_by is None or (name != "$documentNumber" and len(sort_by) != 1):
        exactly = "" if name == "$documentNumber" else " with exactly one element"
        raise MqlError(5371602, f"{name} must be specified with a top level sortBy expression{exactly}")
    if spec[name] != {}:
        raise MqlError(5371603, f"{name} must be specified with '{{}}' as the value")
    return _Rank(name)


# --- $shift, $locf, $linearFill --------------------------------------------------------------------------------------


class _Shift(msgspec.Struct, frozen=True):
    output: Expression
    by: int
    default: Value

    def values(self, partition: Partition) -> list[Value]:
        frames = partition.frames
        count = len(frames)
        places = (place + self.by for place in range(count))
        return [self.output(frames[place]) if 0 <= place < count else self.default for place in places]


def _compile_shift(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    given = _parse_arguments(name, spec, ("output", "by", "default"), ())
    if sort_by is None:
        raise failed_to_parse("'$shift' requires a sortBy")
    for field in ("output", "by"):
        if field not in given:
            raise failed_to_parse(f"$shift requires '{field}' to be specified.")
    by = exact_int32(given["by"])
    if by is None:
        raise failed_to_parse(f"'$shift:by' field must be an integer, but found {format_value(given['by'])}")
    default = compile_expression(given.get("default"), env)(frame_of({}, env))
    return _Shift(compile_expression(given["output"], env), by, None if default is MISSING else default)


class _Locf(msgspec.Struct, frozen=True):
    expression: Expression

    def values(self, partition: Partition) -> list[Value]:
        last: Value = None
        values = []
        for frame in partition.frames:
            value = self.expression(frame)
            if value is not None and value is not MISSING:
                last = value
            values.append(last)
        return values


def _compile_locf(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    if len(spec) != 1:
        raise failed_to_parse("'window' field is not allowed in $locf")
    return _Locf(compile_expression(spec[name], env))


class _LinearFill(msgspec.Struct, frozen=True):
    expression: Expression

    def values(self, partition: Partition) -> list[Value]:
        values = [self.expression(frame) for frame in partition.frames]
        positions = [_sort_position(value) for value in partition.values]
        out: list[Value] = [None if value is MISSING else value for value in values]
        known: int | None = None
        for place, value in enumerate(out):
            if place and positions[place] == positions[place - 1]:
                raise MqlError(6050106, "There can be no repeated values in the sort field")
            if value is None:
                continue
            if not is_number(value):
                raise MqlError(6050201, f"Value to be filled must be numeric or nullish, but found {type_name(value)}")
            if known is not None:
                # Gaps before the first known value and behind the last one stay null.
                for gap in range(known + 1, place):
                    out[gap] = _interpolate(positions, out, known, gap, place)
            known = place
        return out


def _sort_position(value: Value) -> Value:
    if type(value) is DatetimeMS:
        return int(value)
    if not is_number(value):
        raise MqlError(6050105, f"Expected the sortBy field to be numeric or a date, but it was {type_name(value)}")
    return value


def _interpolate(positions: Sequence[Value], values: Sequence[Value], left: int, place: int, right: int) -> Value:
    rise = subtract(values[right], values[left])
    run = subtract(positions[right], positions[left])
    return add(values[left], divide(multiply(rise, subtract(positions[place], positions[left])), run))


def _compile_linear_fill(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    if len(spec) != 1:
        raise failed_to_parse("'window' field is not allowed in $linearFill")
    if sort_by is None or len(sort_by) != 1:
        raise MqlError(
            605001, "$linearFill must be specified with a top level sortBy expression with exactly one element"
        )
    return _LinearFill(compile_expression(spec[name], env))


# --- $derivative, $integral ------------------------------------------------------------------------------------------

_UNIT_MS: Final[Mapping[str, int]] = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
}


class _Rate(msgspec.Struct, frozen=True):
    """`$derivative` and `$integral`. `unit`: in milliseconds; 0 for a partition sorted by a number."""

    name: str
    input: Expression
    window: WindowBounds
    unit: int

    def values(self, partition: Partition) -> list[Value]:
        times = [self._check_sort_value(value) for value in partition.values]
        points = [self._check_input(self.input(frame)) for frame in partition.frames]
        measure = self._average_rate if self.name == "$derivative" else self._area
        return [measure(times[start:stop], points[start:stop]) for start, stop in self.window.spans(partition.values)]

    def _check_sort_value(self, value: Value) -> Value:
        if self.unit:
            if type(value) is not DatetimeMS:
                raise MqlError(5624900, f"{self.name} with 'unit' expects the sortBy field to be a Date")
            return float(int(value))
        if type(value) is DatetimeMS:
            raise MqlError(5624901, f"{self.name} where the sortBy is a Date requires an 'unit'")
        if not is_number(value):
            raise MqlError(
                5624902, f"{self.name} expects the sortBy field to be a number, but it was {type_name(value)}"
            )
        return value

    def _check_input(self, value: Value) -> Value:
        if value is None or value is MISSING:
            return None
        if not is_number(value):
            raise MqlError(5624903, f"{self.name} input must be a number, but it was {type_name(value)}")
        return value

    def _average_rate(self, times: Sequence[Value], points: Sequence[Value]) -> Value:
        if len(times) < 2 or points[0] is None or points[-1] is None:
            return None
        run = self._elapsed_time(times[0], times[-1])
        if double_of(run) == 0:
            return None
        return divide(subtract(points[-1], points[0]), run)

    def _area(self, times: Sequence[Value], points: Sequence[Value]) -> Value:
        if not times or None in points:
            return None
        total: Value = 0
        for at in range(1, len(times)):
            # Trapezoids: the width times the mean of both heights.
            height = add(points[at - 1], points[at])
            total = add(total, divide(multiply(self._elapsed_time(times[at - 1], times[at]), height), 2))
        return total

    def _elapsed_time(self, start: Value, end: Value) -> Value:
        elapsed = subtract(end, start)
        return divide(elapsed, self.unit) if self.unit else elapsed


def _compile_rate(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    given = _parse_arguments(name, spec, ("input", "unit"), ("window",))
    if sort_by is None or len(sort_by) != 1:
        raise failed_to_parse(f"{name} requires a sortBy with exactly one element")
    if "input" not in given:
        raise failed_to_parse(f"{name} requires an 'input' expression")
    if name == "$derivative" and "window" not in spec:
        raise failed_to_parse("$derivative requires explicit window bounds")
    unit = 0
    if "unit" in given:
        if given["unit"] not in UNITS:
            raise failed_to_parse(f"unknown time unit value: {format_value(given['unit'])}")
        if given["unit"] not in _UNIT_MS:
            raise MqlError(5490704, f"unit must be 'week' or smaller, but found {given['unit']}")
        unit = _UNIT_MS[given["unit"]]
    window = compile_window(spec["window"], sort_by, env) if "window" in spec else WHOLE
    return _Rate(name, compile_expression(given["input"], env), window, unit)


# --- $expMovingAvg ---------------------------------------------------------------------------------------------------


class _MovingAverage(msgspec.Struct, frozen=True):
    input: Expression
    alpha: Decimal128

    def values(self, partition: Partition) -> list[Value]:
        last: Value = None
        values: list[Value] = []
        rest = subtract(1, self.alpha)
        for frame in partition.frames:
            value = self.input(frame)
            if not is_number(value):
                values.append(None)
                continue
            if last is None:
                last = value
            else:
                exact = add(multiply(value, self.alpha), multiply(last, rest))
                last = exact if Decimal128 in (type(value), type(last)) else float(decimal_of(exact))
            values.append(last)
        return values


def _compile_moving_average(name: str, spec: Document, sort_by: Document | None, env: Env) -> WindowFunction:
    if len(spec) != 1 or type(spec[name]) is not dict:
        raise failed_to_parse("$expMovingAvg must have exactly one argument that is an object")
    given = spec[name]
    if len(given) != 2 or "input" not in given or not {"N", "alpha"} & given.keys():
        raise failed_to_parse(
            "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field or an "
            "'alpha' field"
        )
    if sort_by is None:
        raise failed_to_parse("$expMovingAvg requires an explicit 'sortBy'")
    alpha = _parse_alpha(given["N"]) if "N" in given else given["alpha"]
    if not is_number(alpha):
        raise failed_to_parse("'alpha' must be a number")
    if not 0 < decimal_of(alpha) < 1 and "N" not in given:
        raise failed_to_parse(f"'alpha' must be between 0 and 1 (exclusive), found alpha: {format_value(alpha)}")
    return _MovingAverage(compile_expression(given["input"], env), Decimal128(str(decimal_of(alpha))))


def _parse_alpha(spec: Value) -> Value:
    if not is_number(spec):
        raise failed_to_parse(f"'N' field must be an integer, but found type {type_name(spec)}")
    count = exact_integer(spec)
    if count is None:
        message = f"'N' field must be an integer, but found  N: {format_value(spec)}. "
        raise failed_to_parse(message + "To use a non-integer, use the 'alpha' argument instead")
    if count < 1:
        raise failed_to_parse(f"'N' must be greater than zero. Got {count}")
    return divide(Decimal128("2"), add(count, 1))


# --- names -----------------------------------------------------------------------------------------------------------


def _parse_arguments(name: str, spec: Document, arguments: Sequence[str], beside: Sequence[str]) -> Document:
    given = spec[name]
    if type(given) is not dict:
        raise failed_to_parse(f"Argument to {name} must be an object")
    for field in spec:
        if field != name and field not in beside:
            raise failed_to_parse(f"{name} got unexpected argument: {field}")
    for field in given:
        if field not in arguments:
            raise failed_to_parse(f"{name} got unexpected argument: {field}")
    checked: Document = given
    return checked


Make: TypeAlias = Callable[[str, Document, "Document | None", Env], WindowFunction]

ORDERED: Final[Mapping[str, Make]] = {
    "$denseRank": _compile_rank,
    "$derivative": _compile_rate,
    "$documentNumber": _compile_rank,
    "$expMovingAvg": _compile_moving_average,
    "$integral": _compile_rate,
    "$linearFill": _compile_linear_fill,
    "$locf": _compile_locf,
    "$rank": _compile_rank,
    "$shift": _compile_shift,
}
