"""The module Yson: parsing, paths, conversions and serialization of YSON and JSON."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.functions import yson_nodes
from mayflydb.query.yql.functions.yson_nodes import YsonNode
from mayflydb.query.yql.types import (
    DOUBLE,
    INT32,
    INT64,
    JSON,
    STRING,
    UINT32,
    UTF8,
    YSON,
    DictType,
    ListType,
    StructType,
    optional,
)
from yql_calling import call, null, typed, utf8, value


def yson(text: str) -> Any:
    return value(YSON, text.encode())


def json(text: str) -> Any:
    return value(JSON, text)


LOOSE = call("Yson::Options", Strict=False)
AUTO = call("Yson::Options", AutoConvert=True)
DATA = yson('{y = %true; x = 5.5; n = 7; u = 15u; s = "a b"; l = [1; 2]; d = {k = v}; e = #; a = <q=1>w}')
DOCUMENT = json('{"abc": {"def": 123, "ghi": "hello"}, "list": [1, 2.5, null]}')
ANYA = yson('{"name" = "Anya"; "age" = 15u; "params" = {"ip" = "1.2.3.4"; "region" = "x"}}')
PERSON = StructType((("age", UINT32), ("name", STRING), ("params", DictType(STRING, STRING)), ("zip", optional(INT32))))

ROWS = [
    ("LookupBool", (DATA, "z"), "Bool?", None),
    ("LookupBool", (DATA, "y"), "Bool?", True),
    ("LookupInt64", (DATA, "x"), Fault, "Cannot parse integer from double"),
    ("LookupInt64", (DATA, "x", LOOSE), "Int64?", None),
    ("LookupInt64", (DATA, "x", AUTO), "Int64?", 5),
    ("LookupUint64", (DATA, "u"), "Uint64?", 15),
    ("LookupDouble", (DATA, "x"), "Double?", 5.5),
    ("LookupString", (DATA, "s"), "String?", b"a b"),
    ("LookupString", (DATA, "n", AUTO), "String?", b"7"),
    ("LookupString", (DATA, "e"), "String?", None),
    ("LookupInt64", (yson("[5;6]"), "1"), "Int64?", 6),
    ("YPathString", (DATA, "/d/k"), "String?", b"v"),
    ("YPathInt64", (DATA, "/l/1"), "Int64?", 2),
    ("YPathInt64", (DATA, "/l/9"), "Int64?", None),
    ("YPathInt64", (DATA, "/a/@q"), "Int64?", 1),
    ("YPathInt64", (DOCUMENT, "/abc/def"), "Int64?", 123),
    ("ConvertTo", (call("Yson::YPath", DOCUMENT, "/abc/ghi"), optional(UTF8)), "Utf8?", "hello"),
    ("ConvertTo", (call("Yson::YPath", DOCUMENT, "/abc/none"), optional(UTF8)), "Utf8?", None),
    ("ConvertTo", (call("Yson::YPath", DOCUMENT, "/abc/def"), optional(STRING), AUTO), "String?", b"123"),
    (
        "ConvertTo",
        (call("Yson::YPath", DOCUMENT, "/list"), ListType(optional(DOUBLE))),
        "List<Double?>?",
        [1.0, 2.5, None],
    ),
    (
        "ConvertTo",
        (ANYA, PERSON),
        "Struct<'age':Uint32,'name':String,'params':Dict<String,String>,'zip':Int32?>",
        (15, b"Anya", {b"ip": b"1.2.3.4", b"region": b"x"}, None),
    ),
    ("ConvertToInt64List", (yson("[1;2]"),), "List<Int64>", [1, 2]),
    ("ConvertToBoolDict", (yson("{y=%true;x=5.5}"),), Fault, "Cannot parse boolean from double"),
    ("ConvertToBoolDict", (yson("{y=%true;x=5.5}"), LOOSE), "Dict<String,Bool>?", {b"y": True}),
    ("ConvertToInt64", (null(YSON),), "Int64?", None),
    ("Contains", (DATA, "x"), "Bool?", True),
    ("Contains", (DATA, "z"), "Bool?", False),
    ("GetLength", (yson("[1;2;3]"),), "Uint64?", 3),
    ("IsDict", (DATA,), "Bool", True),
    ("IsEntity", (yson("#"),), "Bool", True),
    ("Equals", (yson("{a=1;b=2}"), yson("{b=2;a=1}")), "Bool", True),
    ("SerializeText", (yson("<a=1>[ 1u ; -2; 1.0; %true; #; x ]"),), "Yson", b'<"a"=1>[1u;-2;1.;%true;#;"x"]'),
    ("Serialize", (yson('{a="b"}'),), "Yson", b"{\1\2a=\1\2b;}"),
    ("SerializeJson", (DOCUMENT,), "Json?", '{"abc":{"def":123,"ghi":"hello"},"list":[1,2.5,null]}'),
    ("SerializeJson", (yson("<a=1>b"),), "Json?", '{"$attributes":{"a":1},"$value":"b"}'),
    ("ConvertToInt64", (utf8("[1"),), Fault, "the document cannot be read"),
    ("ConvertToInt64", (utf8("[1"), LOOSE), "Int64?", None),
    ("ConvertTo", (DATA, value(INT64, 1)), Fault, "Expected a type as argument #2"),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), ROWS)
def test_functions(name: str, operands: Any, kind: Any, expected: Any) -> None:
    if kind is Fault:
        with pytest.raises(Fault, match=expected):
            typed(f"Yson::{name}", *operands)
    else:
        assert typed(f"Yson::{name}", *operands) == (kind, expected)


def _drawn(chance: random.Random, depth: int = 0) -> YsonNode:
    kind = chance.choice(
        ["entity", "bool", "int64", "uint64", "double", "string", "list", "dict"][: 6 if depth > 3 else 8]
    )
    attributes = {b"k": _drawn(chance, depth + 1)} if depth < 3 and chance.random() < 0.1 else None
    values: dict[str, Any] = {
        "entity": None,
        "bool": chance.random() < 0.5,
        "int64": chance.randrange(-(2**63), 2**63) >> chance.randrange(64),
        "uint64": chance.getrandbits(64) >> chance.randrange(64),
        "double": chance.uniform(-1e9, 1e9),
        "string": chance.randbytes(chance.randrange(12)),
    }
    if kind == "list":
        return YsonNode(kind, [_drawn(chance, depth + 1) for _ in range(chance.randrange(4))], attributes)
    if kind == "dict":
        return YsonNode(
            kind, {chance.randbytes(3): _drawn(chance, depth + 1) for _ in range(chance.randrange(4))}, attributes
        )
    return YsonNode(kind, values[kind], attributes)


def test_serialized_documents_parse_back(chance: random.Random) -> None:
    for _ in range(300):
        node = _drawn(chance)
        assert yson_nodes.parse(yson_nodes.write_text(node)) == node
        assert yson_nodes.parse(yson_nodes.write_binary(node)) == node


@pytest.mark.parametrize(
    "text", [b"", b"[", b"{a}", b"<a=1>", b"1 2", b"\1\xff", b"\3ab", b"99999999999999999999", b"[" * 1000]
)
def test_texts_that_are_no_yson(text: bytes) -> None:
    assert yson_nodes.parse(text) is None
