"""Arithmetic operators, rounding, powers and logarithms. A null or missing operand gives null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Expression,
    Function,
    Parser,
    apply_function,
    fixed_arity,
    is_nullish,
    ranged_arity,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import Number
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN, NUMBERS, Value, type_name


def _add(*values: Value) -> Value:
    total: Number = 0
    date = False
    null = False
    for value in values:
        kind = type(value)
        if kind in NUMBERS:
            total = numbers.add(total, value)
        elif kind is DatetimeMS:
            if date:
                raise MqlError(16612, "only one date allowed in an $add expression")
            date = True
            total = numbers.add(total, Int64(int(value)))
        elif is_nullish(value):
            null = True
        else:
            raise MqlError(14, f"$add only supports numeric or date types, not {type_name(value)}")
    # Only at the end: a wrong type is an error even behind a null.
    if null:
        return None
    return _round_to_date(total, "$add") if date else total


def _round_to_date(milliseconds: Number, name: str) -> DatetimeMS:
    """Return a date, rounded to whole milliseconds. MqlError 15 beyond an int64."""
    exact = numbers.round_to(milliseconds, 0)
    if numbers.is_nan(exact) or not INT64_MIN <= numbers.double_of(exact) < INT64_MAX:
        raise MqlError(15, f"date overflow in {name}")
    whole = numbers.exact_integer(exact)
    assert whole is not None
    return DatetimeMS(whole)


def _subtract(one: Value, other: Value) -> Value:
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.subtract(one, other)
    if is_nullish(one) or is_nullish(other):
        return None
    if type(one) is DatetimeMS:
        if type(other) is DatetimeMS:
            span = int(one) - int(other)
            if not -(1 << 63) <= span < 1 << 63:
                raise MqlError(159, f"$subtract: {int(one)} ms minus {int(other)} ms is out of range")
            return Int64(span)
        if type(other) in NUMBERS:
            return _round_to_date(numbers.subtract(Int64(int(one)), other), "$subtract")
    raise MqlError(14, f"can't $subtract {type_name(other)} from {type_name(one)}")


def _multiply(*values: Value) -> Value:
    product: Number = 1
    null = False
    for value in values:
        if type(value) in NUMBERS:
            product = numbers.multiply(product, value)
        elif is_nullish(value):
            null = True
        else:
            raise MqlError(14, f"$multiply only supports numeric types, not {type_name(value)}")
    return None if null else product


def _binary_operator(name: str, code: int, function: Callable[[Number, Number], Number]) -> Function:
    def both(one: Value, other: Value) -> Value:
        if type(one) in NUMBERS and type(other) in NUMBERS:
            return function(one, other)
        if is_nullish(one) or is_nullish(other):
            return None
        raise MqlError(code, f"{name} only supports numeric types, not {type_name(one)} and {type_name(other)}")

    return both


def numeric_function(name: str, function: Callable[[Number], Value]) -> Function:
    """Return a function of one number. MqlError 28765 for an argument of another type."""

    def single(value: Value) -> Value:
        if type(value) in NUMBERS:
            return value if numbers.is_nan(value) else function(value)
        if is_nullish(value):
            return None
        raise MqlError(28765, f"{name} only supports numeric types, not {type_name(value)}")

    return single


def _logarithm(name: str, function: Callable[[Number], Value]) -> Function:
    """Return `numeric_function` of a function, except that NaN of any type gives the double NaN."""
    single = numeric_function(name, function)
    return lambda value: math.nan if type(value) in NUMBERS and numbers.is_nan(value) else single(value)


def _rounding_operator(name: str, function: Callable[[Number, int], Number]) -> Function:
    def at(value: Value, place: Value = 0) -> Value:
        if is_nullish(value) or is_nullish(place):
            return None
        if type(value) not in NUMBERS:
            raise MqlError(51081, f"{name} only supports numeric types, not {type_name(value)}")
        if type(place) not in NUMBERS:
            raise MqlError(16004, f"can't convert from BSON type {type_name(place)} to long")
        if not math.isfinite(numbers.double_of(place)):
            raise MqlError(31109, f"Can't coerce out of range value {numbers.format_number(place)} to long")
        digits = numbers.exact_integer(place)
        if digits is None:
            raise MqlError(51082, f"precision argument to  {name} must be a integral value")
        # The limits of the server.
        if not -20 <= digits <= 100:
            raise MqlError(51083, f"cannot apply {name} with precision value {digits} value must be in [-20, 100]")
        return function(value, digits)

    return at


def _power(base: Value, exponent: Value) -> Value:
    if is_nullish(base) or is_nullish(exponent):
        return None
    if type(base) not in NUMBERS:
        raise MqlError(28762, f"$pow's base must be numeric, not {type_name(base)}")
    if type(exponent) not in NUMBERS:
        raise MqlError(28763, f"$pow's exponent must be numeric, not {type_name(exponent)}")
    return numbers.power(base, exponent)


def _log(value: Value, base: Value) -> Value:
    if is_nullish(value) or is_nullish(base):
        return None
    if type(value) not in NUMBERS:
        raise MqlError(28756, f"$log's argument must be numeric, not {type_name(value)}")
    if type(base) not in NUMBERS:
        raise MqlError(28757, f"$log's base must be numeric, not {type_name(base)}")
    if numbers.is_nan(value) or numbers.is_nan(base):
        return float("nan")
    return numbers.log(value, base)


def _bitwise_operator(name: str, start: int, function: Callable[[int, int], int]) -> Function:
    def all_of(*values: Value) -> Value:
        result, wide, null = start, False, False
        for value in values:
            if is_nullish(value):
                null = True
            elif type(value) not in (int, Int64):
                raise MqlError(14, f"{name} only supports int and long operands.")
            else:
                wide = wide or type(value) is Int64
                result = function(result, int(value))
        return None if null else numbers.integer_result(result, wide)

    return all_of


def _bit_not(value: Value) -> Value:
    if is_nullish(value):
        return None
    if type(value) not in (int, Int64):
        if type(value) not in NUMBERS:
            raise MqlError(28765, f"$bitNot only supports numeric types, not {type_name(value)}")
        raise MqlError(14, f"$bitNot only supports int and long, not: {type_name(value)}.")
    return numbers.integer_result(~int(value), type(value) is Int64)


def _sigmoid(value: Value) -> Value:
    """1 / (1 + e^-x)."""
    if is_nullish(value):
        return None
    if type(value) not in NUMBERS:
        raise MqlError(14, f"$sigmoid only supports numeric types, not {type_name(value)}")
    return numbers.divide(1, numbers.add(1, numbers.exponential(numbers.multiply(-1, value))))


def _compile_sigmoid(name: str, spec: Value, scope: CompileScope) -> Expression:
    """A list is a value, and not a list of arguments."""
    return apply_function(_sigmoid, [scope.compile(spec)])


OPERATORS: Final[Mapping[str, Parser]] = {
    "$add": ranged_arity(0, None, _add),
    "$subtract": fixed_arity(2, _subtract),
    "$multiply": ranged_arity(0, None, _multiply),
    "$divide": fixed_arity(2, _binary_operator("$divide", 14, numbers.divide)),
    "$mod": fixed_arity(2, _binary_operator("$mod", 16611, numbers.modulo)),
    "$abs": fixed_arity(1, numeric_function("$abs", numbers.absolute)),
    "$ceil": fixed_arity(1, numeric_function("$ceil", numbers.ceil)),
    "$floor": fixed_arity(1, numeric_function("$floor", numbers.floor)),
    "$round": ranged_arity(1, 2, _rounding_operator("$round", numbers.round_to)),
    "$trunc": ranged_arity(1, 2, _rounding_operator("$trunc", numbers.truncate_to)),
    "$sqrt": fixed_arity(1, numeric_function("$sqrt", numbers.square_root)),
    "$exp": fixed_arity(1, numeric_function("$exp", numbers.exponential)),
    "$ln": fixed_arity(1, _logarithm("$ln", numbers.natural_log)),
    "$log10": fixed_arity(1, _logarithm("$log10", numbers.decimal_log)),
    "$log": fixed_arity(2, _log),
    "$sigmoid": _compile_sigmoid,
    "$pow": fixed_arity(2, _power),
    # Without operands the result is the neutral element: all bits for `$bitAnd`, none for the others.
    "$bitAnd": ranged_arity(0, None, _bitwise_operator("$bitAnd", -1, int.__and__)),
    "$bitOr": ranged_arity(0, None, _bitwise_operator("$bitOr", 0, int.__or__)),
    "$bitXor": ranged_arity(0, None, _bitwise_operator("$bitXor", 0, int.__xor__)),
    "$bitNot": fixed_arity(1, _bit_not),
}
