"""`$add` and its kin, rounding, powers and logarithms. Null or missing among the operands gives null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.expressions.core import Function, Parser, fixed, nothing, ranged
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
        elif nothing(value):
            null = True
        else:
            raise MqlError(14, f"$add only supports numeric or date types, not {type_name(value)}")
    if null:
        return None
    return _date(total, "$add") if date else total


def _date(milliseconds: Number, name: str) -> DatetimeMS:
    """Rounded to whole milliseconds. MqlError 15 beyond an int64."""
    exact = numbers.rounded(milliseconds, 0)
    if numbers.is_nan(exact) or not INT64_MIN <= numbers.double_of(exact) < INT64_MAX:
        raise MqlError(15, f"date overflow in {name}")
    whole = numbers.integral(exact)
    assert whole is not None
    return DatetimeMS(whole)


def _subtract(one: Value, other: Value) -> Value:
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.subtract(one, other)
    if nothing(one) or nothing(other):
        return None
    if type(one) is DatetimeMS:
        if type(other) is DatetimeMS:
            return Int64(int(one) - int(other))
        if type(other) in NUMBERS:
            return _date(numbers.subtract(Int64(int(one)), other), "$subtract")
    raise MqlError(14, f"can't $subtract {type_name(other)} from {type_name(one)}")


def _multiply(*values: Value) -> Value:
    product: Number = 1
    null = False
    for value in values:
        if type(value) in NUMBERS:
            product = numbers.multiply(product, value)
        elif nothing(value):
            null = True
        else:
            raise MqlError(14, f"$multiply only supports numeric types, not {type_name(value)}")
    return None if null else product


def _two(name: str, code: int, function: Callable[[Number, Number], Number]) -> Function:
    def both(one: Value, other: Value) -> Value:
        if type(one) in NUMBERS and type(other) in NUMBERS:
            return function(one, other)
        if nothing(one) or nothing(other):
            return None
        raise MqlError(code, f"{name} only supports numeric types, not {type_name(one)} and {type_name(other)}")

    return both


def numeric(name: str, function: Callable[[Number], Value]) -> Function:
    """A function of one number. MqlError 28765 for what is none."""

    def single(value: Value) -> Value:
        if type(value) in NUMBERS:
            return value if numbers.is_nan(value) else function(value)
        if nothing(value):
            return None
        raise MqlError(28765, f"{name} only supports numeric types, not {type_name(value)}")

    return single


def _logarithm(name: str, function: Callable[[Number], Value]) -> Function:
    """As `numeric`; NaN is a double's, whichever type it had."""
    single = numeric(name, function)
    return lambda value: math.nan if type(value) in NUMBERS and numbers.is_nan(value) else single(value)


def _placed(name: str, function: Callable[[Number, int], Number]) -> Function:
    def at(value: Value, place: Value = 0) -> Value:
        if nothing(value) or nothing(place):
            return None
        if type(value) not in NUMBERS:
            raise MqlError(51081, f"{name} only supports numeric types, not {type_name(value)}")
        if type(place) not in NUMBERS:
            raise MqlError(16004, f"can't convert from BSON type {type_name(place)} to long")
        if not math.isfinite(numbers.double_of(place)):
            raise MqlError(31109, f"Can't coerce out of range value {numbers.plain(place)} to long")
        digits = numbers.integral(place)
        if digits is None:
            raise MqlError(51082, f"precision argument to  {name} must be a integral value")
        if not -20 <= digits <= 100:
            raise MqlError(51083, f"cannot apply {name} with precision value {digits} value must be in [-20, 100]")
        return function(value, digits)

    return at


def _power(base: Value, exponent: Value) -> Value:
    if nothing(base) or nothing(exponent):
        return None
    if type(base) not in NUMBERS:
        raise MqlError(28762, f"$pow's base must be numeric, not {type_name(base)}")
    if type(exponent) not in NUMBERS:
        raise MqlError(28763, f"$pow's exponent must be numeric, not {type_name(exponent)}")
    return numbers.power(base, exponent)


def _log(value: Value, base: Value) -> Value:
    if nothing(value) or nothing(base):
        return None
    if type(value) not in NUMBERS:
        raise MqlError(28756, f"$log's argument must be numeric, not {type_name(value)}")
    if type(base) not in NUMBERS:
        raise MqlError(28757, f"$log's base must be numeric, not {type_name(base)}")
    if numbers.is_nan(value) or numbers.is_nan(base):
        return float("nan")
    return numbers.log(value, base)


def _bitwise(name: str, start: int, function: Callable[[int, int], int]) -> Function:
    def all_of(*values: Value) -> Value:
        result, wide, null = start, False, False
        for value in values:
            if nothing(value):
                null = True
            elif type(value) not in (int, Int64):
                raise MqlError(14, f"{name} only supports int and long operands.")
            else:
                wide = wide or type(value) is Int64
                result = function(result, int(value))
        return None if null else numbers.whole(result, wide)

    return all_of


def _bit_not(value: Value) -> Value:
    if nothing(value):
        return None
    if type(value) not in (int, Int64):
        if type(value) not in NUMBERS:
            raise MqlError(28765, f"$bitNot only supports numeric types, not {type_name(value)}")
        raise MqlError(14, f"$bitNot only supports int and long, not: {type_name(value)}.")
    return numbers.whole(~int(value), type(value) is Int64)


OPERATORS: Final[Mapping[str, Parser]] = {
    "$add": ranged(0, None, _add),
    "$subtract": fixed(2, _subtract),
    "$multiply": ranged(0, None, _multiply),
    "$divide": fixed(2, _two("$divide", 14, numbers.divide)),
    "$mod": fixed(2, _two("$mod", 16611, numbers.modulo)),
    "$abs": fixed(1, numeric("$abs", numbers.absolute)),
    "$ceil": fixed(1, numeric("$ceil", numbers.ceil)),
    "$floor": fixed(1, numeric("$floor", numbers.floor)),
    "$round": ranged(1, 2, _placed("$round", numbers.rounded)),
    "$trunc": ranged(1, 2, _placed("$trunc", numbers.truncated)),
    "$sqrt": fixed(1, numeric("$sqrt", numbers.square_root)),
    "$exp": fixed(1, numeric("$exp", numbers.exponential)),
    "$ln": fixed(1, _logarithm("$ln", numbers.natural_log)),
    "$log10": fixed(1, _logarithm("$log10", numbers.decimal_log)),
    "$log": fixed(2, _log),
    "$pow": fixed(2, _power),
    "$bitAnd": ranged(0, None, _bitwise("$bitAnd", -1, int.__and__)),
    "$bitOr": ranged(0, None, _bitwise("$bitOr", 0, int.__or__)),
    "$bitXor": ranged(0, None, _bitwise("$bitXor", 0, int.__xor__)),
    "$bitNot": fixed(1, _bit_not),
}
