"""Conversions from and to binary values, with the arguments `format`, `byteOrder` and `subtype` of `$convert`.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/convert/
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from bson import Binary, Int64

from mayflydb.query.mongo.expressions.conversion_failures import NO_HANDLER, ConversionError, unsupported_error
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.values import Value, format_value, is_number, type_name

_OLD: Final = 2
_UUID: Final = 4
_UUID_SIZE: Final = 16
_FORMATS: Final = ("auto", "base64", "base64url", "utf8", "hex", "uuid")
_ORDERS: Final = {"little": "<", "big": ">"}
_UUID_TEXT: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


class BinaryOptions(msgspec.Struct, frozen=True):
    """The form of binary values. `order` is the sign of `struct`; `format` None: texts have no counterpart."""

    subtype: int = 0
    order: str = "<"
    format: str | None = None


PLAIN: Final = BinaryOptions(format="auto")
"""The options of short forms such as `$toString`."""


def is_binary(value: Value) -> bool:
    """Return True for binary values of every subtype."""
    return type(value) in (bytes, Binary)


# --- arguments -------------------------------------------------------------------------------------------------------


def parse_subtype(value: Value) -> int:
    """Return a subtype. MqlError 4341108, 4341106 and 4341107 for other types, fractions and unassigned numbers."""
    if not is_number(value):
        raise MqlError(4341108, f"In $convert, 'subtype' must be a number, but is {type_name(value)}")
    number = exact_integer(value)
    if number is None:
        raise MqlError(4341106, f"In $convert, 'subtype' is not an integer: {format_value(value)}")
    if not (0 <= number <= 9 or 128 <= number <= 255):
        raise MqlError(4341107, f"In $convert, 'subtype' is no subtype of binData: {number}")
    return number


def parse_format(value: Value) -> str | None:
    """Return a format, None for none. MqlError 4341114 and 4341125 for other types and names."""
    if value is None:
        return None
    if type(value) is not str:
        raise MqlError(4341114, f"$convert requires that 'format' be a string, found: {type_name(value)}")
    if value not in _FORMATS:
        raise MqlError(4341125, f"Invalid 'format' argument for $convert: {value}")
    return value


def parse_order(value: Value) -> str:
    """Return the order of bytes. MqlError 9130001 and 9130002 for other types and names."""
    if value is None:
        return "<"
    if type(value) is not str:
        raise MqlError(9130001, f"$convert requires that 'byteOrder' be a string, found: {type_name(value)}")
    if value not in _ORDERS:
        raise MqlError(9130002, f"Invalid 'byteOrder' argument for $convert: {value}")
    return _ORDERS[value]


def _check_format(options: BinaryOptions, value: Value, to: str) -> str:
    if options.format is None:
        text = f"Format must be specified when converting from '{type_name(value)}' to '{to}'"
        raise MqlError(4341115, text)
    return options.format


# --- from binary values ----------------------------------------------------------------------------------------------


def payload(value: bytes) -> bytes:
    """Return the bytes of a value. Those of subtype 2 begin with their own number."""
    if isinstance(value, Binary) and value.subtype == _OLD:
        return struct.pack("<i", len(value)) + bytes(value)
    return bytes(value)


_SIZES: Final[Mapping[str, tuple[Mapping[int, str], Callable[[int], Value] | None]]] = {
    "int": ({1: "b", 2: "h", 4: "i"}, int),
    "long": ({1: "b", 2: "h", 4: "i", 8: "q"}, Int64),
    "double": ({4: "f", 8: "d"}, None),
}
"""Sizes of the binary values that are numbers of a type."""


def binary_to_number(value: bytes, to: str, options: BinaryOptions) -> Value:
    """Return the number whose bytes these are. ConversionError for a size without one."""
    sizes, make = _SIZES[to]
    content = payload(value)
    if len(content) not in sizes:
        text = (
            f"Failed to convert '{format_value(value)}' to {to} {NO_HANDLER} because of invalid length: {len(content)}"
        )
        raise ConversionError(text)
    (number,) = struct.unpack(options.order + sizes[len(content)], content)
    return make(number) if make is not None else number


def binary_to_string(value: bytes, options: BinaryOptions) -> str:
    """Return a text of the bytes. ConversionError where the format has none for them."""
    form = _check_format(options, value, "string")
    content = payload(value)
    is_uuid = isinstance(value, Binary) and value.subtype == _UUID and len(content) == _UUID_SIZE
    if form == "auto":
        form = "uuid" if is_uuid else "base64"
    if form == "uuid":
        if not is_uuid:
            raise ConversionError(f"Only binData of subtype 4 with 16 bytes is a UUID {NO_HANDLER}")
        return "-".join(
            (content[:4].hex(), content[4:6].hex(), content[6:8].hex(), content[8:10].hex(), content[10:].hex())
        )
    if form == "hex":
        return content.hex().upper()
    if form == "base64":
        return base64.b64encode(content).decode()
    if form == "base64url":
        return base64.urlsafe_b64encode(content).decode().rstrip("=")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConversionError(f"Invalid UTF-8 in binData {NO_HANDLER}") from None


# --- to binary values ------------------------------------------------------------------------------------------------


def to_binary(value: Value, options: BinaryOptions) -> Value:
    """Return a binary value. ConversionError for other types, subtypes and texts."""
    kind = type(value)
    if kind is str:
        return Binary(_decode(value, options), options.subtype)
    if kind in (bytes, Binary):
        if (value.subtype if kind is Binary else 0) != options.subtype:
            raise ConversionError(f"Conversions between binData of different subtypes are not supported {NO_HANDLER}")
        return value
    letter = {int: "i", Int64: "q", float: "d"}.get(kind)
    if letter is None:
        raise unsupported_error(value, "binData")
    return Binary(struct.pack(options.order + letter, value), options.subtype)


def _decode(text: str, options: BinaryOptions) -> bytes:
    form = _check_format(options, text, "binData")
    if (form == "uuid") != (options.subtype == _UUID):
        raise ConversionError(f"The format 'uuid' and the subtype 4 belong together {NO_HANDLER}")
    decode = _DECODERS.get(form)
    if decode is None:
        raise ConversionError(f"The format '{form}' is not for conversions to binData {NO_HANDLER}")
    try:
        return decode(text)
    except ValueError as reason:
        raise ConversionError(f"Input string is not valid {form} {NO_HANDLER}: {reason}") from None


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), validate=True)


_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def _decode_base64url(text: str) -> bytes:
    """Decode with or without padding."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("it has other letters")
    bare = text.rstrip("=")
    if len(bare) % 4 == 1 or (bare != text and len(text) % 4):
        raise ValueError("its length is wrong")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))


def _decode_hex(text: str) -> bytes:
    return binascii.unhexlify(text.encode("ascii"))


def _decode_uuid(text: str) -> bytes:
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError("it is no UUID")
    return bytes.fromhex(text.replace("-", ""))


_DECODERS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "base64": _decode_base64,
    "base64url": _decode_base64url,
    "hex": _decode_hex,
    "utf8": lambda text: text.encode("utf-8"),
    "uuid": _decode_uuid,
}
