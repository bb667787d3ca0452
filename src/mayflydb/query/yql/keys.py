"""Keys of tables and indexes as bytes that sort in YQL's order: NULL first, then the values; tuples part by part.

Each value is a tag (NULL or VALUE) and a body. The type gives the body a fixed length or an end mark, so encodings can
be concatenated and cut: exactly the keys that begin with the values of a prefix begin with the prefix's bytes. No tag
is 00 or FF, so all of these keys lie between prefix and prefix + FF.

| type | body |
|---|---|
| Bool; integers; dates, times and intervals | one byte; big-endian, the sign bit inverted; the same |
| String, Utf8 | UTF-8, each 00 written as 00 FF, and 00 00 at the end |
| Uuid | its 16 bytes in YDB's order |
| Float, Double | the bits of a double, all inverted if negative, else only the sign bit; NaN last |
| Decimal | 16 bytes with the sign bit inverted: -inf first, then numbers, inf, NaN |
| DyNumber | sign, exponent, digits two by two each plus one, 00; the complement if negative |
| Tz | the date or time without the zone, then the zone's name |
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from mayflydb.query.yql import dynumbers, moments
from mayflydb.query.yql.texts import BOUNDS
from mayflydb.query.yql.types import (
    BOOL,
    DYNUMBER,
    FLOATS,
    INTEGERS,
    SIGNED,
    STRING,
    UTF8,
    UUID,
    DecimalType,
    Primitive,
    TaggedType,
    Type,
    Value,
    bare,
)

NULL: Final = b"\x10"
VALUE: Final = b"\x20"

Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Decodes the body at an offset; returns the value and the offset behind the body."""

_COMPLEMENT: Final = bytes(range(255, -1, -1))


def encode_key(types: Sequence[Type], values: Sequence[Value]) -> bytes:
    """Encode the values of the first columns of a key; there may be fewer values than types.

    `types`: of the key columns; Optional or not gives the same bytes. Raises TypeError for a type that no key can have.
    """
    return key_encoder(tuple(types[: len(values)]))(values)


def decode_key(types: Sequence[Type], key: bytes) -> tuple[Value, ...]:
    """Decode the values of a key or of a prefix of one. Raises ValueError for other bytes."""
    values: list[Value] = []
    at = 0
    for type in types:
        # A prefix may end between two columns, not inside of one.
        if at == len(key):
            break
        tag, at = key[at : at + 1], at + 1
        if tag not in (NULL, VALUE):
            raise ValueError(f"no key: tag {tag.hex()} at {at - 1}")
        value = None
        if tag == VALUE:
            try:
                value, at = _codec(_without_optional(type))[1](key, at)
            except (struct.error, IndexError, UnicodeDecodeError) as error:
                raise ValueError(f"no key: {error}") from None
        values.append(value)
    if at < len(key):
        raise ValueError(f"no key: {len(key) - at} bytes too many")
    return tuple(values)


@lru_cache(maxsize=1024)
def key_encoder(types: tuple[Type, ...]) -> Callable[[Sequence[Value]], bytes]:
    """Return `encode_key` for complete keys of these types. The types are resolved once, for many rows."""
    encoders = [_with_tag(_codec(_without_optional(type))[0]) for type in types]
    # Most keys have one column: no list, no join.
    if len(encoders) == 1:
        (only,) = encoders
        return lambda values: only(values[0])
    return lambda values: b"".join([encode(value) for encode, value in zip(encoders, values, strict=True)])


def _without_optional(type: Type) -> Type:
    inner = bare(type)
    return _without_optional(inner.item) if isinstance(inner, TaggedType) else inner


def _with_tag(encode: Encode) -> Encode:
    return lambda value: NULL if value is None else VALUE + encode(value)


# --- bodies ----------------------------------------------------------------------------------------------------------


def _fixed_width_codec(width: int, signed: bool) -> tuple[Encode, Decode]:
    pack = struct.Struct(">" + {1: "B", 2: "H", 4: "I", 8: "Q"}[width])
    # Half of the range is added, which inverts the sign bit: the least number becomes 00..00, and unsigned bytes sort
    # as signed numbers do.
    bias = 1 << 8 * width - 1 if signed else 0

    def encode(value: int) -> bytes:
        return pack.pack(value + bias)

    def decode(key: bytes, at: int) -> tuple[int, int]:
        return pack.unpack_from(key, at)[0] - bias, at + width

    return encode, decode


def _decode_bool(key: bytes, at: int) -> tuple[bool, int]:
    return key[at] == 1, at + 1


def _encode_bool(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


_END: Final = b"\x00\x00"
"""The end of a text. Inside a text 00 is followed by FF, so no text's key is a prefix of another's."""


def _encode_bytes(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + _END


def _decode_bytes(key: bytes, at: int) -> tuple[bytes, int]:
    end = key.find(b"\x00", at)
    while end >= 0 and key[end + 1 : end + 2] == b"\xff":
        end = key.find(b"\x00", end + 2)
    if end < 0 or key[end : end + 2] != _END:
        raise ValueError(f"no key: a text has no end, from {at}")
    return key[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _encode_text(value: str) -> bytes:
    return _encode_bytes(value.encode())


def _decode_text(key: bytes, at: int) -> tuple[str, int]:
    data, end = _decode_bytes(key, at)
    return data.decode(), end


def _encode_uuid(value: bytes) -> bytes:
    return value


def _decode_uuid(key: bytes, at: int) -> tuple[bytes, int]:
    if len(key) < at + 16:
        raise ValueError(f"no key: a Uuid is cut off at {at}")
    return key[at : at + 16], at + 16


# IEEE 754: doubles of one sign sort as their bits do. Setting the sign bit moves positive numbers behind negative ones,
# and inverting all bits reverses the negative ones, whose larger magnitudes come first.
_DOUBLE: Final = struct.Struct(">d")
_SIGN: Final = 0x80
_NAN: Final = b"\xff\xf8" + bytes(6)


def _encode_float(value: float) -> bytes:
    if value != value:
        return _NAN
    # Adding 0.0 turns minus zero into zero: the two are one key.
    bits = _DOUBLE.pack(value + 0.0)
    return bits.translate(_COMPLEMENT) if bits[0] & _SIGN else bytes((bits[0] | _SIGN,)) + bits[1:]


def _decode_float(key: bytes, at: int) -> tuple[float, int]:
    body = key[at : at + 8]
    if body == _NAN:
        return math.nan, at + 8
    bits = bytes((body[0] ^ _SIGN,)) + body[1:] if body[0] & _SIGN else body.translate(_COMPLEMENT)
    return _DOUBLE.unpack(bits)[0], at + 8


# Infinities and NaN are ints just beyond 35 digits (see `types`), so -inf, numbers, inf and NaN sort by value.
_DECIMAL_BIAS: Final = 1 << 127


def _encode_decimal(value: int) -> bytes:
    return (value + _DECIMAL_BIAS).to_bytes(16, "big")


def _decode_decimal(key: bytes, at: int) -> tuple[int, int]:
    if len(key) < at + 16:
        raise ValueError(f"no key: a Decimal is cut off at {at}")
    return int.from_bytes(key[at : at + 16], "big") - _DECIMAL_BIAS, at + 16


# A DyNumber of the digits d1 d2 d3 d4.. and the exponent e of `.d1d2d3d4..e<e>`:
#     sign 1, 2, 3 | e + 129 | 10 d1 + d2 + 1 | 10 d3 + d4 + 1 | .. | 00
# Zero is its sign alone. Behind sign 1 (negative) every byte is complemented.
_NEGATIVE, _ZERO, _POSITIVE = 1, 2, 3
# Exponents -129..126 become bytes 0..255.
_EXPONENT_BIAS: Final = 129


def _encode_dynumber(value: Decimal) -> bytes:
    negative, digits, power = dynumbers.split_digits(value)
    if not digits:
        return bytes((_ZERO,))
    digits += "0" * (len(digits) % 2)
    # One is added to each pair of digits, so no pair is 00, the end: a number sorts before those that it begins. The
    # complement of a negative number turns the end into FF, and reverses the order.
    pairs = (int(digits[place : place + 2]) + 1 for place in range(0, len(digits), 2))
    body = bytes((power + _EXPONENT_BIAS, *pairs, 0))
    return bytes((_NEGATIVE,)) + body.translate(_COMPLEMENT) if negative else bytes((_POSITIVE,)) + body


def _decode_dynumber(key: bytes, at: int) -> tuple[Decimal, int]:
    sign = key[at]
    if sign == _ZERO:
        return Decimal(0), at + 1
    # The search begins behind the exponent, which may be 00 or FF.
    end = key.find(b"\xff" if sign == _NEGATIVE else b"\x00", at + 2)
    if end < 0:
        raise ValueError(f"no key: a DyNumber has no end, from {at}")
    body = key[at + 1 : end]
    body = body.translate(_COMPLEMENT) if sign == _NEGATIVE else body
    digits = "".join(f"{pair - 1:02}" for pair in body[1:])
    value = dynumbers.parse(f"{'-' if sign == _NEGATIVE else ''}.{digits}e{body[0] - _EXPONENT_BIAS}")
    if value is None:
        raise ValueError(f"no key: no DyNumber at {at}")
    return value, end + 1


def _zoned_codec(moment: tuple[Encode, Decode]) -> tuple[Encode, Decode]:
    encode_moment, decode_moment = moment

    def encode(value: tuple[int, str]) -> bytes:
        return encode_moment(value[0]) + _encode_text(value[1])

    def decode(key: bytes, at: int) -> tuple[tuple[int, str], int]:
        there, at = decode_moment(key, at)
        name, at = _decode_text(key, at)
        return (there, name), at

    return encode, decode


def _codec(type: Type) -> tuple[Encode, Decode]:
    if isinstance(type, DecimalType):
        return _encode_decimal, _decode_decimal
    codec = _CODECS.get(type) if isinstance(type, Primitive) else None
    if codec is None:
        raise TypeError(f"no key has the type {type}")
    return codec


_CODECS: Final[Mapping[Type, tuple[Encode, Decode]]] = {
    BOOL: (_encode_bool, _decode_bool),
    **{each: _fixed_width_codec((BOUNDS[each][1].bit_length() + 7) // 8, each in SIGNED) for each in INTEGERS},
    **{each: _fixed_width_codec(8, signed=True) for each in (*moments.NARROW, *moments.WIDE, *moments.INTERVALS)},
    **{each: _zoned_codec(_fixed_width_codec(8, signed=True)) for each in moments.ZONED},
    STRING: (_encode_bytes, _decode_bytes),
    UTF8: (_encode_text, _decode_text),
    UUID: (_encode_uuid, _decode_uuid),
    DYNUMBER: (_encode_dynumber, _decode_dynumber),
    **dict.fromkeys(FLOATS, (_encode_float, _decode_float)),
}
