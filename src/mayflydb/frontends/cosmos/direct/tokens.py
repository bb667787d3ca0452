"""The typed tokens of rntbd's frames: an id (u16), a type (u8) and a value each, little-endian, without a count or an end.

Numbers of types: `RntbdTokenType` of azure-cosmos (https://github.com/Azure/azure-sdk-for-java, `directconnectivity/rntbd`).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

Value: TypeAlias = int | float | bytes

MAX_TOKENS: Final = 512
"""Tokens of one frame. Clients know some 270."""

_HEAD: Final = Struct("<HB")


class Malformed(Exception):
    """Bytes are no frame of rntbd. The connection ends, since the place of the next frame is not known."""


class Kind(IntEnum):
    """The types of values."""

    BYTE = 0x00
    USHORT = 0x01
    ULONG = 0x02
    LONG = 0x03
    ULONGLONG = 0x04
    LONGLONG = 0x05
    GUID = 0x06
    SMALL_STRING = 0x07
    STRING = 0x08
    ULONG_STRING = 0x09
    SMALL_BYTES = 0x0A
    BYTES = 0x0B
    ULONG_BYTES = 0x0C
    FLOAT = 0x0D
    DOUBLE = 0x0E
    INVALID = 0xFF


_FIXED: Final[dict[int, Struct]] = {
    Kind.BYTE: Struct("<B"),
    Kind.USHORT: Struct("<H"),
    Kind.ULONG: Struct("<I"),
    Kind.LONG: Struct("<i"),
    Kind.ULONGLONG: Struct("<Q"),
    Kind.LONGLONG: Struct("<q"),
    Kind.GUID: Struct("<16s"),
    Kind.FLOAT: Struct("<f"),
    Kind.DOUBLE: Struct("<d"),
}
_SIZES: Final[dict[int, int]] = {kind: form.size for kind, form in _FIXED.items()} | {Kind.INVALID: 0}
_LENGTHS: Final[dict[int, Struct]] = {
    Kind.SMALL_STRING: Struct("<B"),
    Kind.STRING: Struct("<H"),
    Kind.ULONG_STRING: Struct("<I"),
    Kind.SMALL_BYTES: Struct("<B"),
    Kind.BYTES: Struct("<H"),
    Kind.ULONG_BYTES: Struct("<I"),
}


def scan(data: bytes, position: int = 0) -> list[tuple[int, int, int, int]]:
    """Return id, type, and the begin and end of the value of each token from `position` to the end of `data`.

    Tokens without a value are left out. Malformed for a type that does not exist, a value that is cut off, or MAX_TOKENS tokens.
    """
    found: list[tuple[int, int, int, int]] = []
    end = len(data)
    room = MAX_TOKENS
    try:
        while position < end:
            id, kind = _HEAD.unpack_from(data, position)
            position += 3
            size = _SIZES.get(kind)
            if size is None:
                length = _LENGTHS.get(kind)
                if length is None:
                    raise Malformed(f"token {id:#06x} has the type {kind:#04x}, which does not exist")
                (size,) = length.unpack_from(data, position)
                position += length.size
            if position + size > end:
                raise Malformed(f"token {id:#06x} has {size} bytes, and the frame ends before")
            if kind != Kind.INVALID:
                found.append((id, kind, position, position + size))
            position += size
            room -= 1
            if not room:
                raise Malformed(f"a frame has more than {MAX_TOKENS - 1} tokens")
    except struct.error:
        raise Malformed("the last token of a frame is cut off") from None
    return found


def decode(data: bytes, position: int = 0) -> dict[int, Value]:
    """Return the tokens from `position` to the end of `data` by their ids; of a repeated one the last.

    Texts stay bytes. Malformed: see `scan`.
    """
    tokens: dict[int, Value] = {}
    for id, kind, begin, end in scan(data, position):
        fixed = _FIXED.get(kind)
        tokens[id] = data[begin:end] if fixed is None else fixed.unpack_from(data, begin)[0]
    return tokens


def encode(id: int, kind: Kind, value: Value) -> bytes:
    """Return one token. ValueError for a value that its type cannot have."""
    head = _HEAD.pack(id, kind)
    try:
        if kind in _FIXED:
            return head + _FIXED[kind].pack(value)
        if isinstance(value, bytes):
            return head + _LENGTHS[kind].pack(len(value)) + value
    except struct.error as error:
        raise ValueError(f"token {id:#06x} cannot have this value: {error}") from None
    raise ValueError(f"token {id:#06x} is a text and has the value {value!r}")
