"""Order-preserving encoding of values as bytes: the keys of indexes, and the identity of `_id`.

An encoding is the tag of the value's class of types and a body. No encoding is a prefix of another one, so encodings can be
concatenated, and complemented for descending order. Equal numbers of different types have one encoding.

- number: the double of `model.keys` rounded towards zero, then 00 if it is exact, else 01, the decimal exponent and digits of
  the number, 00. All bytes are complemented if the number is negative. NaN sorts below all numbers.
- string: UTF-8 with 00 and 01 escaped as 01 01 and 01 02, then 00. Under a collation: the encoded collation key.
- document: tag, name and body of each field, then 00. Array: its elements, then 00.

Examples in hexadecimal:

    5          28 | C0 14 00 00 00 00 00 00 | 00
    -5         28 | 3F EB FF FF FF FF FF FF | FF
    2^53 + 1   28 | C3 40 00 00 00 00 00 00 | 01 | 80 0F | "9007199254740993" | 00
    "ab"       30 | 61 62 | 00
    {a: 1}     38 | 28 | 61 00 | BF F0 00 00 00 00 00 00 00 | 00
    [1]        40 | 28 | BF F0 00 00 00 00 00 00 00 | 00
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.model.keys import complement, encode_signed, floor
from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.values import MISSING, Missing, Value, order_key

STEP: Final = 8
"""The distance between tags. No tag is 00, 01 or FF, and no complement of one is."""

_EXACT = 1 << 53
_MAX_DOUBLE = math.nextafter(math.inf, 0)
# Below the complement of -infinity, which begins with 00 0F.
_NAN = b"\x00\x00"
# Makes exponents positive, so that their bytes sort as they do.
_BIAS = 1 << 15
_SHORT, _LONG, _PAIR = Struct(">H"), Struct(">Q"), Struct(">II")
_BINARY = Struct(">IB")

TAGS: Final = tuple(bytes([STEP * n]) for n in range(2, 18))
"""The tag of each class of types, by the number of the class in `values.order_key`."""

MIN_KEY, UNDEFINED, NULL, NUMBER, STRING, OBJECT, ARRAY, BINARY = TAGS[:8]
OBJECT_ID, BOOL, DATE, TIMESTAMP, REGEX, CODE, CODE_WITH_SCOPE, MAX_KEY = TAGS[8:]


def encode_value(value: Value, collation: Collation = SIMPLE) -> bytes:
    """Encode a value or MISSING. Encodings compare as `collation.order_key` does."""
    kind = type(value)
    if kind is str:
        return STRING + (encode_text(value) if collation.is_simple else _encode_collation_key(collation.key(value)))
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](value, collation)
    return _SCALARS[kind](value)


def id_key(value: Value) -> bytes:
    """Return the identity of an `_id`. Equal numbers of the types int, long, double and decimal have one identity."""
    return encode_value(value)


def encode_descending(key: bytes) -> bytes:
    """Return an encoding for descending order."""
    return complement(key)


def prefix_end(prefix: bytes) -> bytes:
    """Return the least bytes above all bytes with a prefix. The prefix must not consist of FF only."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,))


# --- numbers ---------------------------------------------------------------------------------------------------------


def _encode_int(value: int) -> bytes:
    # A double holds each of these integers exactly.
    if -_EXACT <= value <= _EXACT:
        return NUMBER + encode_signed(float(abs(value)), b"\x00", value < 0)
    magnitude = abs(int(value))
    below = floor(magnitude)
    return NUMBER + encode_signed(
        below, b"\x00" if int(below) == magnitude else _encode_digits(Decimal(magnitude)), value < 0
    )


def _encode_float(value: float) -> bytes:
    return NUMBER + (_NAN if value != value else encode_signed(abs(value), b"\x00", value < 0))


def _encode_decimal(value: Decimal128) -> bytes:
    number: Decimal = value.to_decimal()
    if number.is_nan():
        return NUMBER + _NAN
    if number.is_infinite() or number.is_zero():
        return _encode_float(0.0 if number.is_zero() else float(number))
    magnitude = number.copy_abs()
    # The conversion rounds to nearest; the key needs the double at or below the number.
    below = min(float(magnitude), _MAX_DOUBLE)
    if below > magnitude:
        below = math.nextafter(below, 0)
    return NUMBER + encode_signed(
        below, b"\x00" if below == magnitude else _encode_digits(magnitude), number.is_signed()
    )


def _encode_digits(magnitude: Decimal) -> bytes:
    """Encode exponent and digits, which order the numbers between two neighbouring doubles."""
    # Without trailing zeros, so that 0.10 and 0.1 are one key.
    digits = "".join(map(str, magnitude.as_tuple().digits)).rstrip("0")
    return b"\x01" + _SHORT.pack(magnitude.adjusted() + _BIAS) + digits.encode() + b"\x00"


# --- strings ---------------------------------------------------------------------------------------------------------


def encode_text(value: str) -> bytes:
    """Encode the body of a string."""
    # The end sorts below any byte of a text, so "a" comes before "ab".
    return encode_prefix(value) + b"\x00"


def encode_prefix(value: str) -> bytes:
    """Encode the common prefix of the bodies of all strings that begin with `value`."""
    return _escape(value.encode("utf-8", "surrogatepass"))


def _escape(data: bytes) -> bytes:
    # 01 first: the escape of 00 contains 01. The results keep their order, and 00 is left to end the text.
    return data.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")


def _encode_collation_key(key: Any) -> bytes:
    """Encode a key of a collation: text, bytes, an integer, or a tuple of these."""
    if isinstance(key, str):
        return encode_text(key)
    if isinstance(key, bytes):
        return _escape(key) + b"\x00"
    if isinstance(key, int):
        return _encode_int(key)
    # 02 before each part and 00 at the end: the shorter of two tuples with equal beginnings comes first.
    return b"".join(b"\x02" + _encode_collation_key(each) for each in key) + b"\x00"


# --- documents and arrays --------------------------------------------------------------------------------------------


def _encode_document(value: Mapping[str, Any], collation: Collation) -> bytes:
    fields = []
    for name, each in value.items():
        encoded = encode_value(each, collation)
        # The order of documents looks at types before names, so the tag of the value comes first.
        fields.append(encoded[:1] + encode_text(name) + encoded[1:])
    return OBJECT + b"".join(fields) + b"\x00"


def _encode_array(value: list[Any], collation: Collation) -> bytes:
    return ARRAY + b"".join([encode_value(each, collation) for each in value]) + b"\x00"


def _encode_code(value: Code, collation: Collation) -> bytes:
    if value.scope is None:
        return CODE + encode_text(str(value))
    # Code compares with the scope's own order, without a collation.
    return CODE_WITH_SCOPE + encode_text(str(value)) + _encode_document(dict(value.scope), SIMPLE)


_CONTAINERS: Final[Mapping[type, Callable[[Any, Collation], bytes]]] = {
    dict: _encode_document,
    list: _encode_array,
    Code: _encode_code,
}


# --- the others ------------------------------------------------------------------------------------------------------


def _encode_binary(value: bytes) -> bytes:
    return BINARY + _BINARY.pack(len(value), value.subtype if isinstance(value, Binary) else 0) + bytes(value)


def _encode_regex(value: Any) -> bytes:
    pattern, letters = order_key(value)[1]
    return REGEX + encode_text(pattern) + encode_text(letters)


_SCALARS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    MinKey: lambda value: MIN_KEY,
    Missing: lambda value: UNDEFINED,
    type(None): lambda value: NULL,
    int: _encode_int,
    Int64: _encode_int,
    float: _encode_float,
    Decimal128: _encode_decimal,
    bytes: _encode_binary,
    Binary: _encode_binary,
    ObjectId: lambda value: OBJECT_ID + value.binary,
    bool: lambda value: BOOL + (b"\x01" if value else b"\x00"),
    # The offset turns the order of signed numbers into that of unsigned bytes.
    DatetimeMS: lambda value: DATE + _LONG.pack(int(value) + (1 << 63)),
    Timestamp: lambda value: TIMESTAMP + _PAIR.pack(value.time, value.inc),
    Regex: _encode_regex,
    re.Pattern: _encode_regex,
    MaxKey: lambda value: MAX_KEY,
}

# The server indexes an empty array as undefined.
EMPTY_ARRAY: Final = encode_value(MISSING)
"""The entry of an array without elements; it sorts below null."""
