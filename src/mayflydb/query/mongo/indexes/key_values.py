"""Values decoded from the keys of `key_bytes`.

A key does not tell the types of equal numbers apart: the result is an int if it fits, else a long, a double or a decimal.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.model.keys import complement
from mayflydb.query.mongo.indexes import key_bytes as kinds
from mayflydb.query.mongo.values import INT32_MAX, MISSING, Value

_DOUBLE, _SHORT, _LONG, _PAIR, _BINARY = Struct(">d"), Struct(">H"), Struct(">Q"), Struct(">II"), Struct(">IB")
_SIGN = 0x80
_BIAS = 1 << 15
_MAX_LONG_DIGITS = 19
"""The maximum number of digits of a long."""

DecodedValue = tuple[Any, int]
"""(value, offset of the byte behind it)."""


def decode_key(key: bytes) -> Value:
    """Decode a whole key that was encoded without a collation. ValueError for bytes that are no key."""
    try:
        value, end = _decode_value(key, 0)
    except (IndexError, KeyError, ArithmeticError, struct.error) as error:
        raise ValueError(f"no key: {error}") from None
    if end != len(key):
        raise ValueError(f"no key: it ends at {end} of {len(key)}")
    return value


def _decode_value(key: bytes, at: int) -> DecodedValue:
    read = _DECODERS.get(key[at : at + 1])
    if read is None:
        raise ValueError(f"no key: tag {key[at : at + 1].hex()} at {at}")
    return read(key, at + 1)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _decode_number(key: bytes, at: int) -> DecodedValue:
    # positive   8 bytes of the double with the sign bit set | 00
    #            8 bytes of the double with the sign bit set | 01 | exponent (2) | digits | 00
    # negative   the same, complemented, so that the first bit is 0
    if key[at : at + 2] == b"\x00\x00":
        return math.nan, at + 2
    negative = key[at] < _SIGN
    body = complement(key[at:]) if negative else key[at:]
    (magnitude,) = _DOUBLE.unpack(bytes((body[0] & ~_SIGN,)) + body[1:8])
    sign = -1 if negative else 1
    if body[8] == 0:
        return _narrowest_number(sign * magnitude), at + 9
    # The digits begin at 11. The exponent before them may contain 00.
    end = body.index(b"\x00", 11)
    digits = body[11:end].decode("ascii")
    adjusted = _SHORT.unpack(body[9:11])[0] - _BIAS
    exponent = adjusted - len(digits) + 1
    # Only exponents of a long are raised: 10^6144 would be a huge integer.
    whole = sign * int(digits) * 10**exponent if exponent >= 0 and adjusted < _MAX_LONG_DIGITS else None
    if whole is not None and -(1 << 63) <= whole < 1 << 63:
        return Int64(whole), at + end + 1
    return Decimal128(Decimal((int(negative), tuple(map(int, digits)), exponent))), at + end + 1


def _narrowest_number(number: float) -> Value:
    if math.isinf(number) or not number.is_integer() or abs(number) >= 1 << 63:
        return number
    whole = int(number)
    return whole if -INT32_MAX - 1 <= whole <= INT32_MAX else Int64(whole)


# --- strings, documents, arrays --------------------------------------------------------------------------------------


def _decode_string(key: bytes, at: int) -> tuple[str, int]:
    end = key.index(b"\x00", at)
    plain = key[at:end].replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")
    return plain.decode("utf-8", "surrogatepass"), end + 1


def _decode_document(key: bytes, at: int) -> DecodedValue:
    found: dict[str, Any] = {}
    while key[at] != 0:
        # The tag of a field's value precedes the name of the field.
        read = _DECODERS[key[at : at + 1]]
        name, at = _decode_string(key, at + 1)
        found[name], at = read(key, at)
    return found, at + 1


def _decode_array(key: bytes, at: int) -> DecodedValue:
    found: list[Any] = []
    while key[at] != 0:
        value, at = _decode_value(key, at)
        found.append(value)
    return found, at + 1


def _decode_code_with_scope(key: bytes, at: int) -> DecodedValue:
    code, at = _decode_string(key, at)
    scope, at = _decode_document(key, at + 1)
    return Code(code, scope), at


def _decode_code(key: bytes, at: int) -> DecodedValue:
    code, at = _decode_string(key, at)
    return Code(code), at


# --- the others ------------------------------------------------------------------------------------------------------


def _decode_binary(key: bytes, at: int) -> DecodedValue:
    length, subtype = _BINARY.unpack_from(key, at)
    start = at + _BINARY.size
    return Binary(key[start : start + length], subtype), start + length


def _decode_regex(key: bytes, at: int) -> DecodedValue:
    pattern, at = _decode_string(key, at)
    letters, at = _decode_string(key, at)
    return Regex(pattern, letters), at


def _constant_decoder(value: Value) -> Callable[[bytes, int], DecodedValue]:
    return lambda key, at: (value, at)


_DECODERS: Final[Mapping[bytes, Callable[[bytes, int], DecodedValue]]] = {
    kinds.MIN_KEY: _constant_decoder(MinKey()),
    kinds.UNDEFINED: _constant_decoder(MISSING),
    kinds.NULL: _constant_decoder(None),
    kinds.NUMBER: _decode_number,
    kinds.STRING: _decode_string,
    kinds.OBJECT: _decode_document,
    kinds.ARRAY: _decode_array,
    kinds.BINARY: _decode_binary,
    kinds.OBJECT_ID: lambda key, at: (ObjectId(key[at : at + 12]), at + 12),
    kinds.BOOL: lambda key, at: (key[at] == 1, at + 1),
    kinds.DATE: lambda key, at: (DatetimeMS(_LONG.unpack_from(key, at)[0] - (1 << 63)), at + 8),
    kinds.TIMESTAMP: lambda key, at: (Timestamp(*_PAIR.unpack_from(key, at)), at + 8),
    kinds.REGEX: _decode_regex,
    kinds.CODE: _decode_code,
    kinds.CODE_WITH_SCOPE: _decode_code_with_scope,
    kinds.MAX_KEY: _constant_decoder(MaxKey()),
}
