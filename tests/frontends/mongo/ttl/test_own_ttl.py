"""Deadlines that count from the last write: the TTL index on `_ts`, and a document's `ttl` in every BSON type."""

from __future__ import annotations

from typing import Any

from bson import Binary, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from frontends.mongo.ttl.world import World, date, ids, named, refused

BIG = 2147483647

OWN: list[tuple[str, list[Any], float | None]] = [
    ("MD1", [20.0], 20),
    ("MD2", [20], 20),
    ("MD3", [Int64(20)], 20),
    ("MD4", [20.5], 10),
    ("MD5", [Int64(2147483649)], 10),
    ("MD6", [BIG, Int64(BIG), float(BIG)], BIG),
    ("MD7", [Int64(BIG + 1), float(BIG + 1), Int64(-BIG - 2), float(-BIG - 2)], 10),
    ("MD8", [-1, Int64(-1), -1.0], None),
    ("MD9", [0, Int64(0), 0.0, -0.0, -2, Int64(-2), -2.0, -BIG - 1], 10),
    ("MD10", [float("nan"), float("inf"), float("-inf"), Decimal128("20"), "20", True, False, None, date(20)], 10),
    ("MD10", [Timestamp(20, 0), [20], {"n": 20}, [], ObjectId(), Regex("20"), Binary(b"20"), MinKey(), MaxKey()], 10),
]

EACH = [
    (f"{id} {type(value).__name__} {value!r}", {"ttl": value}, life) for id, values, life in OWN for value in values
]

ELSEWHERE: list[tuple[str, dict[str, Any], float | None]] = [
    ("MD11 absent", {}, 10),
    ("MD11 case", {"TTL": 20}, 10),
    ("MD11 nested", {"a": {"ttl": 20}}, 10),
]


def test_a_ttl_of_its_own_counts_where_it_is_a_whole_number_of_seconds(world: World) -> None:
    collection = world.on_ts(10)
    rows = [*EACH, *ELSEWHERE]
    collection.insert_many(named((id, document) for id, document, _ in rows))
    world.check_lives(collection, {id: life for id, _, life in rows})


def test_values_that_do_not_count_are_kept_as_they_are(world: World) -> None:
    collection = world.on_ts(10)
    collection.insert_many(named((id, document) for id, document, _ in EACH))
    for id, document, _ in EACH:
        found = collection.find_one({"_id": id})
        assert found is not None
        kept, given = found["ttl"], document["ttl"]
        assert kept == given or kept != kept or type(given) in (DatetimeMS, Binary)


DEFAULTS: list[tuple[str, int | None, list[float | None]]] = [
    ("MD12", -1, [None, 20, None, None]),
    ("MD13", None, [None, None, None, None]),
    ("default", 30, [30, 20, None, 30]),
]


def test_a_default_is_what_documents_without_a_ttl_have(world: World) -> None:
    expected = {}
    for name, default, lives in DEFAULTS:
        collection = world.db[name] if default is None else world.on_ts(default, name)
        values: list[dict[str, Any]] = [{}, {"ttl": 20}, {"ttl": -1}, {"ttl": 20.5 if default else "x"}]
        collection.insert_many(named((str(n), each) for n, each in enumerate(values)))
        expected[name] = {str(n): life for n, life in enumerate(lives)}
    world.check_all(expected)


def test_an_index_on_ts_takes_minus_one_and_seconds(world: World) -> None:
    for n, value in enumerate([-1, 1, BIG, 5.0, Int64(5), Decimal128("5"), -1.0]):
        collection = world.on_ts(value, f"c{n}")
        listed = {each["name"]: each for each in collection.list_indexes()}["ttl"]
        assert dict(listed) == {
            "v": 1,
            "key": {"_ts": 1},
            "name": "ttl",
            "ns": collection.full_name,
            "expireAfterSeconds": int(float(str(value))),
        }


def test_an_index_on_ts_refuses_other_values(world: World) -> None:
    for value in (0, -0.5, -2, BIG + 1, float("nan"), "10", True, None):
        with refused(67):
            world.on_ts(value)
    for option in ({"unique": True}, {"sparse": True}, {"partialFilterExpression": {"a": 1}}):
        with refused(67):
            world.indexed({"_ts": 1}, 10, **option)
    assert world.db.list_collection_names() == []


def test_both_directions_mean_the_same(world: World) -> None:
    collection = world.indexed({"_ts": -1}, 10)
    collection.insert_one({"_id": 1})
    world.check_lives(collection, {1: 10})


def test_an_index_on_ts_without_seconds_is_an_ordinary_one(world: World) -> None:
    assert world.create("c", {"key": {"_ts": 1}, "name": "plain"})["numIndexesAfter"] == 2
    world.db["c"].insert_one({"_id": 1, "_ts": 5})
    world.move(10**6)
    assert ids(world.db["c"], {"_ts": 5}) == {1}
