"""Result rows as bytes, one column at a time: for most types, one pass of a C function over the values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final, TypeAlias

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.values import columns_field, encoder
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import OptionalType, Primitive, Type, Value, holds_null

ColumnEncoder: TypeAlias = Callable[[Sequence[Value]], Iterable[bytes]]
"""Encodes the values of a column as elements of `items`, one for each value."""

_FIXED_SIZE_TYPES: Final[dict[str, tuple[bytes, str]]] = {
    **dict.fromkeys(("Int8", "Int16", "Int32", "Date32"), (b"\x62\x05\x15", "i")),
    **dict.fromkeys(("Uint8", "Uint16", "Uint32", "Date", "Datetime"), (b"\x62\x05\x1d", "I")),
    **dict.fromkeys(("Int64", "Interval", "Datetime64", "Timestamp64", "Interval64"), (b"\x62\x09\x21", "q")),
    **dict.fromkeys(("Uint64", "Timestamp"), (b"\x62\x09\x29", "Q")),
    "Float": (b"\x62\x05\x35", "f"),
    "Double": (b"\x62\x09\x39", "d"),
}
"""Types with values of fixed size: the bytes in front of each value, and its struct format."""

_TEXT_TYPES: Final = frozenset({"Utf8", "Json", "JsonDocument"})
_BYTES_TYPES: Final = frozenset({"String", "Yson"})
_NULL_ITEM: Final = b"\x62\x02\x50\x00"
_BOOL_ITEMS: Final = (b"\x62\x02\x08\x00", b"\x62\x02\x08\x01")

_SHORT_BYTES: Final = 126
"""Texts with fewer bytes than this have all their lengths in one byte, so their heads are precomputed."""

# An element of `items` (tag 62) is a Value:    62 05 | 15 | 4 bytes of an int32
#                                               62 n+2 | 4A n | n bytes of a text
# A row of `rows` (tag 12) is a Value of items: 12 n | 62 .. | 62 .. | ..
_TEXT_HEADS: Final = tuple(bytes((0x62, size + 2, 0x4A, size)) for size in range(_SHORT_BYTES))
_BYTES_HEADS: Final = tuple(bytes((0x62, size + 2, 0x42, size)) for size in range(_SHORT_BYTES))
_ROW_HEADS: Final = tuple(bytes((0x12, size)) for size in range(128))


RowsEncoder: TypeAlias = Callable[[Sequence[Row]], bytes]
"""Encodes rows as the `rows` field of a ResultSet."""


@lru_cache(2048)
def result_encoder(columns: tuple[tuple[str, Type], ...]) -> tuple[bytes, RowsEncoder]:
    """Return the `columns` field of a ResultSet and the encoder of its rows."""
    return columns_field(columns), rows_encoder(type for _, type in columns)


def rows_encoder(types: Iterable[Type]) -> RowsEncoder:
    """Return the encoder of rows of these types."""
    return _rows_encoder(tuple(types))


@lru_cache(2048)
def _rows_encoder(types: tuple[Type, ...]) -> RowsEncoder:
    columns = tuple(map(_column_encoder, types))
    if not columns:
        return lambda rows: b"\x12\x00" * len(rows)

    def encode(rows: Sequence[Row]) -> bytes:
        # Columns first, because each is then one loop in C; the outer zip turns columns back into rows.
        encoded = [column(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]
        contents = list(map(b"".join, zip(*encoded, strict=True)))
        return b"".join([_row_head(len(content)) + content for content in contents])

    return lambda rows: encode(rows) if rows else b""


def _row_head(size: int) -> bytes:
    return _ROW_HEADS[size] if size < 128 else b"\x12" + wire.varint(size)


def _column_encoder(type: Type) -> ColumnEncoder:
    if isinstance(type, OptionalType) and not holds_null(type.item):
        return _optional_encoder(_column_encoder(type.item))
    if isinstance(type, Primitive):
        if type.name in _FIXED_SIZE_TYPES:
            return _fixed_size_encoder(*_FIXED_SIZE_TYPES[type.name])
        if type.name in _TEXT_TYPES:
            return lambda values: _add_lengths(list(map(str.encode, values)), _TEXT_HEADS, b"\x4a")
        if type.name in _BYTES_TYPES:
            return lambda values: _add_lengths(values, _BYTES_HEADS, b"\x42")
        if type.name == "Bool":
            return lambda values: [_BOOL_ITEMS[bool(value)] for value in values]
    inner = encoder(type)
    return lambda values: [wire.bytes_field(12, inner(value)) for value in values]


def _optional_encoder(present: ColumnEncoder) -> ColumnEncoder:
    def pack(values: Sequence[Value]) -> Iterable[bytes]:
        if None not in values:
            return present(values)
        # NULLs are taken out, so that the packer of the column sees values of one kind only, and are put back at their
        # places.
        found = iter(present([value for value in values if value is not None]))
        return [_NULL_ITEM if value is None else next(found) for value in values]

    return pack


def _fixed_size_encoder(tag: bytes, form: str) -> ColumnEncoder:
    pack = struct.Struct(f"<{len(tag)}s{form}").pack
    return lambda values: map(pack, repeat(tag), values)


def _add_lengths(contents: Sequence[bytes], heads: Sequence[bytes], tag: bytes) -> list[bytes]:
    return [
        heads[len(content)] + content if len(content) < _SHORT_BYTES else _large_item(content, tag)
        for content in contents
    ]


def _large_item(content: bytes, tag: bytes) -> bytes:
    # Joined once: a value may have megabytes.
    head = tag + wire.varint(len(content))
    return b"".join((b"\x62", wire.varint(len(head) + len(content)), head, content))
