"""Values as JSON for pages and seed files, in the forms of `query/yql/answers`. No value is lost on the way there and back.

The program `ydb` prints other forms (`cli/ydb/json_values`): it has no text for bytes, and one null for two levels of Optional.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.frontends.ydb.values import member_types, to_hashable
from mayflydb.query.yql import texts
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.intervals import MAX_INTERVAL, MAX_INTERVAL_64
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    DYNUMBER,
    FLOAT,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    JSON,
    JSON_DOCUMENT,
    STRING,
    YSON,
    DecimalType,
    DictType,
    EmptyDictType,
    EmptyListType,
    Just,
    ListType,
    NullType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
    VoidType,
    holds_null,
    is_optional,
)

Writer: TypeAlias = Callable[[Value], Any]
"""Returns the JSON form of a value."""

Reader: TypeAlias = Callable[[Any], Value]
"""Returns the value of a JSON form. Misfit if it does not fit the type."""

_MAX_SHOWN: Final = 60
"""Characters of a value that a refusal repeats."""


class Misfit(Exception):
    """A value does not fit its type. `place`: the part of the value, `[3].name`; empty: the whole."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


def read_value(name: str, type: Type, given: Any) -> Value:
    """Return the value of a JSON form. Faults: BAD_REQUEST, which names the place below `name`, if it does not fit the type."""
    try:
        return reader(type)(given)
    except Misfit as error:
        raise fault(f"{name}{error.place}: {error.reason}", status="BAD_REQUEST") from None


@lru_cache(maxsize=1024)
def writer(type: Type) -> Writer:
    """Return the writer of a type."""
    match type:
        case OptionalType(item):
            inner = writer(item)
            if holds_null(item):
                return lambda value: None if value is None else [inner(value.value)]
            return lambda value: None if value is None else inner(value)
        case TaggedType(_, item):
            return writer(item)
        case ListType(item):
            inner = writer(item)
            return lambda value: [inner(each) for each in value]
        case TupleType(items):
            inners = tuple(map(writer, items))
            return lambda value: [write(each) for write, each in zip(inners, value, strict=True)]
        case StructType(members):
            named = tuple((name, writer(item)) for name, item in members)
            return lambda value: {name: write(each) for (name, write), each in zip(named, value, strict=True)}
        case DictType(key, payload):
            write_key, write_payload = writer(key), writer(payload)
            return lambda value: [[write_key(name), write_payload(each)] for name, each in value.items()]
        case VariantType(over):
            inners = tuple(map(writer, member_types(over)))
            return lambda value: [value[0], inners[value[0]](value[1])]
        case EmptyListType() | EmptyDictType():
            return lambda value: []
        case NullType() | VoidType():
            return lambda value: None
    return _plain_writer(type)


def _plain_writer(type: Type) -> Writer:
    if type == BOOL or type in INTEGERS:
        return lambda value: value
    if type in (FLOAT, DOUBLE):
        # JSON has no number for inf and NaN. The text of a Float has fewer digits than its Python number.
        return lambda value: float(texts.to_text(type, value)) if math.isfinite(value) else texts.to_text(type, value)
    if type in (STRING, YSON):
        return _write_bytes
    return lambda value: texts.to_text(type, value)


def _write_bytes(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


@lru_cache(maxsize=1024)
def reader(type: Type) -> Reader:
    """Return the reader of a type. All types with a text form are read from their text too."""
    match type:
        case OptionalType(item):
            inner = reader(item)
            if holds_null(item):
                return lambda given: None if given is None else Just(inner(_check_list(type, given, 1)[0]))
            return lambda given: None if given is None else inner(given)
        case TaggedType(_, item):
            return reader(item)
        case ListType(item):
            inner = reader(item)
            return lambda given: [_within(f"[{n}]", inner, each) for n, each in enumerate(_check_list(type, given))]
        case TupleType(items):
            inners = tuple(map(reader, items))
            return lambda given: tuple(
                read(each) for read, each in zip(inners, _check_list(type, given, len(inners)), strict=True)
            )
        case StructType(members):
            return _struct_reader(type, members)
        case DictType(key, payload):
            return _dict_reader(type, reader(key), reader(payload))
        case VariantType(over):
            return _variant_reader(type, tuple(map(reader, member_types(over))))
        case EmptyListType():
            return lambda given: _check_list(type, given, 0)
        case EmptyDictType():
            return lambda given: dict(_check_list(type, given, 0))
        case NullType() | VoidType():
            return lambda given: None if given is None else _refuse(type, given)
    return _plain_reader(type)


def _struct_reader(type: Type, members: tuple[tuple[str, Type], ...]) -> Reader:
    named = [(name, is_optional(item), reader(item)) for name, item in members]
    known = {name for name, _ in members}

    def read(given: Any) -> Value:
        if not isinstance(given, dict):
            return _refuse(type, given)
        if unknown := given.keys() - known:
            raise Misfit("there is no such member", f".{min(unknown)}")
        found = []
        for name, nullable, read_member in named:
            if name not in given and not nullable:
                raise Misfit("it is missing", f".{name}")
            found.append(_within(f".{name}", read_member, given.get(name)))
        return tuple(found)

    return read


def _dict_reader(type: Type, read_key: Reader, read_payload: Reader) -> Reader:
    def read(given: Any) -> Value:
        pairs = [_check_list(type, each, 2) for each in _check_list(type, given)]
        return {to_hashable(read_key(name)): read_payload(each) for name, each in pairs}

    return read


def _variant_reader(type: Type, inners: tuple[Reader, ...]) -> Reader:
    def read(given: Any) -> Value:
        index, inner = _check_list(type, given, 2)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(inners):
            return _refuse(type, given)
        return index, inners[index](inner)

    return read


def _plain_reader(type: Type) -> Reader:
    def read(given: Any) -> Value:
        value = _read_plain(type, given)
        return _refuse(type, given) if value is None else value

    return read


def _read_plain(type: Type, given: Any) -> Value:
    """Return the value, or None if the JSON does not fit the type."""
    if isinstance(given, str):
        return texts.from_text(type, given)
    if isinstance(given, dict) and type in (STRING, YSON):
        return _read_base64(type, given)
    if type in (JSON, JSON_DOCUMENT) and given is not None:
        return texts.from_text(type, msgspec.json.encode(given).decode())
    if isinstance(given, bool):
        return given if type == BOOL else None
    if isinstance(given, int) and (type in INTEGERS or type in (FLOAT, DOUBLE, DYNUMBER)):
        return texts.from_text(type, str(given))
    if isinstance(given, int) and type in (INTERVAL, INTERVAL64):
        return given if abs(given) <= (MAX_INTERVAL if type == INTERVAL else MAX_INTERVAL_64) else None
    if isinstance(given, (int, float)) and (type in (FLOAT, DOUBLE, DYNUMBER) or isinstance(type, DecimalType)):
        return texts.from_text(type, repr(given))
    return None


def _read_base64(type: Type, given: dict[str, Any]) -> Value:
    content = given.get("base64")
    if len(given) != 1 or not isinstance(content, str):
        return None
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if type == STRING else texts.from_text(type, data.decode("utf-8", "surrogateescape"))


def _check_list(type: Type, given: Any, length: int | None = None) -> list[Any]:
    if not isinstance(given, list) or (length is not None and len(given) != length):
        _refuse(type, given)
    found: list[Any] = given
    return found


def _within(place: str, read: Reader, given: Any) -> Value:
    """Read a part of a value."""
    try:
        return read(given)
    except Misfit as error:
        raise Misfit(error.reason, place + error.place) from None


def _refuse(type: Type, given: Any) -> Value:
    if given is None:
        raise Misfit(f"NULL is no {type}")
    shown = msgspec.json.encode(given).decode("utf-8", "replace")
    raise Misfit(f"{shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'} is no {type}")
