"""Queries return the same with indexes and without, while documents are inserted, changed and removed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient

from stores import STORES

DOCUMENTS, QUERIES = 120, 150


def value(chance: random.Random, arrays: bool) -> Any:
    if arrays and chance.random() < 0.15:
        return [value(chance, False) for _ in range(chance.randrange(3))]
    return chance.choice([None, chance.randrange(6), chance.randrange(6) + 0.5, chance.choice("abc"), True, {"x": 1}])


def document(chance: random.Random, arrays: bool) -> dict[str, Any]:
    # Arrays in one field alone: no compound index takes two.
    return {field: value(chance, arrays and field == "a") for field in "ab" if chance.random() < 0.9}


def condition(chance: random.Random) -> Any:
    operator = chance.choice(["$gt", "$gte", "$lt", "$lte", "$eq", "$in", "$exists", "both"])
    if operator == "both":
        return {"$gt": chance.randrange(6), "$lt": chance.randrange(6)}
    if operator == "$in":
        return {"$in": [value(chance, True) for _ in range(3)]}
    return {operator: True if operator == "$exists" else value(chance, False)}


def query(chance: random.Random) -> dict[str, Any]:
    field = chance.choice(["a", "b", "_id"])
    plain = {field: condition(chance)}
    if chance.random() < 0.3:
        return {"$or": [plain, {"b": condition(chance)}]}
    return {**plain, **({"b": condition(chance)} if chance.random() < 0.4 else {})}


def order(chance: random.Random) -> list[tuple[str, int]]:
    return chance.choice([[], [("a", 1)], [("a", -1), ("b", 1)], [("_id", -1)], [("b", 1)]])


@pytest.mark.parametrize("arrays", [False, True])
def test_indexes_change_no_answer(
    mongo_client: MongoClient[dict[str, Any]], chance: random.Random, arrays: bool
) -> None:
    database = mongo_client[f"indexed{arrays}"]
    plain, indexed = database["plain"], database["indexed"]
    for key in ([("a", 1)], [("a", -1), ("b", 1)], [("b", 1)]):
        indexed.create_index(key)
    for id in range(DOCUMENTS):
        # The indexes have seen many single values before the first array comes.
        written = {"_id": id, **document(chance, arrays and id > DOCUMENTS // 2)}
        for collection in (plain, indexed):
            collection.insert_one(written)
        if chance.random() < 0.2:
            gone = chance.randrange(id + 1)
            for collection in (plain, indexed):
                collection.delete_one({"_id": gone})
    for _ in range(QUERIES):
        asked, by = query(chance), order(chance)
        expected, found = (list(each.find(asked, sort=by or None)) for each in (plain, indexed))
        assert sorted(found, key=lambda each: each["_id"]) == sorted(expected, key=lambda each: each["_id"]), asked
        for field, _ in by[:1]:
            if field == "_id":
                assert found == expected, (asked, by)


@pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")
def test_a_hint_gives_the_order_of_its_index(mongo_client: MongoClient[dict[str, Any]]) -> None:
    found = mongo_client.hints.c
    mongo_client.drop_database("hints")
    found.insert_many([{"_id": id, "n": n, "s": "x" * 2000 + str(n)} for id, n in enumerate([3, 1, 2, 5, 4])])
    for key in ([("n", -1)], [("n", 1)], [("s", -1)]):
        found.create_index(key)
    assert [each["n"] for each in found.find().hint([("n", -1)])] == [5, 4, 3, 2, 1]
    assert [each["n"] for each in found.find().hint("n_1")] == [1, 2, 3, 4, 5]
    assert [each["n"] for each in found.find({"n": {"$in": [4, 1, 5]}}).hint("n_-1")] == [5, 4, 1]
    assert [each["n"] for each in found.aggregate([{"$match": {"n": {"$gt": 1}}}], hint="n_1")] == [2, 3, 4, 5]
    # Keys that are too long to be held whole tell no order by themselves.
    assert [each["n"] for each in found.find().hint("s_-1")] == [5, 4, 3, 2, 1]
    assert [each["n"] for each in found.find().hint("n_1").sort("n", -1)] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")
@pytest.mark.parametrize(("count", "width"), [(3, 10), (100, 10), (101, 10), (102, 10), (250, 10), (20, 5000)])
def test_few_and_many_documents_of_one_key_are_found(
    mongo_client: MongoClient[dict[str, Any]], count: int, width: int
) -> None:
    """Few are answered without a cursor; many, and large ones, through one."""
    found = mongo_client.few.c
    found.drop()
    found.create_index("k")
    found.insert_many([{"_id": id, "k": id % 2, "n": id, "pad": "x" * width} for id in range(2 * count)])
    ids = list(range(0, 2 * count, 2))
    assert [each["_id"] for each in found.find({"k": 0})] == ids
    assert [each["_id"] for each in found.find({"k": 0}, skip=2)] == ids[2:]
    assert [each["_id"] for each in found.find({"k": 0}, skip=1, limit=2)] == ids[1:3]
    assert [each["_id"] for each in found.find({"k": 0, "n": {"$gte": count}})] == [id for id in ids if id >= count]
    assert list(found.find({"k": 0}, {"n": 1, "_id": 0}, limit=2)) == [{"n": 0}, {"n": 2}]
    assert [each["_id"] for each in found.find({"k": 0}, batch_size=2)] == ids
    assert list(found.find({"k": 2})) == []
