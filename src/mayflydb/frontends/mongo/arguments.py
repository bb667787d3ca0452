"""Arguments of commands, with the protocol's own errors for wrong types."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN
from typing import Any, Final

from bson import Binary, Decimal128

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN, Document, is_number, is_truthy, type_name

NUMERIC = ("long", "int", "decimal", "double")


def collection_name(given: Mapping[str, Any], command: str) -> str:
    """The collection that a command names as its own value. Raise MqlError 73 for another type."""
    value = given.get(command)
    if type(value) is not str:
        raise MqlError(73, f"collection name has invalid type {type_name(value)}")
    return value


def round_number(value: Any) -> int | None:
    """A number as the server makes a long of it: decimals are rounded, others cut. None for NaN and infinity."""
    if type(value) is Decimal128:
        exact = value.to_decimal()
        return int(exact.to_integral_value(ROUND_HALF_EVEN)) if exact.is_finite() else None
    return truncate_number(value)


def document(given: Mapping[str, Any], field: str, command: str) -> Document | None:
    """A document; None where the argument is missing or null. Raise MqlError 14 for another type."""
    value = given.get(field)
    if value is None or type(value) is dict:
        return value
    raise type_mismatch(f"{command}.{field}", type_name(value), "object")


def text(given: Mapping[str, Any], field: str, command: str) -> str:
    """A string. Raise MqlError 40414 where the argument is missing or null, 14 for another type."""
    value = _get_value(given, field, command)
    if type(value) is not str:
        raise type_mismatch(f"{command}.{field}", type_name(value), "string")
    return value


def hint(given: Mapping[str, Any]) -> Any:
    """A hint, unchecked; None without one. Raise MqlError 9 for null."""
    if "hint" in given and given["hint"] is None:
        raise failed_to_parse("Hint must be a string or an object")
    return given.get("hint")


def _get_value(given: Mapping[str, Any], field: str, command: str) -> Any:
    # A null as the command's own value is a wrong type, not a missing argument.
    if field not in given or (given[field] is None and field != command):
        raise missing_argument(field, command)
    return given[field]


def array(given: Mapping[str, Any], field: str, command: str) -> list[Any]:
    """An array. Raise MqlError 40414 where the argument is missing or null, 14 for another type."""
    value = _get_value(given, field, command)
    if type(value) is not list:
        raise type_mismatch(f"{command}.{field}", type_name(value), "array")
    return value


def whole_number(given: Mapping[str, Any], field: str, command: str, default: int | None = None) -> int | None:
    """A whole number of at least 0, rounded as `clamp_number` does. Raise MqlError 14, and 2 below 0."""
    value = given.get(field)
    if value is None:
        return default
    if not is_number(value):
        raise type_mismatch(f"{command}.{field}", type_name(value), *NUMERIC)
    number = clamp_number(value)
    if number < 0:
        raise bad_value(f"BSON field '{field}' value must be >= 0, actual value '{number}'")
    return number


def clamp_number(value: Any) -> int:
    """A number as an int64, as the server rounds it: a decimal half to even, a double towards zero, NaN to 0."""
    if type(value) is Decimal128:
        decimal = value.to_decimal()
        value = decimal.to_integral_value(ROUND_HALF_EVEN) if decimal.is_finite() else float(decimal)
    if value != value:
        return 0
    if value in (float("inf"), float("-inf")):
        return INT64_MAX if value > 0 else INT64_MIN
    return max(INT64_MIN, min(int(value), INT64_MAX))


def truncate_number(value: Any) -> int | None:
    """A number cut towards zero; None for NaN and infinity."""
    if type(value) is Decimal128:
        value = value.to_decimal()
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def flag(given: Mapping[str, Any], field: str, command: str, default: bool = False) -> bool:
    """A boolean. Numbers count as booleans, as everywhere in the protocol. Raise MqlError 14 for another type."""
    value = given.get(field)
    if value is None:
        return default
    if type(value) is bool:
        return value
    if is_number(value):
        return is_truthy(value)
    raise type_mismatch(f"{command}.{field}", type_name(value), "bool", *NUMERIC)


def uuid(given: Mapping[str, Any], field: str, command: str) -> bytes | None:
    """The bytes of a UUID; None where it is missing or null. Raise MqlError 14 for another type, 207 for other binaries."""
    value = given.get(field)
    if value is None:
        return None
    if type(value) not in (bytes, Binary):
        raise type_mismatch(f"{command}.{field}", type_name(value), "binData")
    if getattr(value, "subtype", 0) != _UUID_SUBTYPE or len(value) != _UUID_SIZE:
        raise MqlError(207, f"BSON field '{command}.{field}' is no UUID")
    return bytes(value)


_UUID_SUBTYPE: Final = 4
_UUID_SIZE: Final = 16


def strict_flag(given: Mapping[str, Any], field: str, command: str, default: bool = False) -> bool:
    """A boolean, for arguments that take no number for one. Raise MqlError 14 for another type."""
    value = given.get(field)
    if value is None:
        return default
    if type(value) is bool:
        return value
    raise type_mismatch(f"{command}.{field}", type_name(value), "bool")


def missing_argument(field: str, command: str) -> MqlError:
    """The error 40414 of a missing argument."""
    return MqlError(40414, f"BSON field '{command}.{field}' is missing but a required field")
