"""Reads as of an earlier instant, by a comment: what was read then is read again."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pymongo.collection import Collection

from frontends.mongo.ttl.test_as_of import as_of, reads
from frontends.mongo.ttl.world import World, date, refused

STEPS = 30


def target_of(collection: Collection[Any]) -> str:
    return f"mongo:{collection.full_name}"


def change(world: World, collection: Collection[Any], chance: random.Random, second: float) -> None:
    """One of the changes that a collection may get."""
    n, dice = chance.randrange(12), chance.random()
    own = (
        {"ttl": chance.randint(1, 60)}
        if collection.database.name == "cosmos"
        else {"at": date(second + chance.randint(-15, 30))}
    )
    if dice < 0.45:
        collection.replace_one({"_id": n}, {"n": chance.randrange(12), **own}, upsert=True)
    elif dice < 0.6:
        collection.update_many({"n": {"$lt": n}}, {"$inc": {"n": 3}})
    elif dice < 0.75:
        collection.delete_many({"n": n})
    elif dice < 0.9:
        replace_rule(collection, chance)
    else:
        world.server.purge()


def replace_rule(collection: Collection[Any], chance: random.Random) -> None:
    """Give a collection another time to live, with the same index or a new one."""
    life, is_own = chance.randint(1, 60), collection.database.name == "cosmos"
    if is_own or chance.random() < 0.5:
        collection.drop_index("ttl")
        collection.create_index("_ts" if is_own else "at", name="ttl", expireAfterSeconds=life)
    else:
        collection.database.command("collMod", collection.name, index={"name": "ttl", "expireAfterSeconds": life})


@pytest.mark.parametrize("kind", ["native", "cosmos", "hiding"])
def test_a_read_as_of_an_instant_is_what_was_read_then(world: World, chance: random.Random, kind: str) -> None:
    world.db = world.client[kind]
    collection = world.on_ts(50) if kind == "cosmos" else world.indexed({"at": 1}, 10)
    collection.create_index("n")
    world.server.set_lifecycle(target_of(collection), history="1h")
    told: dict[int, Any] = {}
    for second in range(STEPS):
        change(world, collection, chance, second)
        told[second] = reads(collection, None)
        world.move(second + 1, chance.choice(["none", "scheduled"]))
    for second, then in told.items():
        assert reads(collection, second) == then, second
    world.server.purge()
    for second in (0, STEPS // 2, STEPS - 1):
        assert reads(collection, second) == told[second], second


def test_all_batches_of_a_cursor_are_of_the_past(world: World) -> None:
    collection = world.indexed({"at": 1}, 0)
    world.server.set_lifecycle(target_of(collection), history="1h")
    collection.insert_many([{"_id": n, "at": date(100)} for n in range(10)])
    world.move(1)
    collection.delete_many({"_id": {"$gte": 8}})
    found = collection.find({}, batch_size=2, comment=as_of(0.5))
    ids = [next(found)["_id"]]
    collection.update_many({}, {"$set": {"at": date(2)}})
    world.move(200, "scheduled")
    assert collection.count_documents({}) == 0
    collection.insert_one({"_id": 11})
    ids += [each["_id"] for each in found]
    assert ids == list(range(10))


def test_an_index_of_later_finds_arrays_of_before(world: World) -> None:
    """No document has had several keys in it since it was built."""
    collection = world.indexed({"at": 1}, 0)
    world.server.set_lifecycle(target_of(collection), history="1h")
    collection.insert_many([{"_id": n, "a": [0, 3]} for n in range(3)])
    world.move(1)
    collection.update_many({}, {"$set": {"a": 1}})
    collection.create_index("a")
    query = {"a": {"$gt": 1, "$lt": 2}}
    for hint in (None, "a_1"):
        found = collection.find(query, comment=as_of(0), hint=hint).sort("_id")
        assert [each["_id"] for each in found] == [0, 1, 2], hint
    assert collection.count_documents(query) == 0


def test_the_clock_is_the_instant(world: World) -> None:
    collection = world.indexed({"at": 1}, 0)
    world.server.set_lifecycle(target_of(collection), history="1h")
    collection.insert_one({"_id": 1})
    world.move(100)
    (found,) = collection.aggregate([{"$project": {"now": "$$NOW"}}], comment=as_of(7))
    assert found["now"].timestamp() * 1000 == int(date(7))


def test_only_what_is_kept_is_read(world: World) -> None:
    collection = world.indexed({"at": 1}, 0)
    world.move(10)
    world.server.set_lifecycle(target_of(collection), history="60s")
    collection.insert_one({"_id": 1})
    world.move(70)
    assert collection.count_documents({}, comment=as_of(10)) == 1
    for second, since in ((9.999, "2030-01-01T00:00:10Z"), (0, "2030-01-01T00:00:10Z")):
        with refused(2, f"No states before {since} are kept of 'c'"):
            collection.find_one({}, comment=as_of(second))
    world.move(80)
    with refused(2, "No states before 2030-01-01T00:00:20Z are kept of 'c'"):
        collection.find_one({}, comment=as_of(19.999))
    assert collection.count_documents({}, comment=as_of(20)) == 1
    world.server.set_lifecycle(target_of(collection), history="0s")
    with refused(2, "No states before now are kept of 'c'"):
        collection.find_one({}, comment=as_of(70))
