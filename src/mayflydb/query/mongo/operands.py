"""Operands of operators: integers, sets of types, bit masks. Errors have the server's codes and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bson import Binary, Decimal128

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.values import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    TYPE_NUMBERS,
    Value,
    format_value,
    is_number,
    type_name,
)

_TYPES_BY_NUMBER: Final = {number: name for name, number in TYPE_NUMBERS.items()}
NUMBER_TYPES: Final = frozenset(("int", "long", "double", "decimal"))


def parse_integer(name: str, value: Value) -> int:
    """Return a number as a 64-bit integer. MqlError 9 for any other value. `name`: the operator."""
    shown = f"{name}: {format_value(value)}"
    if not is_number(value):
        raise failed_to_parse(f"Expected a number in: {shown}")
    if type(value) is Decimal128:
        value = value.to_decimal()
        if not value.is_finite() or value != int(value) or not INT64_MIN <= value <= INT64_MAX:
            raise failed_to_parse(f"Cannot represent as a 64-bit integer: {shown}")
    elif value != value:
        raise failed_to_parse(f"Expected an integer, but found NaN in: {shown}")
    # Before the next test, because int() of an infinity raises.
    elif not INT64_MIN <= value <= INT64_MAX:
        raise failed_to_parse(f"Cannot represent as a 64-bit integer: {shown}")
    elif value != int(value):
        raise failed_to_parse(f"Expected an integer: {shown}")
    return int(value)


def parse_natural(name: str, value: Value) -> int:
    """Return a number as a 64-bit integer that is not negative. MqlError 9 for any other value. `name`: the operator."""
    number = parse_integer(name, value)
    if number < 0:
        raise failed_to_parse(f"Expected a non-negative number in: {name}: {format_value(value)}")
    return number


def truncate_number(value: Any) -> int | None:
    """Return a number truncated towards zero; None for NaN and infinities."""
    if type(value) is Decimal128:
        value = value.to_decimal()
        return int(value) if value.is_finite() else None
    return int(value) if value == value and abs(value) != float("inf") else None


# --- types -----------------------------------------------------------------------------------------------------------


def parse_type_names(name: str, operand: Value) -> frozenset[str]:
    """Return the type names of the operand of `$type`; `number` stands for four types. MqlError 2, 9 or 14."""
    names: set[str] = set()
    for each in operand if type(operand) is list else [operand]:
        names |= _parse_type(each)
    if not names:
        raise failed_to_parse(f"{name} must match at least one type")
    return frozenset(names)


def _parse_type(operand: Value) -> frozenset[str]:
    if type(operand) is str:
        return types_of_alias(operand)
    if not is_number(operand):
        raise MqlError(14, "type must be represented as a number or a string")
    number = truncate_number(operand)
    # A fraction is no code: 2.5 must not become 2.
    found = _TYPES_BY_NUMBER.get(number) if number is not None and float(number) == _as_float(operand) else None
    if found is None:
        raise bad_value(f"Invalid numerical type code: {format_value(operand)}")
    return frozenset((found,))


def types_of_alias(alias: str) -> frozenset[str]:
    """Return the type names of an alias. MqlError 2 for an unknown alias."""
    if alias == "number":
        return NUMBER_TYPES
    if alias not in TYPE_NUMBERS:
        raise bad_value(f"Unknown type name alias: {alias}")
    return frozenset((alias,))


def _as_float(value: Any) -> float:
    return float(value.to_decimal()) if type(value) is Decimal128 else float(value)


def type_test(names: frozenset[str]) -> Callable[[Value], bool]:
    """Return the test that a value has one of these types."""
    return lambda value: type_name(value) in names


# --- bits ------------------------------------------------------------------------------------------------------------


def parse_bit_mask(path: str, operand: Value) -> int:
    """Return the operand of a `$bits...` operator as a mask, lowest bit first. MqlError 2 or 9."""
    if type(operand) is list:
        return sum({1 << _parse_bit_position(index, each) for index, each in enumerate(operand)})
    if is_number(operand):
        return parse_natural(path, operand)
    if type(operand) in (bytes, Binary):
        return int.from_bytes(operand, "little")
    raise bad_value(f"{path} takes an Array, a number, or a BinData but received: {format_value(operand)}")


def _parse_bit_position(index: int, value: Any) -> int:
    shown = f"{index}: {format_value(value)}"
    number = truncate_number(value) if is_number(value) else None
    if number is None or _as_float(value) != number:
        raise bad_value(f"bit positions must be an integer but got: {shown}")
    if number > INT32_MAX or number < -INT32_MAX:
        raise bad_value(f"bit positions cannot be represented as a 32-bit signed integer: {shown}")
    if number < 0:
        raise bad_value(f"bit positions must be >= 0 but got: {shown}")
    # Bits beyond the largest document are clear in every value, so that one such bit stands for all of them.
    return min(number, _MAX_BIT)


_MAX_BIT: Final = 8 * 17 * 1024 * 1024


def bits_of(value: Any) -> int | None:
    """Return the bits of a value; a negative number has its sign extended without end. None for a value without bits."""
    if type(value) in (bytes, Binary):
        return int.from_bytes(value, "little")
    if not is_number(value):
        return None
    number = truncate_number(value)
    if number is None or not INT64_MIN <= number <= INT64_MAX or _as_float(value) != float(number):
        return None
    return number


def bit_test(name: str, mask: int) -> Callable[[Value], bool]:
    """Return the test of `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear` or `$bitsAnyClear`."""
    all_of, wanted = name.startswith("$bitsAll"), mask if name.endswith("Set") else 0

    def test(value: Value) -> bool:
        bits = bits_of(value)
        if bits is None:
            return False
        found = bits & mask
        # Any set: not all bits of the mask are clear. Any clear: not all of them are set.
        return found == wanted if all_of else found != (mask ^ wanted)

    return test
