"""Mathematical functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from mayflydb.query.cosmos_sql.context import Context
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import normalize_number, to_double, to_long, to_whole
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

_LONG_BITS: Final = 64


def _real(compute: Callable[..., float]) -> Callable[..., Value]:
    """Build a function of doubles; undefined outside of its domain."""

    def evaluate(*values: float) -> Value:
        try:
            return normalize_number(compute(*map(to_double, values)))
        except (ValueError, OverflowError, ZeroDivisionError):
            return UNDEFINED

    return evaluate


def _integral(compute: Callable[..., int]) -> Callable[..., Value]:
    """Build a function of 64-bit integers; undefined for fractions and for results that do not fit."""

    def evaluate(*values: float) -> Value:
        integers = [to_whole(value) for value in values]
        if None in integers:
            return UNDEFINED
        try:
            return to_long(compute(*integers))
        except (ValueError, ZeroDivisionError):
            return UNDEFINED

    return evaluate


def _round(value: float) -> float:
    """Round midpoints away from zero. To add a half and truncate would round 0.49999999999999994 up."""
    fraction, integer = math.modf(value)
    return integer + math.copysign(1.0, value) if abs(fraction) >= 0.5 else integer


def _quotient(left: int, right: int) -> int:
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def _left_shift(value: int, count: int) -> int:
    if not 0 <= count < _LONG_BITS:
        raise ValueError(count)
    # Bits beyond the 64th are lost, and the 64th is the sign.
    shifted = (value << count) % (1 << _LONG_BITS)
    return shifted - (1 << _LONG_BITS) if shifted >> (_LONG_BITS - 1) else shifted


def _right_shift(value: int, count: int) -> int:
    if not 0 <= count < _LONG_BITS:
        raise ValueError(count)
    return value >> count


def _logarithm(value: float, base: float = math.e) -> float:
    # `math.log` with a base divides two logarithms, which may change the last digit.
    return math.log(value) if base == math.e else math.log(value, base)


def _bin(value: float, size: float = 1) -> float:
    return math.floor(value / size) * size


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _random(context: Context) -> Value:
    return context.draw_random()


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("ABS", "n", _real(abs)),
    function("ACOS", "n", _real(math.acos)),
    function("ASIN", "n", _real(math.asin)),
    function("ATAN", "n", _real(math.atan)),
    function("ATN2", "nn", _real(math.atan2)),
    function("CEILING", "n", _real(math.ceil)),
    function("COS", "n", _real(math.cos)),
    function("COT", "n", _real(lambda value: 1 / math.tan(value))),
    function("DEGREES", "n", _real(math.degrees)),
    function("EXP", "n", _real(math.exp)),
    function("FLOOR", "n", _real(math.floor)),
    function("INTADD", "nn", _integral(lambda left, right: left + right)),
    function("INTBITAND", "nn", _integral(lambda left, right: left & right)),
    function("INTBITLEFTSHIFT", "nn", _integral(_left_shift)),
    function("INTBITNOT", "n", _integral(lambda value: ~value)),
    function("INTBITOR", "nn", _integral(lambda left, right: left | right)),
    function("INTBITRIGHTSHIFT", "nn", _integral(_right_shift)),
    function("INTBITXOR", "nn", _integral(lambda left, right: left ^ right)),
    function("INTDIV", "nn", _integral(_quotient)),
    function("INTMOD", "nn", _integral(lambda left, right: left - right * _quotient(left, right))),
    function("INTMUL", "nn", _integral(lambda left, right: left * right)),
    function("INTSUB", "nn", _integral(lambda left, right: left - right)),
    function("LOG", "n?n", _real(_logarithm)),
    function("LOG10", "n", _real(math.log10)),
    function("NUMBERBIN", "n?n", _real(_bin)),
    function("PI", "", lambda: math.pi),
    function("POWER", "nn", _real(math.pow)),
    function("RADIANS", "n", _real(math.radians)),
    function("RAND", "", _random, contextual=True),
    function("ROUND", "n", _real(_round)),
    function("SIGN", "n", _real(_sign)),
    function("SIN", "n", _real(math.sin)),
    function("SQRT", "n", _real(math.sqrt)),
    function("SQUARE", "n", _real(lambda value: value * value)),
    function("TAN", "n", _real(math.tan)),
    function("TRUNC", "n", _real(math.trunc)),
)
