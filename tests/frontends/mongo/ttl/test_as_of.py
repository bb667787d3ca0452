"""Reads as of a later instant, by a comment."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import DatetimeMS
from pymongo.collection import Collection

from frontends.mongo.ttl.world import START, World, date, ids, refused

PURGED = 60
"""Seconds after which a pass has purged what is due."""


def as_of(second: float) -> dict[str, Any]:
    return {"mayflyAsOf": date(second)}


def reads(collection: Collection[Any], second: float | None) -> tuple[Any, ...]:
    """What each reading command returns as of a second; None: now."""
    sent: dict[str, Any] = {} if second is None else {"comment": as_of(second)}
    other = collection.name
    joined: list[Any] = [
        {"$limit": 1},
        {"$lookup": {"from": other, "pipeline": [{"$project": {"_id": 1}}], "as": "found"}},
    ]
    looked_up = [each for row in collection.aggregate(joined, **sent) for each in row["found"]]
    return (
        {each["_id"] for each in collection.find({}, batch_size=2, **sent)},
        {each["_id"] for each in collection.find({"n": {"$gte": 0}}, batch_size=2, **sent).sort("n")},
        [collection.find_one({"_id": n}, **sent) is not None for n in range(12)],
        {each["_id"] for each in collection.aggregate([{"$match": {}}], batchSize=2, **sent)},
        sorted(each["_id"] for each in looked_up),
        collection.count_documents({}, **sent),
        collection.database.command("count", collection.name, **sent)["n"],
        sorted(collection.distinct("_id", **sent)),
    )


@pytest.mark.parametrize("kind", ["native", "cosmos", "hiding"])
def test_a_read_as_of_an_instant_is_what_the_clock_brings(world: World, chance: random.Random, kind: str) -> None:
    world.db = world.client[kind]
    collection = world.on_ts(50) if kind == "cosmos" else world.indexed({"at": 1}, 10)
    collection.create_index("n")
    ends: list[int | None] = [chance.randint(10, 150) for _ in range(11)]
    for n, end in enumerate(ends):
        own = {"ttl": end} if kind == "cosmos" else {"at": date((end or 0) - 10)}
        collection.insert_one({"_id": n, "n": n, **own})
    # No deadline of its own: the default of 50 s counts, or nothing does.
    collection.insert_one({"_id": 11, "n": 11})
    moments = sorted({0, 50, *ends})  # type: ignore[type-var]
    told = {moment: reads(collection, moment) for moment in moments}
    assert ids(collection) == set(range(12))
    for moment in moments:
        assert moment is not None
        if kind == "native":
            # A document shows until a pass; nothing else is due until then.
            expected = {n for n, end in enumerate(ends) if end is not None and end > moment} | {11}
            assert told[moment][0] == expected
        else:
            world.move(moment)
            assert told[moment] == reads(collection, None), moment
    assert all(len(set(map(frozenset, (each[0], each[1], each[3], each[7])))) == 1 for each in told.values())
    if kind == "native":
        world.move(moments[-1] + PURGED, "scheduled")  # type: ignore[operator]
        assert reads(collection, None) == told[moments[-1]]


def test_all_batches_of_a_cursor_have_the_instant(world: World) -> None:
    collection = world.indexed({"at": 1}, 0)
    collection.insert_many([{"_id": n, "at": date(100 if n < 5 else 300)} for n in range(10)])
    found = collection.find({}, batch_size=2, comment=as_of(200))
    assert next(found)["_id"] == 5
    world.move(50)
    assert next(found)["_id"] == 6
    # From the instant on, the batches are of the present.
    world.move(350)
    assert list(found) == []


def test_a_view_has_the_instant(world: World) -> None:
    collection = world.indexed({"at": 1}, 0)
    collection.insert_many([{"_id": n, "at": date(100 * n)} for n in range(1, 4)])
    world.db.command("create", "v", viewOn=collection.name, pipeline=[{"$match": {}}])
    assert [each["_id"] for each in world.db["v"].find({}, comment=as_of(200))] == [3]
    assert world.db["v"].count_documents({}, comment=as_of(200)) == 1


def test_now_of_a_pipeline_is_the_instant(world: World) -> None:
    world.db["c"].insert_one({"_id": 1})
    (row,) = world.db["c"].aggregate([{"$project": {"t": "$$NOW"}}], comment=as_of(7))
    assert row["t"].isoformat() == START.removesuffix("Z").replace(":00:00", ":00:07")


def test_other_comments_are_comments(world: World) -> None:
    world.db["c"].insert_one({"_id": 1})
    for comment in ("mayflyAsOf", {"mayfly": 1}, 7, ["mayflyAsOf"]):
        assert ids(world.db["c"]) == {each["_id"] for each in world.db["c"].find({}, comment=comment)}


def test_refusals(world: World) -> None:
    collection = world.db["c"]
    collection.insert_one({"_id": 1})
    with refused(14, "comment.mayflyAsOf"):
        collection.find_one({}, comment={"mayflyAsOf": START})
    with refused(2, "No states before now are kept of"):
        collection.find_one({}, comment=as_of(-1))
    for milliseconds in (-(2**63), 253402300800000, 2**63 - 1):
        with refused(2, "year 9999"):
            collection.count_documents({}, comment={"mayflyAsOf": DatetimeMS(milliseconds)})
    assert collection.count_documents({}, comment={"mayflyAsOf": DatetimeMS(253402300799999)}) == 1
    with refused(72, "the command 'delete'"):
        collection.delete_many({}, comment=as_of(1))
    with refused(72, "the command 'findAndModify'"):
        collection.find_one_and_delete({}, comment=as_of(1))
    with refused(72, "the stage $out"):
        list(collection.aggregate([{"$out": "d"}], comment=as_of(1)))
    with refused(14, "pipeline"):
        world.db.command("aggregate", "c", pipeline=[1], cursor={}, comment=as_of(1))
    with refused(72, "the stage $collStats"):
        list(collection.aggregate([{"$collStats": {"count": {}}}], comment=as_of(1)))
    world.db.create_collection("capped", capped=True, size=4096)
    with refused(72, "tailable cursors"):
        world.db.command("find", "capped", tailable=True, comment=as_of(1))
    with world.client.start_session() as session:
        session.start_transaction()
        with refused(72, "in transactions"):
            collection.find_one({}, comment=as_of(1), session=session)
        session.abort_transaction()
    assert ids(collection) == {1}
