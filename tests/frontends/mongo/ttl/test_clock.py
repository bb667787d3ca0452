"""Every date that the server makes follows the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bson import ObjectId, Timestamp, decode, encode

from frontends.mongo.ttl.world import T, World, date, ids


def seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp() - T


def made_id(world: World) -> float:
    """The ObjectId that the server makes. By `command`, since drivers make ids themselves."""
    world.db.command("insert", "c", documents=[decode(encode({"made": 1}))])
    found = world.db["c"].find_one({"made": 1})
    assert found is not None
    return seconds(found["_id"].generation_time.replace(tzinfo=None))


def upserted_id(world: World) -> float:
    done = world.db["c"].update_one({"up": 1}, {"$set": {"a": 1}}, upsert=True)
    assert isinstance(done.upserted_id, ObjectId)
    return seconds(done.upserted_id.generation_time.replace(tzinfo=None))


def after(world: World, update: Any) -> dict[str, Any]:
    world.db["c"].update_one({"_id": 1}, update, upsert=True)
    return dict(world.db["c"].find_one({"_id": 1}) or {})


def inserted_timestamp(world: World) -> float:
    world.db["c"].insert_one({"_id": 2, "t": Timestamp(0, 0)})
    found = world.db["c"].find_one({"_id": 2}) or {}
    return float(found["t"].time - T)


def first(world: World, *stages: dict[str, Any]) -> dict[str, Any]:
    world.db["c"].replace_one({"_id": 1}, {}, upsert=True)
    return next(world.db["c"].aggregate(list(stages)))


CLOCKS: dict[str, Callable[[World], float]] = {
    "localTime of hello": lambda world: seconds(world.admin.command("hello")["localTime"]),
    "localTime of serverStatus": lambda world: seconds(world.admin.command("serverStatus")["localTime"]),
    "currentTime": lambda world: seconds(world.admin.command("hostInfo")["system"]["currentTime"]),
    "$$NOW": lambda world: seconds(first(world, {"$project": {"t": "$$NOW"}})["t"]),
    "$$NOW of a filter": lambda world: seconds(
        first(world, {"$match": {"$expr": {"$gte": ["$$NOW", date(0)]}}}, {"$set": {"t": "$$NOW"}})["t"]
    ),
    "$$NOW of an update": lambda world: seconds(after(world, [{"$set": {"t": "$$NOW"}}])["t"]),
    "$currentDate": lambda world: seconds(after(world, {"$currentDate": {"t": True}})["t"]),
    "$currentDate timestamp": lambda world: after(world, {"$currentDate": {"t": {"$type": "timestamp"}}})["t"].time - T,
    "Timestamp(0, 0)": inserted_timestamp,
    "ObjectId of an insert": made_id,
    "ObjectId of an upsert": upserted_id,
}


def test_everything_follows_the_clock(world: World) -> None:
    for moment in (0, 86400, 10**9):
        world.move(moment)
        for name, read in CLOCKS.items():
            world.db["c"].delete_many({})
            assert read(world) == moment, name


def test_expiry_follows_it_too(world: World) -> None:
    written, dated = world.on_ts(10, "written"), world.indexed({"t": 1}, 10, "dated")
    world.move(10**8)
    written.insert_one({"_id": 1})
    dated.update_one({"_id": 1}, {"$currentDate": {"t": True}}, upsert=True)
    world.move(10**8 + 9.999, "scheduled")
    assert (ids(written), ids(dated)) == ({1}, {1})
    world.move(10**8 + 10, "scheduled")
    assert (ids(written), ids(dated)) == (set(), set())


def test_expressions_and_expiry_use_one_clock(world: World) -> None:
    """A rate limiter compares `$expireAt` with `$$NOW` to see that a window is over."""
    collection = world.indexed({"expireAt": 1}, 0)
    window = [
        {
            "$set": {
                "count": {"$cond": [{"$lt": ["$expireAt", "$$NOW"]}, 1, {"$add": ["$count", 1]}]},
                "expireAt": {
                    "$cond": [{"$lt": ["$expireAt", "$$NOW"]}, {"$add": ["$$NOW", 10_000]}, "$expireAt"],
                },
            }
        }
    ]

    def hit() -> int:
        found: Any = collection.find_one_and_update({"_id": "key"}, window, upsert=True, return_document=True)
        return int(found["count"])

    assert [hit(), hit(), hit()] == [1, 2, 3]
    world.move(10.001)
    assert [hit(), hit()] == [1, 2]
    world.move(20.001)
    assert hit() == 3
    world.move(20.002)
    assert hit() == 1
