"""`expireAfterSeconds` of every type in createIndexes and collMod: stored values and errors."""

from __future__ import annotations

from typing import Any

from bson import Binary, Decimal128, Int64, MinKey

from frontends.mongo.replies import said
from frontends.mongo.ttl.world import Document, World, date, ids, refused

BIG = 2147483647
NAN, INFINITY = float("nan"), float("inf")

TAKEN: list[tuple[str, Any, int, int]] = [
    *[("MO1", value, int(value), int(value)) for value in (0, Int64(0), -0.0, 3600, Int64(3600), 3600.0)],
    *[("MO1", value, BIG, BIG) for value in (BIG, Int64(BIG), float(BIG))],
    ("MO1", Decimal128("3600"), 3600, 3600),
    ("MO1", Decimal128("-0"), 0, 0),
    ("MO2", 3600.5, 3600, 3600),
    ("MO2", Decimal128("3600.5"), 3600, 3600),
    ("MO2", Decimal128("51.5"), 51, 52),
    ("MO2", Decimal128("50.5"), 50, 50),
    ("MO4", -0.9, 0, 0),
]

REFUSED: list[tuple[str, Any, int, str, int | None, str]] = [
    *[
        ("MO3", value, 67, text, 72, "TTL index 'expireAfterSeconds' option cannot be less than 0")
        for value, text in (
            (-1, "cannot be less than 0"),
            (-BIG - 1, "cannot be less than 0"),
            (-1.5, "cannot be less than 0"),
            (-INFINITY, "must be within the range of a 32-bit integer"),
        )
    ],
    *[
        ("MO5", value, 67, "TTL index 'expireAfterSeconds' must be within the range of a 32-bit integer", None, "")
        for value in (Int64(BIG + 1), Int64(2**63 - 1), INFINITY, float(BIG + 1), Decimal128("Infinity"))
    ],
    *[
        ("MO6", value, 67, "must not be NaN", 72, "TTL index 'expireAfterSeconds' option must not be NaN")
        for value in (NAN, Decimal128("NaN"))
    ],
    *[
        ("MO7", value, 67, f"must be numeric, but received a type of '{name}'", 14, name)
        for value, name in (
            ("5", "string"),
            (True, "bool"),
            ([5], "array"),
            ({"n": 5}, "object"),
            (date(5), "date"),
            (Binary(b"5"), "binData"),
            (MinKey(), "minKey"),
        )
    ],
    ("MO8", None, 67, "received a type of 'null'", 72, "no expireAfterSeconds, hidden, unique, or prepareUnique field"),
]


def change(world: World, name: str, index: Document, **more: Any) -> Document:
    return dict(world.db.command("collMod", name, index=index, **more))


def seconds(world: World, name: str) -> Any:
    return {each["name"]: each for each in world.db[name].list_indexes()}["ttl"].get("expireAfterSeconds")


def test_accepted_values_are_stored_as_int32(world: World) -> None:
    old = 100
    world.indexed({"t": 1}, old, "m")
    for n, (id, value, created, modified) in enumerate(TAKEN):
        name = f"c{n}"
        world.indexed({"t": 1}, value, name)
        assert (seconds(world, name), type(seconds(world, name))) == (created, int), (id, value)
        reply = change(world, "m", {"name": "ttl", "expireAfterSeconds": value})
        assert said(reply) == {"expireAfterSeconds_old": old, "expireAfterSeconds_new": modified, "ok": 1}, (id, value)
        assert type(reply["expireAfterSeconds_old"]) is type(reply["expireAfterSeconds_new"]) is Int64
        assert seconds(world, "m") == modified
        old = modified


def test_what_is_refused(world: World) -> None:
    world.indexed({"t": 1}, 100, "m")
    for id, value, created, text, modified, why in REFUSED:
        with refused(created, text):
            world.indexed({"t": 1}, value)
        index = {"name": "ttl", "expireAfterSeconds": value}
        if modified is None:
            assert change(world, "m", index)["expireAfterSeconds_new"] == BIG, (id, value)
            change(world, "m", {"name": "ttl", "expireAfterSeconds": 100})
        else:
            with refused(modified, why):
                change(world, "m", index)
        assert seconds(world, "m") == 100
    assert world.db.list_collection_names() == ["m"]


def test_the_message_shows_the_specification(world: World) -> None:
    text = (
        '. Index spec: { key: { t: 1 }, name: "t_1", expireAfterSeconds: -1 } :: caused by :: '
        "TTL index 'expireAfterSeconds' option cannot be less than 0"
    )
    with refused(67, text):
        world.create("c", {"key": {"t": 1}, "name": "t_1", "expireAfterSeconds": -1})


KEYS: list[tuple[Document, int, str]] = [
    ({"a": 1, "b": 1}, 67, "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {"),
    ({"$**": 1}, 67, "Index type 'wildcard' cannot be a TTL index"),
    ({"_id": 1}, 197, "The field 'expireAfterSeconds' is not valid for an _id index specification. Specification: {"),
]

LATER: list[tuple[str, Document, str]] = [
    ("i", {"a": 1, "b": 1}, "TTL indexes are single-field indexes, compound indexes do not support TTL"),
    ("i", {"a": "text"}, "TTL indexes are single-field indexes, compound indexes do not support TTL"),
    ("i", {"$**": 1}, "wildcard indexes do not support TTL"),
    ("_id_", {"_id": 1}, "the _id field does not support TTL indexes"),
]


def test_keys_that_take_no_ttl(world: World) -> None:
    for key, code, text in KEYS:
        with refused(code, text):
            world.indexed(key, 10)
    for n, (name, key, text) in enumerate(LATER):
        world.create(f"c{n}", {"key": key, "name": name})
        with refused(72, text):
            change(world, f"c{n}", {"name": name, "expireAfterSeconds": 10})


def test_an_index_without_a_ttl_is_given_one(world: World) -> None:
    world.db = world.client["hiding"]
    lives: dict[str, dict[int, float | None]] = {}
    keys: list[Document] = [{"t": 1}, {"t": -1}, {"t": "hashed"}]
    for n, key in enumerate(keys):
        name = f"c{n}"
        world.create(name, {"key": key, "name": "ttl"})
        world.db[name].insert_one({"_id": 1, "t": date(0)})
        reply = change(world, name, {"keyPattern": key, "expireAfterSeconds": 10})
        assert said(reply) == {"expireAfterSeconds_new": 10, "ok": 1}
        assert seconds(world, name) == 10
        lives[name] = {1: None if key["t"] == "hashed" else 10}
    world.check_all(lives, 0.001)


def test_the_same_key_with_another_ttl_is_refused(world: World) -> None:
    world.indexed({"t": 1}, 10)
    for options in ({"expireAfterSeconds": 20}, {}):
        text = "An equivalent index already exists with the same name but different options. Requested index: {"
        with refused(85, text):
            world.create("c", {"key": {"t": 1}, "name": "ttl", **options})
    same = world.create("c", {"key": {"t": 1}, "name": "ttl", "expireAfterSeconds": 10.9})
    assert (same["note"], same["numIndexesAfter"]) == ("all indexes already exist", 2)
    world.on_ts(10, "ts")
    with refused(85):
        world.on_ts(20, "ts")


REQUESTS: list[tuple[Document, int, str]] = [
    ({"name": "ttl", "keyPattern": {"t": 1}, "expireAfterSeconds": 5}, 72, "Cannot specify both key pattern and name."),
    ({"expireAfterSeconds": 5}, 72, "Must specify either index name or key pattern."),
    ({"name": "ttl"}, 72, "no expireAfterSeconds, hidden, unique, or prepareUnique field"),
    ({"name": "no", "expireAfterSeconds": 5}, 27, "cannot find index no for ns "),
    ({"keyPattern": {"x": 1}, "expireAfterSeconds": 5}, 27, "cannot find index { x: 1 } for ns "),
    ({"keyPattern": {"u": 1}, "expireAfterSeconds": 5}, 181, ""),
    ({"name": "ttl", "expireAfterSeconds": 5, "foo": 1}, 40415, "foo"),
]


def test_invalid_requests_of_coll_mod_are_refused(world: World) -> None:
    world.indexed({"t": 1}, 10)
    world.create(
        "c",
        {"key": {"u": 1}, "name": "u1"},
        {"key": {"u": 1}, "name": "u2", "sparse": True},
    )
    for index, code, text in REQUESTS:
        with refused(code, text):
            change(world, "c", index)
    with refused(26, ""):
        change(world, "missing", {"name": "ttl", "expireAfterSeconds": 5})
    with refused(72, ""):
        world.db.command("collMod", "c", expireAfterSeconds=5)
    world.db = world.client["cosmos"]
    with refused(115, ""):
        world.db.command("collMod", "c", index={"name": "ttl", "expireAfterSeconds": 5})


def test_hiding_and_ttl_are_changed_together_and_a_dry_run_changes_nothing(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.indexed({"t": 1}, 10)
    collection.insert_one({"_id": 1, "t": date(0)})
    index = {"name": "ttl", "expireAfterSeconds": 20, "hidden": True}
    expected = {
        "expireAfterSeconds_old": 10,
        "expireAfterSeconds_new": 20,
        "hidden_old": False,
        "hidden_new": True,
        "ok": 1,
    }
    # A dry run is for indexes that are to become unique.
    with refused(72, "dryRun"):
        change(world, "c", index, dryRun=True)
    assert dict(list(collection.list_indexes())[1]) == {
        "v": 2,
        "key": {"t": 1},
        "name": "ttl",
        "expireAfterSeconds": 10,
    }
    assert said(change(world, "c", index)) == expected
    assert list(collection.list_indexes())[1]["hidden"] is True
    world.check_lives(collection, {1: 20}, 0.001)


def test_a_longer_or_a_shorter_life_holds_from_the_next_request_on(world: World) -> None:
    world.db = world.client["mixed"]
    world.on_ts(500, "written")
    for name in ("shown", "hidden"):
        world.indexed({"t": 1}, 500, name)
    for name in ("written", "shown", "hidden"):
        world.db[name].insert_one({"_id": 1, "t": date(0)})
    world.move(600)
    for after, seen in ((1000, True), (500, False), (601, True), (600, False)):
        for name in ("written", "shown", "hidden"):
            change(world, name, {"name": "ttl", "expireAfterSeconds": after})
            assert ids(world.db[name]) == ({1} if seen or name == "shown" else set()), (name, after)
    change(world, "written", {"name": "ttl", "expireAfterSeconds": -1})
    assert ids(world.db["written"]) == {1}


def test_coll_mod_makes_an_ordinary_index_on_ts_the_default(world: World) -> None:
    world.create("c", {"key": {"_ts": 1}, "name": "ttl"})
    world.db["c"].insert_one({"_id": 1})
    reply = change(world, "c", {"name": "ttl", "expireAfterSeconds": 10})
    assert said(reply) == {"expireAfterSeconds_new": 10, "ok": 1}
    assert [(each["name"], each.get("expireAfterSeconds")) for each in world.db["c"].list_indexes()] == [
        ("_id_", None),
        ("ttl", 10),
    ]
    for value, code in ((0, 72), (-2, 72)):
        with refused(code):
            change(world, "c", {"name": "ttl", "expireAfterSeconds": value})
    world.check_lives(world.db["c"], {1: 10})
