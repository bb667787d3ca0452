"""Clustered collections: create, lists, indexes, and the order of reads.

Rules: https://www.mongodb.com/docs/manual/core/clustered-collections/
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

KEY: Document = {"key": {"_id": 1}, "unique": True}


@pytest.fixture
def db(mongo_client: Client) -> Any:
    mongo_client.drop_database("made")
    mongo_client.made.command("create", "c", clusteredIndex=KEY | {"name": "by id"})
    mongo_client.made.plain.insert_one({"_id": 1})
    return mongo_client.made


def code_of(db: Any, command: Document) -> int:
    """The code of the error; 0 for success."""
    try:
        db.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return 0


CREATED: list[tuple[Document, int]] = [
    ({"clusteredIndex": KEY}, 0),
    ({"clusteredIndex": KEY | {"v": 2}}, 0),
    ({"clusteredIndex": KEY, "expireAfterSeconds": 0}, 0),
    ({"clusteredIndex": KEY, "validator": {"a": 1}, "collation": {"locale": "en"}}, 0),
    ({"clusteredIndex": False}, 0),
    ({"clusteredIndex": False, "capped": True, "size": 4096}, 6049200),
    ({"clusteredIndex": None, "capped": True, "size": 4096}, 0),
    ({"clusteredIndex": {"key": {"_id": 1}}}, 40414),
    ({"clusteredIndex": {"unique": True}}, 40414),
    ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
    ({"clusteredIndex": {"key": {"_id": -1}, "unique": True}}, 197),
    ({"clusteredIndex": {"key": {"a": 1}, "unique": True}}, 197),
    ({"clusteredIndex": {"key": {"_id": 1, "a": 1}, "unique": True}}, 197),
    ({"clusteredIndex": KEY | {"v": 12345}}, 5979704),
    ({"clusteredIndex": KEY | {"v": None, "name": None}}, 0),
    ({"clusteredIndex": KEY | {"v": "2"}}, 14),
    ({"clusteredIndex": KEY | {"randField": 1}}, 40415),
    ({"clusteredIndex": True}, 5979703),
    ({"clusteredIndex": 5}, 5979703),
    ({"clusteredIndex": 0}, 0),
    ({"clusteredIndex": "x"}, 14),
    ({"clusteredIndex": KEY | {"name": 5}}, 14),
    ({"clusteredIndex": KEY, "capped": True}, 6127800),
    ({"clusteredIndex": KEY, "size": 10}, 6049200),
    ({"clusteredIndex": KEY, "max": 10}, 6049204),
    ({"clusteredIndex": KEY, "viewOn": "c"}, 6026500),
    ({"clusteredIndex": KEY, "autoIndexId": False}, 6026501),
    ({"clusteredIndex": KEY, "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
    ({"clusteredIndex": KEY, "timeseries": {"timeField": "t"}}, 72),
    ({"clusteredIndex": KEY, "expireAfterSeconds": -1}, 72),
    ({"clusteredIndex": KEY, "expireAfterSeconds": "5"}, 14),
    ({"clusteredIndex": KEY, "expireAfterSeconds": 2**62}, 72),
    ({"clusteredIndex": False, "expireAfterSeconds": 5}, 72),
    ({"expireAfterSeconds": 5}, 72),
]


@pytest.mark.parametrize(("options", "code"), CREATED)
def test_create(db: Any, options: Document, code: int) -> None:
    assert code_of(db, {"create": "new", **options}) == code
    assert ("new" in db.list_collection_names()) is (code == 0)


def test_creating_again(db: Any) -> None:
    same = {"create": "c", "clusteredIndex": KEY | {"name": "by id", "v": 2}}
    assert code_of(db, same) == 0
    assert code_of(db, same | {"expireAfterSeconds": 5}) == 48
    assert code_of(db, {"create": "c"}) == 48


def test_lists(db: Any) -> None:
    (found,) = db.list_collections(filter={"name": "c"})
    assert found["type"] == "collection"
    assert found["options"] == {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "by id", "unique": True}}
    assert set(found["info"]) == {"readOnly", "uuid"}
    assert "idIndex" not in found
    db.c.create_index("a")
    first, second = db.c.list_indexes()
    assert dict(first) | {"key": dict(first["key"])} == {
        "v": 2,
        "key": {"_id": 1},
        "name": "by id",
        "unique": True,
        "clustered": True,
    }
    assert second["name"] == "a_1"


INDEXES: list[tuple[str, Document, int]] = [
    ("c", {"key": {"_id": 1}, "name": "_id_"}, 0),
    ("c", {"key": {"_id": 1}, "name": "by id", "clustered": True, "unique": True}, 0),
    ("c", {"key": {"a": 1}, "name": "a", "clustered": True}, 6243700),
    ("c", {"key": {"a": 1}, "name": "a", "clustered": False}, 6492800),
    ("plain", {"key": {"_id": 1}, "name": "_id_", "clustered": True, "unique": True}, 6243700),
    ("missing", {"key": {"_id": 1}, "name": "_id_", "clustered": True, "unique": True}, 6100900),
    ("c", {"key": {"_id": "hashed"}, "name": "h"}, 0),
    ("c", {"key": {"_id": 1, "a": 1}, "name": "both"}, 0),
]


@pytest.mark.parametrize(("name", "spec", "code"), INDEXES)
def test_create_indexes(db: Any, name: str, spec: Document, code: int) -> None:
    assert code_of(db, {"createIndexes": name, "indexes": [spec]}) == code
    assert "missing" not in db.list_collection_names()
    assert sum(dict(each["key"]) == {"_id": 1} for each in db.c.list_indexes()) == 1


@pytest.mark.parametrize("which", ["by id", {"_id": 1}, ["by id"]])
def test_the_clustered_index_stays(db: Any, which: Any) -> None:
    assert code_of(db, {"dropIndexes": "c", "index": which}) == 5979800
    db.c.create_index("a")
    db.command("dropIndexes", "c", index="*")
    assert [each["name"] for each in db.c.list_indexes()] == ["by id"]


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("c", {"expireAfterSeconds": 5}, 0),
        ("c", {"expireAfterSeconds": "off"}, 0),
        ("c", {"expireAfterSeconds": "10"}, 72),
        ("c", {"expireAfterSeconds": -1}, 72),
        ("c", {"expireAfterSeconds": {}}, 14),
        ("plain", {"expireAfterSeconds": 5}, 72),
        ("c", {"timeseries": {"granularity": "hours"}}, 72),
        ("c", {"index": {"name": "by id", "hidden": True}}, 6011800),
        ("c", {"index": {"name": "by id", "expireAfterSeconds": 5}}, 72),
    ],
)
def test_coll_mod(db: Any, name: str, change: Document, code: int) -> None:
    assert code_of(db, {"collMod": name, **change}) == code


def test_numbers_that_are_equal_are_one_id(db: Any) -> None:
    db.c.insert_one({"_id": 42})
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"_id": 42.0})


@pytest.mark.parametrize(("more", "code"), [(0, 0), (1, 5894900)])
@pytest.mark.parametrize(("of", "around"), [(str, 2), (bytes, 7)])
def test_the_size_of_an_id(db: Any, of: type, around: int, more: int, code: int) -> None:
    # A key has a type before its value, a string's end, and for bytes their number, subtype and end.
    size = 8 * 1024 * 1024 - around + more
    reply = db.command("insert", "c", documents=[{"_id": "x" * size if of is str else b"x" * size}])
    assert [each["code"] for each in reply.get("writeErrors", ())] == [code][: bool(code)]
    assert db.c.count_documents({}) == (not code)


def test_reads_come_in_the_order_of_ids(db: Any, seed: int) -> None:
    numbers = list(range(3000))
    random.Random(seed).shuffle(numbers)
    db.c.insert_many([{"_id": n, "a": n % 7} for n in numbers])
    assert [each["_id"] for each in db.c.find()] == list(range(3000))
    assert [each["_id"] for each in db.c.find().sort("$natural", -1)] == list(range(2999, -1, -1))
    assert [each["_id"] for each in db.c.find({"a": 3}).limit(4)] == [3, 10, 17, 24]
    assert [each["_id"] for each in db.c.find({"_id": {"$gt": 5, "$lte": 8}})] == [6, 7, 8]
    assert [each["_id"] for each in db.c.find({"_id": {"$gt": 2990}}).hint("by id").sort("_id", -1)] == list(
        range(2999, 2990, -1)
    )
    assert [each["_id"] for each in db.c.aggregate([{"$match": {"a": 0}}, {"$limit": 2}])] == [0, 7]
    db.c.delete_many({"_id": {"$lt": 2990}})
    assert db.c.count_documents({}) == 10


@pytest.mark.parametrize(
    ("query", "stage", "examined"),
    [
        ({}, "CLUSTERED_IXSCAN", 50),
        ({"_id": {"$gte": 45}}, "CLUSTERED_IXSCAN", 5),
        ({"_id": 7}, "IDHACK", 1),
        ({"a": 1}, "CLUSTERED_IXSCAN", 50),
    ],
)
def test_explain(db: Any, query: Document, stage: str, examined: int) -> None:
    db.c.insert_many([{"_id": n, "a": n} for n in range(50)])
    found = db.c.find(query).explain()
    assert found["queryPlanner"]["winningPlan"]["stage"] == stage
    assert found["executionStats"]["totalDocsExamined"] == examined


def test_a_transaction_reads_in_the_same_order(db: Any) -> None:
    db.c.insert_many([{"_id": n} for n in (5, 1, 3)])
    with db.client.start_session() as session, session.start_transaction():
        db.c.insert_one({"_id": 2}, session=session)
        assert [each["_id"] for each in db.c.find({}, session=session)] == [1, 2, 3, 5]
