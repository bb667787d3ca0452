"""Rows in HybridRow, version 1: a schema is a table of columns, and a row the values of some of them, by name.

A row is a byte for the version, four for the id of its schema, bits that tell which columns are there, fixed columns, variable
columns, each behind its length, and sparse columns, each behind its type and its number. Numbers are little-endian.
https://github.com/microsoft/HybridRow, src/Serialization/HybridRow (Layouts/LayoutBuilder, RowBuffer)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from mayflydb.model.errors import BadRequest, Unsupported

VERSION: Final = 0x81
"""The first byte of a row. No JSON begins with it."""

Value: TypeAlias = int | float | bool | str | bytes

HEADER: Final = struct.Struct("<BI")
"""Version, id of the schema."""

MOST_BITS: Final = 32
"""Bits of a length. Nothing here needs more."""


class Type(Enum):
    """The type of a column: its code before a sparse value, and the form of a number. A row within a row is not read."""

    BOOL = (3, "")
    INT32 = (7, "<i")
    UINT32 = (11, "<I")
    FLOAT64 = (16, "<d")
    UTF8 = (20, "")
    BINARY = (21, "")
    ROW = (68, "")

    def __init__(self, code: int, form: str) -> None:
        self.code = code
        self.number = struct.Struct(form) if form else None


FALSE: Final = 2
"""The code of a sparse value that is false. True has the code of its type, and neither has further bytes."""


class Storage(StrEnum):
    """The part of a row in which a column lies. A fixed column keeps its place where it has no value."""

    REQUIRED = "required"
    FIXED = "fixed"
    VARIABLE = "variable"
    SPARSE = "sparse"


class Column(msgspec.Struct, frozen=True):
    """A column of a schema."""

    name: str
    type: Type
    storage: Storage


class Schema:
    """A kind of rows. `columns` are in the order of their numbers, which begin with 1."""

    def __init__(self, name: str, id: int, *columns: Column) -> None:
        self.name = name
        self.id = id
        self.columns = columns
        self.fixed = [column for column in columns if column.storage in (Storage.REQUIRED, Storage.FIXED)]
        self.variable = [column for column in columns if column.storage is Storage.VARIABLE]
        optional = [column for column in self.fixed if column.storage is Storage.FIXED] + self.variable
        self.bits = {column.name: 1 << place for place, column in enumerate(optional)}
        """By name of a column that may be missing: its bit of presence."""
        self.presence_bytes = (len(optional) + 7) // 8


# --- reading -----------------------------------------------------------------------------------------------------------


def read_row(schema: Schema, row: memoryview) -> dict[str, Any]:
    """Read a row that fills `row`. BadRequest for one that is cut short or contradicts itself; Unsupported for a property that
    is none of the schema's.
    """
    reader = _RowReader(schema, row)
    reader.read()
    return reader.values


def schema_id(row: memoryview) -> int:
    """Return the id of the schema of a row. BadRequest if no row begins here."""
    if len(row) < HEADER.size:
        refuse("it is cut short")
    version, id = HEADER.unpack_from(row)
    if version != VERSION:
        refuse(f"a row begins with 0x{version:02X} in place of its version")
    found: int = id
    return found


class _RowReader:
    """Reads one row into `values`."""

    def __init__(self, schema: Schema, row: memoryview) -> None:
        self.values: dict[str, Any] = {}
        self._schema = schema
        self._row = row
        self._position = HEADER.size

    def read(self) -> None:
        """Read the whole row."""
        if (id := schema_id(self._row)) != self._schema.id:
            refuse(f"a row has the schema {id} where {self._schema.name} is expected")
        bits = self._schema.bits
        present = int.from_bytes(self._take(self._schema.presence_bytes), "little")
        if present >> len(bits):
            refuse(f"a row of {self._schema.name} has more columns than its schema")
        for column in self._schema.fixed:
            value = self._read_number(column)
            if column.storage is Storage.REQUIRED or present & bits[column.name]:
                self.values[column.name] = value
        for column in self._schema.variable:
            if present & bits[column.name]:
                self.values[column.name] = self._read_bytes(column)
        while self._position < len(self._row):
            self._read_sparse()

    def _read_sparse(self) -> None:
        code = self._take(1)[0]
        column = self._read_path()
        if column.name in self.values:
            refuse(f"{column.name} occurs twice")
        if column.type is Type.BOOL and code in (FALSE, Type.BOOL.code):
            self.values[column.name] = code != FALSE
        elif code != column.type.code:
            refuse(f"{column.name} has the type {code}, which is not its own")
        elif column.type is Type.ROW:
            raise _unsupported(self._schema, column.name)
        elif column.type.number is None:
            self.values[column.name] = self._read_bytes(column)
        else:
            self.values[column.name] = self._read_number(column)

    def _read_path(self) -> Column:
        """Read the number of a sparse column. A greater number is the length of a name, added to the count of numbers."""
        columns = self._schema.columns
        number = self._read_varint()
        if number > len(columns):
            name = bytes(self._take(number - len(columns) - 1)).decode("utf-8", "replace")
            raise _unsupported(self._schema, name)
        if not number or columns[number - 1].storage is not Storage.SPARSE:
            refuse(f"a row of {self._schema.name} has no sparse column {number}")
        return columns[number - 1]

    def _read_number(self, column: Column) -> Value:
        if column.type.number is None:
            raise TypeError(f"the column {column.name} is no number")
        value: Value = column.type.number.unpack(self._take(column.type.number.size))[0]
        return value

    def _read_bytes(self, column: Column) -> Value:
        data = bytes(self._take(self._read_varint()))
        if column.type is Type.BINARY:
            return data
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            refuse(f"{column.name} is not UTF-8")

    def _read_varint(self) -> int:
        """Read a number of 7 bits for each byte, the lowest first."""
        number = shift = 0
        while (byte := self._take(1)[0]) >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > MOST_BITS:
                refuse("a length is too long")
        return number | byte << shift

    def _take(self, length: int) -> memoryview:
        start, self._position = self._position, self._position + length
        if self._position > len(self._row):
            refuse("it is cut short")
        return self._row[start : self._position]


def _unsupported(schema: Schema, name: str) -> Unsupported:
    return Unsupported(f"The property '{name[:100]}' of a row of {schema.name} is not supported by Mayfly.")


def refuse(reason: str) -> NoReturn:
    """Raise BadRequest for a body that is no HybridRow."""
    raise BadRequest(f"The batch is invalid HybridRow: {reason}.")


# --- writing -----------------------------------------------------------------------------------------------------------


def write_row(schema: Schema, values: Mapping[str, Any]) -> bytes:
    """Write a row of the columns that `values` names. KeyError if a required one is missing."""
    present = sum(bit for name, bit in schema.bits.items() if name in values)
    parts = [HEADER.pack(VERSION, schema.id), present.to_bytes(schema.presence_bytes, "little")]
    for column in schema.fixed:
        value = values[column.name] if column.storage is Storage.REQUIRED else values.get(column.name, 0)
        parts.append(_encode(column.type, value))
    parts += [_encode(column.type, values[column.name]) for column in schema.variable if column.name in values]
    for number, column in enumerate(schema.columns, 1):
        if column.storage is Storage.SPARSE and column.name in values:
            parts.append(_encode_sparse(column.type, number, values[column.name]))
    return b"".join(parts)


def _encode_sparse(type: Type, number: int, value: Any) -> bytes:
    code = FALSE if value is False else type.code
    return bytes([code]) + _encode_varint(number) + (b"" if type is Type.BOOL else _encode(type, value))


def _encode(type: Type, value: Any) -> bytes:
    if type.number is not None:
        return type.number.pack(value)
    data = value.encode() if type is Type.UTF8 else bytes(value)
    return _encode_varint(len(data)) + data


def _encode_varint(number: int) -> bytes:
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
