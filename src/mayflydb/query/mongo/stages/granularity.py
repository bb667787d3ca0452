"""Preferred numbers, to which `$bucketAuto` rounds the bounds of buckets.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/bucketAuto/#granularity
Renard series: ISO 3. E series: IEC 60063. Each series repeats in every power of ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from bson import Decimal128

from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Value, is_number, type_name


class Granularity(msgspec.Struct, frozen=True):
    """The next larger and the next smaller number of a series. Neither is the number itself; 0 stays 0."""

    up: Callable[[Value], Value]
    down: Callable[[Value], Value]


def check_number(value: Value) -> None:
    """Raise MqlError 40258, 40259 and 40260 for a value that is no number, NaN, or negative."""
    if not is_number(value):
        raise MqlError(
            40258, f"$bucketAuto can specify a 'granularity' with numeric boundaries only: {type_name(value)}"
        )
    if numbers.is_nan(value):
        raise MqlError(40259, "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found NaN")
    if numbers.double_of(value) < 0:
        raise MqlError(40260, "$bucketAuto can specify a 'granularity' with non-negative numbers only")


def find_granularity(name: str) -> Granularity:
    """Return a granularity by its name. MqlError 40257 for an unknown one."""
    if name == "POWERSOF2":
        return Granularity(lambda value: _power_of_two(value, True), lambda value: _power_of_two(value, False))
    series = _SERIES.get(name)
    if series is None:
        raise MqlError(40257, f"Unknown rounding granularity '{name}'")
    return Granularity(lambda value: _in_series(value, series, True), lambda value: _in_series(value, series, False))


def _power_of_two(value: Any, up: bool) -> Value:
    exact = numbers.decimal_of(value)
    if not exact or not exact.is_finite():
        return value
    numerator, denominator = exact.as_integer_ratio()
    power = numerator.bit_length() - denominator.bit_length()
    # The greatest power that is not larger.
    if Decimal(2) ** power > exact:
        power -= 1
    if up:
        power += 1
    elif Decimal(2) ** power == exact:
        power -= 1
    base = Decimal128("2") if type(value) is Decimal128 else 2
    return numbers.power(base, power)


def _in_series(value: Any, series: tuple[int, ...], up: bool) -> Value:
    exact = numbers.decimal_of(value)
    if not exact or not exact.is_finite():
        return value
    size = len(str(series[0]))
    power = exact.adjusted() + 1 - size
    scaled = exact.scaleb(-power)
    if up:
        place = bisect_right(series, scaled)
        digits, power = (series[place], power) if place < len(series) else (series[0], power + 1)
    else:
        place = bisect_left(series, scaled) - 1
        digits, power = (series[place], power) if place >= 0 else (series[-1], power - 1)
    found = Decimal(digits).scaleb(power)
    return numbers.to_decimal128(found) if type(value) is Decimal128 else float(found)


def _e_series(count: int) -> tuple[int, ...]:
    """Three digits of each step; the standard has one exception."""
    exact = (round(100 * 10 ** (step / count)) for step in range(count))
    return tuple(920 if number == 919 else number for number in exact)


_R80: Final = (
    100, 103, 106, 109, 112, 115, 118, 122, 125, 128, 132, 136, 140, 145, 150, 155, 160, 165, 170, 175, 180, 185, 190, 195,
    200, 206, 212, 218, 224, 230, 236, 243, 250, 258, 265, 272, 280, 290, 300, 307, 315, 325, 335, 345, 355, 365, 375, 387,
    400, 412, 425, 437, 450, 462, 475, 487, 500, 515, 530, 545, 560, 580, 600, 615, 630, 650, 670, 690, 710, 730, 750, 775,
    800, 825, 850, 875, 900, 925, 950, 975,
)  # fmt: skip
_E24: Final = (10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91)
_SERIES: Final[Mapping[str, tuple[int, ...]]] = {
    "R5": _R80[::16],
    "R10": _R80[::8],
    "R20": _R80[::4],
    "R40": _R80[::2],
    "R80": _R80,
    "1-2-5": (10, 20, 50),
    "E6": _E24[::4],
    "E12": _E24[::2],
    "E24": _E24,
    "E48": _e_series(48),
    "E96": _e_series(96),
    "E192": _e_series(192),
}
