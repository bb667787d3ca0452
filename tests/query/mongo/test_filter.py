"""Queries and the documents that they match."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter, text_search
from mayflydb.query.mongo.text import TextIndex

Row = tuple[dict[str, Any], dict[str, Any], bool]

ENV = Env(now=0)
NAN = float("nan")
OID = ObjectId("0123456789abcdef01234567")


def matches(query: dict[str, Any], document: dict[str, Any], env: Env = ENV) -> bool:
    return compile_filter(query, env).matches(document)


EQUALITY: list[Row] = [
    ({}, {}, True),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": 1}, {"a": Int64(1)}, True),
    ({"a": 1}, {"a": Decimal128("1.00")}, True),
    ({"a": Decimal128("1")}, {"a": 1}, True),
    ({"a": 1}, {"a": True}, False),
    ({"a": True}, {"a": 1}, False),
    ({"a": 0}, {"a": -0.0}, True),
    ({"a": 0.1}, {"a": Decimal128("0.1")}, False),
    ({"a": NAN}, {"a": NAN}, True),
    ({"a": NAN}, {"a": Decimal128("NaN")}, True),
    ({"a": NAN}, {"a": 1}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": "x"}, {"a": "x"}, True),
    ({"a": "x"}, {"a": Code("x")}, False),
    ({"a": OID}, {"a": OID}, True),
    ({"a": OID}, {"a": str(OID)}, False),
    ({"a": DatetimeMS(5)}, {"a": DatetimeMS(5)}, True),
    ({"a": DatetimeMS(5)}, {"a": 5}, False),
    ({"a": DatetimeMS(5)}, {"a": Timestamp(0, 5)}, False),
    ({"a": b"x"}, {"a": Binary(b"x", 0)}, True),
    ({"a": b"x"}, {"a": Binary(b"x", 5)}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": None}, {}, True),
    ({"a": None}, {"a": 0}, False),
    ({"a": None}, {"a": []}, False),
    ({"a": None}, {"a": [1, None]}, True),
    ({"a": 1}, {}, False),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, False),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
    ({"a": {"b": 1}}, {"a": {"b": 1.0}}, True),
    ({"a": {}}, {"a": {}}, True),
    ({"a": {}}, {"a": []}, False),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ({"a": [1, 2]}, {"a": [[1, 2], 3]}, True),
    ({"a": 1}, {"a": [3, 1]}, True),
    ({"a": 1}, {"a": [[1]]}, False),
    ({"a": []}, {"a": []}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}, False),
    ({"a": {"$eq": 1}}, {"a": 1}, True),
    ({"a": {"$eq": [1]}}, {"a": [1]}, True),
    ({"a": {"$ne": 1}}, {"a": 2}, True),
    ({"a": {"$ne": 1}}, {}, True),
    ({"a": {"$ne": 1}}, {"a": [1, 2]}, False),
    ({"a": {"$ne": None}}, {}, False),
    ({"a": {"$ref": "c", "$id": 1}}, {"a": {"$ref": "c", "$id": 1}}, True),
    ({"a.$id": 1}, {"a": {"$ref": "c", "$id": 1}}, True),
    ({"a": MinKey()}, {"a": MinKey()}, True),
    ({"": 1}, {"": 1}, True),
]

PATHS: list[Row] = [
    ({"a.b": 1}, {"a": {"b": 1}}, True),
    ({"a.b": 1}, {"a": 1}, False),
    ({"a.b": None}, {"a": 1}, True),
    ({"a.b": None}, {}, True),
    ({"a.b": None}, {"a": []}, False),
    ({"a.b": None}, {"a": [1, 2]}, False),
    ({"a.b": None}, {"a": [{"b": 1}, {}]}, True),
    ({"a.b": {"$exists": False}}, {"a": []}, True),
    ({"a.b": 1}, {"a": [{"b": 2}, {"b": 1}]}, True),
    ({"a.b": 1}, {"a": [{"b": [2, 1]}]}, True),
    ({"a.b": 1}, {"a": [[{"b": 1}]]}, False),
    ({"a.0.b": 1}, {"a": [[{"b": 1}]]}, True),
    ({"a.0": 1}, {"a": [1, 2]}, True),
    ({"a.1": 1}, {"a": [1, 2]}, False),
    ({"a.01": 2}, {"a": [1, 2]}, False),
    ({"a.0": {"x": 1}}, {"a": [{"x": 1}]}, True),
    ({"a.0": 1}, {"a": [{"0": 1}]}, True),
    ({"a.0": 1}, {"a": {"0": 1}}, True),
    ({"a.0": [1, 2]}, {"a": [[1, 2]]}, True),
    ({"a.0.b": 1}, {"a": [{"b": 1}, {"b": 2}]}, True),
    ({"a.1.b": 1}, {"a": [{"b": 1}, {"b": 2}]}, False),
    ({"a.0.b": None}, {"a": [5]}, False),
    ({"entries.9": {"$not": {"$gte": 5}}}, {"entries": [9] * 9}, True),
    ({"entries.1": {"$not": {"$gte": 5}}}, {"entries": [9, 9]}, False),
    ({"a.b.c": 1}, {"a": {"b": {"c": 1}}}, True),
    ({"a.b.c": 1}, {"a": [{"b": [{"c": 1}]}]}, True),
    ({"a.b.c": {"$ne": 1}}, {"a": [{"b": [{"c": 2}]}, {"b": {"c": 1}}]}, False),
]

ORDER: list[Row] = [
    ({"a": {"$gt": 1}}, {"a": 2}, True),
    ({"a": {"$gt": 1}}, {"a": 1}, False),
    ({"a": {"$gte": 1}}, {"a": Decimal128("1")}, True),
    ({"a": {"$lt": Decimal128("1.5")}}, {"a": 1}, True),
    ({"a": {"$lt": Decimal128("1.5")}}, {"a": NAN}, False),
    ({"a": {"$lt": 5}}, {"a": NAN}, False),
    ({"a": {"$lte": NAN}}, {"a": NAN}, True),
    ({"a": {"$lt": NAN}}, {"a": 1}, False),
    ({"a": {"$gte": NAN}}, {"a": 1}, False),
    ({"a": {"$gt": (1 << 53)}}, {"a": Int64((1 << 53) + 1)}, True),
    ({"a": {"$gt": float(1 << 53)}}, {"a": Int64((1 << 53) + 1)}, True),
    ({"a": {"$gt": 1}}, {"a": "2"}, False),
    ({"a": {"$gt": 1}}, {"a": True}, False),
    ({"a": {"$gt": 1}}, {}, False),
    ({"a": {"$gt": 1}}, {"a": [0, 2]}, True),
    ({"a": {"$gt": 1, "$lt": 2}}, {"a": [0, 3]}, True),
    ({"a": {"$gt": "b"}}, {"a": "c"}, True),
    ({"a": {"$lt": "b"}}, {"a": "B"}, True),
    ({"a": {"$gt": DatetimeMS(5)}}, {"a": DatetimeMS(6)}, True),
    ({"a": {"$gt": DatetimeMS(5)}}, {"a": Timestamp(9, 9)}, False),
    ({"a": {"$lt": OID}}, {"a": ObjectId("00" * 12)}, True),
    ({"a": {"$gte": None}}, {}, True),
    ({"a": {"$lte": None}}, {"a": None}, True),
    ({"a": {"$gt": None}}, {"a": None}, False),
    ({"a": {"$lt": None}}, {"a": 1}, False),
    ({"a": {"$lt": True}}, {"a": False}, True),
    ({"a": {"$gt": MinKey()}}, {"a": "x"}, True),
    ({"a": {"$gt": MinKey()}}, {"a": MinKey()}, False),
    ({"a": {"$gte": MinKey()}}, {}, True),
    ({"a": {"$lt": MaxKey()}}, {"a": 1}, True),
    ({"a": {"$lt": MinKey()}}, {"a": 1}, False),
    ({"a": {"$gte": MaxKey()}}, {"a": MaxKey()}, True),
    ({"a": {"$gt": {"x": 1}}}, {"a": {"x": 2}}, True),
    ({"a": {"$gt": {"x": 1}}}, {"a": {"w": 2}}, False),
    ({"a": {"$gt": [1, 2]}}, {"a": [1, 3]}, True),
    ({"a": {"$gt": [1, 2]}}, {"a": 5}, False),
    ({"a": {"$lt": b"ab"}}, {"a": b"z"}, True),
]

OPERATORS: list[Row] = [
    ({"a": {"$in": [1, 2]}}, {"a": 2.0}, True),
    ({"a": {"$in": []}}, {"a": 1}, False),
    ({"a": {"$nin": []}}, {"a": 1}, True),
    ({"a": {"$in": [None, 1]}}, {}, True),
    ({"a": {"$nin": [None, 1]}}, {}, False),
    ({"a": {"$in": ["x", "y"]}}, {"a": ["z", "y"]}, True),
    ({"a": {"$in": [1, "x", [2]]}}, {"a": [2]}, True),
    ({"a": {"$in": [{"b": 1}]}}, {"a": {"b": 1}}, True),
    ({"a": {"$in": [Regex("^x"), 1]}}, {"a": "xy"}, True),
    ({"a": {"$nin": [Regex("^x"), 1]}}, {"a": "xy"}, False),
    ({"a": {"$in": [1, NAN]}}, {"a": NAN}, True),
    ({"a": {"$in": [True, 2]}}, {"a": 1}, False),
    ({"a": {"$nin": [1]}}, {"a": [1, 2]}, False),
    ({"a": {"$exists": True}}, {"a": None}, True),
    ({"a": {"$exists": True}}, {}, False),
    ({"a": {"$exists": False}}, {}, True),
    ({"a": {"$exists": 0}}, {}, True),
    ({"a": {"$exists": True}}, {"a": []}, True),
    ({"a": {"$not": {"$gt": 1}}}, {}, True),
    ({"a": {"$not": {"$gt": 1}}}, {"a": [0, 2]}, False),
    ({"a": {"$not": {"$gt": 1, "$lt": 5}}}, {"a": 7}, True),
    ({"a": {"$not": Regex("^x")}}, {"a": "xy"}, False),
    ({"a": {"$not": Regex("^x")}}, {"a": 1}, True),
    ({"a": {"$not": {"$regex": "^x"}}}, {"a": "y"}, True),
    ({"a": Regex("^x", "i")}, {"a": "Xy"}, True),
    ({"a": Regex("x")}, {"a": Regex("x")}, True),
    ({"a": Regex("x")}, {"a": Regex("x", "i")}, False),
    ({"a": Regex("x")}, {"a": 1}, False),
    ({"a": Regex("x")}, {"a": ["y", "x"]}, True),
    ({"a": {"$eq": Regex("x")}}, {"a": "x"}, False),
    ({"a": {"$eq": Regex("x")}}, {"a": Regex("x")}, True),
    ({"a": {"$regex": "B", "$options": "i"}}, {"a": "abc"}, True),
    ({"a": {"$options": "i", "$regex": "B"}}, {"a": "abc"}, True),
    ({"a": {"$regex": Regex("b", "i")}}, {"a": "ABC"}, True),
    ({"a": {"$options": "", "$regex": Regex("b", "i")}}, {"a": "ABC"}, True),
    ({"a": {"$regex": "a.c", "$options": "s"}}, {"a": "a\nc"}, True),
    ({"a": {"$regex": "^b", "$options": "m"}}, {"a": "a\nb"}, True),
    ({"a": {"$size": 2}}, {"a": [1, 2]}, True),
    ({"a": {"$size": 2}}, {"a": [[1, 2]]}, False),
    ({"a": {"$size": 0}}, {"a": []}, True),
    ({"a": {"$size": 0}}, {}, False),
    ({"a": {"$size": 1.0}}, {"a": [1]}, True),
    ({"a": {"$mod": [4, 0]}}, {"a": 8}, True),
    ({"a": {"$mod": [4, 1]}}, {"a": 8}, False),
    ({"a": {"$mod": [4, -1]}}, {"a": -5}, True),
    ({"a": {"$mod": [4.9, 1.9]}}, {"a": 5.7}, True),
    ({"a": {"$mod": [4, 0]}}, {"a": "8"}, False),
    ({"a": {"$mod": [4, 0]}}, {"a": NAN}, False),
    ({"a": {"$mod": [2, 0]}}, {"a": [1, 4]}, True),
    ({"a": {"$type": "string"}}, {"a": "x"}, True),
    ({"a": {"$type": 2}}, {"a": "x"}, True),
    ({"a": {"$type": 2.0}}, {"a": "x"}, True),
    ({"a": {"$type": "number"}}, {"a": Int64(1)}, True),
    ({"a": {"$type": "int"}}, {"a": Int64(1)}, False),
    ({"a": {"$type": "long"}}, {"a": Int64(1)}, True),
    ({"a": {"$type": ["string", "null"]}}, {"a": None}, True),
    ({"a": {"$type": "null"}}, {}, False),
    ({"a": {"$type": "array"}}, {"a": []}, True),
    ({"a": {"$type": "string"}}, {"a": [1, "x"]}, True),
    ({"a": {"$type": "date"}}, {"a": DatetimeMS(0)}, True),
    ({"a": {"$type": -1}}, {"a": MinKey()}, True),
    ({"a": {"$type": "object"}}, {"a": {}}, True),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, {"a": [0, 2]}, True),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, {"a": [0, 4]}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": 2}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": [[2]]}, False),
    ({"a": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}}, {"a": [[2]]}, True),
    ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a": [{"b": 1, "c": 2}]}, True),
    ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a": [{"b": 1}, {"c": 2}]}, False),
    ({"a": {"$elemMatch": {"0": 1}}}, {"a": [[1]]}, True),
    ({"a": {"$elemMatch": {"$or": [{"b": 1}, {"b": 2}]}}}, {"a": [{"b": 2}]}, True),
    ({"a": {"$elemMatch": {"b": None}}}, {"a": [{}]}, True),
    ({"a": {"$elemMatch": {}}}, {"a": [{}]}, True),
    ({"a": {"$elemMatch": {"$ne": 1}}}, {"a": [1]}, False),
    ({"a": {"$elemMatch": {"$not": {"$gt": 1}}}}, {"a": [5, 0]}, True),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, {"a": [{"b": [2]}]}, True),
    ({"a": {"$not": {"$elemMatch": {"$gt": 1}}}}, {"a": [0]}, True),
    ({"a": {"$all": [1, 2]}}, {"a": [2, 1, 3]}, True),
    ({"a": {"$all": [1, 2]}}, {"a": [1]}, False),
    ({"a": {"$all": [1]}}, {"a": 1}, True),
    ({"a": {"$all": []}}, {"a": []}, False),
    ({"a": {"$all": [[1, 2]]}}, {"a": [1, 2]}, True),
    ({"a": {"$all": [Regex("x"), "y"]}}, {"a": ["ax", "y"]}, True),
    ({"a": {"$all": [{"$elemMatch": {"b": 1}}, {"$elemMatch": {"b": 2}}]}}, {"a": [{"b": 2}, {"b": 1}]}, True),
    ({"a": {"$all": [None]}}, {}, True),
    ({"a": {"$bitsAllSet": 6}}, {"a": 7}, True),
    ({"a": {"$bitsAllSet": [1, 2]}}, {"a": 5}, False),
    ({"a": {"$bitsAnySet": 6}}, {"a": 4}, True),
    ({"a": {"$bitsAnySet": 6}}, {"a": 1}, False),
    ({"a": {"$bitsAllClear": 6}}, {"a": 1}, True),
    ({"a": {"$bitsAnyClear": 6}}, {"a": 4}, True),
    ({"a": {"$bitsAnyClear": 6}}, {"a": 6}, False),
    ({"a": {"$bitsAllSet": [200]}}, {"a": -1}, True),
    ({"a": {"$bitsAllSet": b"\x06"}}, {"a": b"\x07"}, True),
    ({"a": {"$bitsAllClear": [100]}}, {"a": b"\x07"}, True),
    ({"a": {"$bitsAllSet": 1}}, {"a": 1.5}, False),
    ({"a": {"$bitsAllSet": 0}}, {"a": 1}, True),
    ({"a": {"$bitsAllSet": 1}}, {"a": "1"}, False),
]

TOP: list[Row] = [
    ({"$and": [{"a": 1}, {"b": 2}]}, {"a": 1, "b": 2}, True),
    ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 2}, True),
    ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 3}, False),
    ({"$nor": [{"a": 1}, {"b": 2}]}, {"b": 3}, True),
    ({"$nor": [{"a": 1}, {"b": 2}]}, {"a": 1}, False),
    ({"$or": [{"a": 1}], "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": 1, "$comment": "why"}, {"a": 1}, True),
    ({"$comment": 5}, {}, True),
    ({"$alwaysTrue": 1}, {}, True),
    ({"$alwaysFalse": 1}, {}, False),
    (
        {"$or": [{"expires": {"$exists": False}}, {"expires": {"$gt": DatetimeMS(5)}}]},
        {"expires": DatetimeMS(4)},
        False,
    ),
    ({"$or": [{"expire": {"$gt": DatetimeMS(5)}}, {"expire": {"$eq": None}}], "key": "k"}, {"key": "k"}, True),
    ({"$jsonSchema": {"required": ["a"]}}, {"a": 1}, True),
    ({"$jsonSchema": {"required": ["a"]}}, {}, False),
]


@pytest.mark.parametrize(("query", "document", "expected"), [*EQUALITY, *PATHS, *ORDER, *OPERATORS, *TOP])
def test_a_query_matches_as_on_the_server(query: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert matches(query, document) is expected


@pytest.mark.parametrize("row", [row for row in (*EQUALITY, *PATHS, *ORDER) if set(row[0]) == {"a"}])
def test_a_condition_behaves_the_same_under_a_path(row: Row) -> None:
    query, document, expected = row
    assert matches({"x.a": query["a"]}, {"x": document}) is expected
    assert matches({"x.a": query["a"]}, {"x": [document]}) is expected
    assert matches({"$nor": [query]}, document) is not expected


UNKNOWN = (
    "unknown top level operator: $x. If you have a field name that starts with a '$' symbol, "
    "consider using $getField or $setField."
)
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"$x": 1}, 2, UNKNOWN),
    ({"a": {"$x": 1}}, 2, "unknown operator: $x"),
    ({"a": {"$gt": 1, "b": 2}}, 2, "unknown operator: b"),
    ({"a": {"$gt": Regex("x")}}, 2, "Can't have RegEx as arg to predicate over field 'a'."),
    ({"a": {"$ne": Regex("x")}}, 2, "Can't have regex as arg to $ne."),
    ({"a": {"$in": 1}}, 2, "$in needs an array"),
    ({"a": {"$nin": 1}}, 2, "$nin needs an array"),
    ({"a": {"$in": [{"$gt": 1}]}}, 2, "cannot nest $ under $in"),
    ({"a": {"$not": 1}}, 2, "$not needs a regex or a document"),
    ({"a": {"$not": {}}}, 2, "$not cannot be empty"),
    ({"a": {"$options": "i"}}, 2, "$options needs a $regex"),
    ({"a": {"$regex": 1}}, 2, "$regex has to be a string"),
    ({"a": {"$regex": "x", "$options": 1}}, 2, "$options has to be a string"),
    ({"a": {"$regex": Regex("x", "i"), "$options": "i"}}, 51075, "options set in both $regex and $options"),
    ({"a": {"$options": "i", "$regex": Regex("x", "i")}}, 51074, "options set in both $regex and $options"),
    ({"a": {"$regex": "x", "$options": "g"}}, 51108, "invalid flag in regex options: g"),
    ({"a": {"$regex": "("}}, 51091, "Regular expression is invalid: missing closing parenthesis"),
    ({"a": {"$size": "x"}}, 2, 'Failed to parse $size. Expected a number in: $size: "x"'),
    ({"a": {"$size": -1}}, 2, "Failed to parse $size. Expected a non-negative number in: $size: -1"),
    ({"a": {"$size": 1.5}}, 2, "Failed to parse $size. Expected an integer: $size: 1.5"),
    ({"a": {"$mod": 1}}, 2, "malformed mod, needs to be an array"),
    ({"a": {"$mod": [1]}}, 2, "malformed mod, not enough elements"),
    ({"a": {"$mod": [1, 2, 3]}}, 2, "malformed mod, too many elements"),
    ({"a": {"$mod": [0, 1]}}, 2, "divisor cannot be 0"),
    ({"a": {"$mod": ["x", 1]}}, 2, "malformed mod, divisor not a number"),
    ({"a": {"$type": "x"}}, 2, "Unknown type name alias: x"),
    ({"a": {"$type": 99}}, 2, "Invalid numerical type code: 99"),
    ({"a": {"$type": []}}, 9, "a must match at least one type"),
    ({"a": {"$type": True}}, 14, "type must be represented as a number or a string"),
    ({"a": {"$elemMatch": 1}}, 2, "$elemMatch needs an Object"),
    ({"a": {"$elemMatch": {"$x": 1}}}, 2, "unknown operator: $x"),
    ({"a": {"$elemMatch": {"$expr": 1}}}, 2, "$expr can only be applied to the top-level document"),
    ({"a": {"$all": 1}}, 2, "$all needs an array"),
    ({"a": {"$all": [{"$gt": 1}]}}, 2, "no $ expressions in $all"),
    ({"a": {"$all": [{"$elemMatch": {}}, 1]}}, 2, "$all/$elemMatch has to be consistent"),
    ({"a": {"$bitsAllSet": "x"}}, 2, 'a takes an Array, a number, or a BinData but received: "x"'),
    ({"a": {"$bitsAllSet": [-1]}}, 2, "bit positions must be >= 0 but got: 0: -1"),
    ({"a": {"$bitsAllSet": -1}}, 9, "Expected a non-negative number in: a: -1"),
    ({"$and": 1}, 2, "$and must be an array"),
    ({"$or": []}, 2, "$and/$or/$nor must be a nonempty array"),
    ({"$nor": [1]}, 2, "$or/$and/$nor entries need to be full objects"),
    ({"$alwaysTrue": 2}, 9, "$alwaysTrue must be an integer value of 1"),
    ({"$where": "true"}, 238, "$where is not supported: no JavaScript runs in queries"),
    ({"a": {"$where": "true"}}, 2, "$where cannot be applied to a field"),
    ({"$jsonSchema": 1}, 14, "$jsonSchema must be an object"),
    ({"$sampleRate": 2}, 2, "numeric argument to $sampleRate must be in [0, 1]"),
    ({"$text": {"$search": "x"}}, 27, "text index required for $text query"),
    ({"a": {"$near": [0, 0]}}, 2, "$near is not supported: there are no geospatial queries"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "code", "message"), REFUSED)
def test_an_invalid_query_is_refused_in_the_servers_words(query: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(MqlError, match=f"^{re.escape(message)}$") as refusal:
        compile_filter(query, ENV)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("query", "document", "index"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": [3, 1]}, 1),
        ({"a": {"$gt": 2}}, {"a": [1, 5, 7]}, 1),
        ({"a.b": 2}, {"a": [{"b": 1}, {"b": 2}]}, 1),
        ({"a.b": 2}, {"a": [{"b": [1, 2]}]}, 0),
        ({"a.b": 2}, {"a": {"b": [1, 2]}}, 1),
        ({"a.1": 2}, {"a": [1, 2]}, None),
        ({"a.0.b": 2}, {"a": [{"b": [1, 2]}]}, 1),
        ({"a": {"$elemMatch": {"b": 1}}}, {"a": [{"b": 2}, {"b": 1}]}, 1),
        ({"a": 1, "b": 2}, {"a": [1], "b": [1, 2]}, 1),
        ({"a": [2, 1], "b": 2}, {"a": [2, 1], "b": 2}, None),
        ({"$or": [{"a": 9}, {"b": 2}]}, {"a": [9], "b": [1, 2]}, 0),
        ({"a": {"$ne": 1}}, {"a": [2]}, None),
        ({"a": {"$all": [1, 2]}}, {"a": [2, 1]}, 0),
    ],
)
def test_a_filter_knows_the_element_it_matched_by(query: dict[str, Any], document: dict[str, Any], index: int) -> None:
    found = compile_filter(query, ENV)
    assert found.matches(document)
    assert found.find_position(document) == index


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({}, set()),
        ({"a": 1, "b.c": 2}, {"a", "b"}),
        ({"$or": [{"a": 1}, {"$and": [{"b": 1}]}]}, {"a", "b"}),
        ({"a": {"$elemMatch": {"x": 1}}}, {"a"}),
        ({"a": 1, "$jsonSchema": {}}, None),
    ],
)
def test_the_fields_that_a_filter_reads(query: dict[str, Any], fields: set[str] | None) -> None:
    assert compile_filter(query, ENV).fields == fields


@pytest.mark.parametrize(
    ("query", "document", "expected"),
    [
        ({"a": "ABC"}, {"a": "abc"}, True),
        ({"a": {"$in": ["ABC", "x"]}}, {"a": ["abc"]}, True),
        ({"a": {"$ne": "ABC"}}, {"a": "abc"}, False),
        ({"a": {"$gt": "B"}}, {"a": "a"}, False),
        ({"a": {"x": "ABC"}}, {"a": {"x": "abc"}}, True),
        ({"a": Regex("ABC")}, {"a": "abc"}, False),
        ({"A": 1}, {"a": 1}, False),
    ],
)
def test_a_collation_governs_strings_and_nothing_else(
    query: dict[str, Any], document: dict[str, Any], expected: bool
) -> None:
    env = Env(now=0, collation=Collation("en", 2))
    assert matches(query, document, env) is expected


def test_sample_rate_draws_for_each_document() -> None:
    draws = iter([0.1, 0.9, 0.4])
    found = compile_filter({"$sampleRate": 0.5}, Env(now=0, random=lambda: next(draws)))
    assert [found.matches({}) for _ in range(3)] == [True, False, True]


def test_text_is_found_by_words_phrases_and_exclusions() -> None:
    index = TextIndex({"title": 2, "tags": 1})
    documents: list[dict[str, Any]] = [
        {"title": "Blue Café"},
        {"title": "red car", "tags": ["blue"]},
        {"title": "bluebird"},
    ]

    def found(search: str, **more: Any) -> list[int]:
        query = compile_filter({"$text": {"$search": search, **more}}, ENV, index)
        return [place for place, document in enumerate(documents) if query.matches(document)]

    assert found("blue") == [0, 1]
    assert found("BLUE cafe") == [0, 1]
    assert found("blue -car") == [0]
    assert found('"red car"') == [1]
    assert found('blue "red car"') == [1]
    assert found("Blue", **{"$caseSensitive": True}) == [0]
    assert found("cafe", **{"$diacriticSensitive": True}) == []
    assert found("-car") == []


ENGLISH_TEXTS: list[dict[str, Any]] = [
    {"t": "The dog was running to the blueberries"},
    {"t": "a blue Café's élèves"},
    {"t": "corriendo", "language": "spanish"},
]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"$search": "run"}, [0]),
        ({"$search": "runs"}, [0]),
        ({"$search": "blueberry"}, [0]),
        ({"$search": "blue"}, [1]),
        ({"$search": "the"}, []),
        ({"$search": "the was dogs"}, [0]),
        ({"$search": '"was running"'}, [0]),
        ({"$search": '"was runs"'}, []),
        ({"$search": "dog -run"}, []),
        ({"$search": "run", "$language": "none"}, [0]),
        ({"$search": "running", "$language": "none"}, []),
        ({"$search": "running", "$language": ""}, [0]),
        ({"$search": "correr", "$language": "es"}, [2]),
        ({"$search": "correr", "$language": "Spanish"}, [2]),
        ({"$search": "eleve", "$language": "french"}, []),
        ({"$search": "Dog", "$caseSensitive": True}, []),
        ({"$search": "dog", "$caseSensitive": True}, [0]),
        ({"$search": "cafe's"}, [1]),
        ({"$search": "cafe's", "$diacriticSensitive": True}, []),
        ({"$search": "dog", "$language": "klingon"}, 2),
        ({"$search": 5}, 14),
        ({"$search": "dog", "$language": 5}, 14),
        ({}, 4),
        ({"$search": "dog", "x": 1}, 2),
    ],
    ids=str,
)
def test_words_are_found_by_their_stems(search: dict[str, Any], expected: Any) -> None:
    index = TextIndex({"t": 1}, "english")
    found: Any
    try:
        query = compile_filter({"$text": search}, ENV, index)
        found = [place for place, document in enumerate(ENGLISH_TEXTS) if query.matches(document)]
    except MqlError as refusal:
        found = refusal.code
    assert found == expected


@pytest.mark.parametrize(
    "query",
    [
        {"$nor": [{"$text": {"$search": "a"}}]},
        {"$and": [{"$text": {"$search": "a"}}, {"$text": {"$search": "b"}}]},
        {"a": {"$elemMatch": {"$text": {"$search": "a"}}}},
    ],
    ids=str,
)
def test_text_is_refused_in_other_places(query: dict[str, Any]) -> None:
    with pytest.raises(MqlError) as refusal:
        compile_filter(query, ENV, TextIndex({"t": 1}))
    assert refusal.value.code == 2


def test_a_text_scores_higher_where_the_words_weigh_more_and_come_often() -> None:
    index = TextIndex({"title": 10, "body": 1})
    search = text_search({"a": 1, "$and": [{"$text": {"$search": "blue"}}]}, index)
    assert search is not None
    assert text_search({"a": 1}, index) is None
    texts = [
        {"title": "blue"},
        {"title": "a blue car"},
        {"body": "blue blue car"},
        {"body": "a blue car"},
        {"body": "car"},
    ]
    scores = [search.score(document) for document in texts]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 11.0
    assert scores[-1] == 0.0


def test_queries_nest_a_hundred_deep() -> None:
    query: dict[str, Any] = {"a": 1}
    for _ in range(100):
        query = {"$and": [query]}
    assert compile_filter(query, ENV).matches({"a": 1})
    with pytest.raises(MqlError, match="exceeded maximum query tree depth of 100"):
        compile_filter({"$or": [query]}, ENV)
