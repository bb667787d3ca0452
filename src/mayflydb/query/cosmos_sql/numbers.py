"""Arithmetic on IEEE doubles: results that are not finite are undefined, whole results are ints and print without a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

EXACT: Final = 1 << 53
"""Every integer up to this one is exact as a double."""

_WORD: Final = 1 << 32
_LONG: Final = 1 << 63


def normalize_number(result: float) -> Value:
    """Normalize a result: undefined if not finite, an int if whole and exact."""
    if type(result) is int:
        if -EXACT <= result <= EXACT:
            return result
        try:
            return float(result)
        except OverflowError:
            return UNDEFINED
    if not math.isfinite(result):
        return UNDEFINED
    return int(result) if result.is_integer() and -EXACT <= result <= EXACT else result


def to_double(value: float) -> float:
    """Convert an integer beyond the exact ones to a double, so that no operand of arithmetic grows without bound."""
    if type(value) is int and not -EXACT <= value <= EXACT:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def to_whole(value: float) -> int | None:
    """Return the integer that `value` equals; None for a fraction and for an integer that does not fit 64 bits."""
    if type(value) is int:
        return value if -_LONG <= value < _LONG else None
    return int(value) if -_LONG <= value < _LONG and value.is_integer() else None


def to_long(result: int) -> Value:
    """Return the result of a 64-bit integer function; undefined if it does not fit."""
    return result if -_LONG <= result < _LONG else UNDEFINED


def add(left: float, right: float) -> Value:
    """`left + right`."""
    return normalize_number(to_double(left) + to_double(right))


def subtract(left: float, right: float) -> Value:
    """`left - right`."""
    return normalize_number(to_double(left) - to_double(right))


def multiply(left: float, right: float) -> Value:
    """`left * right`."""
    return normalize_number(to_double(left) * to_double(right))


def divide(left: float, right: float) -> Value:
    """`left / right`; undefined for a zero divisor."""
    return normalize_number(to_double(left) / to_double(right)) if right else UNDEFINED


def remainder(left: float, right: float) -> Value:
    """`left % right` with the sign of `left`, as in JavaScript; undefined for a zero divisor."""
    dividend = to_double(left)
    # `math.fmod` raises an error for these.
    if not right or not math.isfinite(dividend):
        return UNDEFINED
    return normalize_number(math.fmod(dividend, to_double(right)))


def negate(value: float) -> Value:
    """`-value`."""
    return normalize_number(-to_double(value))


def to_int32(value: float) -> int:
    """JavaScript's ToInt32: truncate, reduce modulo 2^32, interpret as signed."""
    held = to_double(value)
    if not math.isfinite(held):
        return 0
    word = math.trunc(held) % _WORD
    return word - _WORD if word >= _WORD // 2 else word


def _shift(value: float) -> int:
    return to_int32(value) & 31


ARITHMETIC: Final[dict[str, Callable[[float, float], Value]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "&": lambda left, right: to_int32(left) & to_int32(right),
    "|": lambda left, right: to_int32(left) | to_int32(right),
    "^": lambda left, right: to_int32(left) ^ to_int32(right),
    "<<": lambda left, right: to_int32(to_int32(left) << _shift(right)),
    ">>": lambda left, right: to_int32(left) >> _shift(right),
    ">>>": lambda left, right: (to_int32(left) % _WORD) >> _shift(right),
}
"""The infix operators on two numbers."""
