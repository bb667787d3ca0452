"""Result rows as bytes, one column at a time: for most types, one pass of a C function over the values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final, TypeAlias

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.values import columns_block, encoder
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import NullType, OptionalType, Primitive, Type, Value

Column: TypeAlias = Callable[[Sequence[Value]], Iterable[bytes]]
"""Encodes the values of a column as elements of `items`, one for each value."""

_FIXED: Final[dict[str, tuple[bytes, str]]] = {
    **dict.fromkeys(("Int8", "Int16", "Int32", "Date32"), (b"\x62\x05\x15", "i")),
    **dict.fromkeys(("Uint8", "Uint16", "Uint32", "Date", "Datetime"), (b"\x62\x05\x1d", "I")),
    **dict.fromkeys(("Int64", "Interval", "Datetime64", "Timestamp64", "Interval64"), (b"\x62\x09\x21", "q")),
    **dict.fromkeys(("Uint64", "Timestamp"), (b"\x62\x09\x29", "Q")),
    "Float": (b"\x62\x05\x35", "f"),
    "Double": (b"\x62\x09\x39", "d"),
}
"""Types with values of fixed size: the bytes in front of each value, and its struct format."""

_TEXTS: Final = frozenset({"Utf8", "Json", "JsonDocument"})
_BYTES: Final = frozenset({"String", "Yson"})
_NULL: Final = b"\x62\x02\x50\x00"
_BOOLS: Final = (b"\x62\x02\x08\x00", b"\x62\x02\x08\x01")

_SHORT: Final = 126
"""Texts with fewer bytes than this have all their lengths in one byte, so their heads are precomputed."""

_TEXT_HEADS: Final = tuple(bytes((0x62, size + 2, 0x4A, size)) for size in range(_SHORT))
_BYTES_HEADS: Final = tuple(bytes((0x62, size + 2, 0x42, size)) for size in range(_SHORT))
_ROW_HEADS: Final = tuple(bytes((0x12, size)) for size in range(128))


Encode: TypeAlias = Callable[[Sequence[Row]], bytes]
"""Encodes rows as the `rows` field of a ResultSet."""


@lru_cache(2048)
def result_encoder(columns: tuple[tuple[str, Type], ...]) -> tuple[bytes, Encode]:
    """Return the `columns` field of a ResultSet and the encoder of its rows."""
    return columns_block(columns), rows_encoder(type for _, type in columns)


def rows_encoder(types: Iterable[Type]) -> Encode:
    """Return the encoder of rows of these types."""
    return _rows_encoder(tuple(types))


@lru_cache(2048)
def _rows_encoder(types: tuple[Type, ...]) -> Encode:
    columns = tuple(map(_column, types))
    if not columns:
        return lambda rows: b"\x12\x00" * len(rows)

    def encode(rows: Sequence[Row]) -> bytes:
        encoded = [column(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
        contents = list(map(b"".join, zip(*encoded, strict=True)))
        return b"".join([_row_head(len(content)) + content for content in contents])

    return lambda rows: encode(rows) if rows else b""


def _row_head(size: int) -> bytes:
    return _ROW_HEADS[size] if size < 128 else b"\x12" + wire.varint(size)


def _column(type: Type) -> Column:
    if isinstance(type, OptionalType) and not isinstance(type.item, (OptionalType, NullType)):
        return _optional(_column(type.item))
    if isinstance(type, Primitive):
        if type.name in _FIXED:
            return _fixed_size(*_FIXED[type.name])
        if type.name in _TEXTS:
            return lambda values: _add_lengths(list(map(str.encode, values)), _TEXT_HEADS, b"\x4a")
        if type.name in _BYTES:
            return lambda values: _add_lengths(values, _BYTES_HEADS, b"\x42")
        if type.name == "Bool":
            return lambda values: [_BOOLS[bool(value)] for value in values]
    inner = encoder(type)
    return lambda values: [wire.block(12, inner(value)) for value in values]


def _optional(present: Column) -> Column:
    def pack(values: Sequence[Value]) -> Iterable[bytes]:
        if None not in values:
            return present(values)
        found = iter(present([value for value in values if value is not None]))
        return [_NULL if value is None else next(found) for value in values]

    return pack


def _fixed_size(tag: bytes, form: str) -> Column:
    pack = struct.Struct(f"<{len(tag)}s{form}").pack
    return lambda values: map(pack, repeat(tag), values)


def _add_lengths(contents: Sequence[bytes], heads: Sequence[bytes], tag: bytes) -> list[bytes]:
    return [
        heads[len(content)] + content
        if len(content) < _SHORT
        else wire.block(12, tag + wire.varint(len(content)) + content)
        for content in contents
    ]
