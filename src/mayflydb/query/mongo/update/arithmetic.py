"""Arithmetic of `$inc`, `$mul` and `$bit`: the wider type wins, and an int64 that overflows is an error."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable
from typing import Any, Final

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

from mayflydb.query.mongo.values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Value, type_name

_DECIMAL: Final = create_decimal128_context()


def add(one: Value, other: Value) -> Value | None:
    """Return the sum of two numbers; None if the sum of two integers exceeds an int64."""
    return _combine(one, other, operator.add, _DECIMAL.add)


def multiply(one: Value, other: Value) -> Value | None:
    """Return the product of two numbers; None if the product of two integers exceeds an int64."""
    return _combine(one, other, operator.mul, _DECIMAL.multiply)


def bitwise(one: Value, other: Value, operation: Callable[[int, int], int]) -> Value:
    """Apply `operation` to two integers; the result is an int64 if one of them is."""
    return _integer_result(operation(int(one), int(other)), is_long(one) or is_long(other))


def is_integer(value: Value) -> bool:
    """Return whether a value is an int32 or int64."""
    return type(value) in (int, Int64)


def is_long(value: Value) -> bool:
    """Return whether a value is an int64. An `int` outside the range of an int32 counts as one."""
    return type_name(value) == "long"


def _combine(
    one: Value,
    other: Value,
    plain: Callable[[Any, Any], Any],
    exact: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
) -> Value | None:
    if type(one) is Decimal128 or type(other) is Decimal128:
        return Decimal128(exact(_decimal_of(one), _decimal_of(other)))
    if type(one) is float or type(other) is float:
        return plain(float(one), float(other))
    result = plain(int(one), int(other))
    # Expressions go on with a double here; an update refuses the change of type.
    if not INT64_MIN <= result <= INT64_MAX:
        return None
    return _integer_result(result, is_long(one) or is_long(other))


def _integer_result(value: int, long: bool) -> Value:
    return Int64(value) if long or not INT32_MIN <= value <= INT32_MAX else value


def _decimal_of(value: Value) -> decimal.Decimal:
    if type(value) is Decimal128:
        return value.to_decimal()
    if type(value) is float:
        # The server takes only 15 digits of a double.
        return _DECIMAL.create_decimal(f"{value:.15g}")
    return decimal.Decimal(int(value))
