"""Conversion of values to JSON and back: bytes as characters U+0000 to U+00FF or in Base64, instants as text, intervals
in microseconds.

Form: https://ydb.tech/docs/en/reference/ydb-cli/parameterized-queries-cli and
https://github.com/ydb-platform/ydb `ydb/public/lib/json_value`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any, Final

from mayflydb.cli.ydb.faults import Misuse
from mayflydb.frontends.ydb.values import member_types, to_hashable
from mayflydb.query.yql import texts
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
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
)

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\f": "\\f", "\r": "\\r", "\n": "\\n"}


def to_json(type: Type, value: Value, in_base64: bool = False) -> str:
    """Return a value as JSON, without blanks."""
    match type:
        case OptionalType(item):
            return "null" if value is None else to_json(item, _unwrap(value), in_base64)
        case TaggedType(_, item):
            return to_json(item, value, in_base64)
        case ListType(item):
            return _format_list([to_json(item, each, in_base64) for each in value])
        case TupleType(items):
            return _format_list([to_json(item, each, in_base64) for item, each in zip(items, value, strict=True)])
        case StructType(members):
            pairs = zip(members, value, strict=True)
            return (
                "{"
                + ",".join(f"{_format_text(name)}:{to_json(item, each, in_base64)}" for (name, item), each in pairs)
                + "}"
            )
        case DictType(key, payload):
            return _format_list(
                [
                    _format_list([to_json(key, name, in_base64), to_json(payload, each, in_base64)])
                    for name, each in value.items()
                ]
            )
        case VariantType(over):
            index, inner = value
            inner_type = member_types(over)[index]
            return _format_list([str(index), to_json(inner_type, inner, in_base64)])
        case EmptyListType() | EmptyDictType():
            return "[]"
        case NullType() | VoidType():
            return "null"
        case _:
            return _plain_to_json(type, value, in_base64)


def _unwrap(value: Value) -> Value:
    return value.value if isinstance(value, Just) else value


def _format_list(items: list[str]) -> str:
    return "[" + ",".join(items) + "]"


def _plain_to_json(type: Type, value: Value, in_base64: bool) -> str:
    if type == BOOL:
        return "true" if value else "false"
    if type in INTEGERS or type in (INTERVAL, INTERVAL64):
        return str(value)
    if type in (FLOAT, DOUBLE):
        # JSON has no numbers for inf and NaN.
        return texts.to_text(type, value) if math.isfinite(value) else _format_text(texts.to_text(type, value))
    if type in (STRING, YSON):
        return f'"{base64.b64encode(value).decode()}"' if in_base64 else _format_bytes(value)
    text = texts.to_text(type, value)
    if type == TIMESTAMP or (type == TIMESTAMP64 and "." in text):
        # YDB's program prints six digits of a second, zeros included. A Timestamp64 on a whole second has none.
        whole, _, fraction = text[:-1].partition(".")
        text = f"{whole}.{fraction.ljust(6, '0')}Z"
    return _format_text(text)


def _format_bytes(value: bytes) -> str:
    """Return bytes as a JSON string, each byte as the character of its number."""
    # Bytes have no encoding: each becomes the character of the same number, U+0000 to U+00FF.
    shown = (_ESCAPES.get(chr(each)) or (chr(each) if 0x20 <= each <= 0x7E else f"\\u{each:04X}") for each in value)
    return f'"{"".join(shown)}"'


def _format_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def from_json(type: Type, given: Any, in_base64: bool = False) -> Value:
    """Return the value of this type in a decoded JSON document. Misuse if the document does not fit the type."""
    match type:
        case OptionalType(item):
            if given is None:
                return None
            inner = from_json(item, given, in_base64)
            # JSON has one null: in nested Optionals it stands for the outermost level.
            return Just(inner) if holds_null(item) else inner
        case TaggedType(_, item):
            return from_json(item, given, in_base64)
        case ListType(item):
            return [from_json(item, each, in_base64) for each in _check_type(given, list, type)]
        case TupleType(items):
            _check_length(given, len(items), type)
            return tuple(from_json(item, each, in_base64) for item, each in zip(items, given, strict=True))
        case StructType(members):
            fields = _check_type(given, dict, type)
            missing = [name for name, _ in members if name not in fields]
            if missing:
                raise Misuse(f'No member "{missing[0]}" in the map in json string for YDB struct type')
            return tuple(from_json(item, fields[name], in_base64) for name, item in members)
        case DictType(key, payload):
            pairs = _check_type(given, list, type)
            for each in pairs:
                _check_length(each, 2, type)
            return {
                to_hashable(from_json(key, name, in_base64)): from_json(payload, each, in_base64)
                for name, each in pairs
            }
        case VariantType() | EmptyListType() | EmptyDictType() | NullType() | VoidType():
            raise Misuse(f"Parameters of type {type} are not supported")
        case _:
            return _plain_from_json(type, given, in_base64)


def _check_type(given: Any, kind: type, type: Type) -> Any:
    if not isinstance(given, kind):
        raise Misuse(f"Json value {json.dumps(given, ensure_ascii=False)} doesn't fit in {type}")
    return given


def _check_length(given: Any, count: int, type: Type) -> None:
    if len(_check_type(given, list, type)) != count:
        raise Misuse(f"Json value {json.dumps(given, ensure_ascii=False)} doesn't fit in {type}")


def _plain_from_json(type: Type, given: Any, in_base64: bool) -> Value:
    value = _plain_parser(type, in_base64)(given)
    if value is None:
        raise Misuse(f"Json value {json.dumps(given, ensure_ascii=False)} doesn't fit in {type}")
    return value


def _plain_parser(type: Type, in_base64: bool) -> Callable[[Any], Value]:
    if type == BOOL:
        return lambda given: given if isinstance(given, bool) else None
    if type in INTEGERS:
        return lambda given: texts.from_text(type, str(given)) if _is_integer(given) else None
    if type in (INTERVAL, INTERVAL64):
        return lambda given: given if _is_integer(given) else None
    if type in (FLOAT, DOUBLE):
        return lambda given: _parse_float(type, given)
    if type in (STRING, YSON):
        return lambda given: _parse_bytes(given, in_base64) if isinstance(given, str) else None
    if isinstance(type, DecimalType):
        return lambda given: texts.from_text(type, str(given)) if isinstance(given, str) or _is_integer(given) else None
    return lambda given: texts.from_text(type, given) if isinstance(given, str) else None


# bool is a subclass of int in Python, and JSON's true is no number.
def _is_integer(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _parse_float(type: Type, given: Any) -> float | None:
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        return None
    try:
        value = float(given)
    except OverflowError:
        return None
    # A Float is rounded to single precision, as the server stores it.
    return value if math.isfinite(value) and type == DOUBLE else texts.to_single(value)


def _parse_bytes(given: str, in_base64: bool) -> bytes | None:
    try:
        return base64.b64decode(given, validate=True) if in_base64 else given.encode("latin-1")
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return None
