"""A find by `_id` has a shorter path. Its answers equal those of the usual path, which a batchSize selects."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex
from pymongo import CursorType, MongoClient
from pymongo.errors import OperationFailure

IDS: list[Any] = [
    0,
    5.5,
    "a",
    ObjectId("0123456789abcdef01234567"),
    {"a": 1},
    {"a": 1, "b": [1]},
    Binary(b"xy", 4),
    None,
]

ASKED: list[Any] = [
    *IDS,
    Int64(0),
    0.0,
    Decimal128("0"),
    "b",
    {"b": 1},
    {"$eq": "a"},
    {"$in": ["a"]},
    {"$gt": "A"},
    [0],
]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"projection": {"n": 1}},
    {"projection": {"list.$": 1}},
    {"limit": 1, "singleBatch": True},
    {"limit": -1},
    {"skip": 1},
    {"sort": {"n": -1}},
    {"hint": "_id_"},
    {"collation": {"locale": "en", "strength": 2}},
    {"singleBatch": "yes"},
]


@pytest.fixture(scope="module")
def documents(mongo_client: MongoClient[dict[str, Any]]) -> Any:
    """One for each of the ids."""
    collection = mongo_client["by_id"]["c"]
    collection.insert_many({"_id": id, "n": number, "list": [number]} for number, id in enumerate(IDS))
    return collection


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_find_by_id_answers_as_any_find(documents: Any, options: dict[str, Any]) -> None:
    for asked in ASKED:
        query = {"_id": asked}
        # The same again among conditions that rule nothing out: by a plan, through a cursor.
        assert _answer(documents, query, options) == _answer(documents, {"$and": [query]}, options), (asked, options)


@pytest.mark.parametrize("asked", [{"$eq": Regex("a")}, {"$unknown": 1}, Regex("^a")], ids=str)
def test_operators_on_id_are_left_to_the_filter(documents: Any, asked: Any) -> None:
    assert _answer(documents, {"_id": asked}, {}) == _answer(documents, {"$and": [{"_id": asked}]}, {})


@pytest.mark.parametrize(
    ("asked", "matched"), [("a", 1), ("b", 0), ({"a": 1}, 1), ([0], 0), (Regex("^a$"), 1)], ids=str
)
def test_an_update_by_id_changes_that_document_alone(documents: Any, asked: Any, matched: int) -> None:
    assert documents.update_one({"_id": asked}, {"$set": {"touched": True}}).matched_count == matched
    assert documents.count_documents({"touched": True}) == matched
    documents.update_many({}, {"$unset": {"touched": 1}})


def _answer(documents: Any, query: dict[str, Any], options: dict[str, Any]) -> Any:
    """The first batch and whether a cursor is left, or the error."""
    try:
        cursor = documents.database.command({"find": documents.name, "filter": query, **options})["cursor"]
    except OperationFailure as error:
        return error.code, (error.details or {}).get("errmsg")
    return cursor["firstBatch"], cursor["id"]


def test_a_tailable_cursor_for_an_id_gives_that_document_alone(mongo_client: MongoClient[dict[str, Any]]) -> None:
    capped = mongo_client["by_id"].create_collection("capped", capped=True, size=10_000)
    capped.insert_many([{"_id": number} for number in range(3)])
    assert [each["_id"] for each in capped.find({"_id": 1}, cursor_type=CursorType.TAILABLE)] == [1]
