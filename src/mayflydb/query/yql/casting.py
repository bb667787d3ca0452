"""CAST between primitive types and Decimal: which pairs of types have one, and which conversions may fail.

A converter returns `FAILED` for a value that the target type cannot hold. Fractions, times of day and time zones that
the target does not have are dropped without failure.
Source: https://ydb.tech/docs/en/yql/reference/types/primitive#explicit-cast
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

from mayflydb.query.yql import decimals, moments, texts, zones
from mayflydb.query.yql.texts import BOUNDS, to_single
from mayflydb.query.yql.types import (
    BOOL,
    DYNUMBER,
    FLOAT,
    FLOATS,
    INT64,
    INTEGERS,
    JSON,
    JSON_DOCUMENT,
    STRING,
    TZ_DATE,
    TZ_DATE32,
    UINT64,
    UTF8,
    YSON,
    DecimalType,
    Type,
    Value,
)


class Failure(Enum):
    FAILED = "failed"


FAILED: Final = Failure.FAILED
"""The result of a converter that has no value. None would be NULL, which is a value of Optional types."""

Converter: TypeAlias = tuple[Callable[[Any], Value], bool]
"""A function from a value that is not NULL to one of another type, and True if it may return `FAILED`."""

_ZONE: Final = "GMT"
"""The time zone of a date or time that is converted from a type without zones."""


def identity(value: Value) -> Value:
    return value


def find_cast(source: Type, to: Type) -> Converter | None:
    """Return the converter between two primitive types or Decimals; None if YQL has no such CAST."""
    if source == to:
        return identity, False
    if to in (STRING, UTF8):
        return _to_text(source, to)
    if source in (STRING, UTF8):
        return _from_text(source, to)
    if isinstance(to, DecimalType):
        return _to_decimal(source, to)
    if isinstance(source, DecimalType):
        return _from_decimal(source, to)
    if source == BOOL:
        return _from_bool(to)
    if source in INTEGERS:
        return _from_integer(source, to)
    if source in FLOATS:
        return _from_float(to)
    if source in moments.MOMENTS or source in moments.INTERVALS:
        return _from_moment(source, to)
    if (source, to) == (JSON, JSON_DOCUMENT):
        return lambda value: texts.from_text(JSON_DOCUMENT, value), False
    return (identity, False) if (source, to) == (JSON_DOCUMENT, JSON) else None


# --- texts -----------------------------------------------------------------------------------------------------------


def _to_text(source: Type, to: Type) -> Converter | None:
    if source == STRING:
        return _decode_utf8, True
    if source == YSON:
        return (identity, False) if to == STRING else None
    if not texts.has_text(source):
        return None
    if to == UTF8:
        return lambda value: texts.to_text(source, value), False
    return lambda value: texts.to_text(source, value).encode(), False


def _decode_utf8(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return FAILED


def _from_text(source: Type, to: Type) -> Converter | None:
    if not texts.has_text(to):
        return None
    read = _text_reader(to)
    if source == UTF8:
        return read, True
    if to == YSON:
        return lambda value: read(value.decode("utf-8", "surrogateescape")), True

    def read_bytes(value: bytes) -> Value:
        text = _decode_utf8(value)
        return FAILED if text is FAILED else read(text)

    return read_bytes, True


def _text_reader(to: Type) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        value = texts.from_text(to, text)
        return FAILED if value is None else value

    return read


# --- numbers ---------------------------------------------------------------------------------------------------------

_WIDTHS: Final = {1: 3, 2: 5, 4: 10, 8: 20}
"""Decimal digits of the largest integer, by the width of its type in bytes."""


def digits_of(type: Type) -> int:
    """The number of decimal digits of the largest value of an integer type."""
    return _WIDTHS[(BOUNDS[type][1].bit_length() + 7) // 8]


def _from_bool(to: Type) -> Converter | None:
    if to in INTEGERS:
        return int, False
    return (float, False) if to in FLOATS else None


def _within_limits(low: int, high: int) -> Callable[[int], Value]:
    return lambda value: value if low <= value <= high else FAILED


def _from_integer(source: Type, to: Type) -> Converter | None:
    if to == BOOL:
        return bool, False
    if to in FLOATS:
        return (to_single if to == FLOAT else float), False
    limits = BOUNDS.get(to) or moments.LIMITS.get(to)
    if limits is None:
        return None
    low, high = limits
    fails = not (low <= BOUNDS[source][0] and BOUNDS[source][1] <= high)
    if to in moments.ZONED:
        return lambda value: (value, _ZONE) if low <= value <= high else FAILED, fails
    return (_within_limits(low, high) if fails else identity), fails


def _from_float(to: Type) -> Converter | None:
    if to in FLOATS:
        return (to_single if to == FLOAT else identity), False
    if to == BOOL:
        return lambda value: FAILED if value != value else value != 0, True
    if to not in INTEGERS:
        return None
    low, high = BOUNDS[to]

    def whole(value: float) -> Value:
        if not math.isfinite(value):
            return FAILED
        cut = math.trunc(value)
        return cut if low <= cut <= high else FAILED

    return whole, True


def _to_decimal(source: Type, to: DecimalType) -> Converter | None:
    limit = 10**to.precision
    if isinstance(source, DecimalType):
        other = source
        if to.precision - to.scale >= other.precision - other.scale:
            # Only rounding can add a digit here, and the result is then an infinity, not a failure.
            return lambda value: decimals.rescale(value, other, to), False

        def rescale(value: int) -> Value:
            result = decimals.rescale(value, other, to)
            return FAILED if decimals.is_finite(value) and not decimals.is_finite(result) else result

        return rescale, True
    if source not in INTEGERS:
        return None
    factor = 10**to.scale
    # The type of a CAST is decided before any value is known: Optional if some value of the source might not fit.
    fails = to.precision - to.scale < digits_of(source)
    return lambda value: value * factor if -limit < value * factor < limit else FAILED, fails


def _from_decimal(source: DecimalType, to: Type) -> Converter | None:
    if to in FLOATS:
        single = to == FLOAT

        def nearest(value: int) -> float:
            number = decimals.to_float(value, source.scale)
            return to_single(number) if single else number

        return nearest, False
    if to not in INTEGERS:
        return None
    low, high = BOUNDS[to]

    def whole(value: int) -> Value:
        cut = decimals.to_int(value, source.scale)
        return cut if cut is not None and low <= cut <= high else FAILED

    return whole, True


# --- moments and intervals -------------------------------------------------------------------------------------------


def _from_moment(source: Type, to: Type) -> Converter | None:
    if to in INTEGERS or to in FLOATS:
        return _to_number(source, to)
    if source in moments.INTERVALS and to in moments.INTERVALS:
        low, high = moments.LIMITS[to]
        fails = moments.LIMITS[source][1] > high
        return (_within_limits(low, high) if fails else identity), fails
    if source in moments.MOMENTS and to in moments.MOMENTS:
        return _to_moment(source, to)
    return None


def _number_reader(source: Type) -> Callable[[Any], int]:
    return (lambda value: int(value[0])) if source in moments.ZONED else int


def _to_number(source: Type, to: Type) -> Converter:
    number = _number_reader(source)
    if to in FLOATS:
        single = to == FLOAT
        return lambda value: to_single(number(value)) if single else float(number(value)), False
    low, high = BOUNDS[to]
    least, greatest = moments.LIMITS[source]
    within = _within_limits(low, high)
    return lambda value: within(number(value)), not (low <= least and greatest <= high)


def _to_moment(source: Type, to: Type) -> Converter:
    number = _number_reader(source)
    low, high = moments.LIMITS[to]
    least, greatest = (moments.rescale(limit, source, to) for limit in moments.LIMITS[source])
    fails = not (low <= least and greatest <= high)

    if to in _ZONED_DAYS and source in moments.ZONED and source not in _ZONED_DAYS:
        return _to_zoned_day(source, to, fails)

    def convert(value: Any) -> Value:
        there = moments.rescale(number(value), source, to)
        if not low <= there <= high:
            return FAILED
        if to not in moments.ZONED:
            return there
        return (there, value[1] if source in moments.ZONED else _ZONE)

    return convert, fails


_ZONED_DAYS: Final = (TZ_DATE, TZ_DATE32)


def _to_zoned_day(source: Type, to: Type, fails: bool) -> Converter:
    scale = moments.SCALES[source]

    def convert(value: tuple[int, str]) -> Value:
        micros, name = value[0] * scale, value[1]
        if fails and not moments.fits(to, zones.find_day(micros, name)):
            return FAILED
        return zones.day_of(to, micros, name), name

    return convert, fails


# --- literals --------------------------------------------------------------------------------------------------------


def convert_literal(value: Value, source: Type, to: Type) -> Value:
    """The value of a literal in another type; `FAILED` if that type cannot hold it, or takes no such literal.

    An integer literal becomes a number, date, time or interval. A String becomes a Utf8, Json, JsonDocument or Yson. A
    Utf8 becomes one of the last three.
    """
    if source in INTEGERS:
        return _literal_integer(value, to)
    if source in (STRING, UTF8) and to in (UTF8, JSON, JSON_DOCUMENT, YSON):
        converter = find_cast(source, to)
        return converter[0](value) if converter else FAILED
    return FAILED


def _literal_integer(value: int, to: Type) -> Value:
    if to == DYNUMBER:
        return Decimal(value)
    if isinstance(to, DecimalType):
        # Int64 and Uint64 hold every integer literal between them.
        converter = _to_decimal(INT64 if value < 0 else UINT64, to)
    elif to in FLOATS or to in INTEGERS or to in moments.NARROW or to in moments.WIDE or to in moments.INTERVALS:
        converter = _from_integer(INT64 if value < 0 else UINT64, to)
    else:
        converter = None
    return converter[0](value) if converter else FAILED


# --- bits ------------------------------------------------------------------------------------------------------------


def find_bitcast(source: Type, to: Type) -> Callable[[Any], Value] | None:
    """Return the converter of BITCAST, which keeps the low bits of an integer; None unless both types are integers."""
    if to not in INTEGERS or source not in (*INTEGERS, BOOL):
        return None
    low, high = BOUNDS[to]
    span = high - low + 1
    # Modulo 2^bits, moved into the range of the type.
    return lambda value: (int(value) - low) % span + low
