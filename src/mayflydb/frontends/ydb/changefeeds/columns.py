"""Values of columns in the records of changefeeds, in the formats JSON and Debezium, and of DynamoDB. Pure.

Sources: https://ydb.tech/docs/en/concepts/cdc and `ydb/core/change_exchange` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from mayflydb.query.yql import texts
from mayflydb.query.yql.functions.yson_nodes import parse, to_json
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    DYNUMBER,
    FLOAT,
    INTEGERS,
    JSON,
    JSON_DOCUMENT,
    STRING,
    UTF8,
    YSON,
    Primitive,
    Type,
    Value,
    bare,
)

ColumnWriter = Callable[[Value], Any]
"""Returns what a JSON encoder takes for a value that is not NULL."""

_DATES: Final = {Primitive("Date"): 86_400_000_000, Primitive("Datetime"): 1_000_000, Primitive("Timestamp"): 1}
"""Types that are written as ISO 8601, with the microseconds of their unit."""

_RAW_NUMBERS: Final = frozenset(map(Primitive, ("Interval", "Date32", "Datetime64", "Timestamp64", "Interval64")))
"""Dates and spans that are written as the integers that stand for them."""

_TIMESTAMP: Final = Primitive("Timestamp")


@lru_cache(maxsize=1024)
def json_writer(type: Type) -> ColumnWriter:
    """Return the writer of a column's type, for the formats JSON and Debezium."""
    type = bare(type)
    if type == BOOL or type in INTEGERS or type in _RAW_NUMBERS:
        return _same
    if type in (FLOAT, DOUBLE):
        return lambda value: float(texts.to_text(type, value)) if math.isfinite(value) else _infinite(value)
    if type in _DATES:
        unit = _DATES[type]
        return lambda value: _iso(value * unit)
    if type == STRING:
        return lambda value: base64.b64encode(value).decode()
    if type in (JSON, JSON_DOCUMENT):
        return lambda value: msgspec.Raw(_compact(value))
    if type == YSON:
        return _yson
    return lambda value: texts.to_text(type, value)


def _same(value: Value) -> Any:
    return value


def _infinite(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _iso(micros: int) -> str:
    # Six digits for every type, a Date as well.
    text = texts.to_text(_TIMESTAMP, micros).removesuffix("Z")
    whole, _, part = text.partition(".")
    return f"{whole}.{part:0<6}Z"


def _compact(text: str) -> bytes:
    # Stored JSON may contain line ends, which would break readers that take one record a line.
    return text.encode() if "\n" not in text else json.dumps(json.loads(text), ensure_ascii=False).encode()


def _yson(value: bytes) -> Any:
    node = parse(value)
    return None if node is None else to_json(node)


@lru_cache(maxsize=1024)
def dynamo_writer(type: Type) -> ColumnWriter:
    """Return the writer of a column's type as an attribute value of DynamoDB."""
    type = bare(type)
    if type == BOOL:
        return lambda value: {"BOOL": value}
    if type == DYNUMBER:
        return lambda value: {"N": texts.to_text(type, value)}
    if type == STRING:
        return lambda value: {"B": base64.b64encode(value).decode()}
    if type == UTF8:
        return lambda value: {"S": value}
    plain = json_writer(type)
    return lambda value: {"S": _text(plain(value))}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
