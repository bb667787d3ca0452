"""The shell session in Cosmos DB's documentation, and the deadlines of its documents."""

from __future__ import annotations

from bson import Int64

from frontends.mongo.replies import said
from frontends.mongo.ttl.world import World, ids


def test_the_documented_session(world: World) -> None:
    reply = world.db.command(
        {"createIndexes": "coll", "indexes": [{"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 10}]}
    )
    assert list(reply.items()) == [
        ("_t", "CreateIndexesResponse"),
        ("ok", 1),
        ("createdCollectionAutomatically", True),
        ("numIndexesBefore", 1),
        ("numIndexesAfter", 4),
    ]
    collection = world.db["coll"]
    collection.insert_one({"id": 1, "location": "Paris", "ttl": 20.0})
    collection.insert_one({"id": 1, "location": "Paris", "ttl": 20})
    collection.insert_one({"id": 1, "location": "Paris", "ttl": Int64(20)})
    collection.insert_one({"id": 1, "location": "Paris", "ttl": 20.5})
    collection.insert_one({"id": 1, "location": "Paris", "ttl": Int64(2147483649)})
    for moment, count in ((9, 5), (9.999999, 5), (10, 3), (19, 3), (19.999999, 3), (20, 0), (21, 0)):
        world.move(moment)
        assert collection.count_documents({}) == count
        assert collection.estimated_document_count() == count
    assert world.purged() == 0
    world.move(22, "scheduled")
    assert world.purged() == 5


def test_documents_die_at_the_very_second_and_are_purged_then(world: World) -> None:
    collection = world.on_ts(10)
    world.move(0.999999)
    collection.insert_one({"_id": 1})
    for moment, seen in ((9.999999, {1}), (10, set()), (10.000001, set())):
        world.move(moment)
        assert ids(collection) == seen
    assert world.purged() == 0


def test_a_sweep_purges_what_is_due_as_it_starts(world: World) -> None:
    world.on_ts(10).insert_many([{"_id": 1}, {"_id": 2, "ttl": 20}])
    for start, purged in ((9, 0), (10, 1), (19, 1), (21, 2)):
        world.move(start, "scheduled")
        assert world.purged() == purged


def test_replies_about_indexes(world: World) -> None:
    collection = world.on_ts(10)
    same = world.create("c", {"key": {"_ts": 1}, "name": "ttl", "expireAfterSeconds": 10})
    assert same == {
        "_t": "CreateIndexesResponse",
        "ok": 1,
        "createdCollectionAutomatically": False,
        "numIndexesBefore": 4,
        "numIndexesAfter": 4,
        "note": "all indexes already exist",
    }
    plain = world.create("c", {"key": {"a": 1}, "name": "a"}, {"key": {"b": 1}, "name": "b"})
    assert said(plain) == {
        "numIndexesBefore": 2,
        "numIndexesAfter": 4,
        "createdCollectionAutomatically": False,
        "ok": 1,
    }
    assert [dict(each) for each in collection.list_indexes()] == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"a": 1}, "name": "a"},
        {"v": 2, "key": {"b": 1}, "name": "b"},
        {"v": 1, "key": {"_ts": 1}, "name": "ttl", "ns": collection.full_name, "expireAfterSeconds": 10},
    ]
    assert said(world.db.command("dropIndexes", "c", index="a")) == {"nIndexesWas": 4, "ok": 1}
    assert world.db.command("dropIndexes", "c", index="*") == {
        "_t": "DropIndexesResponse",
        "ok": 1,
        "nIndexesWas": 5,
        "msg": "non-_id indexes dropped for collection",
    }
    assert [each["name"] for each in collection.list_indexes()] == ["_id_"]


def test_profile_native_never_answers_in_that_shape(world: World) -> None:
    world.db = world.client["native"]
    reply = world.create("c", {"key": {"_ts": 1}, "name": "ttl", "expireAfterSeconds": 10})
    assert said(reply) == {"numIndexesBefore": 1, "numIndexesAfter": 2, "createdCollectionAutomatically": True, "ok": 1}
    listed = [dict(each) for each in world.db["c"].list_indexes()]
    assert listed[1] == {"v": 2, "key": {"_ts": 1}, "name": "ttl", "expireAfterSeconds": 10}
    assert said(world.db.command("dropIndexes", "c", index="ttl")) == {"nIndexesWas": 2, "ok": 1}


def test_profile_cosmos_always_answers_in_cosmos_shape(world: World) -> None:
    world.db = world.client["cosmos"]
    assert world.create("c", {"key": {"a": 1}, "name": "a"}) == {
        "_t": "CreateIndexesResponse",
        "ok": 1,
        "createdCollectionAutomatically": True,
        "numIndexesBefore": 1,
        "numIndexesAfter": 2,
    }
    assert {(each["v"], each["ns"]) for each in world.db["c"].list_indexes()} == {(1, "cosmos.c")}
    reply = world.db.command("dropIndexes", "c", index="a")
    assert reply == {"_t": "DropIndexesResponse", "ok": 1, "nIndexesWas": 2}


def test_a_refusal_of_profile_cosmos_has_its_shape(world: World) -> None:
    for database, shaped in (("cosmos", True), ("both", False), ("native", False)):
        reply = world.client[database].command("nonsense", check=False)
        assert (next(iter(reply)) == "_t", reply.get("_t"), reply.get("$err")) == (
            shaped,
            "OKMongoResponse" if shaped else None,
            reply["errmsg"] if shaped else None,
        )
