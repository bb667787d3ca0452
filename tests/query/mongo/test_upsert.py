"""The document of an upsert: query, update, and the document or the code of the refusal."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, ObjectId, Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import build_upsert, compile_update
from mayflydb.query.mongo.values import encode

ENV = Env(0)
OID = ObjectId("0123456789abcdef01234567")


@pytest.mark.parametrize(
    ("query", "update", "after"),
    [
        ({}, {"$set": {"a": 1}}, {"_id": OID, "a": 1}),
        ({"a": 1}, {"$set": {"b": 2}}, {"_id": OID, "a": 1, "b": 2}),
        ({"_id": 7}, {"$set": {"b": 2}}, {"_id": 7, "b": 2}),
        ({"b": 1, "_id": 7}, {"$inc": {"b": 2}}, {"_id": 7, "b": 3}),
        ({"_id": {"x": 1}}, {"$set": {"b": 2}}, {"_id": {"x": 1}, "b": 2}),
        ({"_id": None}, {"$set": {"b": 2}}, {"_id": None, "b": 2}),
        ({"_id": 7}, {"$set": {"_id": 7, "b": 2}}, {"_id": 7, "b": 2}),
        ({"_id": 7}, {"$set": {"_id": 8}}, 66),
        ({"b": 1}, {"$set": {"_id": 8}}, {"_id": 8, "b": 1}),
        ({"b": 1}, {"$setOnInsert": {"_id": 8, "a": 1}}, {"_id": 8, "b": 1, "a": 1}),
        ({"b": 1, "a": 2}, {"$set": {"c": 2}}, {"_id": OID, "a": 2, "b": 1, "c": 2}),
        ({"a.b": 1}, {"$set": {"c": 2}}, {"_id": OID, "a": {"b": 1}, "c": 2}),
        ({"a.b": 1, "a.c": 2}, {"$set": {"a.d": 3}}, {"_id": OID, "a": {"b": 1, "c": 2, "d": 3}}),
        ({"_id.x": 1}, {"$set": {"a": 3}}, {"_id": {"x": 1}, "a": 3}),
        ({"a.0": 1}, {"$set": {"c": 2}}, {"_id": OID, "a": {"0": 1}, "c": 2}),
        ({"a": {"$eq": 1}}, {"$set": {"c": 2}}, {"_id": OID, "a": 1, "c": 2}),
        ({"a": {"$eq": Int64(1)}}, {"$inc": {"a": 2}}, {"_id": OID, "a": Int64(3)}),
        ({"a": {"$in": [1]}}, {"$set": {"c": 2}}, {"_id": OID, "a": 1, "c": 2}),
        ({"a": {"$in": [1, 2]}}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$in": [Regex("x")]}}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$all": [1]}}, {"$set": {"c": 2}}, {"_id": OID, "a": 1, "c": 2}),
        ({"a": {"$all": [{"$elemMatch": {"x": 1}}]}}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$all": [1, 2]}}, {"$set": {"c": 2}}, 54),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"$set": {"c": 2}}, {"_id": OID, "a": 1, "b": 2, "c": 2}),
        ({"$or": [{"a": 1}]}, {"$set": {"c": 2}}, {"_id": OID, "a": 1, "c": 2}),
        ({"$or": [{"a": 1}, {"b": 1}]}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"$and": [{"$or": [{"a": {"$eq": 5}}]}]}, {"$set": {"c": 2}}, {"_id": OID, "a": 5, "c": 2}),
        ({"$nor": [{"a": 1}]}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$gt": 1}, "b": {"$ne": 2}, "d": {"$not": {"$eq": 1}}}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$gt": 1, "$eq": 5}}, {"$set": {"c": 2}}, {"_id": OID, "a": 5, "c": 2}),
        ({"a": Regex("x")}, {"$set": {"c": 2}}, {"_id": OID, "c": 2}),
        ({"a": {"$eq": Regex("x")}}, {"$set": {"c": 2}}, {"_id": OID, "a": Regex("x"), "c": 2}),
        ({"a": [1, 2]}, {"$push": {"a": 3}}, {"_id": OID, "a": [1, 2, 3]}),
        ({"a": {}}, {"$set": {"a.b": 3}}, {"_id": OID, "a": {"b": 3}}),
        ({"a": {"$ref": "c", "$id": 1}}, {"$set": {"b": 3}}, {"_id": OID, "a": {"$ref": "c", "$id": 1}, "b": 3}),
        ({"$comment": "x", "a": 1}, {"$set": {"b": 3}}, {"_id": OID, "a": 1, "b": 3}),
        ({"a": 1, "$and": [{"a": 2}]}, {"$set": {"c": 2}}, 54),
        ({"a": 1, "$and": [{"a": 1}]}, {"$set": {"c": 2}}, 54),
        ({"a": {"b": 1}, "a.b": 1}, {"$set": {"c": 2}}, 54),
        ({"a.b": 1, "a": {"b": 1}}, {"$set": {"c": 2}}, 54),
        ({"$expr": {"$eq": [1, 1]}}, {"$set": {"c": 2}}, 224),
        ({"a": 5}, {"$set": {"a.b": 2}}, 28),
        ({"a": [1]}, {"$set": {"a.$": 2}}, 2),
        ({"_id": [1]}, {"$set": {"a": 2}}, 53),
        ({}, {"$set": {"_id": [1]}}, 53),
        ({}, {"$set": {"_id": Regex("x")}}, 53),
        ({"_id": 7, "a": 1}, {"b": 2}, {"_id": 7, "b": 2}),
        ({"a": 1}, {"b": 2}, {"_id": OID, "b": 2}),
        ({"a": 1}, {"b": 2, "_id": 5}, {"_id": 5, "b": 2}),
        ({"_id": 7}, {"b": 2, "_id": 7}, {"_id": 7, "b": 2}),
        ({"_id": 7}, {"_id": 8}, 66),
        ({"_id": {"$gt": 7}}, {"b": 2}, {"_id": OID, "b": 2}),
        ({"_id.x": 7}, {"b": 2}, 111),
        ({"a": 1, "$and": [{"a": 2}]}, {"b": 2}, {"_id": OID, "b": 2}),
        (
            {"$or": [{"expire": {"$gt": 1}}, {"expire": {"$eq": None}}], "key": "k"},
            {"$setOnInsert": {"expire": 9}, "$inc": {"points": 1}},
            {"_id": OID, "key": "k", "expire": 9, "points": 1},
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_an_upsert_inserts_this_document_or_is_refused(query: Any, update: Any, after: Any) -> None:
    try:
        got: Any = encode(build_upsert(query, compile_update(update, ENV), ENV, lambda: OID))
    except MqlError as refusal:
        got = refusal.code
    assert got == (after if isinstance(after, int) else encode(after))
