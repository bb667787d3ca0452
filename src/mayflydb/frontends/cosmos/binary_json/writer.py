"""Encodes JSON text as binary JSON, in a part of its forms that all clients read: no references, no packed strings or arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mayflydb.frontends.cosmos.binary_json.forms import PREAMBLE, SYSTEM_STRINGS

_LITERALS: Final = {None: b"\xd0", False: b"\xd1", True: b"\xd2"}
_SYSTEM: Final = {text: bytes([0x20 + place]) for place, text in enumerate(SYSTEM_STRINGS)}
_SMALL: Final = 32
"""Numbers below it are their own markers."""

_SHORT: Final = 64
"""Strings of fewer bytes have their length in the marker."""

_DOUBLE: Final = struct.Struct("<Bd")
_MARKED: Final = {letter: struct.Struct(f"<B{letter}") for letter in "BHIhiqQ"}
_COUNTED: Final = {letter: struct.Struct(f"<B{letter}{letter}") for letter in "BHI"}


def to_binary(text: bytes) -> bytes:
    """Encode a JSON text, which must be valid, and nested no deeper than an item may be."""
    return PREAMBLE + _encode(msgspec.json.decode(text))


def _encode(value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        return _encode_string(value)
    if kind is int:
        return _encode_integer(value)
    if kind is float:
        return _DOUBLE.pack(0xCC, value)
    if kind is dict:
        return _encode_members(0xE8, len(value), b"".join(_pieces(value)))
    if kind is list:
        return _encode_members(0xE0, len(value), b"".join(map(_encode, value)))
    return _LITERALS[value]


def _pieces(members: dict[str, Any]) -> Iterator[bytes]:
    for name, value in members.items():
        yield _encode_string(name)
        yield _encode(value)


def _encode_string(text: str) -> bytes:
    if text in _SYSTEM:
        return _SYSTEM[text]
    data = text.encode("utf-8")
    size = len(data)
    if size < _SHORT:
        return bytes((0x80 + size,)) + data
    marker, letter = (0xC0, "B") if size < 1 << 8 else (0xC1, "H") if size < 1 << 16 else (0xC2, "I")
    return _MARKED[letter].pack(marker, size) + data


def _encode_integer(value: int) -> bytes:
    if 0 <= value < _SMALL:
        return bytes((value,))
    if 0 <= value < 1 << 8:
        return _MARKED["B"].pack(0xC8, value)
    for marker, letter, bits in ((0xC9, "h", 15), (0xCA, "i", 31), (0xCB, "q", 63)):
        if -(1 << bits) <= value < 1 << bits:
            return _MARKED[letter].pack(marker, value)
    # Beyond 64 bits a number is a double everywhere.
    return _MARKED["Q"].pack(0xC7, value) if 0 <= value < 1 << 64 else _DOUBLE.pack(0xCC, float(value))


def _encode_members(empty: int, count: int, members: bytes) -> bytes:
    """`empty`: the marker of an empty array or object. Behind it stand those with a length and a count of 1, 2 and 4 bytes."""
    if not count:
        return bytes((empty,))
    size = len(members)
    # A member has at least one byte, so the count is not above the length.
    place, letter = (5, "B") if size < 1 << 8 else (6, "H") if size < 1 << 16 else (7, "I")
    return _COUNTED[letter].pack(empty + place, size, count) + members
