"""Expiry of clustered collections by the date in `_id`, at both sides of each boundary."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId, Timestamp
from pymongo.collection import Collection

from frontends.mongo.ttl.world import LAST, SECOND, Document, T, World, date, ids

HOUR = 3600
END = LAST / SECOND

KEY: Document = {"key": {"_id": 1}, "unique": True}


def clustered(world: World, name: str = "c", expire: int | None = HOUR) -> Collection[Document]:
    options: dict[str, Any] = {} if expire is None else {"expireAfterSeconds": expire}
    return world.db.create_collection(name, clusteredIndex=KEY, **options)


def check(world: World, name: str, lives: dict[Any, float | None]) -> None:
    """Each document shows until the first pass at or after its deadline: before it a purge takes nothing, at it the document."""
    for moment in sorted({end for end in lives.values() if end is not None and end > 0}):
        for at in (moment - 0.001, moment):
            world.move(at)
            world.server.purge()
            left = {id for id, end in lives.items() if end is None or end > at}
            assert ids(world.db[name]) == left, f"{name} at {at}"


DATES: list[tuple[int, float, float]] = [
    # (expireAfterSeconds, date in seconds from START, deadline)
    (0, 0.001, 0.001),
    (0, 10, 10),
    (HOUR, 0, HOUR),
    (HOUR, 0.001, HOUR + 0.001),
    (HOUR, -HOUR + 1, 1),
    (T, 5 - T, 5),
]


def test_documents_expire_by_the_date_in_their_id(world: World) -> None:
    for n, (expire, at, _) in enumerate(DATES):
        clustered(world, f"c{n}", expire).insert_one({"_id": date(at)})
    for n, (_, at, end) in sorted(enumerate(DATES), key=lambda each: each[1][2]):
        check(world, f"c{n}", {date(at).as_datetime().replace(tzinfo=None): end})


NEVER: list[Any] = [
    DatetimeMS(-1),
    DatetimeMS(-(2**40)),
    1,
    Int64(1893456000000),
    0.5,
    "2030-01-01T00:00:00Z",
    ObjectId("000000000000000000000001"),
    Timestamp(1, 1),
    True,
    None,
    Decimal128("2"),
    {"d": DatetimeMS(0)},
    b"x",
]


def test_other_ids_never_expire(world: World) -> None:
    collection = clustered(world, expire=0)
    for id in NEVER:
        collection.insert_one({"_id": id})
    collection.insert_many([{"_id": DatetimeMS(0)}, {"_id": date(0)}])
    world.server.purge()
    assert collection.count_documents({}) == len(NEVER)
    world.move(END - 1)
    world.server.purge()
    assert collection.count_documents({}) == len(NEVER)


CHANGES: list[tuple[int | None, list[Any], float | None]] = [
    (HOUR, [2 * HOUR], 2 * HOUR),
    (HOUR, [1], 1),
    (HOUR, ["off"], None),
    (HOUR, ["off", 5], 5),
    # What was created without the setting has the dates all the same.
    (None, [HOUR], HOUR),
    (None, [], None),
    (HOUR, [Int64(7)], 7),
    (HOUR, [7.9], 7),
]


def test_changes_hold_for_stored_documents(world: World) -> None:
    for n, (expire, changes, _) in enumerate(CHANGES):
        clustered(world, f"c{n}", expire).insert_one({"_id": date(0)})
        for change in changes:
            world.db.command("collMod", f"c{n}", expireAfterSeconds=change)
    for moment in sorted({end for *_, end in CHANGES if end is not None}):
        for at in (moment - 0.001, moment):
            world.move(at)
            world.server.purge()
            left = {n for n in range(len(CHANGES)) if ids(world.db[f"c{n}"])}
            assert left == {n for n, (*_, end) in enumerate(CHANGES) if end is None or end > at}


def test_several_rules_apply_side_by_side(world: World) -> None:
    collection = clustered(world)
    collection.create_index("at", expireAfterSeconds=10)
    collection.insert_many(
        [{"_id": date(0), "at": date(0)}, {"_id": date(1), "at": date(2 * HOUR)}, {"_id": "x", "at": date(5)}]
    )
    first, second, text = sorted(ids(collection), key=lambda id: (str(type(id)), str(id)))
    check(world, "c", {first: 10, second: HOUR + 1, text: 15})


def test_reports_name_the_setting(world: World) -> None:
    clustered(world).insert_many([{"_id": date(0)}, {"_id": 1}])
    target = f"mongo:{world.db.name}.c"
    settings = next(each for each in world.server.ttl.list()["targets"] if each["target"] == target)
    assert settings["default_ttl"] == HOUR
    assert [(each["name"], each["field"]) for each in settings["indexes"]] == [("expireAfterSeconds", "_id")]
    preview = world.server.ttl.preview(target, 60)
    assert preview["current"] == HOUR
    world.move(HOUR)
    world.server.purge()
    assert ids(world.db.c) == {1}


@pytest.mark.parametrize("profile", ["hiding"])
def test_a_database_that_hides(world: World, profile: str) -> None:
    collection = world.client[profile].create_collection("c", clusteredIndex=KEY, expireAfterSeconds=HOUR)
    collection.insert_one({"_id": date(0)})
    world.move(HOUR - 0.001)
    assert collection.count_documents({}) == 1
    world.move(HOUR)
    assert collection.count_documents({}) == 0
