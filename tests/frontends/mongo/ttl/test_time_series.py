"""Expiry of time series collections: by the bucket, at both sides of each boundary."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import DatetimeMS
from pymongo.collection import Collection

from frontends.mongo.ttl.world import START, Document, T, World, date, ids, refused

HOUR, DAY = 3600, 86400
MONTH = 30 * DAY

Measurement = tuple[float, float | None]
"""(time, deadline), both in seconds from START."""


def series(world: World, name: str = "w", expire: int | None = HOUR, **options: Any) -> Collection[Document]:
    """Create a time series collection over `t` and `m`."""
    given: Document = {"timeField": "t", "metaField": "m", **options}
    setting: Document = {} if expire is None else {"expireAfterSeconds": expire}
    return world.db.create_collection(name, timeseries=given, **setting)


def check(world: World, lives: Mapping[str, Mapping[Any, float | None]]) -> None:
    """Check that each measurement, by `_id`, is there until its deadline, shows at it, and is gone after a pass then."""
    moments = sorted({end for own in lives.values() for end in own.values() if end is not None and end >= 0})
    for moment in moments:
        for at in (moment - 0.001, moment):
            if at < 0:
                continue
            world.move(at)
            seen = {name: ids(world.db[name]) for name in lives}
            world.server.purge()
            left = {name: ids(world.db[name]) for name in lives}
            shown = {n: {id for id, end in own.items() if end is None or end >= at} for n, own in lives.items()}
            # A measurement of before START is due at once, and gone with the first purge.
            assert {n: seen[n] - {id for id, end in lives[n].items() if end is not None and end < 0} for n in seen} == {
                n: shown[n] for n in shown
            }, f"shown at {at}"
            stay = {n: {id for id, end in own.items() if end is None or end > at} for n, own in lives.items()}
            assert left == stay, f"left at {at}"


ROWS: list[tuple[str, Document, int, Sequence[Measurement]]] = [
    ("seconds", {}, HOUR, [(30, 2 * HOUR)]),
    ("explicit", {"granularity": "seconds"}, HOUR, [(59.999, 2 * HOUR)]),
    ("rounded", {}, HOUR, [(60, 60 + 2 * HOUR), (119.999, 60 + 2 * HOUR)]),
    # A bucket is [start, start + span): its last millisecond belongs to it, and its end opens another one.
    ("one bucket", {}, HOUR, [(30, 2 * HOUR), (1800, 2 * HOUR), (3599.999, 2 * HOUR)]),
    ("the next", {}, HOUR, [(30, 2 * HOUR), (3600, 3 * HOUR), (7199.999, 3 * HOUR)]),
    # A time before the start of the open bucket opens another one. Of two, the later one is taken.
    ("backward", {}, HOUR, [(1800, 1800 + 2 * HOUR), (61, 60 + 2 * HOUR), (1799.999, 60 + 2 * HOUR)]),
    ("later of two", {}, HOUR, [(1800, 1800 + 2 * HOUR), (60, 60 + 2 * HOUR), (1800, 1800 + 2 * HOUR)]),
    ("at once", {}, 0, [(30, HOUR)]),
    ("minutes", {"granularity": "minutes"}, HOUR, [(HOUR + 1800, HOUR + DAY + HOUR), (DAY, HOUR + DAY + HOUR)]),
    ("end of minutes", {"granularity": "minutes"}, 5, [(1, DAY + 5), (DAY - 0.001, DAY + 5), (DAY, 2 * DAY + 5)]),
    ("hours", {"granularity": "hours"}, HOUR, [(1.5 * DAY, DAY + MONTH + HOUR), (MONTH, DAY + MONTH + HOUR)]),
    ("custom", {"bucketMaxSpanSeconds": 600, "bucketRoundingSeconds": 600}, HOUR, [(1234, 1800 + HOUR)]),
    ("one second", {"bucketMaxSpanSeconds": 1, "bucketRoundingSeconds": 1}, 1, [(1.999, 3), (2, 4)]),
    (
        "a year",
        {"bucketMaxSpanSeconds": 31536000, "bucketRoundingSeconds": 31536000},
        0,
        [(0, T // 31536000 * 31536000 - T + 31536000)],
    ),
    ("1969", {}, HOUR, [(-T - 0.001, -T - 60 + 2 * HOUR), (-T, -T + 2 * HOUR)]),
    ("9999", {}, HOUR, [(253402300799 - T, None)]),
]


def test_measurements_expire_with_their_bucket(world: World) -> None:
    for name, options, expire, measurements in ROWS:
        times = [{"_id": n, "t": date(at), "m": 1} for n, (at, _) in enumerate(measurements)]
        series(world, name, expire, **options).insert_many(times)
    check(world, {name: dict(enumerate(end for _, end in rows)) for name, _, _, rows in ROWS})


def test_the_same_one_by_one(world: World) -> None:
    for name, options, expire, measurements in ROWS:
        collection = series(world, name, expire, **options)
        for n, (at, _) in enumerate(measurements):
            collection.insert_one({"_id": n, "t": date(at), "m": 1})
    check(world, {name: dict(enumerate(end for _, end in rows)) for name, _, _, rows in ROWS})


META: list[tuple[Any, Any, bool]] = [
    (1, 2, False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1, "b": 2}, {"a": 1}, False),
    ([1, 2], [2, 1], False),
    ("x", "x", True),
    (None, None, True),
]


def test_each_series_has_buckets_of_its_own(world: World) -> None:
    lives: dict[str, dict[Any, float | None]] = {}
    for n, (one, other, same) in enumerate(META):
        name = f"w{n}"
        series(world, name).insert_many([{"_id": 0, "t": date(0), "m": one}, {"_id": 1, "t": date(1800), "m": other}])
        lives[name] = {0: 2 * HOUR, 1: 2 * HOUR + (0 if same else 1800)}
    # Without a meta value a measurement is in another series than with null.
    series(world, "none").insert_many([{"_id": 0, "t": date(0)}, {"_id": 1, "t": date(1800), "m": None}])
    lives["none"] = {0: 2 * HOUR, 1: 2 * HOUR + 1800}
    plain = world.db.create_collection("plain", timeseries={"timeField": "t"}, expireAfterSeconds=HOUR)
    plain.insert_many([{"_id": 0, "t": date(0), "m": 1}, {"_id": 1, "t": date(1800), "m": 2}])
    lives["plain"] = {0: 2 * HOUR, 1: 2 * HOUR}
    check(world, lives)


def test_a_change_of_meta_keeps_the_bucket(world: World) -> None:
    collection = series(world)
    collection.insert_many([{"_id": 0, "t": date(1800), "m": {"a": 1}}, {"_id": 1, "t": date(0), "m": {"a": 2}}])
    collection.update_many({"m.a": 1}, {"$set": {"m.a": 2}})
    # Both buckets are those of one series now. A time in both joins the later one.
    collection.insert_many([{"_id": 2, "t": date(1799), "m": {"a": 2}}, {"_id": 3, "t": date(1801), "m": {"a": 2}}])
    check(world, {"w": {0: 1800 + 2 * HOUR, 1: 2 * HOUR, 2: 2 * HOUR, 3: 1800 + 2 * HOUR}})


# --- changes of the rules ------------------------------------------------------------------------------------------------

CHANGES: list[tuple[str, list[Document], float | None]] = [
    ("longer", [{"expireAfterSeconds": 2 * HOUR}], 3 * HOUR),
    ("shorter", [{"expireAfterSeconds": 1}], HOUR + 1),
    ("zero", [{"expireAfterSeconds": 0}], HOUR),
    ("off", [{"expireAfterSeconds": "off"}], None),
    ("off and on", [{"expireAfterSeconds": "off"}, {"expireAfterSeconds": HOUR}], 2 * HOUR),
    ("minutes", [{"timeseries": {"granularity": "minutes"}}], DAY + HOUR),
    ("hours", [{"timeseries": {"granularity": "hours"}}], MONTH + HOUR),
    ("custom", [{"timeseries": {"bucketMaxSpanSeconds": 7200, "bucketRoundingSeconds": 7200}}], 3 * HOUR),
    ("both", [{"timeseries": {"granularity": "minutes"}, "expireAfterSeconds": 5}], DAY + 5),
    ("nothing", [{"timeseries": {}}], 2 * HOUR),
]


def test_changes_hold_for_stored_measurements(world: World) -> None:
    for name, changes, _ in CHANGES:
        series(world, name).insert_one({"_id": 1, "t": date(30), "m": 1})
        for change in changes:
            world.db.command("collMod", name, **change)
    check(world, {name: {1: end} for name, _, end in CHANGES})


def test_a_collection_without_the_setting_gets_it_later(world: World) -> None:
    collection = series(world, expire=None)
    collection.insert_one({"_id": 1, "t": date(30), "m": 1})
    world.move(DAY, "scheduled")
    assert ids(collection) == {1}
    world.db.command("collMod", "w", expireAfterSeconds=2 * DAY)
    check(world, {"w": {1: 2 * DAY + HOUR}})


def test_a_change_of_rules_rewrites_no_measurement(world: World) -> None:
    collection = series(world)
    collection.insert_one({"_id": 1, "t": date(30), "m": 1})
    before = world.server.ttl.explain(f"mongo:{collection.full_name}", "1")["written"]
    world.move(60)
    world.db.command("collMod", "w", expireAfterSeconds=5, timeseries={"granularity": "hours"})
    after = world.server.ttl.explain(f"mongo:{collection.full_name}", "1")
    assert (after["written"], after["deadline"]) == (before, "2030-01-31T00:00:05Z")


def test_a_partial_index_expires_the_series_that_match(world: World) -> None:
    collection = series(world, expire=DAY)
    high: Document = {"partialFilterExpression": {"m": {"$gt": 5}}}
    measurements = [{"_id": n, "t": date(at), "m": m} for n, (at, m) in enumerate([(30, 5), (30, 6), (90, "x")])]
    collection.insert_many(measurements[:2])
    collection.create_index("t", name="high", expireAfterSeconds=HOUR, **high)
    collection.insert_one(measurements[2])
    check(world, {"w": {0: HOUR + DAY, 1: 2 * HOUR, 2: 60 + HOUR + DAY}})


def test_a_partial_index_beside_no_setting_of_the_collection(world: World) -> None:
    collection = series(world, expire=None)
    collection.create_index("t", name="x", expireAfterSeconds=0, partialFilterExpression={"m.kind": "x"})
    collection.insert_many([{"_id": kind, "t": date(0), "m": {"kind": kind}} for kind in "xyz"])
    collection.update_many({"m.kind": "y"}, {"$set": {"m.kind": "x"}})
    world.db.command("collMod", "w", index={"name": "x", "expireAfterSeconds": 100})
    check(world, {"w": {"x": HOUR + 100, "y": HOUR + 100, "z": None}})
    collection.insert_one({"_id": "late", "t": date(0), "m": {"kind": "x"}})
    collection.drop_index("x")
    world.server.purge()
    assert ids(collection) == {"z", "late"}


def test_a_hiding_database_hides_measurements_at_their_deadline(world: World) -> None:
    world.db = world.client["hiding"]
    collection = series(world)
    collection.insert_many([{"_id": 1, "t": date(30), "m": 1}, {"_id": 1, "t": date(3600), "m": 1}])
    world.move(2 * HOUR - 0.001)
    assert collection.count_documents({"_id": 1}) == collection.estimated_document_count() == 2
    world.move(2 * HOUR)
    assert collection.count_documents({"_id": 1}) == collection.estimated_document_count() == 1


def test_dates_that_no_bucket_start_can_hold(world: World) -> None:
    collection = series(world)
    collection.insert_many([{"_id": 0, "t": DatetimeMS(-(2**63))}, {"_id": 1, "t": DatetimeMS(2**63 - 1)}])
    assert {each["_id"] for each in collection.find({}, {"t": 0})} == {0, 1}
    world.server.purge()
    assert {each["_id"] for each in collection.find({}, {"t": 0})} == {1}


# --- passes and events ---------------------------------------------------------------------------------------------------


def test_a_pass_removes_whole_buckets(world: World) -> None:
    collection = series(world)
    collection.insert_many([{"t": date(n), "m": n % 2} for n in range(1000)])
    world.move(2 * HOUR - 1, "scheduled")
    assert (collection.count_documents({}), world.purged()) == (1000, 0)
    world.move(2 * HOUR, "scheduled")
    assert (collection.count_documents({}), world.purged()) == (0, 1000)


def run_once(world: World) -> list[tuple[Any, ...]]:
    """Some weeks of a series with changes, and the events of its expiries."""
    world.server.reset()
    world.db = world.client["again"]
    collection = series(world)
    for n in range(60):
        collection.insert_many([{"_id": n % 7, "t": date(n * 300 - k * 1000), "m": k % 2} for k in range(3)])
        if n == 30:
            world.db.command("collMod", "w", timeseries={"granularity": "minutes"})
        if n == 40:
            collection.create_index("t", expireAfterSeconds=60, partialFilterExpression={"m": 1})
        world.move(n * 600, "scheduled")
    world.move(3 * DAY, "scheduled")
    assert collection.count_documents({}) == 0
    return [(each.id, each.due, each.purged_at, each.reason) for each in world.server.events.expired]


def test_two_runs_have_the_same_events(world: World) -> None:
    first = run_once(world)
    assert len(first) == 180
    assert run_once(world) == first


# --- reports -------------------------------------------------------------------------------------------------------------


def test_reports_know_the_rule(world: World) -> None:
    collection = series(world)
    target = f"mongo:{collection.full_name}"
    collection.insert_many([{"_id": "a", "t": date(30), "m": 1}, {"_id": "b", "t": date(4000), "m": 1}])
    (row,) = world.server.ttl.list(target)["targets"]
    assert row["default_ttl"] == HOUR
    counted = {"name": "expireAfterSeconds", "field": "t", "expire_after_seconds": HOUR}
    assert row["indexes"] == [{**counted, "counts_from": "the end of its bucket"}]
    why = world.server.ttl.explain(target, "a")
    assert (why["deadline"], why["reason"], why["state"]) == ("2030-01-01T02:00:00Z", "index", "alive")
    assert why["text"] == "index expireAfterSeconds, from the start of its bucket (7200 s)"
    assert why["dates"] == [{"index": "expireAfterSeconds", "date": START}]
    zero: Document = {"index": "expireAfterSeconds", "expire_after_seconds": 0}
    for moment, due in ((HOUR - 0.001, 0), (HOUR, 1)):
        world.move(moment)
        preview = world.server.ttl.preview(target, **zero)
        assert (preview["current"], preview["proposed"], preview["expire_now"]) == (HOUR, 0, due)
    assert world.server.ttl.forecast("1d", buckets=1, target=target)["buckets"][0]["count"] == 2
    for changes, seconds in (((5,), 5), ((), 0), ((None,), None)):
        world.server.ttl.set(target, *changes, **({} if changes else zero))
        assert collection.options().get("expireAfterSeconds") == seconds


def test_measurements_with_one_id_are_told_apart(world: World) -> None:
    collection = series(world)
    target = f"mongo:{collection.full_name}"
    collection.insert_many([{"_id": "a#1", "t": date(n * HOUR), "m": 1} for n in range(3)])
    due = world.server.ttl.due(target)["records"]
    assert due[0]["id"] == "a#1"
    assert [world.server.ttl.explain(target, each["id"])["deadline"] for each in due] == [
        f"2030-01-01T0{n}:00:00Z" for n in (2, 3, 4)
    ]
    world.move(4 * HOUR, "scheduled")
    expired = [each.id for each in world.server.events.expired]
    assert expired == [each["id"] for each in due]
    assert len(set(expired)) == 3


REFUSED: list[tuple[str, Document, int]] = [
    ("w", {"expireAfterSeconds": "10"}, 72),
    ("w", {"expireAfterSeconds": {}}, 14),
    ("w", {"expireAfterSeconds": -1}, 72),
    ("w", {"expireAfterSeconds": T + 1}, 72),
    ("w", {"timeseries": {"granularity": "seconds"}}, 72),
    ("w", {"timeseries": {"granularity": "days"}}, 2),
    ("w", {"timeseries": {"bucketMaxSpanSeconds": 86400}}, 72),
    ("w", {"timeseries": {"bucketMaxSpanSeconds": 86399, "bucketRoundingSeconds": 86399}}, 72),
    ("w", {"timeseries": {"bucketMaxSpanSeconds": 31536001, "bucketRoundingSeconds": 31536001}}, 2),
    ("w", {"timeseries": {"timeField": "u"}}, 40415),
    ("w", {"timeseries": 5}, 14),
    ("w", {"validator": {}}, 72),
    ("w", {"index": {"name": "plain", "expireAfterSeconds": 5}}, 72),
    ("w", {"index": {"name": "plain", "prepareUnique": True}}, 72),
    ("w", {"index": {"name": "_id_", "hidden": True}}, 27),
    ("c", {"expireAfterSeconds": 5}, 72),
    ("c", {"timeseries": {"granularity": "hours"}}, 72),
]


def test_refused_changes_leave_all_as_it_was(world: World) -> None:
    series(world, granularity="minutes").create_index("x", name="plain")
    world.db.create_collection("c")
    before = world.db.command("listCollections")["cursor"]["firstBatch"]
    for name, change, code in REFUSED:
        with refused(code):
            world.db.command("collMod", name, **change)
    assert world.db.command("listCollections")["cursor"]["firstBatch"] == before
    world.db.command("collMod", "w", expireAfterSeconds=T)
    world.db.command("collMod", "w", index={"name": "plain", "hidden": True})


@pytest.mark.parametrize("steps", [1, 7])
def test_no_measurement_goes_before_its_time(world: World, steps: int) -> None:
    """What each series may have at most: nothing younger than `expireAfterSeconds`, nothing older than it and a bucket."""
    collection = series(world, expire=600, bucketMaxSpanSeconds=300, bucketRoundingSeconds=300)
    for n in range(60):
        collection.insert_many([{"t": date(n * 60 + k), "m": k % 2} for k in range(0, 60, 7)])
        if n % steps == 0:
            now = n * 60 + 60
            world.move(now, "scheduled")
            times = [round(each["t"].replace(tzinfo=UTC).timestamp()) - T for each in collection.find()]
            assert min(times) >= now - 600 - 300
            expected = [i * 60 + k for i in range(n + 1) for k in range(0, 60, 7) if i * 60 + k > now - 600]
            assert sorted(each for each in times if each > now - 600) == expected


class Oracle:
    """Buckets by the rule as it is written, in a list."""

    def __init__(self, span: int, rounding: int) -> None:
        self.span, self.rounding = span, rounding
        self.stored: dict[int, tuple[int, int]] = {}

    def insert(self, id: int, series: int, time: int) -> None:
        """Put a measurement into the latest bucket that its time lies in. Seconds from START."""
        starts = [start for key, start in self.stored.values() if key == series and start <= time < start + self.span]
        rounded = (T + time) // self.rounding * self.rounding - T
        self.stored[id] = series, max(starts, default=rounded)


def test_any_order_of_inserts_and_deletes_gives_the_buckets_of_the_rule(world: World) -> None:
    seed = random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)
    oracle, collection = Oracle(3600, 60), series(world, expire=T)
    for number in range(40):
        batch = [
            (number * 100 + n, chance.randrange(3), chance.randrange(4 * HOUR)) for n in range(chance.randrange(1, 30))
        ]
        collection.insert_many([{"_id": id, "m": key, "t": date(time)} for id, key, time in batch])
        for measurement in batch:
            oracle.insert(*measurement)
        if chance.random() < 0.3:
            gone = chance.sample(sorted(oracle.stored), len(oracle.stored) // 2)
            collection.delete_many({"_id": {"$in": gone}})
            oracle.stored = {id: bucket for id, bucket in oracle.stored.items() if id not in gone}
    due = world.server.ttl.due(f"mongo:{collection.full_name}", limit=1000)["records"]
    found = {int(row["id"]): row["deadline"] for row in due}
    expected = {id: start + HOUR + 2 * T for id, (_, start) in oracle.stored.items()}
    assert found == {id: f"{moment_of(end)}" for id, end in expected.items()}, f"seed {seed}"
    buckets = world.db.command("collStats", "w")["timeseries"]["bucketCount"]
    assert buckets == len(set(oracle.stored.values())), f"seed {seed}"


def moment_of(second: int) -> str:
    """Seconds since 1970 as reports have them."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
