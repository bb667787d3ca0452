"""Values as JSON, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.json_values import from_json, to_json
from mayflydb.query.yql.names import resolve_type
from mayflydb.query.yql.parser import parse_type
from mayflydb.query.yql.types import Just, Type, Value


def type_named(text: str) -> Type:
    return resolve_type(parse_type(text))


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("Bool", True, "true"),
        ("Int64", -5, "-5"),
        ("Uint64", 2**64 - 1, "18446744073709551615"),
        ("Double", 1.5, "1.5"),
        ("Double", 2.0, "2"),
        ("Double", float("-inf"), '"-inf"'),
        ("Float", float("nan"), '"nan"'),
        ("Utf8", 'é"\n', '"é\\"\\n"'),
        ("String", b'\xff\x00"a', '"\\u00FF\\u0000\\"a"'),
        ("Date", 18262, '"2020-01-01"'),
        ("Datetime", 1577836800, '"2020-01-01T00:00:00Z"'),
        ("Timestamp", 1577836800000000, '"2020-01-01T00:00:00.000000Z"'),
        ("Timestamp", 1577836800120000, '"2020-01-01T00:00:00.120000Z"'),
        ("Timestamp64", -500000, '"1969-12-31T23:59:59.500000Z"'),
        ("Timestamp64", 0, '"1970-01-01T00:00:00Z"'),
        ("Interval", -1000000, "-1000000"),
        ("Json", '{"a":1}', '"{\\"a\\":1}"'),
        ("Decimal(22,9)", 1500000000, '"1.5"'),
        ("Utf8?", None, "null"),
        ("Utf8?", "a", '"a"'),
        ("Int32??", Just(None), "null"),
        ("List<Int32?>", [1, None], "[1,null]"),
        ("Tuple<Int32,Utf8>", (1, "a"), '[1,"a"]'),
        ("Struct<a:Int32,b:Utf8>", (1, "x"), '{"a":1,"b":"x"}'),
        ("Dict<Int32,Utf8>", {1: "x"}, '[[1,"x"]]'),
        ("Variant<Int32,Utf8>", (1, "x"), '[1,"x"]'),
    ],
)
def test_printed(type: str, value: Value, text: str) -> None:
    assert to_json(type_named(type), value) == text


def test_bytes_in_base64() -> None:
    assert to_json(type_named("List<String>"), [b"\xff"], in_base64=True) == '["/w=="]'
    assert from_json(type_named("String"), "/w==", in_base64=True) == b"\xff"


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("Bool", "true", True),
        ("Uint8", "255", 255),
        ("Float", "1", 1.0),
        ("Utf8", '"a"', "a"),
        ("String", '"\\u00ff"', b"\xff"),
        ("Timestamp", '"2020-01-01T00:00:00Z"', 1577836800000000),
        ("Interval", "-1", -1),
        ("Decimal(22,9)", '"1.5"', 1500000000),
        ("Int32?", "null", None),
        ("Int32??", "1", Just(1)),
        ("List<Int32>", "[1,2]", [1, 2]),
        ("Tuple<Int32,Utf8>", '[1,"a"]', (1, "a")),
        ("Struct<a:Int32,b:Utf8>", '{"b":"x","a":1}', (1, "x")),
        ("Dict<Int32,Utf8>", '[[1,"x"]]', {1: "x"}),
    ],
)
def test_read(type: str, text: str, value: Value) -> None:
    assert from_json(type_named(type), json.loads(text)) == value


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("Bool", 1),
        ("Uint8", 256),
        ("Uint8", -1),
        ("Int32", True),
        ("Int32", 1.5),
        ("Int32", "1"),
        ("Int32", None),
        ("Double", "1"),
        ("Utf8", 1),
        ("String", "\u0100"),
        ("Date", "2020-13-01"),
        ("List<Int32>", 1),
        ("Tuple<Int32,Utf8>", [1]),
        ("Struct<a:Int32>", {"b": 1}),
        ("Dict<Int32,Utf8>", [[1]]),
        ("Variant<Int32,Utf8>", [0, 1]),
    ],
)
def test_refused(type: str, given: Any) -> None:
    with pytest.raises(Misuse):
        from_json(type_named(type), given)
