"""The admin API about collections of MongoDB: counts, explanations, previews, and TTL indexes set from outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient
from pymongo.collection import Collection

from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

OTPS = "mongo:app.otps"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        yield client


@pytest.fixture
def otps(client: MongoClient[dict[str, Any]], http: Http) -> Collection[dict[str, Any]]:
    """30 s after the last write, or 90 s after `at`."""
    collection = client.app.otps
    collection.create_index("_ts", expireAfterSeconds=30)
    collection.create_index("at", expireAfterSeconds=90)
    collection.insert_many(
        [
            {"_id": "default"},
            {"_id": "own", "ttl": 60},
            {"_id": "never", "ttl": -1},
            {"_id": "dated", "ttl": -1, "at": NOW},
            {"_id": 5, "ttl": 20.5, "at": "soon"},
        ]
    )
    return collection


@pytest.fixture
def plain(client: MongoClient[dict[str, Any]], http: Http) -> Collection[dict[str, Any]]:
    """Nothing dies, but some have a date."""
    collection = client.app.plain
    collection.insert_many(
        [{"_id": n, "at": NOW + timedelta(seconds=after)} for n, after in enumerate((-60, -1, 0, 1, 3600))]
        + [{"_id": "none"}, {"_id": "text", "at": "x"}, {"_id": "several", "at": [NOW + timedelta(days=2), NOW]}]
    )
    return collection


def test_the_list_of_targets(http: Http, otps: Collection[Any]) -> None:
    indexes = [
        {"name": "_ts_1", "field": "_ts", "expire_after_seconds": 30, "counts_from": "the last write"},
        {"name": "at_1", "field": "at", "expire_after_seconds": 90, "counts_from": "a date"},
    ]
    row = {
        "target": OTPS,
        "default_ttl": 30,
        "indexes": indexes,
        "paused": None,
        "held": False,
        "records": 5,
        "hidden": 0,
        "due": 0,
        "own_ttl": 1,
        "ignored_ttl": 1,
        "exact": True,
        "next_expiry": "2030-01-01T00:00:30Z",
        "next_pass": "2030-01-01T00:01:00Z",
    }
    assert http.get("ttl") == {"now": START, "targets": [row]}


def test_what_is_nobodys_data_is_not_counted(
    client: MongoClient[dict[str, Any]], http: Http, otps: Collection[Any]
) -> None:
    """Retryable writes leave documents behind, and views hold none."""
    otps.insert_one({})
    client.app.create_collection("seen", viewOn="otps")
    assert "config" in client.list_database_names()
    stats = http.get("stats")
    assert (stats["databases"], stats["containers"], list(stats["targets"])) == (1, 1, [OTPS])


def test_the_last_collection_takes_its_database_with_it(
    client: MongoClient[dict[str, Any]], http: Http, otps: Collection[Any], plain: Collection[Any]
) -> None:
    assert http.post("reset", target=OTPS) == {"now": START, "databases": 0, "containers": 1, "records": 5}
    assert "app" in client.list_database_names()
    http.post("reset", target="mongo:app.plain")
    assert "app" not in client.list_database_names()


@pytest.mark.parametrize(
    ("id", "seconds", "reason", "text", "details"),
    [
        ("default", 30, "default", "expireAfterSeconds 30 s after _ts", {}),
        ("own", 60, "item", "item ttl 60 s after _ts", {"own_ttl": "60", "ignored_ttl": None}),
        ("dated", 90, "index", "index at_1 (90 s)", {"own_ttl": "-1", "ignored_ttl": None}),
        ("never", None, "never", "item ttl -1: lives for ever", {"own_ttl": "-1", "ignored_ttl": None}),
        (
            "5",
            30,
            "default",
            "expireAfterSeconds 30 s after _ts; the item's own ttl is not valid and counts as absent",
            {"own_ttl": "20.5", "ignored_ttl": "20.5 is no whole number; the index's 30 s count"},
        ),
    ],
)
def test_explain(
    http: Http, otps: Collection[Any], id: str, seconds: int | None, reason: str, text: str, details: dict[str, Any]
) -> None:
    answer = http.get(f"ttl/explain?target={OTPS}&id={id}")
    dates = answer.pop("dates")
    deadline = None if seconds is None else f"2030-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"
    # The index on a date waits for a pass.
    purge = "2030-01-01T00:02:00Z" if reason == "index" else deadline
    told = {
        "state": "alive",
        "deadline": deadline,
        "reason": reason,
        "text": text,
        "written": START,
        "purge_from": purge,
    }
    assert answer == {"now": START, "target": OTPS, "id": id, "pk": None, **told, **details}
    assert dates[0]["date"] == (START if id == "dated" else None)
    if id == "5":
        assert (dates[0]["reason"], dates[0]["text"]) == ("wrong-type", "at is of type string, which is no date")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Int64(1 << 31), "2147483648 is more than 2147483647"),
        (0, "0 is neither -1 nor above 0"),
        ("20", "its type is string, which is no whole number"),
        (True, "its type is bool, which is no whole number"),
        (float("nan"), "nan is no whole number"),
    ],
)
def test_why_a_ttl_is_ignored(http: Http, otps: Collection[Any], value: object, why: str) -> None:
    otps.insert_one({"_id": "x", "ttl": value})
    told = http.get(f"ttl/explain?target={OTPS}&id=x")["ignored_ttl"]
    assert told.lower() == f"{why}; the index's 30 s count"


@pytest.mark.parametrize(
    ("document", "reason", "text"),
    [
        ({}, "no-anchor", "the document has no at"),
        ({"at": 5}, "wrong-type", "at is of type int, which is no date"),
        ({"at": ["x", None]}, "wrong-type", "at is of type string, null, which is no date"),
    ],
)
def test_why_a_document_without_a_date_stays(
    http: Http, plain: Collection[Any], document: dict[str, Any], reason: str, text: str
) -> None:
    plain.create_index("at", expireAfterSeconds=5)
    plain.insert_one({"_id": "x", "ttl": 5, **document})
    answer = http.get("ttl/explain?target=mongo:app.plain&id=x")
    assert (answer["deadline"], answer["reason"], answer["text"]) == (None, reason, text)
    assert answer["ignored_ttl"] == "there is no TTL index on _ts: ttl is a field as any other"


@pytest.mark.parametrize(
    ("id", "named"),
    [
        ("plain", "plain"),
        (ObjectId("64b7f9a1e4b0c8d2f3a1b2c3"), "64b7f9a1e4b0c8d2f3a1b2c3"),
        (5, "5"),
        ("5", '"5"'),
        (2.5, "2.5"),
        (True, "true"),
        ({"a": 1}, '{"a": 1}'),
        (None, "null"),
        (DatetimeMS(1 << 60), '{"$date": {"$numberLong": "1152921504606846976"}}'),
        (DatetimeMS(-(1 << 60)), '{"$date": {"$numberLong": "-1152921504606846976"}}'),
    ],
    ids=repr,
)
def test_ids_as_people_write_them(http: Http, client: MongoClient[dict[str, Any]], id: object, named: str) -> None:
    client.app.otps.create_index("_ts", expireAfterSeconds=1)
    client.app.otps.insert_one({"_id": id})
    told = http.get(f"ttl/explain?target={OTPS}&id={quote(named)}")["id"]
    assert told == (id if isinstance(id, str) else named)
    assert [row["id"] for row in http.get("ttl/due")["records"]] == [told]


def test_what_dies_is_told(server: RunningServer, http: Http, otps: Collection[Any]) -> None:
    otps.create_index("when", expireAfterSeconds=10)
    walk = server.clock.advance(seconds=150)
    assert walk["by_target"] == {OTPS: {"expired": 4, "purged": 4}}
    told = [(each.target, each.id, each.pk, each.due.second, each.reason) for each in server.events.expired]
    assert told == [
        (OTPS, "default", None, 30, "default"),
        (OTPS, "5", None, 30, "default"),
        (OTPS, "own", None, 0, "item"),
        (OTPS, "dated", None, 30, "index"),
    ]
    metrics = http("GET", "/metrics").body.decode()
    labels = '{protocol="mongo",db="app",container="otps"}'
    for line in (
        f"mayfly_ttl_purged_total{labels} 4",
        f"mayfly_items{labels} 1",
        f"mayfly_ttl_default_seconds{labels} 30",
    ):
        assert line in metrics


def test_forecast(http: Http, otps: Collection[Any]) -> None:
    """A document under two rules is counted once, at the earlier of its deadlines."""
    otps.update_one({"_id": "dated"}, {"$set": {"ttl": 100}})
    forecast = http.get(f"ttl/forecast?horizon=2m&buckets=4&target={OTPS}")
    assert [bucket["count"] for bucket in forecast["buckets"]] == [2, 1, 1, 0]
    assert (forecast["never"], forecast["later"]) == (1, 0)


@pytest.mark.parametrize(
    ("wanted", "index", "current", "now", "day", "never"),
    [
        ({"default_ttl": 10}, "_ts_1", None, 0, 8, 0),
        ({"default_ttl": -1}, "_ts_1", None, 0, 0, 8),
        ({"field": "at", "expire_after_seconds": 0}, "at_1", None, 4, 6, 2),
        ({"field": "at", "expire_after_seconds": 1}, "at_1", None, 2, 6, 2),
        ({"field": "other", "expire_after_seconds": 0}, "other_1", None, 0, 0, 8),
        ({"index": "plain_1", "expire_after_seconds": 0}, "plain_1", None, 0, 0, 8),
    ],
)
def test_a_preview_agrees_with_what_then_happens(
    server: RunningServer,
    http: Http,
    plain: Collection[Any],
    wanted: dict[str, Any],
    index: str,
    current: int | None,
    now: int,
    day: int,
    never: int,
) -> None:
    plain.create_index("plain")
    target = {"target": "mongo:app.plain", **wanted}
    ahead = http.post("ttl/preview", **target)
    seconds = next(value for name, value in wanted.items() if name not in ("field", "index"))
    assert (ahead["index"], ahead["current"], ahead["proposed"]) == (index, current, seconds)
    assert (ahead["records"], ahead["expire_now"], ahead["expire_within"]["1d"]) == (8, now, day)
    assert (ahead["never"], ahead["reappear_now"], ahead["exact"]) == (never, 0, True)
    before = http.get("ttl")
    row = http.post("ttl/set", **target)
    assert before["targets"][0]["indexes"] == []
    assert [each["name"] for each in row["indexes"]] == [index]
    # The same once the rule is there, counted on its path and no longer by looking at everything.
    again = http.post("ttl/preview", **target)
    assert again | {"current": current, "sample": sorted(again["sample"])} == ahead | {
        "sample": sorted(ahead["sample"])
    }
    assert http.post("purge")["purged"] == now
    server.clock.advance(days=1)
    assert plain.count_documents({}) == 8 - day


@pytest.mark.parametrize(
    ("wanted", "specs"),
    [
        ({"default_ttl": 10}, {"_ts_1": 10, "at_1": 90}),
        ({"default_ttl": None}, {"at_1": 90}),
        ({"field": "_ts", "expire_after_seconds": 7}, {"_ts_1": 7, "at_1": 90}),
        ({"field": "at", "expire_after_seconds": 7}, {"_ts_1": 30, "at_1": 7}),
        ({"index": "at_1", "expire_after_seconds": None}, {"_ts_1": 30}),
        ({"index": "at_1", "expire_after_seconds": 90}, {"_ts_1": 30, "at_1": 90}),
        ({"field": "b", "expire_after_seconds": 0}, {"_ts_1": 30, "at_1": 90, "b_1": 0}),
    ],
)
def test_set(http: Http, otps: Collection[Any], wanted: dict[str, Any], specs: dict[str, int]) -> None:
    row = http.post("ttl/set", target=OTPS, **wanted)
    assert {each["name"]: each["expire_after_seconds"] for each in row["indexes"]} == specs
    found = {name: index.get("expireAfterSeconds") for name, index in otps.index_information().items()}
    assert found == {"_id_": None, **specs}


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"index": "nothing", "expire_after_seconds": 5}, 404),
        ({"field": "b", "expire_after_seconds": None}, 404),
        ({"field": "_id", "expire_after_seconds": 5}, 400),
        ({"field": "at", "expire_after_seconds": -1}, 400),
        ({"index": "two", "expire_after_seconds": 5}, 400),
        ({"index": "at_1", "field": "at", "expire_after_seconds": 5}, 400),
        ({"index": "at_1"}, 400),
        ({"expire_after_seconds": 5}, 400),
        ({"index": "at_1", "default_ttl": 5}, 400),
        ({}, 400),
    ],
)
def test_refusals(http: Http, otps: Collection[Any], wanted: dict[str, Any], status: int) -> None:
    otps.create_index([("a", 1), ("b", 1)], name="two")
    before = otps.index_information()
    for path in ("preview", "set"):
        answer = http("POST", f"/_mayfly/ttl/{path}", {"target": OTPS, **wanted})
        assert (answer.status, bool(answer.json["detail"])) == (status, True), answer.json
    assert otps.index_information() == before


@pytest.mark.parametrize(
    "target", ["mongo:", "mongo:app.", "mongo:app.a/b", "mongo:.otps", "mongo:app/otps", "mongo:none.otps"]
)
def test_targets_that_are_none(http: Http, otps: Collection[Any], target: str) -> None:
    assert http("POST", "/_mayfly/ttl/preview", {"target": target, "default_ttl": 5}).status in (400, 404)


@pytest.mark.parametrize("name", ["a.b.c", "with space", "ü/ß", "100%"])
def test_odd_names(http: Http, client: MongoClient[dict[str, Any]], name: str) -> None:
    client.app[name].insert_one({"_id": 1})
    (target,) = http.get("stats")["targets"]
    assert http.post("ttl/set", target=target, default_ttl=5)["default_ttl"] == 5


def test_a_pause_keeps_what_a_pass_would_remove(server: RunningServer, http: Http, otps: Collection[Any]) -> None:
    """Hidden under `_ts`; shown under a date, as always until purged."""
    http.post("ttl/pause", target=OTPS)
    server.clock.advance(seconds=200)
    assert sorted(str(each["_id"]) for each in otps.find()) == ["dated", "never"]
    (row,) = http.get("ttl")["targets"]
    assert (row["paused"], row["records"], row["hidden"], row["due"]) == ("purge", 2, 3, 4)
    assert http.post("ttl/resume", target=OTPS)["targets"][0]["purge_now"] == 4
    assert http.post("purge", target=OTPS)["purged"] == 4


def test_a_default_of_cosmos_is_set_as_well(server: RunningServer, http: Http) -> None:
    from azure.cosmos import PartitionKey

    server.cosmos.client().create_database("shop").create_container("sessions", partition_key=PartitionKey("/id"))
    target = "cosmos:shop/sessions"
    for seconds in (60, -1, None):
        assert http.post("ttl/set", target=target, default_ttl=seconds)["default_ttl"] == seconds
    assert http("POST", "/_mayfly/ttl/set", {"target": target, "field": "x", "expire_after_seconds": 5}).status == 400


def test_each_database_by_its_own_rules() -> None:
    """In the profile cosmos indexes are dropped and made anew; in native _ts is a field as any other; hide hides."""
    own = ["c.profile=cosmos", "c.custom_path_ttl=on", "n.profile=native", "h.expiry=hide", "s.profile=cosmos"]
    options: dict[str, Any] = {"clock": "virtual", "clock_start": START, "mongo_database": own}
    with serve(memory=True, port=0, mongo_port=0, **options) as server, server.mongo.client() as client:
        http = Http(port_of(server))
        for name in "cnhs":
            client[name].x.insert_many([{"_id": 1, "at": 1_893_456_000_000}, {"_id": 2, "at": NOW}, {"_id": 3}])

        def ask(path: str, name: str, **wanted: Any) -> Any:
            answer = http("POST", f"/_mayfly/ttl/{path}", {"target": f"mongo:{name}.x", **wanted})
            return answer.json if answer.status == 200 else answer.status

        at = {"field": "at", "expire_after_seconds": 0}
        for name, dying in (("c", 2), ("n", 1), ("h", 1)):
            ahead = ask("preview", name, **at)
            assert (ahead["expire_now"], ahead["never"]) == (dying, 3 - dying)
            assert ask("set", name, **at)["due"] == dying
        assert [client[name].x.count_documents({}) for name in "cnh"] == [1, 3, 2]
        assert ask("preview", "s", **at) == 400
        for name, seconds, outcome in (("s", 5, 5), ("s", 6, 6), ("s", None, None), ("n", 5, 400)):
            answer = ask("set", name, default_ttl=seconds)
            assert answer == outcome if isinstance(answer, int) else answer["default_ttl"] == outcome


def test_a_preview_notes_a_field_in_which_no_document_has_a_date(http: Http, plain: Collection[Any]) -> None:
    def notes(**change: object) -> list[str]:
        found: list[str] = http.post(
            "ttl/preview", **{"target": "mongo:app.plain", "expire_after_seconds": 60, **change}
        )["notes"]
        return found

    mistyped = ["no document of mongo:app.plain has a date in `att`"]
    assert (notes(field="at"), notes(field="att")) == ([], mistyped)
    # Beside another index, by which documents expire, it is seen as well.
    plain.create_index("at", expireAfterSeconds=90)
    assert (notes(field="att"), notes(field="at"), notes(index="at_1")) == (mistyped, [], [])
    plain.drop_indexes()
    plain.create_index("att", expireAfterSeconds=90)
    assert (notes(field="att"), notes(index="att_1")) == (
        mistyped,
        ["no document of mongo:app.plain has a date for `att_1`"],
    )
    assert notes(field="att", expire_after_seconds=None) == []
    plain.delete_many({})
    assert notes(field="other") == []


def test_the_end_of_the_expired_is_where_last_stays(http: Http, otps: Collection[Any]) -> None:
    http.post("clock/advance", seconds=3600, sweep="now")
    assert len(http.get("events/expired")["events"]) == 4
    pages, after = [], 0
    while True:
        page = http.get(f"events/expired?after={after}&limit=2&target=mongo:app")
        if page["last"] == after:
            break
        pages.append([row["id"] for row in page["events"]])
        after = page["last"]
    assert [len(ids) for ids in pages] == [2, 2]
    # Events of others are read and left out: a page without any is not the end.
    otps.database.client.other.things.create_index("at", expireAfterSeconds=0)
    otps.database.client.other.things.insert_one({"at": NOW})
    http.post("clock/advance", seconds=3600, sweep="now")
    page = http.get(f"events/expired?after={after}&limit=2&target=mongo:app")
    assert (page["events"], page["last"] > after) == ([], True)
