"""The effect of writes on deadlines, and of hidden or due documents on writes and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bson import ObjectId
from pymongo import DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from frontends.mongo.ttl.world import Document, World, date, ids, refused

Act = Callable[[Collection[Document]], Any]

ONE = {"_id": 1}

REFRESHING: dict[str, tuple[Act, float | None]] = {
    "$set": (lambda c: c.update_one(ONE, {"$set": {"a": 2}}), 15),
    "$unset": (lambda c: c.update_one(ONE, {"$unset": {"a": 1}}), 15),
    "$inc": (lambda c: c.update_many({}, {"$inc": {"a": 1}}), 15),
    "pipeline": (lambda c: c.update_one(ONE, [{"$set": {"a": "$$NOW"}}]), 15),
    "replace": (lambda c: c.replace_one(ONE, {"b": 1}), 15),
    "findAndModify": (lambda c: c.find_one_and_update(ONE, {"$set": {"a": 2}}), 15),
    "findAndReplace": (lambda c: c.find_one_and_replace(ONE, {"b": 1}), 15),
    "bulk": (lambda c: c.bulk_write([UpdateOne(ONE, {"$set": {"a": 2}})]), 15),
    "upsert": (lambda c: c.update_one(ONE, {"$set": {"a": 2}}, upsert=True), 15),
    "ttl set": (lambda c: c.update_one(ONE, {"$set": {"ttl": 20}}), 25),
    "ttl never": (lambda c: c.update_one(ONE, {"$set": {"ttl": -1}}), None),
    "ttl that does not count": (lambda c: c.update_one(ONE, {"$set": {"ttl": 20.5}}), 15),
    "replace with ttl": (lambda c: c.replace_one(ONE, {"ttl": 3}), 8),
    "same value": (lambda c: c.update_one(ONE, {"$set": {"a": 1}}), 10),
    "same document": (lambda c: c.replace_one(ONE, {"a": 1}), 10),
    "no match": (lambda c: c.update_one({"_id": 1, "a": 5}, {"$set": {"a": 2}}), 10),
    "find": (lambda c: list(c.find()), 10),
    "aggregate": (lambda c: list(c.aggregate([{"$match": ONE}])), 10),
    "count": (lambda c: c.count_documents({}), 10),
}


def test_a_write_that_changes_something_begins_a_new_life(world: World) -> None:
    for name in REFRESHING:
        world.on_ts(10, name.replace("$", "")).insert_one({"_id": 1, "a": 1})
    world.move(5)
    for name, (act, _) in REFRESHING.items():
        act(world.db[name.replace("$", "")])
    world.check_all({name.replace("$", ""): {1: life} for name, (_, life) in REFRESHING.items()})


def test_an_update_that_changes_nothing_says_so(world: World) -> None:
    collection = world.on_ts(10)
    collection.insert_one({"_id": 1, "a": 1})
    done = collection.update_one(ONE, {"$set": {"a": 1}})
    assert (done.matched_count, done.modified_count) == (1, 0)


def test_a_ttl_that_is_taken_away_leaves_the_default(world: World) -> None:
    collection = world.on_ts(10)
    collection.insert_many([{"_id": 1, "ttl": 20}, {"_id": 2, "ttl": -1}, {"_id": 3, "ttl": 3}])
    world.move(1)
    collection.update_many({}, {"$unset": {"ttl": 1}})
    world.check_lives(collection, {1: 11, 2: 11, 3: 11})


def test_an_override_is_known_from_before_the_index_was_made(world: World) -> None:
    collection = world.db["c"]
    collection.insert_many([{"_id": 1, "ttl": 20}, {"_id": 2}, {"_id": 3, "ttl": -1}, {"_id": 4, "ttl": "x"}])
    world.move(5)
    world.on_ts(10)
    world.check_lives(collection, {1: 20, 2: 10, 3: None, 4: 10})


def test_dropping_and_making_the_index_again_counts_from_the_last_writes(world: World) -> None:
    collection = world.on_ts(500)
    collection.insert_many([{"_id": 1}, {"_id": 2, "ttl": 20}])
    world.move(600)
    assert ids(collection) == set()
    collection.drop_index("ttl")
    assert ids(collection) == {1, 2}
    world.on_ts(500)
    assert ids(collection) == set()
    collection.drop_index("ttl")
    world.on_ts(1000)
    assert ids(collection) == {1}


def test_moving_the_date_saves_a_document_that_shows_and_not_one_that_is_hidden(world: World) -> None:
    found = [(world.client["shown"]["c"], 1), (world.client["hiding"]["c"], 0)]
    for collection, _ in found:
        collection.create_index("t", expireAfterSeconds=10)
        collection.insert_one({"_id": 1, "t": date(0)})
    world.move(11)
    for collection, matched in found:
        assert collection.update_one(ONE, {"$set": {"t": date(11)}}).matched_count == matched
    world.move(12, "scheduled")
    assert [ids(collection) for collection, _ in found] == [{1}, set()]
    assert world.purged() == 1


def test_a_date_that_is_taken_away_or_made_another_type_never_comes(world: World) -> None:
    collection = world.indexed({"t": 1}, 10)
    collection.insert_many([{"_id": n, "t": date(0)} for n in range(4)])
    collection.update_one({"_id": 0}, {"$unset": {"t": 1}})
    collection.update_one({"_id": 1}, {"$set": {"t": "2030"}})
    collection.update_one({"_id": 2}, {"$set": {"t": date(5)}})
    world.move(10, "scheduled")
    assert ids(collection) == {0, 1, 2}
    world.move(15, "scheduled")
    assert ids(collection) == {0, 1}


# --- the dead ----------------------------------------------------------------------------------------------------------------


def dead(world: World, *names: str) -> Iterator[Collection[Document]]:
    """Collections of two documents: 1 is expired, hidden and not purged, by its last write or by a date. `u` is unique."""
    world.db = world.client["hiding"]
    found = [world.db[f"{kind} {name}".strip()] for name in names or ("",) for kind in ("written", "dated")]
    for collection in found:
        key = {"_ts": 1} if collection.name.startswith("written") else {"t": 1}
        ttl = {"key": key, "name": "ttl", "expireAfterSeconds": 10}
        others: list[Document] = [{"key": {"u": 1}, "name": "u", "unique": True}, {"key": {"a": 1}, "name": "a"}]
        world.create(collection.name, ttl, *others)
        collection.insert_one({"_id": 1, "u": "u1", "a": 5, "t": date(0)})
    world.move(5)
    for collection in found:
        collection.insert_one({"_id": 2, "u": "u2", "a": 5, "t": date(5)})
    world.move(10)
    yield from found


READS: dict[str, tuple[Act, Any]] = {
    "find": (lambda c: list(c.find({}, {"_id": 1})), [{"_id": 2}]),
    "find by id": (lambda c: c.find_one(ONE), None),
    "find by index": (lambda c: list(c.find({"a": 5}, {"_id": 1}).hint("a")), [{"_id": 2}]),
    "find by unique index": (lambda c: c.find_one({"u": "u1"}), None),
    "sorted": (lambda c: [each["_id"] for each in c.find().sort("a", -1)], [2]),
    "skipped": (lambda c: list(c.find().skip(1)), []),
    "count": (lambda c: c.count_documents({}), 1),
    "count by index": (lambda c: c.count_documents({"a": 5}), 1),
    "count of the command": (lambda c: c.database.command("count", c.name, query={"a": 5})["n"], 1),
    "estimated": (lambda c: c.estimated_document_count(), 1),
    "distinct": (lambda c: c.distinct("u"), ["u2"]),
    "group": (lambda c: list(c.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}])), [{"_id": 5, "n": 1}]),
    "$count": (lambda c: list(c.aggregate([{"$count": "n"}])), [{"n": 1}]),
    "$unionWith": (lambda c: list(c.aggregate([{"$unionWith": c.name}, {"$count": "n"}])), [{"n": 2}]),
    "$lookup": (
        lambda c: list(
            c.aggregate(
                [
                    {"$lookup": {"from": c.name, "localField": "a", "foreignField": "a", "as": "l"}},
                    {"$project": {"n": {"$size": "$l"}}},
                ]
            )
        ),
        [{"_id": 2, "n": 1}],
    ),
    "$graphLookup": (
        lambda c: list(
            c.aggregate(
                [
                    {
                        "$graphLookup": {
                            "from": c.name,
                            "startWith": "$a",
                            "connectFromField": "x",
                            "connectToField": "a",
                            "as": "l",
                        }
                    },
                    {"$project": {"n": {"$size": "$l"}}},
                ]
            )
        ),
        [{"_id": 2, "n": 1}],
    ),
}


def test_a_hidden_document_is_in_no_answer(world: World) -> None:
    for collection in dead(world):
        for name, (read, expected) in READS.items():
            assert read(collection) == expected, (collection.name, name)


def test_a_hidden_document_is_matched_by_no_write(world: World) -> None:
    for collection in dead(world):
        assert collection.update_one(ONE, {"$set": {"t": date(100), "a": 6}}).matched_count == 0
        assert collection.update_many({"a": 5}, {"$set": {"b": 6}}).matched_count == 1
        assert collection.replace_one({"u": "u1"}, {"a": 1}).matched_count == 0
        assert collection.delete_one(ONE).deleted_count == 0
        assert collection.delete_many({"u": "u1"}).deleted_count == 0
        assert collection.find_one_and_update(ONE, {"$set": {"a": 1}}) is None
        assert collection.find_one_and_delete(ONE) is None


TAKERS: dict[str, Act] = {
    "insert": lambda c: c.insert_one({"_id": 1, "u": "u1", "new": True, "t": date(10)}),
    "insert_many": lambda c: c.insert_many([{"_id": 1, "u": "u1", "new": True, "t": date(10)}]),
    "bulk": lambda c: c.bulk_write([InsertOne({"_id": 1, "u": "u1", "new": True, "t": date(10)})]),
    "upsert": lambda c: c.update_one(ONE, {"$set": {"new": True, "u": "u1", "t": date(10)}}, upsert=True),
    "replace": lambda c: c.replace_one(ONE, {"new": True, "u": "u1", "t": date(10)}, upsert=True),
    "findAndModify": lambda c: c.find_one_and_update(
        ONE, {"$set": {"new": True, "u": "u1", "t": date(10)}}, upsert=True, return_document=ReturnDocument.AFTER
    ),
}


def test_the_id_and_the_unique_value_of_a_hidden_document_are_free(world: World) -> None:
    found = list(dead(world, *TAKERS))
    for collection in found:
        TAKERS[collection.name.partition(" ")[2]](collection)
        document = collection.find_one(ONE)
        assert document == {"_id": 1, "u": "u1", "new": True, "t": document and document["t"]}, collection.name
    world.move(11, "scheduled")
    assert all(ids(collection) == {1, 2} for collection in found)
    world.move(20, "scheduled")
    assert all(ids(collection) == set() for collection in found)


def test_another_document_takes_a_unique_value_of_a_hidden_one(world: World) -> None:
    for collection in dead(world):
        collection.insert_one({"_id": 3, "u": "u1"})
        assert ids(collection, {"u": "u1"}) == {3}
        collection.insert_one({"_id": 1, "u": "u4"})
        with pytest.raises(DuplicateKeyError):
            collection.update_one({"_id": 2}, {"$set": {"u": "u1"}})


def test_a_document_that_shows_holds_its_id_and_its_unique_value(world: World) -> None:
    collection = world.indexed({"t": 1}, 10)
    collection.create_index("u", unique=True)
    collection.insert_one({"_id": 1, "u": "u1", "t": date(-100)})
    for document in ({"_id": 1}, {"_id": 2, "u": "u1"}):
        with pytest.raises(DuplicateKeyError):
            collection.insert_one(document)
    assert collection.update_one(ONE, {"$set": {"a": 1}}, upsert=True).matched_count == 1
    assert (collection.count_documents({"u": "u1"}), collection.delete_one({"u": "u1"}).deleted_count) == (1, 1)


def test_an_insert_that_is_past_its_deadline_is_acknowledged_and_not_seen(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.indexed({"t": 1}, 10)
    assert collection.insert_one({"_id": 1, "t": date(-10)}).acknowledged
    assert ids(collection) == set()
    assert collection.insert_many([{"_id": 1, "t": date(-20)}, {"_id": 2, "t": date(0)}]).acknowledged
    assert ids(collection) == {2}


def test_an_upsert_inherits_nothing(world: World) -> None:
    for collection in dead(world):
        done = collection.update_one({"_id": 1}, {"$inc": {"a": 1}, "$set": {"u": "u1"}}, upsert=True)
        assert done.upserted_id == 1
        assert collection.find_one(ONE) == {"_id": 1, "a": 1, "u": "u1"}


def test_documents_expire_between_two_batches(world: World) -> None:
    collection = world.on_ts(10)
    collection.insert_many([{"_id": n, "ttl": 5 if n % 2 else -1} for n in range(20)])
    cursor = collection.find({}, batch_size=5)
    first = [next(cursor)["_id"] for _ in range(5)]
    assert len(first) == 5
    world.move(5)
    assert all(each["_id"] % 2 == 0 for each in cursor)


def test_an_ordered_bulk_write_goes_by_one_clock(world: World) -> None:
    collection = world.on_ts(10)
    done = collection.bulk_write(
        [
            InsertOne({"_id": 1, "ttl": 5}),
            InsertOne({"_id": 2}),
            UpdateMany({}, {"$set": {"a": 1}}),
            ReplaceOne({"_id": 2}, {"ttl": -1}),
            DeleteOne({"_id": 9}),
        ]
    )
    assert (done.inserted_count, done.matched_count, done.deleted_count) == (2, 3, 0)
    world.check_lives(collection, {1: 5, 2: None})


# --- `_ts` --------------------------------------------------------------------------------------------------------------------


def test_the_time_of_the_last_write_is_invisible(world: World) -> None:
    collection = world.on_ts(10)
    collection.insert_one({"_id": 1, "a": 1})
    assert collection.find_one() == {"_id": 1, "a": 1}
    assert collection.find_one({}, {"_ts": 1}) == {"_id": 1}
    assert collection.count_documents({"_ts": {"$exists": True}}) == 0
    assert list(collection.aggregate([{"$project": {"t": "$_ts"}}])) == [{"_id": 1}]
    assert collection.distinct("_ts") == []


TOUCHES: dict[str, Act] = {
    "insert": lambda c: c.insert_one({"_id": 2, "_ts": 1}),
    "$set": lambda c: c.update_one(ONE, {"$set": {"_ts": 1}}),
    "replace": lambda c: c.replace_one(ONE, {"_ts": 1}),
    "upsert": lambda c: c.update_one({"_id": 3}, {"$set": {"_ts": 1}}, upsert=True),
    "pipeline": lambda c: c.update_one(ONE, [{"$set": {"_ts": 1}}]),
    "findAndModify": lambda c: c.find_one_and_update(ONE, {"$set": {"_ts": 1}}),
}

RESERVED = "'_ts' is a reserved field; use the 'native' profile to keep your own"


def test_a_field_of_that_name_is_refused(world: World) -> None:
    world.db = world.client["both"]
    for collection in (world.on_ts(10), world.client["cosmos"]["c"]):
        collection.insert_one({"_id": 1})
        for act in TOUCHES.values():
            with refused(2, RESERVED):
                act(collection)
        with pytest.raises(BulkWriteError):
            collection.insert_many([{"_ts": 1}])
        assert list(collection.find()) == [{"_id": 1}]
        # Further down it is a name like others.
        collection.insert_one({"_id": 2, "a": {"_ts": 1}})


def test_an_index_is_refused_over_documents_that_have_the_field(world: World) -> None:
    world.db["c"].insert_many([*({"_id": n} for n in range(300)), {"_id": ObjectId(), "_ts": 1}])
    with refused(2, RESERVED):
        world.on_ts(10)
    assert [each["name"] for each in world.db["c"].list_indexes()] == ["_id_"]


def test_in_profile_native_ts_is_a_field_like_others_and_ttl_means_nothing(world: World) -> None:
    world.db = world.client["native"]
    collection = world.on_ts(10)
    collection.insert_many(
        [{"_id": 1, "_ts": date(0), "ttl": 20}, {"_id": 2, "ttl": 1}, {"_id": 3, "_ts": date(5), "ttl": -1}]
    )
    world.move(10)
    assert ids(collection) == {1, 2, 3}
    world.move(10.001, "scheduled")
    assert ids(collection) == {2, 3}
    world.move(15, "scheduled")
    assert ids(collection) == {2}
    assert collection.find_one({"_id": 2}) == {"_id": 2, "ttl": 1}
    with refused(67):
        world.indexed({"_ts": 1}, -1, "d")


# --- other names ---------------------------------------------------------------------------------------------------------------


def test_another_name_keeps_the_indexes_and_takes_the_expiry_that_holds_there(world: World) -> None:
    world.db = world.client["shown"]
    collection = world.indexed({"t": 1}, 10)
    collection.insert_one({"_id": 1, "t": date(0)})
    collection.rename("d")
    world.move(10)
    assert ids(world.db["d"]) == {1}
    world.admin.command("renameCollection", "shown.d", to="hiding.d")
    assert ids(world.client["hiding"]["d"]) == set()
    world.admin.command("renameCollection", "hiding.d", to="shown.e")
    assert ids(world.db["e"]) == {1}
    world.move(10, "scheduled")
    assert ids(world.db["e"]) == set()


def test_an_index_on_ts_is_not_moved_to_another_profile(world: World) -> None:
    world.db = world.client["both"]
    world.on_ts(10).insert_one({"_id": 1})
    with refused(20, "drop the index first"):
        world.admin.command("renameCollection", "both.c", to="native.c")
    world.admin.command("renameCollection", "both.c", to="shown.c")
    world.db = world.client["shown"]
    world.check_lives(world.db["c"], {1: 10})
