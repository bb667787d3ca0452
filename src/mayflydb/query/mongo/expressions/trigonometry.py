"""Trigonometric operators; angles are radians. A decimal gives a decimal, any other number a double."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from bson import Decimal128

from mayflydb.query.mongo.decimal_functions import FUNCTIONS, atan2
from mayflydb.query.mongo.expressions.arithmetic import numeric_function
from mayflydb.query.mongo.expressions.core import Function, Parser, fixed_arity, is_nullish
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import Number, decimal_of, double_of, format_number
from mayflydb.query.mongo.values import NUMBERS, Value, type_name

_INF: Final = math.inf
_DOMAINS: Final[Mapping[str, tuple[str, float, float, str]]] = {
    "$sin": ("(", -_INF, _INF, ")"),
    "$cos": ("(", -_INF, _INF, ")"),
    "$tan": ("(", -_INF, _INF, ")"),
    "$asin": ("[", -1, 1, "]"),
    "$acos": ("[", -1, 1, "]"),
    "$acosh": ("[", 1, _INF, "]"),
    "$atanh": ("[", -1, 1, "]"),
}

_DOUBLES: Final[Mapping[str, Callable[[float], float]]] = {
    "$sin": math.sin,
    "$cos": math.cos,
    "$tan": math.tan,
    "$asin": math.asin,
    "$acos": math.acos,
    "$atan": math.atan,
    "$sinh": math.sinh,
    "$cosh": math.cosh,
    "$tanh": math.tanh,
    "$asinh": math.asinh,
    "$acosh": math.acosh,
    "$atanh": math.atanh,
    "$degreesToRadians": math.radians,
    "$radiansToDegrees": math.degrees,
}


def _trigonometric_operator(name: str) -> Function:
    double, decimal = _DOUBLES[name], FUNCTIONS[name]
    opening, low, high, closing = _DOMAINS.get(name, ("[", -_INF, _INF, "]"))

    def function(value: Number) -> Number:
        number = double_of(value)
        inside = low < number < high if opening == "(" else low <= number <= high
        if not inside and number == number:
            ends = f"{opening}{format_number(float(low)).lower()[:4]},{format_number(float(high)).lower()[:3]}{closing}"
            raise MqlError(50989, f"cannot apply {name} to {format_number(value)}, value must be in {ends}")
        if type(value) is Decimal128:
            return Decimal128(decimal(value.to_decimal()))
        # `math.atanh` raises at the poles, where C gives an infinity.
        if name == "$atanh" and abs(number) == 1:
            return math.copysign(math.inf, number)
        try:
            return double(number)
        except OverflowError:
            # Only sinh and cosh overflow, and cosh is positive on both sides.
            return math.copysign(math.inf, number) if name == "$sinh" else math.inf

    return numeric_function(name, function)


def _atan2(y: Value, x: Value) -> Value:
    if is_nullish(y) or is_nullish(x):
        return None
    for value in (y, x):
        if type(value) not in NUMBERS:
            raise MqlError(
                51044 if value is y else 51045, f"$atan2 only supports numeric types, not {type_name(value)}"
            )
    if Decimal128 in (type(y), type(x)):
        return Decimal128(atan2(decimal_of(y), decimal_of(x)))
    return math.atan2(double_of(y), double_of(x))


OPERATORS: Final[Mapping[str, Parser]] = {
    **{name: fixed_arity(1, _trigonometric_operator(name)) for name in _DOUBLES},
    "$atan2": fixed_arity(2, _atan2),
}
