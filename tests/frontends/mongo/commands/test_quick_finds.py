"""A find by the keys of an index has a shorter path. Its answers equal those of the usual path, which a batchSize selects."""

from __future__ import annotations

from typing import Any

import pytest
from bson import SON, Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer
from stores import STORES

QUERIES: list[dict[str, Any]] = [
    {"n": 5},
    {"n": Int64(5)},
    {"n": 5.0},
    {"n": 77},
    {"n": {"$gte": 3, "$lt": 6}},
    {"n": {"$gt": 6, "$lt": 3}},
    {"n": {"$gt": 3, "$lt": 6}},
    {"n": {"$lte": 2}},
    {"n": {"$gt": 8.5}},
    {"word": "word 4"},
    {"word": {"$gte": "word 7"}},
    {"n": 5, "word": "word 5"},
    {"n": 5, "pad": "x"},
    {"n": {"$gte": 0}},
    {"n": True},
]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 2},
    {"limit": 0},
    {"limit": 1, "singleBatch": True},
    {"limit": -2},
    {"projection": {"word": 1}},
    {"projection": {"word": 1, "_id": 0}},
    {"projection": {"word": False}},
    {"projection": {"_id": 1}},
    {"projection": {"deep.a": 1}},
    {"projection": {"word": 1, "n": 0}},
    {"projection": {"list.$": 1}},
    {"projection": {"_id": 0, "n": {"$add": ["$n", 1]}}},
    {"projection": {}},
    {"limit": "x"},
    {"unknown": 1},
    {"maxTimeMS": 5000, "comment": "c"},
]


def documents() -> list[dict[str, Any]]:
    return [
        {"_id": k, "n": k // 4, "word": f"word {k // 4}", "deep": {"a": k}, "list": [k], "pad": "x"} for k in range(40)
    ]


def answer(client: MongoClient[dict[str, Any]], query: dict[str, Any], options: dict[str, Any]) -> Any:
    try:
        found = client["quick"].command(SON([("find", "c"), ("filter", query), *options.items()]))
    except OperationFailure as refusal:
        return refusal.code, refusal.details and refusal.details["errmsg"]
    return found["cursor"]


@pytest.mark.parametrize("mongo_server", STORES, indirect=True)
def test_the_answers_are_those_of_the_usual_path(mongo_client: MongoClient[dict[str, Any]]) -> None:
    """Asked twice: the first find of a shape is planned, the second uses its plan."""
    collection = mongo_client["quick"]["c"]
    collection.drop()
    collection.insert_many(documents())
    collection.create_index("n")
    collection.create_index([("word", -1)])
    for query in QUERIES * 2:
        for options in OPTIONS:
            usual = answer(mongo_client, query, {"batchSize": 101, **options})
            assert answer(mongo_client, query, options) == usual, (query, options)


@pytest.mark.parametrize("mongo_server", STORES, indirect=True)
def test_each_write_is_found_by_the_next_find(mongo_client: MongoClient[dict[str, Any]]) -> None:
    """Of documents that came, left, were changed within the range, or became arrays."""
    collection = mongo_client["quick"]["written"]
    collection.drop()
    collection.create_index("n")

    def found(query: dict[str, Any]) -> list[tuple[int, Any]]:
        return [(each["_id"], each.get("text")) for each in collection.find(query)]

    collection.insert_many([{"_id": k, "n": 1, "text": "old"} for k in range(4)])
    assert found({"n": 1}) == [(k, "old") for k in range(4)]
    collection.update_one({"_id": 0}, {"$set": {"n": 2}})
    collection.update_one({"_id": 1}, {"$set": {"text": "new"}})
    collection.delete_one({"_id": 2})
    collection.insert_one({"_id": 9, "n": 1, "text": "new"})
    assert found({"n": 1}) == [(1, "new"), (3, "old"), (9, "new")]
    assert found({"n": {"$gt": 1, "$lt": 3}}) == [(0, "old")]
    # Elements of one array satisfy one condition each.
    collection.update_one({"_id": 3}, {"$set": {"n": [0, 9]}})
    assert found({"n": {"$gt": 1, "$lt": 3}}) == [(0, "old"), (3, "old")]
    assert found({"n": 9}) == [(3, "old")]
    collection.drop_index("n_1")
    assert found({"n": 1}) == [(1, "new"), (9, "new")]
    collection.delete_many({})
    assert found({"n": 1}) == []


def test_large_results_have_a_cursor(mongo_client: MongoClient[dict[str, Any]]) -> None:
    collection = mongo_client["quick"]["large"]
    collection.create_index("n")
    collection.insert_many([{"_id": k, "n": k % 2, "pad": "x" * 10_000 * (k % 2)} for k in range(300)])
    assert len(list(collection.find({"n": 0}))) == 150
    assert len(list(collection.find({"n": 1}))) == 150
    assert len(list(collection.find({"n": 1}, limit=40))) == 40
    assert len(list(collection.find({"n": 1}, {"n": 1}, limit=20))) == 20


def test_an_expired_document_is_not_found(
    mongo_server: RunningServer, mongo_client: MongoClient[dict[str, Any]]
) -> None:
    collection = mongo_client["quick"]["mortal"]
    collection.create_index("n")
    collection.create_index("_ts", expireAfterSeconds=10)
    collection.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1, "ttl": 100}])
    assert [each["_id"] for each in collection.find({"n": 1})] == [1, 2]
    mongo_server.clock.advance("10s")
    assert [each["_id"] for each in collection.find({"n": 1})] == [2]
    assert [each["_id"] for each in collection.find({"n": 1}, {"n": 1})] == [2]
