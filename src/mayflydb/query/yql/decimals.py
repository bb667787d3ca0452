"""Decimal(p,s): the value times 10^s as an int of at most p digits. The ints `DECIMAL_INF`, its negative and `DECIMAL_NAN`
are infinities and NaN.

A number with more than p digits becomes an infinity, as in YDB. Digits behind the last place are rounded, a half to the
even digit.
Source: https://ydb.tech/docs/en/yql/reference/types/primitive#numeric
"""

from __future__ import annotations

import re
from typing import Final

from mayflydb.query.yql.types import DECIMAL_INF, DECIMAL_NAN, DecimalType

MAX_PRECISION: Final = 35
"""Digits of the largest precision."""

_GRAMMAR: Final = re.compile(r"([+-])?(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,6}))?", re.ASCII)
_SPECIAL: Final = re.compile(r"([+-])?(inf|nan)", re.ASCII | re.IGNORECASE)


def is_finite(value: int) -> bool:
    return -DECIMAL_INF < value < DECIMAL_INF


def clamp(value: int, precision: int) -> int:
    """Return the value, or the infinity of its sign if it has more than `precision` digits."""
    limit = 10**precision
    if -limit < value < limit:
        return value
    return DECIMAL_INF if value > 0 else -DECIMAL_INF


def parse(text: str, type: DecimalType) -> int | None:
    """Parse a number with or without a point and an exponent, or `inf`, `-inf`, `nan`; None for any other text."""
    special = _SPECIAL.fullmatch(text)
    if special is not None:
        sign, name = special.groups()
        if name.lower() == "nan":
            return DECIMAL_NAN
        return -DECIMAL_INF if sign == "-" else DECIMAL_INF
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    sign, whole, behind, only, exponent = match.groups()
    fraction = behind or only or ""
    digits = ((whole or "") + fraction).lstrip("0")
    shift = int(exponent or 0) - len(fraction) + type.scale
    # The first digit is at least one place behind the last that counts: rounding gives zero.
    if not digits or len(digits) + shift < 0:
        return 0
    # Such a number is infinite in every precision. An exponent of 999999 never becomes a power of ten.
    if len(digits) + shift > MAX_PRECISION + 1:
        value = DECIMAL_INF
    elif shift >= 0:
        value = clamp(int(digits) * 10**shift, type.precision)
    else:
        # Cut off digits before int(): a text may be long, and the digits cut off only decide the rounding.
        kept, cut = digits[:shift], digits[shift:]
        value = clamp(int(kept or "0") + _rounding_carry(int(kept[-1:] or "0"), cut), type.precision)
    return -value if sign == "-" else value


def _rounding_carry(last: int, cut: str) -> int:
    """1 if the digits that are cut off round the last digit up, else 0."""
    if cut[0] != "5":
        return int(cut[0] > "5")
    return int(last % 2 == 1 or cut[1:].strip("0") != "")


def to_text(value: int, scale: int) -> str:
    """Format as `1.23`, `-5` or `inf`, without trailing zeros."""
    if not is_finite(value):
        return "nan" if value == DECIMAL_NAN else "inf" if value > 0 else "-inf"
    whole, fraction = divmod(abs(value), 10**scale)
    behind = f"{fraction:0{scale}}".rstrip("0") if fraction else ""
    return f"{'-' if value < 0 else ''}{whole}{'.' if behind else ''}{behind}"


def divide(dividend: int, divisor: int) -> int:
    """The quotient of two ints, a half rounded to the even number. Raises ZeroDivisionError."""
    quotient, rest = divmod(abs(dividend), abs(divisor))
    twice = 2 * rest - abs(divisor)
    # The rest is compared with half of the divisor, both doubled.
    quotient += twice > 0 or (twice == 0 and quotient % 2 == 1)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def rescale(value: int, source: DecimalType, to: DecimalType) -> int:
    """The number in another Decimal type: rounded, and an infinity if it has too many digits."""
    if not is_finite(value):
        return value
    if to.scale >= source.scale:
        value *= 10 ** (to.scale - source.scale)
    else:
        value = divide(value, 10 ** (source.scale - to.scale))
    return clamp(value, to.precision)


def add(left: int, right: int, precision: int) -> int:
    if is_finite(left) and is_finite(right):
        return clamp(left + right, precision)
    if DECIMAL_NAN in (left, right) or (not is_finite(left) and not is_finite(right) and left != right):
        return DECIMAL_NAN
    return right if is_finite(left) else left


def negate(value: int) -> int:
    return value if value == DECIMAL_NAN else -value


def multiply(left: int, right: int, precision: int, scale: int) -> int:
    """The product of two numbers of one scale; `scale` is 0 if one of them is an integer."""
    # Both numbers are times 10^scale, the product is so twice: one of them is divided away.
    if is_finite(left) and is_finite(right):
        return clamp(divide(left * right, 10**scale), precision)
    # Infinity times zero is NaN, as in IEEE 754.
    if DECIMAL_NAN in (left, right) or not left or not right:
        return DECIMAL_NAN
    return DECIMAL_INF if (left > 0) == (right > 0) else -DECIMAL_INF


def quotient(left: int, right: int, precision: int, scale: int) -> int:
    """The quotient, with `scale` as in `multiply`. A division by zero gives an infinity, and zero by zero gives NaN."""
    if DECIMAL_NAN in (left, right):
        return DECIMAL_NAN
    if not is_finite(left):
        if not is_finite(right):
            return DECIMAL_NAN
        return left if right >= 0 else -left
    if not is_finite(right):
        return 0
    if not right:
        return DECIMAL_NAN if not left else DECIMAL_INF if left > 0 else -DECIMAL_INF
    return clamp(divide(left * 10**scale, right), precision)


def remainder(left: int, right: int) -> int:
    """The remainder, with the sign of `left`. NaN for a zero divisor and for operands that are not finite."""
    if not is_finite(left) or right == DECIMAL_NAN or not right:
        return DECIMAL_NAN
    if not is_finite(right):
        return left
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def to_float(value: int, scale: int) -> float:
    """The nearest double."""
    if not is_finite(value):
        return float("nan") if value == DECIMAL_NAN else float("inf") if value > 0 else float("-inf")
    # Python divides ints with correct rounding; two doubles would round three times.
    nearest: float = value / 10**scale
    return nearest


def to_int(value: int, scale: int) -> int | None:
    """The integral part; None for infinities and NaN."""
    if not is_finite(value):
        return None
    whole: int = abs(value) // 10**scale
    return -whole if value < 0 else whole
