"""Keys as bytes whose order is the order of the values: what indexes and ordered scans compare.

Values of different types order as undefined < null < false < true < number < string < bytes; a tuple orders by its values, a
prefix first. Each value is one tag and a body of its own length, so that encodings can be joined, cut and complemented. Tags
leave room between them for types to come; none is 00 or FF, so prefix + FF lies above everything that begins with a prefix.

- number: its magnitude as an IEEE double rounded towards zero, then what rounding took away as a length byte and that many
  bytes, all complemented if negative. So integers of any size keep their exact place among the doubles, and 5 and 5.0 are one.
- string: UTF-8, bytes: as they are; 00 is written 00 FF and the end 00, which sorts before any continuation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from struct import Struct
from typing import Any, Final, Literal, TypeAlias


class Undefined(Enum):
    """The type of `UNDEFINED`: the value of a property that is not there."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED

KeyValue: TypeAlias = Literal[Undefined.UNDEFINED] | bool | int | float | str | bytes | None

SortKeys: TypeAlias = tuple[tuple[tuple[str, ...], bool], ...]
"""The paths of an order or an index: property names, each path with whether it descends."""

_UNDEFINED, _NULL, _FALSE, _TRUE, _NUMBER, _STRING, _BYTES = (bytes([tag]) for tag in range(0x10, 0x80, 0x10))

_EXACT = 1 << 53
"""Up to here every integer is a double."""

_SIGN = 0x80
_DOUBLE = Struct(">d")
_LARGEST = int(math.nextafter(math.inf, 0))
_COMPLEMENT = bytes(range(255, -1, -1))


def encode(values: Iterable[KeyValue]) -> bytes:
    """Encode a tuple of values as a key.

    Errors: TypeError for a value of another type, ValueError for NaN and for integers beyond about 2^2040.
    """
    try:
        return b"".join([_ENCODERS[type(value)](value) for value in values])
    except KeyError as error:
        raise TypeError(f"no key value: {error}") from None


def decode(key: bytes) -> tuple[KeyValue, ...]:
    """Decode the values of a key. Integers stay int where a double could not tell them from their neighbours, and below.

    Errors: ValueError for bytes that `encode` never gives.
    """
    values: list[KeyValue] = []
    at = 0
    while at < len(key):
        decoder = _DECODERS.get(key[at])
        if decoder is None:
            raise ValueError(f"no key: tag {key[at]:#04x} at {at}")
        value, at = decoder(key, at + 1)
        values.append(value)
    return tuple(values)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _encode_float(value: float) -> bytes:
    if value != value:
        raise ValueError("NaN has no place in any order")
    return _number(abs(value), 0, value < 0)


def _encode_int(value: int) -> bytes:
    if -_EXACT <= value <= _EXACT:
        return _number(float(abs(value)), 0, value < 0)
    magnitude = abs(value)
    below = floor(magnitude)
    return _number(below, magnitude - int(below), value < 0)


def floor(magnitude: int) -> float:
    """Return the largest finite double that is not above an integer."""
    # Beyond the largest double, the rest holds all that exceeds it.
    if magnitude >= _LARGEST:
        return float(_LARGEST)
    nearest = float(magnitude)
    return nearest if nearest <= magnitude else math.nextafter(nearest, 0)


def _number(magnitude: float, rest: int, negative: bool) -> bytes:
    return _NUMBER + encode_signed(magnitude, _rest(rest), negative)


def encode_signed(magnitude: float, rest: bytes, negative: bool) -> bytes:
    """Encode the body of a number: eight bytes of its magnitude as a double and the rounding rest, in the order of signed
    numbers.
    """
    double = _DOUBLE.pack(magnitude)
    # number: tag | 8 bytes of the double, big-endian | length of the rest | rest
    # The sign bit is free in a magnitude; set, it puts the positive above the complemented negative.
    body = bytes((double[0] | _SIGN,)) + double[1:] + rest
    return complement(body) if negative else body


def complement(key: bytes) -> bytes:
    """Return a key in descending order: of keys that are no prefixes of each other, complements compare the other way round."""
    return key.translate(_COMPLEMENT)


def _rest(rest: int) -> bytes:
    if not rest:
        return b"\x00"
    length = (rest.bit_length() + 7) // 8
    if length > 0xFF:
        # The length is one byte: 255 bytes at most.
        raise ValueError("an integer of more than 2040 bits has no key")
    return bytes((length,)) + rest.to_bytes(length, "big")


def _decode_number(key: bytes, at: int) -> tuple[int | float, int]:
    body = key[at : at + 9]
    if len(body) < 9:
        raise ValueError(f"no key: a number is cut off at {at}")
    negative = body[0] < _SIGN
    if negative:
        body = body.translate(_COMPLEMENT)
    end = at + 9 + body[8]
    rest = key[at + 9 : end]
    if len(rest) < body[8]:
        raise ValueError(f"no key: a number is cut off at {at}")
    if negative:
        rest = rest.translate(_COMPLEMENT)
    (magnitude,) = _DOUBLE.unpack(bytes((body[0] & ~_SIGN,)) + body[1:8])
    value: int | float = magnitude
    # 5 and 5.0 have one key, so the type is lost: a whole number decodes as int.
    if magnitude != math.inf and (rest or (magnitude <= _EXACT and magnitude.is_integer())):
        value = int(magnitude) + int.from_bytes(rest, "big")
    return (-value if negative else value), end


# --- strings and bytes -----------------------------------------------------------------------------------------------


def _encode_bytes(value: bytes) -> bytes:
    return _BYTES + value.replace(b"\x00", b"\x00\xff") + b"\x00"


def _encode_string(value: str) -> bytes:
    # JSON may hold a lone surrogate; it has a code point and so a place in the order.
    return _STRING + value.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00"


def _decode_bytes(key: bytes, at: int) -> tuple[bytes, int]:
    end = key.find(b"\x00", at)
    # 00 FF is a zero of the value; the first 00 with another byte behind it is the end.
    while end >= 0 and key[end + 1 : end + 2] == b"\xff":
        end = key.find(b"\x00", end + 2)
    if end < 0:
        raise ValueError(f"no key: a string has no end, from {at}")
    return key[at:end].replace(b"\x00\xff", b"\x00"), end + 1


def _decode_string(key: bytes, at: int) -> tuple[str, int]:
    text, end = _decode_bytes(key, at)
    return text.decode("utf-8", "surrogatepass"), end


def _constant(value: KeyValue) -> Callable[[bytes, int], tuple[KeyValue, int]]:
    return lambda key, at: (value, at)


_ENCODERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    Undefined: lambda value: _UNDEFINED,
    type(None): lambda value: _NULL,
    bool: lambda value: _TRUE if value else _FALSE,
    int: _encode_int,
    float: _encode_float,
    str: _encode_string,
    bytes: _encode_bytes,
}

_DECODERS: Final[Mapping[int, Callable[[bytes, int], tuple[KeyValue, int]]]] = {
    _UNDEFINED[0]: _constant(UNDEFINED),
    _NULL[0]: _constant(None),
    _FALSE[0]: _constant(False),
    _TRUE[0]: _constant(True),
    _NUMBER[0]: _decode_number,
    _STRING[0]: _decode_string,
    _BYTES[0]: _decode_bytes,
}
