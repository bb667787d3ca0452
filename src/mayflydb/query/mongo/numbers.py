"""Arithmetic of int32, int64, double and Decimal128.

The wider type wins. An int32 result that overflows becomes an int64, an int64 result that overflows a double. Decimals have 34
digits. Callers make sure that operands are numbers (`values.is_number`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from typing import Final, TypeAlias

from bson import Decimal128, Int64

from mayflydb.query.mongo import decimal_powers
from mayflydb.query.mongo.decimal_functions import remainder
from mayflydb.query.mongo.decimal_powers import DECIMAL
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Value

Number: TypeAlias = int | Int64 | float | Decimal128

_NAN: Final = Decimal("NaN")
# Decimals of up to 15 digits survive the conversion to a double and back.
_DOUBLE_CONTEXT: Final = Context(prec=15, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, traps=[])
# A Decimal128 has up to 6145 digits before the point, and `$round` keeps up to 100 behind it. With a smaller precision
# `quantize` would give NaN.
_ROUNDING_CONTEXT: Final = Context(prec=7000, rounding=ROUND_HALF_EVEN, traps=[])


def decimal_of(value: Number) -> Decimal:
    """Convert a number to a decimal. A double keeps 15 digits, as in the server's conversion."""
    if type(value) is Decimal128:
        number: Decimal = value.to_decimal()
        return _NAN if number.is_snan() else number
    if type(value) is not float:
        return Decimal(int(value))  # type: ignore[arg-type]
    number = Decimal(value)
    if not number.is_finite() or not number:
        return number
    # The server pads to 15 digits, which results show: 0.1 becomes 0.100000000000000.
    number = _DOUBLE_CONTEXT.create_decimal(number)
    return _DOUBLE_CONTEXT.quantize(number, Decimal((0, (1,), number.adjusted() - 14)))


def to_decimal128(number: Decimal) -> Decimal128:
    """Return a decimal as Decimal128, rounded to 34 digits."""
    return Decimal128(DECIMAL.plus(number) if not number.is_snan() else number)


def double_of(value: Number) -> float:
    """Return the nearest double; infinity beyond its range."""
    if type(value) is Decimal128:
        return float(decimal_of(value))
    return float(value)  # type: ignore[arg-type]


def integer_result(value: int, wide: bool) -> Number:
    """Return an exact integer result as int32 (not if `wide`) or int64, or as a double if it exceeds an int64."""
    if not wide and INT32_MIN <= value <= INT32_MAX:
        return int(value)
    return Int64(value) if INT64_MIN <= value <= INT64_MAX else float(value)


def exact_integer(value: Value) -> int | None:
    """Return the integer value of a number of any type; None for a fraction, an infinity, NaN, or another type."""
    kind = type(value)
    if kind is int or kind is Int64:
        return int(value)
    if kind is float:
        return int(value) if value.is_integer() else None
    if kind is Decimal128:
        number: Decimal = value.to_decimal()
        # No such number fits an int64, and int() of 1E+6144 would build 6145 digits.
        if not number.is_finite() or number.adjusted() > 40:
            return None
        return int(number) if number == number.to_integral_value() else None
    return None


def exact_int32(value: Value) -> int | None:
    """Return `exact_integer` of a value if it fits an int32, else None."""
    number = exact_integer(value)
    return number if number is not None and INT32_MIN <= number <= INT32_MAX else None


def is_nan(value: Number) -> bool:
    """Return whether a number is NaN."""
    if type(value) is Decimal128:
        return bool(value.to_decimal().is_nan())
    return value != value


# --- two operands ----------------------------------------------------------------------------------------------------


def _has_long(one: Number, other: Number) -> bool:
    return type(one) is Int64 or type(other) is Int64


def _promote_and_apply(
    one: Number,
    other: Number,
    ints: Callable[[int, int], int],
    doubles: Callable[[float, float], float],
    decimals: Callable[[Decimal, Decimal], Decimal],
) -> Number:
    kinds = type(one), type(other)
    if Decimal128 in kinds:
        return Decimal128(decimals(decimal_of(one), decimal_of(other)))
    if float in kinds:
        return doubles(double_of(one), double_of(other))
    return integer_result(ints(int(one), int(other)), _has_long(one, other))  # type: ignore[arg-type]


def add(one: Number, other: Number) -> Number:
    """Return the sum."""
    if type(one) is int and type(other) is int:
        return integer_result(one + other, False)
    return _promote_and_apply(one, other, int.__add__, float.__add__, DECIMAL.add)


def subtract(one: Number, other: Number) -> Number:
    """Return the difference."""
    return _promote_and_apply(one, other, int.__sub__, float.__sub__, DECIMAL.subtract)


def multiply(one: Number, other: Number) -> Number:
    """Return the product."""
    return _promote_and_apply(one, other, int.__mul__, float.__mul__, DECIMAL.multiply)


def divide(one: Number, other: Number) -> Number:
    """Return the quotient: a double, or a decimal if an operand is one. MqlError 2 for a divisor of 0."""
    if Decimal128 in (type(one), type(other)):
        divisor = decimal_of(other)
        if not divisor:
            raise bad_value("can't $divide by zero")
        return Decimal128(DECIMAL.divide(decimal_of(one), divisor))
    divisor_ = double_of(other)
    if divisor_ == 0:
        raise bad_value("can't $divide by zero")
    return double_of(one) / divisor_


def modulo(one: Number, other: Number) -> Number:
    """Return the remainder of a truncating division, with the sign of `one`.

    MqlError 16610 for a divisor of 0, 5733415 if one of the numbers is a decimal.
    """
    # A decimal below the smallest double converts to 0 and is still a valid divisor.
    if double_of(other) == 0 and not (type(other) is Decimal128 and decimal_of(other)):
        raise MqlError(5733415 if Decimal128 in (type(one), type(other)) else 16610, "can't $mod by zero")
    return _promote_and_apply(one, other, _int_remainder, _double_remainder, remainder)


def _int_remainder(one: int, other: int) -> int:
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _double_remainder(one: float, other: float) -> float:
    # C gives NaN for an infinite dividend; `math.fmod` raises.
    return math.nan if math.isinf(one) or math.isnan(one) or math.isnan(other) else math.fmod(one, other)


def power(base: Number, exponent: Number) -> Number:
    """Return a power: an integer if it is one and fits, else a double. MqlError 28764 for 0 to a negative power."""
    if not _sign(base) and _sign(exponent) < 0:
        raise MqlError(28764, "$pow cannot take a base of 0 and a negative exponent")
    if Decimal128 in (type(base), type(exponent)):
        return Decimal128(decimal_powers.power(decimal_of(base), decimal_of(exponent)))
    if float in (type(base), type(exponent)):
        return _double_power(double_of(base), double_of(exponent))
    return _int_power(int(base), int(exponent), _has_long(base, exponent))  # type: ignore[arg-type]


def _sign(value: Number) -> int:
    """Return the sign: 1, 0 or -1; 0 for NaN."""
    number = decimal_of(value) if type(value) is Decimal128 else value
    return 0 if is_nan(value) else (number > 0) - (number < 0)  # type: ignore[operator]


def _double_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        # C gives an infinity where `math.pow` raises. An odd power keeps the sign of the base.
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.nan


def _int_power(base: int, exponent: int, wide: bool) -> Number:
    if base in (0, 1, -1):
        return integer_result(base if exponent % 2 else base * base if exponent else 1, wide)
    # The base is at least 2 in size here: a negative exponent gives a fraction, and one above 63 exceeds an int64. Its
    # digits need not be computed, however many they are.
    if not 0 <= exponent <= 63:
        return _double_power(float(base), float(exponent))
    result = base**exponent
    return (
        integer_result(result, wide)
        if INT64_MIN <= result <= INT64_MAX
        else _double_power(float(base), float(exponent))
    )


# --- one operand -----------------------------------------------------------------------------------------------------


def absolute(value: Number) -> Number:
    """Return the absolute value. MqlError 28680 for the smallest int64, whose absolute value exceeds an int64."""
    if type(value) is Decimal128:
        return Decimal128(value.to_decimal().copy_abs())
    if type(value) is float:
        return abs(value)
    if value == INT64_MIN:
        raise MqlError(28680, "can't take $abs of long long min")
    return integer_result(abs(int(value)), type(value) is Int64)  # type: ignore[arg-type]


def floor(value: Number) -> Number:
    """Round down to an integer of the same type."""
    return _round_to_integer(value, math.floor, "ROUND_FLOOR")


def ceil(value: Number) -> Number:
    """Round up to an integer of the same type."""
    return _round_to_integer(value, math.ceil, "ROUND_CEILING")


def _round_to_integer(value: Number, step: Callable[[float], int], rounding: str) -> Number:
    if type(value) is float:
        # A result of 0 keeps the sign of the operand.
        return (float(step(value)) or value * 0.0) if math.isfinite(value) else value
    if type(value) is Decimal128:
        number: Decimal = value.to_decimal()
        if not number.is_finite() or number.adjusted() >= DECIMAL.prec:
            # The server gives NaN for decimals with more digits than the precision, infinities included.
            return Decimal128("NaN")
        return Decimal128(number.to_integral_value(rounding, DECIMAL))
    return value


def round_to(value: Number, place: int, rounding: str = ROUND_HALF_EVEN) -> Number:
    """Round to `place` digits behind the point, before it if negative; the type stays if the result fits. MqlError
    51080 beyond an int64.
    """
    if type(value) is Decimal128:
        number: Decimal = value.to_decimal()
        if not number.is_finite() or -place <= number.as_tuple().exponent:  # type: ignore[operator]
            return value
        return Decimal128(number.quantize(Decimal((0, (1,), -place)), rounding, _ROUNDING_CONTEXT))
    if type(value) is float:
        if not math.isfinite(value):
            return value
        # Halves are decided by the exact value of the double: 2.675 is a little less than it says, and rounds to 2.67.
        exact = Decimal(value)
        if place >= -exact.as_tuple().exponent:  # type: ignore[operator]
            return value
        return float(exact.quantize(Decimal((0, (1,), -place)), rounding, _ROUNDING_CONTEXT))
    if place >= 0:
        return value
    number = Decimal(int(value)).quantize(Decimal((0, (1,), -place)), rounding, _ROUNDING_CONTEXT)  # type: ignore[arg-type]
    if not INT64_MIN <= number <= INT64_MAX:
        raise MqlError(51080, f"invalid conversion from Decimal128 result in $round resulting from {value} and {place}")
    return integer_result(int(number), type(value) is Int64)


def truncate_to(value: Number, place: int) -> Number:
    """Truncate to `place` digits behind the point, before it if negative."""
    return round_to(value, place, ROUND_DOWN)


def square_root(value: Number) -> Number:
    """Return the square root. MqlError 28714 for a negative number."""
    if _sign(value) < 0:
        raise MqlError(28714, "$sqrt's argument must be greater than or equal to 0")
    if type(value) is Decimal128:
        return Decimal128(DECIMAL.sqrt(value.to_decimal()))
    return math.sqrt(double_of(value))


def exponential(value: Number) -> Number:
    """Return e to a power."""
    if type(value) is Decimal128:
        return Decimal128(decimal_powers.exponential(value.to_decimal()))
    try:
        return math.exp(double_of(value))
    except OverflowError:
        return math.inf


def natural_log(value: Number) -> Number:
    """Return the natural logarithm. MqlError 28766 unless the number is positive."""
    _check_positive(value, 28766, "$ln")
    if type(value) is Decimal128 and not is_nan(value):
        return Decimal128(decimal_powers.natural_log(value.to_decimal()))
    return math.log(double_of(value))


def decimal_log(value: Number) -> Number:
    """Return the logarithm to base 10. MqlError 28761 unless the number is positive."""
    _check_positive(value, 28761, "$log10")
    if type(value) is Decimal128 and not is_nan(value):
        return Decimal128(decimal_powers.decimal_log(value.to_decimal()))
    return math.log10(double_of(value))


def log(value: Number, base: Number) -> Number:
    """Return the logarithm to a base. MqlError 28758 for a number that is not positive, 28759 for an invalid base."""
    _check_positive(value, 28758, "$log")
    if _sign(base) <= 0 or _sign(subtract(base, 1)) == 0:
        raise MqlError(28759, f"$log's base must be a positive number not equal to 1, but is {format_number(base)}")
    if Decimal128 in (type(value), type(base)):
        logs = decimal_powers.natural_log(decimal_of(value)), decimal_powers.natural_log(decimal_of(base))
        return Decimal128(DECIMAL.divide(*logs))
    return math.log(double_of(value)) / math.log(double_of(base))


def _check_positive(value: Number, code: int, name: str) -> None:
    if _sign(value) <= 0 and not is_nan(value):
        raise MqlError(code, f"{name}'s argument must be a positive number, but is {format_number(value)}")


def format_number(value: Number) -> str:
    """Return a number as `$toString` writes it: a double with the fewest digits that identify it, without a trailing ".0"."""
    if type(value) is not float:
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")
