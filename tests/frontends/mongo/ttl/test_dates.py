"""TTL indexes on dates: the values that count as dates, their paths, and the index that decides."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp
from pymongo.errors import OperationFailure

from frontends.mongo.ttl.world import START, Document, T, World, date, ids, named, refused
from mayflydb.evaluation.stops import StopReason
from mayflydb.frontends.mongo.evaluation import Evaluation, stop_error

HOUR = 3600
LAST = 253402300799

DATES: list[tuple[str, Any, float | None]] = [
    ("MN1 date", date(0), HOUR),
    ("MN2 1969", DatetimeMS(-86_400_000), 0),
    ("MN2 first", DatetimeMS(-(2**63)), 0),
    ("MN3 2038", DatetimeMS(2147483648000), 2147483648 - T + HOUR),
    ("MN3 2106", DatetimeMS(4294967295000), 4294967295 - T + HOUR),
    ("MN3 9999", DatetimeMS((LAST - HOUR) * 1000), LAST - T),
    ("MN3 last", DatetimeMS(2**63 - 1), None),
    ("MN4 array", [date(9), date(0)], HOUR),
    ("MN4 mixed", [date(0), "x", None], HOUR),
    ("MN5 empty", [], None),
    ("MN5 words", ["x"], None),
    ("MN5 null", None, None),
    ("MN5 bool", True, None),
    ("MN5 int32", 1, None),
    ("MN5 int64", Int64(1), None),
    ("MN5 double", 1.0, None),
    ("MN5 decimal", Decimal128("1"), None),
    ("MN5 string", START, None),
    ("MN5 timestamp", Timestamp(1, 1), None),
    ("MN5 id", ObjectId(b"\0" * 12), None),
    ("MN5 regex", Regex("1"), None),
    ("MN5 object", {"d": date(0)}, None),
]


def test_the_earliest_date_at_the_path_decides(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.indexed({"t": 1}, HOUR)
    collection.insert_many([*named((id, {"t": value}) for id, value, _ in DATES), {"_id": "MN5 missing"}])
    lives = {id: life for id, _, life in DATES} | {"MN5 missing": None}
    world.check_lives(collection, lives, 0.001)
    # They are purged by the same measure.
    world.server.purge()
    assert world.purged() == sum(life is not None for life in lives.values())


def test_a_dotted_path_leads_through_arrays(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.indexed({"a.t": 1}, HOUR)
    collection.insert_many(
        [
            {"_id": "object", "a": {"t": date(0)}},
            {"_id": "array", "a": [{"t": date(50)}, {"t": "x"}, {}, {"t": date(5)}]},
            {"_id": "arrays", "a": [{"t": [date(50), date(7)]}]},
            {"_id": "scalar", "a": date(0)},
        ]
    )
    world.check_lives(collection, {"object": HOUR, "array": HOUR + 5, "arrays": HOUR + 7, "scalar": None}, 0.001)


OPTIONS: list[tuple[Document, Document, float | None]] = [
    ({"t": 1}, {"expireAfterSeconds": 0}, 0),
    ({"t": -1}, {}, HOUR),
    ({"t": 1}, {"sparse": True}, HOUR),
    ({"t": 1}, {"unique": True}, HOUR),
    ({"t": 1}, {"collation": {"locale": "en", "strength": 2}}, HOUR),
    ({"t": 1}, {"hidden": True}, HOUR),
    ({"t": 1}, {"partialFilterExpression": {"kind": "mortal"}}, HOUR),
    ({"t": 1}, {"partialFilterExpression": {"kind": {"$in": ["x", "y"]}}}, None),
    ({"t": "hashed"}, {}, None),
    ({"t": "text"}, {}, None),
]


def test_options_of_the_index(world: World) -> None:
    world.db = world.client["hiding"]
    for n, (key, options, _) in enumerate(OPTIONS):
        reply = world.create(f"c{n}", {"key": key, "name": "ttl", "expireAfterSeconds": HOUR, **options})
        assert ("note" in reply) == (key["t"] in ("hashed", "text"))
        world.db[f"c{n}"].insert_one({"_id": str(options), "t": date(0), "kind": "mortal"})
    lives = {f"c{n}": {str(options): life} for n, (_, options, life) in enumerate(OPTIONS)}
    world.check_all(lives, 0.001)


def test_of_several_indexes_the_earliest_deadline_decides(world: World) -> None:
    world.db = world.client["hiding"]
    world.create(
        "c",
        {"key": {"a": 1}, "name": "a", "expireAfterSeconds": 100},
        {"key": {"b": 1}, "name": "b", "expireAfterSeconds": 50},
        {"key": {"_ts": 1}, "name": "_ts", "expireAfterSeconds": 300},
    )
    world.db["c"].insert_many(
        [
            {"_id": "a", "a": date(0), "b": date(70)},
            {"_id": "b", "a": date(0), "b": date(40)},
            {"_id": "only b", "b": date(0)},
            {"_id": "neither"},
            {"_id": "own", "a": date(0), "b": date(0), "ttl": 20},
            {"_id": "later", "a": date(1000), "ttl": -1},
        ]
    )
    world.check_lives(world.db["c"], {"a": 100, "b": 90, "only b": 50, "neither": 300, "own": 20, "later": 1100})


def test_a_dropped_index_ends_expiry(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.indexed({"t": 1}, 10)
    collection.insert_one({"_id": 1, "t": date(0)})
    world.move(10)
    assert ids(collection) == set()
    collection.drop_index("ttl")
    assert ids(collection) == {1}
    world.move(100, "scheduled")
    assert ids(collection) == {1}


def test_an_index_over_documents_that_are_there_counts_from_their_dates(world: World) -> None:
    world.db = world.client["hiding"]
    collection = world.db["c"]
    collection.insert_many([{"_id": n, "t": date(n)} for n in range(300)])
    world.move(100)
    world.indexed({"t": 1}, 0)
    assert ids(collection) == set(range(101, 300))
    world.move(200, "scheduled")
    assert world.purged() == 201


# --- shown until a pass -------------------------------------------------------------------------------------------------------


def test_documents_expired_by_a_date_show_until_a_pass_unless_hidden(world: World) -> None:
    shown, hidden = world.client["shown"]["c"], world.client["hiding"]["c"]
    for collection in (shown, hidden):
        collection.create_index("t", expireAfterSeconds=10)
        collection.insert_one({"_id": 1, "t": date(0)})
    for moment in (9.999, 10, 10.001):
        world.move(moment)
        for collection, seen in ((shown, True), (hidden, moment < 10)):
            assert ids(collection) == ({1} if seen else set()), (collection.full_name, moment)
            assert collection.count_documents({}) == seen
            assert collection.estimated_document_count() == seen
    world.move(10.002, "scheduled")
    assert ids(shown) == ids(hidden) == set()
    assert world.purged() == 2


def test_a_pass_purges_what_is_due_as_it_starts(world: World) -> None:
    for name in ("shown", "hiding"):
        collection = world.client[name]["c"]
        collection.create_index("t", expireAfterSeconds=10)
        collection.insert_many([{"_id": n, "t": date(n)} for n in range(2)])
    for start, purged in ((9.999, 0), (10, 2), (10.999, 2), (11.001, 4)):
        world.move(start, "scheduled")
        assert world.purged() == purged


def test_the_end_of_the_year_9999_is_a_date_like_others(world: World) -> None:
    collection = world.indexed({"t": 1}, 0)
    collection.insert_one({"_id": 1, "t": DatetimeMS(LAST * 1000)})
    world.move(LAST - T - 0.001, "scheduled")
    assert ids(collection) == {1}
    world.move(LAST - T)
    assert ids(collection) == {1}
    world.server.purge()
    assert ids(collection) == set()


def test_expiry_can_be_set_for_one_collection(world: World) -> None:
    world.db = world.client["mixed"]
    for name in ("hidden", "other"):
        world.indexed({"t": 1}, 10, name).insert_one({"_id": 1, "t": date(0)})
    world.move(10)
    assert (ids(world.db["hidden"]), ids(world.db["other"])) == (set(), {1})


# --- custom paths --------------------------------------------------------------------------------------------------------------


def test_a_custom_path_takes_numbers_as_milliseconds(world: World) -> None:
    world.db = world.client["custom"]
    collection = world.indexed({"t": 1}, 10)
    then = T * 1000
    rows: list[tuple[str, Any, float | None]] = [
        ("date", date(0), 10),
        ("long", Int64(then + 1), 10.001),
        ("double", float(then + 2), 10.002),
        ("int", 1_000_000, 0),
        ("array", ["x", Int64(then + 5), date(0.004)], 10.004),
        ("decimal", Decimal128(str(then)), None),
        ("string", START, None),
        ("null", None, None),
    ]
    collection.insert_many(named((id, {"t": value}) for id, value, _ in rows))
    world.check_lives(collection, {id: life for id, _, life in rows}, 0.001)


def test_a_collection_has_one_custom_path(world: World) -> None:
    world.db = world.client["custom"]
    world.indexed({"t": 1}, 10)
    for key in ({"_ts": 1}, {"u": 1}):
        with refused(2):
            world.create("c", {"key": key, "name": "another", "expireAfterSeconds": 10})


def test_profile_cosmos_knows_no_other_path_than_ts(world: World) -> None:
    world.db = world.client["cosmos"]
    with refused(2, "The 'expireAfterSeconds' option is supported on '_ts' field only."):
        world.indexed({"t": 1}, 10)


def test_a_count_under_several_hiding_rules_is_exact_and_has_a_deadline(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents are read one by one, in pages, between which the command may be ended."""
    collection = world.client["hiding"][f"c{world.db.name}"]
    for field, span in (("a", 10), ("b", 30)):
        collection.create_index(field, expireAfterSeconds=span)
    collection.insert_many([{"a": date(n), "b": date(n // 2)} for n in range(60)])
    world.move(25)
    visible = sum(n + 10 > 25 and n // 2 + 30 > 25 for n in range(60))
    monkeypatch.setattr("mayflydb.engine.expiry_counts.PAGE", 2)
    assert (
        collection.database.command("count", collection.name)["n"] == visible == collection.estimated_document_count()
    )
    assert collection.count_documents({}) == visible
    turns = 0

    async def end(evaluation: Evaluation) -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            raise stop_error(StopReason.DEADLINE)

    monkeypatch.setattr(Evaluation, "take_turn", end)
    with pytest.raises(OperationFailure) as late:
        collection.database.command("count", collection.name)
    assert (late.value.code, turns) == (50, 3)
