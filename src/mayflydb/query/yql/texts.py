"""Text forms of primitive values, for CAST and for literals such as `Date("...")`."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from mayflydb.model.durations import format_iso
from mayflydb.query.yql import decimals, dynumbers, intervals, moments, uuids, yson, zones
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    DYNUMBER,
    FLOAT,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    JSON,
    JSON_DOCUMENT,
    SIGNED,
    STRING,
    UTF8,
    UUID,
    YSON,
    DecimalType,
    Primitive,
    Type,
    Value,
)

BOUNDS: Final[Mapping[Type, tuple[int, int]]] = {
    each: (-(1 << bits - 1), (1 << bits - 1) - 1) if each in SIGNED else (0, (1 << bits) - 1)
    for each in INTEGERS
    for bits in [int(each.name.lower().lstrip("uint"))]
}
"""The limits of each integer type."""


def to_text(type: Type, value: Value) -> str:
    """Format a value that is not NULL. Raises TypeError for a type without a text form; bytes that are no UTF-8 become
    U+FFFD."""
    if isinstance(type, DecimalType):
        return decimals.to_text(value, type.scale)
    write = _WRITERS.get(type)
    if write is None:
        raise TypeError(f"{type} has no text")
    return write(value)


def from_text(type: Type, text: str) -> Value:
    """Parse a value; None for a malformed text. Raises TypeError for a type without a text form."""
    if isinstance(type, DecimalType):
        return decimals.parse(text, type)
    read = _READERS.get(type)
    if read is None:
        raise TypeError(f"{type} has no text")
    return read(text)


def has_text(type: Type) -> bool:
    """True if the type has a text form."""
    return isinstance(type, DecimalType) or type in _READERS


# --- numbers ---------------------------------------------------------------------------------------------------------

# No integer type has 40 digits; int() of a very long text would take long.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan|infinity)", re.ASCII | re.IGNORECASE
)
_FLOAT: Final = struct.Struct("<f")
_PLAIN: Final = range(-10, 21)
"""Decimal exponents of numbers that are written without an exponent."""


def to_single(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def _read_bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _integer_reader(type: Primitive) -> Callable[[str], int | None]:
    low, high = BOUNDS[type]

    def read(text: str) -> int | None:
        if _INTEGER.fullmatch(text) is None or (low == 0 and text[0] == "-"):
            return None
        value = int(text)
        return value if low <= value <= high else None

    return read


def _read_double(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _read_single(text: str) -> float | None:
    value = _read_double(text)
    return None if value is None else to_single(value)


def _write_single(value: float) -> str:
    """Format with the fewest digits that parse to the same 32 bits."""
    if not math.isfinite(value):
        return float_text(repr(value))
    # Nine digits tell all floats of 32 bits apart.
    written = (f"{value:.{digits}g}" for digits in range(1, 10))
    return float_text(next(text for text in written if to_single(float(text)) == value))


def _write_double(value: float) -> str:
    return float_text(repr(value))


def float_text(shortest: str) -> str:
    """Rewrite Python's digits as `1`, `0.1`, `1e+21` or `-inf`: no `.0`, and an exponent only beyond 21 places."""
    if shortest.endswith(("inf", "nan")):
        return shortest
    sign, raw, exponent = Decimal(shortest).as_tuple()
    digits = "".join(map(str, raw)).lstrip("0").rstrip("0")
    if not digits:
        return "-0" if sign else "0"
    point = len("".join(map(str, raw)).lstrip("0")) + int(exponent)
    minus = "-" if sign else ""
    if point - 1 not in _PLAIN:
        behind = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{behind}e{point - 1:+d}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    whole, behind = digits[:point].ljust(point, "0"), digits[point:]
    return f"{minus}{whole}{'.' if behind else ''}{behind}"


# --- texts and documents ---------------------------------------------------------------------------------------------


def is_json(text: str | bytes) -> bool:
    """True if the text is one JSON document."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


def _read_json(text: str) -> str | None:
    return text if is_json(text) else None


def _read_document(text: str) -> str | None:
    """Parse a JsonDocument into its canonical text: no blanks, keys in order, numbers as doubles."""
    try:
        return document_text(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, UnicodeError, OverflowError):
        return None


def document_text(value: Any) -> str:
    """Format parsed JSON as a JsonDocument. Raises RecursionError."""
    match value:
        case dict():
            members = (f"{_encode_json(name)}:{document_text(value[name])}" for name in sorted(value))
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(document_text, value)) + "]"
        case bool() | None | str():
            return _encode_json(value)
        case _:
            return _write_double(float(value))


def _encode_json(value: bool | str | None) -> str:
    return msgspec.json.encode(value).decode()


def _read_utf8(text: str) -> str | None:
    return None if any("\ud800" <= character <= "\udfff" for character in text) else text


# Bytes that are no UTF-8 are surrogates in a text, from where a String is cast: `surrogateescape` restores them.
def _read_yson(text: str) -> bytes | None:
    data = text.encode("utf-8", "surrogateescape")
    return data if yson.is_valid(data) else None


def _read_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _write_bytes(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _interval_reader(longest: int) -> Callable[[str], int | None]:
    return lambda text: intervals.parse(text, longest)


def _moment_reader(type: Primitive) -> Callable[[str], int | None]:
    return lambda text: moments.parse(type, text)


def _moment_writer(type: Primitive) -> Callable[[int], str]:
    return lambda value: moments.to_text(type, value)


def _zoned_reader(type: Primitive) -> Callable[[str], tuple[int, str] | None]:
    return lambda text: zones.parse(type, text)


def _zoned_writer(type: Primitive) -> Callable[[tuple[int, str]], str]:
    return lambda value: zones.to_text(type, value)


def _identity(value: str) -> str:
    return value


_READERS: Final[Mapping[Type, Callable[[str], Value]]] = {
    BOOL: _read_bool,
    **{each: _integer_reader(each) for each in INTEGERS},
    FLOAT: _read_single,
    DOUBLE: _read_double,
    STRING: _read_bytes,
    UTF8: _read_utf8,
    YSON: _read_yson,
    JSON: _read_json,
    JSON_DOCUMENT: _read_document,
    UUID: uuids.parse,
    DYNUMBER: dynumbers.parse,
    INTERVAL: _interval_reader(intervals.MAX_INTERVAL),
    INTERVAL64: _interval_reader(intervals.MAX_INTERVAL_64),
    **{each: _moment_reader(each) for each in (*moments.NARROW, *moments.WIDE)},
    **{each: _zoned_reader(each) for each in moments.ZONED},
}

_WRITERS: Final[Mapping[Type, Callable[[Any], str]]] = {
    BOOL: lambda value: "true" if value else "false",
    **dict.fromkeys(INTEGERS, str),
    FLOAT: _write_single,
    DOUBLE: _write_double,
    STRING: _write_bytes,
    UTF8: _identity,
    YSON: _write_bytes,
    JSON: _identity,
    JSON_DOCUMENT: _identity,
    UUID: uuids.to_text,
    DYNUMBER: dynumbers.to_text,
    INTERVAL: format_iso,
    INTERVAL64: format_iso,
    **{each: _moment_writer(each) for each in (*moments.NARROW, *moments.WIDE)},
    **{each: _zoned_writer(each) for each in moments.ZONED},
}
