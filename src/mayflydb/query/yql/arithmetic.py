"""Operators on values that are not NULL: numbers, decimals, texts, dates, times and intervals.

Two integers are converted to the type of the higher rank (Uint8, Int8, Uint16, ... Uint64, Int64) by their bits, and
the result wraps around in that type. An integer and a Float give a Float, an integer and a Double a Double. Division
and remainder of integers round towards zero; by zero they are NULL. A date or time beyond the limits of its type is
NULL.
Source: https://ydb.tech/docs/en/yql/reference/syntax/expressions#math-operators and `types/primitive#implicit-cast`.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mayflydb.query.yql import decimals, moments
from mayflydb.query.yql.sizes import concatenate
from mayflydb.query.yql.texts import BOUNDS, to_single
from mayflydb.query.yql.types import (
    DOUBLE,
    FLOAT,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    NUMBERS,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UNSIGNED,
    UTF8,
    DecimalType,
    OptionalType,
    Primitive,
    Type,
    Value,
    bare,
    format_long,
)

Operation: TypeAlias = Callable[[Any, Any], Value]
Result: TypeAlias = tuple[Type, Operation]

# A wider type ranks higher, and of two equally wide integers the signed one.
RANKS: Final[Mapping[Type, int]] = {
    each: rank for rank, each in enumerate((UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64, FLOAT, DOUBLE))
}
"""The type of the higher rank is the type of the result."""

_ARITHMETIC: Final = ("+", "-", "*", "/", "%")
_BITWISE: Final[Mapping[str, Callable[[int, int], int]]] = {"&": python.and_, "|": python.or_, "^": python.xor}
_SHIFTS: Final = ("<<", ">>", "|<<", ">>|")


def find_binary(operator: str, left: Type, right: Type) -> tuple[Type, Callable[[Value, Value], Value]] | None:
    """Return the type of `left operator right` and the function that computes it; None if these types have no such
    operator.

    `left` and `right` are not Optional, and the function takes no NULL. It returns None for NULL; the type is then an
    Optional.
    """
    if operator == "||":
        return _concatenation(left, right)
    if operator in _BITWISE:
        return _bit_operation(_BITWISE[operator], left, right)
    if operator in _SHIFTS:
        return _shift_operation(operator, left, right)
    if operator not in _ARITHMETIC:
        return None
    if isinstance(left, DecimalType) or isinstance(right, DecimalType):
        return _decimal_operation(operator, left, right)
    if left in NUMBERS and right in NUMBERS:
        return _number_operation(operator, left, right)
    return _moment_operation(operator, left, right)


def find_unary(operator: str, operand: Type) -> tuple[Type, Callable[[Value], Value]] | None:
    """Return the type and the function of a unary `-`, `+`, `~` or `NOT`; None if the type has no such operator."""
    if operator == "+" and (operand in NUMBERS or isinstance(operand, DecimalType) or operand in moments.INTERVALS):
        return operand, lambda value: value
    if operator == "-":
        return _negation(operand)
    if operator == "~" and operand in UNSIGNED:
        wrap = integer_wrapper(operand)
        return operand, lambda value: wrap(~value)
    if operator == "NOT" and isinstance(operand, Primitive) and operand.name == "Bool":
        return operand, lambda value: not value
    return None


_VERBS: Final = {"+": "add", "-": "substract", "*": "multiply", "/": "divide", "%": "mod"}


def refusal_message(operator: str, left: Type, right: Type | None = None) -> str:
    """YDB's message for operands that `find_binary` (`find_unary`, if `right` is None) refuses, spelled as YDB spells it.

    `left` and `right` are the types as the query has them, Optional included. The issue lies below `Type annotation`
    and `At function: +`.
    """
    types = [left] if right is None else [left, right]
    if operator in (*_BITWISE, *_SHIFTS, "~"):
        signed = next((each for each in types if bare(each) not in UNSIGNED), left)
        return f"Expected unsigned data type, but got: {format_long(signed)}"
    if right is None:
        return f"Expected numeric, decimal or interval data type, but got: {format_long(left)}"
    if operator == "||":
        return f"Cannot concat type {format_long(left)} and {format_long(right)}"
    verb = _VERBS[operator]
    if isinstance(bare(left), DecimalType):
        if isinstance(bare(right), DecimalType):
            return (
                f"Cannot {verb} different decimals."
                if operator in "+-"
                else "Cannot calculate with different decimals."
            )
        if operator not in "+-":
            return f"Cannot operate with decimal and {format_long(right)}"
    return f"Cannot {verb} type {format_long(left)} and {format_long(right)}"


def _negation(operand: Type) -> tuple[Type, Callable[[Value], Value]] | None:
    if operand in INTEGERS:
        wrap = integer_wrapper(operand)
        return operand, lambda value: wrap(-value)
    if isinstance(operand, DecimalType):
        return operand, decimals.negate
    if operand in FLOATS or operand in moments.INTERVALS:
        return operand, python.neg
    return None


# --- numbers ---------------------------------------------------------------------------------------------------------


def common_number(left: Type, right: Type) -> Type:
    """The type to which two types of numbers are converted before an operation."""
    return left if RANKS[left] >= RANKS[right] else right


def integer_wrapper(type: Type) -> Callable[[int], int]:
    """Return the function that wraps an integer around into the range of a type, by its bits."""
    low, high = BOUNDS[type]
    span = high - low + 1
    return lambda value: value if low <= value <= high else (value - low) % span + low


def _number_operation(operator: str, left: Type, right: Type) -> Result:
    common = common_number(left, right)
    if common in FLOATS:
        operation = _FLOATING[operator]
        if common == DOUBLE:
            return common, lambda a, b: operation(float(a), float(b))
        # A double holds the exact result, or so many more digits that rounding it once more gives the same 32 bits.
        return common, lambda a, b: to_single(operation(to_single(a), to_single(b)))
    wrap = integer_wrapper(common)
    # Operands that the common type may not hold, such as a negative Int8 beside a Uint32, wrap around first.
    safe = all(BOUNDS[common][0] <= BOUNDS[each][0] and BOUNDS[each][1] <= BOUNDS[common][1] for each in (left, right))
    whole = _WHOLE[operator]
    if operator in ("/", "%"):

        def divide(a: int, b: int) -> int | None:
            a, b = (a, b) if safe else (wrap(a), wrap(b))
            result = whole(a, b) if b else None
            # The least number divided by -1 has no quotient in its type.
            return result if result is not None and wrap(result) == result else None

        return OptionalType(common), divide
    if safe:
        return common, lambda a, b: wrap(whole(a, b))
    return common, lambda a, b: wrap(whole(wrap(a), wrap(b)))


def _integer_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer_remainder(a: int, b: int) -> int:
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _float_quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if not a or a != a or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _float_remainder(a: float, b: float) -> float:
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


def _float_product(a: float, b: float) -> float:
    return a * b


_WHOLE: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": python.add,
    "-": python.sub,
    "*": python.mul,
    "/": _integer_quotient,
    "%": _integer_remainder,
}
_FLOATING: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": python.add,
    "-": python.sub,
    "*": _float_product,
    "/": _float_quotient,
    "%": _float_remainder,
}


def _bit_operation(operation: Callable[[int, int], int], left: Type, right: Type) -> Result | None:
    if left not in UNSIGNED or right not in UNSIGNED:
        return None
    return common_number(left, right), operation


def _shift_operation(operator: str, left: Type, right: Type) -> Result | None:
    """Shifts of an unsigned number; `|<<` and `>>|` rotate its bits."""
    if left not in UNSIGNED or right not in INTEGERS:
        return None
    bits = BOUNDS[left][1].bit_length()
    mask = BOUNDS[left][1]

    def shift(a: int, b: int) -> int:
        if operator in ("|<<", ">>|"):
            by = b % bits if operator == "|<<" else -b % bits
            return (a << by | a >> (bits - by)) & mask
        # C leaves such a shift undefined; YQL's result is 0.
        if not 0 <= b < bits:
            return 0
        return a << b & mask if operator == "<<" else a >> b

    return left, shift


# --- decimals --------------------------------------------------------------------------------------------------------


def _decimal_operation(operator: str, left: Type, right: Type) -> Result | None:
    """Operators on two equal Decimal types, or on a Decimal and an integer; YDB has only `*`, `/` and `%` for the
    latter."""
    type = left if isinstance(left, DecimalType) else right
    if not isinstance(type, DecimalType):
        return None
    if left != right and (operator in "+-" or right not in INTEGERS):
        # Only a product may have the integer on its left side: the operands change places.
        swapped = find_binary(operator, right, left) if operator == "*" and left in INTEGERS else None
        return None if swapped is None else (swapped[0], lambda a, b: swapped[1](b, a))
    precision, scale = type.precision, type.scale
    # An integer is not scaled, so a product or quotient with it keeps the Decimal's scale.
    shared = 0 if left != right else scale
    match operator:
        case "+":
            return type, lambda a, b: decimals.add(a, b, precision)
        case "-":
            return type, lambda a, b: decimals.add(a, decimals.negate(b), precision)
        case "*":
            return type, lambda a, b: decimals.multiply(a, b, precision, shared)
        case "/":
            return type, lambda a, b: decimals.quotient(a, b, precision, shared)
        case _:
            # A remainder needs both numbers at one scale.
            up = 1 if left == right else 10**scale
            return type, lambda a, b: decimals.remainder(a, b * up)


# --- texts -----------------------------------------------------------------------------------------------------------


def _concatenation(left: Type, right: Type) -> Result | None:
    if left == right and left in (STRING, UTF8):
        return left, concatenate
    if left in (STRING, UTF8) and right in (STRING, UTF8):
        return STRING, lambda a, b: concatenate(_bytes(a), _bytes(b))
    return None


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


# --- moments and intervals -------------------------------------------------------------------------------------------


def _moment_operation(operator: str, left: Type, right: Type) -> Result | None:
    match operator:
        case "+" if left in moments.INTERVALS and right in moments.MOMENTS:
            later = _moment_plus_interval(right, left, 1)
            return later[0], lambda a, b: later[1](b, a)
        case "+" | "-" if left in moments.MOMENTS and right in moments.INTERVALS:
            return _moment_plus_interval(left, right, 1 if operator == "+" else -1)
        case "-" if left in moments.MOMENTS and right in moments.MOMENTS:
            return _difference(left, right)
        case "+" | "-" if left in moments.INTERVALS and right in moments.INTERVALS:
            return _interval_result(_wider(left, right), _WHOLE[operator])
        case "*" if left in INTEGERS and right in moments.INTERVALS:
            return _interval_result(right, python.mul)
        case "*" if left in moments.INTERVALS and right in INTEGERS:
            return _interval_result(left, python.mul)
        case "/" if left in moments.INTERVALS and right in INTEGERS:
            return _interval_result(left, lambda a, b: _integer_quotient(a, b) if b else None)
    return None


def _wider(left: Type, right: Type) -> Type:
    return INTERVAL64 if INTERVAL64 in (left, right) else INTERVAL


def _interval_result(type: Type, operation: Callable[[int, int], int | None]) -> Result:
    def compute(a: int, b: int) -> int | None:
        value = operation(a, b)
        return value if value is not None and moments.fits(type, value) else None

    return OptionalType(type), compute


def _moment_plus_interval(type: Type, span: Type, sign: int) -> Result:
    """Add (`sign` 1) or subtract (-1) an interval. The result has the type of the date or time, or its wide form for an
    Interval64."""
    result = _WIDE_FORMS[type] if span == INTERVAL64 and type in _WIDE_FORMS else type
    scale = moments.SCALES[type]

    def add(value: int, by: int) -> int | None:
        # The interval may be finer than the type. The result is rounded towards the past: a Date plus an hour is the
        # same day.
        there = (value * scale + sign * by) // scale
        return there if moments.fits(result, there) else None

    if type not in moments.ZONED:
        return OptionalType(result), add

    def add_zoned(value: tuple[int, str], by: int) -> tuple[int, str] | None:
        there = add(value[0], by)
        return None if there is None else (there, value[1])

    return OptionalType(result), add_zoned


_WIDE_FORMS: Final[Mapping[Type, Primitive]] = dict(
    zip((*moments.NARROW, *moments.NARROW_ZONED), (*moments.WIDE, *moments.WIDE_ZONED), strict=True)
)


def _difference(left: Type, right: Type) -> Result:
    wide = moments.is_wide(left) or moments.is_wide(right)
    first, second = _to_micros(left), _to_micros(right)
    return INTERVAL64 if wide else INTERVAL, lambda a, b: first(a) - second(b)


def _to_micros(type: Type) -> Callable[[Any], int]:
    scale = moments.SCALES[type]
    if type in moments.ZONED:
        return lambda value: int(value[0]) * scale
    return lambda value: int(value) * scale
