"""Functions of strings that belong to no module: Length, Substring, Find, StartsWith, ToBytes and others.

Source: https://ydb.tech/docs/en/yql/reference/builtins/basic
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.clock import check_zone
from mayflydb.query.yql.functions.support import (
    apply_function,
    apply_with_nulls,
    argument_fault,
    coerce,
    convert_operand,
    count_operands,
    map_value,
    mismatch_fault,
    type_at,
    value_at,
)
from mayflydb.query.yql.moments import UNZONED, ZONED
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    JSON,
    JSON_DOCUMENT,
    NULL,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    YSON,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)


def text_at(call: Invocation, index: int, kind: Type | None = None) -> Expression:
    """The operand, a String or Utf8 (or NULL), converted to `kind` if that is given."""
    given = value_at(call, index)
    if given.type == NULL:
        return Expression(optional(kind or STRING), given.evaluate, constant=True)
    if kind is None and bare(given.type) in (STRING, UTF8):
        return given
    found = coerce(given, optional(kind or STRING) if is_optional(given.type) else kind or STRING)
    if found is None:
        raise mismatch_fault(call, index, given.type, kind or STRING)
    return found


def _encode(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _length(call: Invocation) -> Operand:
    """The length in bytes, for a Utf8 too."""
    count_operands(call, 1)
    return map_value(text_at(call, 0), UINT32, lambda value: len(_encode(value)))


def _substring(call: Invocation) -> Operand:
    """`Substring(text [, from [, length]])`, in bytes; a NULL number counts as omitted. The result is always a String."""
    given = count_operands(call, 1, 3)
    text = text_at(call, 0, STRING)
    start = convert_operand(call, 1, UINT32) if given > 1 else None
    length = convert_operand(call, 2, UINT32) if given > 2 else None

    def substring(value: Value, at: Value = None, size: Value = None) -> Value:
        if value is None:
            return None
        at = at or 0
        return value[at:] if size is None else value[at : at + size]

    return apply_with_nulls([each for each in (text, start, length) if each is not None], text.type, substring)


def _find(backward: bool) -> Builder:
    """`Find(text, wanted [, from])`: the offset in bytes, or NULL."""

    def build(call: Invocation) -> Operand:
        given = count_operands(call, 2, 3)
        text, wanted = text_at(call, 0, STRING), text_at(call, 1, STRING)
        start = convert_operand(call, 2, UINT32) if given == 3 else None

        def find(value: Value, sought: Value, at: Value = None) -> Value:
            if value is None or sought is None:
                return None
            if backward:
                # A match may begin at `at` at the latest, so it may end that much later.
                found = value.rfind(sought) if at is None else value.rfind(sought, 0, at + len(sought))
            else:
                found = value.find(sought, at or 0)
            return None if found < 0 else found

        return apply_with_nulls([each for each in (text, wanted, start) if each is not None], optional(UINT32), find)

    return build


def _at_end(test: Callable[[bytes, bytes], bool]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        pair = [text_at(call, index, STRING) for index in (0, 1)]
        return apply_function(pair, BOOL, test)

    return build


def _byte_at(call: Invocation) -> Operand:
    """`ByteAt(text, index)`: NULL beyond the end."""
    count_operands(call, 2)
    pair = [text_at(call, 0, STRING), convert_operand(call, 1, UINT32)]

    def byte_at(value: Value, index: Value) -> Value:
        if value is None or index is None:
            return None
        return value[index] if index < len(value) else None

    return apply_with_nulls(pair, optional(UINT8), byte_at)


def _bit(change: Callable[[int, int], Value], kind: Type | None) -> Builder:
    """TestBit, SetBit, ClearBit, FlipBit of an unsigned number; the lowest bit is 0."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, bit = value_at(call, 0), convert_operand(call, 1, UINT8)
        source = bare(given.type)
        if source not in (UINT8, UINT16, UINT32, UINT64):
            raise argument_fault(call, f"Expected unsigned integer type, but got: {format_type(given.type)}")
        # Python's ints have no width: SetBit beyond it changes nothing.
        mask = 2 ** _WIDTH[source] - 1
        if kind is None:
            return apply_function([given, bit], source, lambda value, index: change(value, index) & mask)
        return apply_function([given, bit], kind, change)

    return build


_WIDTH: Final[dict[Type, int]] = {UINT8: 8, UINT16: 16, UINT32: 32, UINT64: 64}


def _abs(call: Invocation) -> Operand:
    """The absolute value: unsigned, as wide as the operand."""
    count_operands(call, 1)
    given = value_at(call, 0)
    kind = bare(given.type)
    if given.type == NULL:
        return given
    if kind in (FLOAT, DOUBLE):
        return map_value(given, kind, abs)
    if kind not in INTEGERS:
        raise argument_fault(call, f"Expected numeric type, but got: {format_type(given.type)}")
    unsigned = {INT8: UINT8, INT16: UINT16, INT32: UINT32, INT64: UINT64}.get(kind, kind)
    return map_value(given, unsigned, abs)


# --- bytes -----------------------------------------------------------------------------------------------------------

_LAYOUTS: Final[dict[str, str]] = {
    "Bool": "?",
    "Int8": "<b",
    "Uint8": "<B",
    "Int16": "<h",
    "Uint16": "<H",
    "Int32": "<i",
    "Uint32": "<I",
    "Int64": "<q",
    "Uint64": "<Q",
    "Float": "<f",
    "Double": "<d",
    "Date": "<H",
    "Datetime": "<I",
    "Timestamp": "<Q",
    "Interval": "<q",
    "Date32": "<i",
    "Datetime64": "<q",
    "Timestamp64": "<q",
    "Interval64": "<q",
    "Uuid": "16s",
}
"""The layouts of values in memory: little-endian."""


def _to_bytes(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = value_at(call, 0)
    kind = bare(given.type)
    if kind in (STRING, YSON):
        return map_value(given, STRING, bytes)
    if kind in (UTF8, JSON, JSON_DOCUMENT):
        return map_value(given, STRING, str.encode)
    layout = _LAYOUTS.get(format_type(kind))
    if layout is None:
        raise argument_fault(call, f"Expected primitive type, but got: {format_type(given.type)}")
    return map_value(given, STRING, struct.Struct(layout).pack)


def _from_bytes(call: Invocation) -> Operand:
    """`FromBytes(bytes, Type)`: NULL for bytes that are no value of the type."""
    count_operands(call, 2)
    given, kind = text_at(call, 0, STRING), type_at(call, 1)
    if kind == STRING:
        return given
    layout = _LAYOUTS.get(format_type(kind))
    read: Callable[[Value], Value]
    if kind in (UTF8, JSON, YSON):
        read = _text_reader(kind)
    elif layout is not None:
        read = _unpacker(layout)
    else:
        raise argument_fault(call, f"Expected primitive type, but got: {format_type(kind)}")
    return apply_with_nulls([given], optional(kind), lambda value: None if value is None else read(value))


def _text_reader(kind: Type) -> Callable[[Value], Value]:
    def read(data: bytes) -> Value:
        try:
            return texts.from_text(kind, data.decode())
        except UnicodeDecodeError:
            return None

    return read


def _unpacker(layout: str) -> Callable[[Value], Value]:
    form = struct.Struct(layout)

    def read(data: bytes) -> Value:
        return form.unpack(data)[0] if len(data) == form.size else None

    return read


# --- time zones ------------------------------------------------------------------------------------------------------


def _add_timezone(call: Invocation) -> Operand:
    """`AddTimezone(moment, "Europe/Moscow")`"""
    count_operands(call, 2)
    given, zone = value_at(call, 0), text_at(call, 1, STRING)
    kind = next((zoned for zoned, plain in UNZONED.items() if plain == bare(given.type)), None)
    if kind is None:
        raise argument_fault(call, f"Expected Date, Datetime or Timestamp, but got: {format_type(given.type)}")

    def add(value: Value, name: bytes) -> Value:
        text = name.decode("utf-8", "replace")
        check_zone(text, call)
        return (value, text)

    return apply_function([given, zone], kind, add)


def _remove_timezone(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = value_at(call, 0)
    if bare(given.type) not in ZONED:
        raise argument_fault(call, f"Expected a type with a timezone, but got: {format_type(given.type)}")
    return map_value(given, UNZONED[bare(given.type)], lambda value: value[0])


BUILDERS: Final[dict[str, Builder]] = {
    "Len": _length,
    "Length": _length,
    "Substring": _substring,
    "Find": _find(backward=False),
    "RFind": _find(backward=True),
    "StartsWith": _at_end(bytes.startswith),
    "EndsWith": _at_end(bytes.endswith),
    "ByteAt": _byte_at,
    "TestBit": _bit(lambda value, index: bool(value >> index & 1), BOOL),
    "SetBit": _bit(lambda value, index: value | 1 << index, None),
    "ClearBit": _bit(lambda value, index: value & ~(1 << index), None),
    "FlipBit": _bit(lambda value, index: value ^ 1 << index, None),
    "Abs": _abs,
    "ToBytes": _to_bytes,
    "FromBytes": _from_bytes,
    "AddTimezone": _add_timezone,
    "RemoveTimezone": _remove_timezone,
}
