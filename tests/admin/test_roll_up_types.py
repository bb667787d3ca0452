"""Roll-ups by the types of each protocol: exact numbers, what does not fit, and locks of open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient

from mayflydb.embedded import RunningServer
from served import START, Http

NOW = datetime.fromisoformat(START)


# --- MongoDB -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mongo(server: RunningServer, http: Http) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        client["d"]["source"].create_index("at", expireAfterSeconds=100)
        client["d"].create_collection("totals")
        yield client


MONGO = {"into": "mongo:d.totals", "group": ["/k"], "sum": {"s": "/v"}, "min": {"l": "/v"}, "skipped": "skipped"}

SUMS: list[tuple[list[Any], Any, int]] = [
    ([1, 2], 3, 0),
    ([2**31 - 1, 1], Int64(2**31), 0),
    ([Int64(2**62), Int64(2**62 - 1)], Int64(2**63 - 1), 0),
    ([Int64(2**62), Int64(2**62)], 2.0**63, 0),
    ([1, 0.5], 1.5, 0),
    ([Decimal128("0.1"), Decimal128("0.2")], Decimal128("0.3"), 0),
    ([Decimal128("0.1"), 1], Decimal128("1.1"), 0),
    ([1, True, "1", None, [1], {"v": 1}, float("nan"), float("inf"), Decimal128("NaN")], 1, 8),
]


@pytest.mark.parametrize(("values", "total", "skipped"), SUMS)
def test_numbers_of_documents(
    mongo: MongoClient[dict[str, Any]], server: RunningServer, values: list[Any], total: Any, skipped: int
) -> None:
    server.set_lifecycle("mongo:d.source", roll_up=MONGO)
    # One after the other, so that values in the collection and in one purge are added.
    for value in values:
        mongo["d"]["source"].insert_one({"k": 1, "v": value, "at": server.clock.now()})
    server.clock.advance(hours=1)
    (found,) = mongo["d"]["totals"].find()
    assert (found["s"], type(found["s"]), found["skipped"]) == (total, type(total), skipped)
    for value in values:
        mongo["d"]["source"].insert_one({"k": 1, "v": value, "at": server.clock.now()})
        server.clock.advance(hours=1)
    (found,) = mongo["d"]["totals"].find()
    assert found["skipped"] == 2 * skipped
    if isinstance(total, int) and total < 2**62:
        assert found["s"] == 2 * total


def test_groups_of_documents(mongo: MongoClient[dict[str, Any]], server: RunningServer) -> None:
    group = [{"path": "/k/v", "name": "kv"}, {"hour": "deadline"}]
    server.set_lifecycle("mongo:d.source", roll_up={"into": "mongo:d.totals", "group": group, "count": "n"})
    keys: list[Any] = [
        {"v": 5},
        {"v": 5.0},
        {"v": Int64(5)},
        {"v": "5"},
        {"v": [5]},
        {},
        {"v": None},
        {"v": "x" * 1000},
    ]
    mongo["d"]["source"].insert_many([{"k": key, "at": NOW} for key in keys])
    server.clock.advance(hours=1)
    counts = {
        (str(each["_id"]["kv"])[:5], type(each["_id"]["kv"]) is str): each["n"] for each in mongo["d"]["totals"].find()
    }
    assert counts == {("5", False): 3, ("5", True): 1, ("None", False): 3, ("xxxxx", True): 1}
    assert {each["_id"]["hour"] for each in mongo["d"]["totals"].find()} == {NOW.replace(tzinfo=None)}


def test_documents_of_any_kind_are_rolled_up(mongo: MongoClient[dict[str, Any]], server: RunningServer) -> None:
    """No value of a document stops the purge of the others."""
    server.set_lifecycle("mongo:d.source", roll_up={**MONGO, "count": "n"})
    values: list[Any] = [
        ObjectId(), Regex("x", "i"), Code("x"), Code("x", {"y": 1}), MinKey(), MaxKey(), Timestamp(1, 2), b"x" * 5000,
        Binary(b"x" * 16, 4), Binary(b"x" * 5000, 5), DatetimeMS(-(2**62)), DBRef("c", 1), {}, {"a": 1}, [], [1],
        None, True, "", "x" * 9000,
        float("nan"), float("-inf"), Decimal128("9E+6144"), Decimal128("9E+6144"), Decimal128("NaN"), Int64(-(2**63)),
    ]  # fmt: skip
    mongo["d"]["source"].insert_many([{"k": value, "v": value, "at": NOW} for value in values])
    server.clock.advance(hours=1)
    assert mongo["d"]["source"].count_documents({}) == 0
    assert sum(each["n"] for each in mongo["d"]["totals"].find({}, {"n": 1, "_id": 0})) == len(values)


def test_change_streams_tell_of_totals(mongo: MongoClient[dict[str, Any]], server: RunningServer) -> None:
    server.set_lifecycle("mongo:d.source", roll_up=MONGO)
    with mongo["d"]["totals"].watch() as stream:
        for value in (1, 2):
            mongo["d"]["source"].insert_one({"k": "a", "v": value, "at": server.clock.now()})
            server.clock.advance(hours=1)
        first, second = next(stream), next(stream)
    assert (first["operationType"], first["fullDocument"]["s"]) == ("insert", 1)
    assert (second["operationType"], second["updateDescription"]["updatedFields"]) == ("update", {"s": 3})


def test_a_total_in_an_open_transaction_is_waited_for(
    mongo: MongoClient[dict[str, Any]], server: RunningServer
) -> None:
    server.set_lifecycle("mongo:d.source", roll_up=MONGO)
    mongo["d"]["source"].insert_one({"k": "a", "v": 5, "at": NOW})
    id = {"k": "a"}
    with mongo.start_session() as session:
        session.start_transaction()
        mongo["d"]["totals"].insert_one({"_id": id, "s": 1}, session=session)
        server.clock.advance(hours=1)
        assert mongo["d"]["source"].count_documents({}) == 1
        session.commit_transaction()
    assert server.purge()["purged"] == 1
    found = mongo["d"]["totals"].find_one({"_id": id})
    assert found is not None
    assert found["s"] == 6


def test_what_a_validator_refuses_holds_the_purge(mongo: MongoClient[dict[str, Any]], server: RunningServer) -> None:
    server.set_lifecycle("mongo:d.source", roll_up=MONGO)
    mongo["d"].command("collMod", "totals", validator={"s": {"$lt": 3}})
    mongo["d"]["source"].insert_one({"k": "a", "v": 5, "at": NOW})
    server.clock.advance(hours=1)
    assert (server.purge()["held"], mongo["d"]["totals"].count_documents({})) == (["mongo:d.source"], 0)
    mongo["d"].command("collMod", "totals", validator={})
    assert server.purge()["purged"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [({"capped": True, "size": 5000}, "capped"), ({"viewOn": "source", "pipeline": []}, "view")],
)
def test_collections_that_take_no_totals(
    mongo: MongoClient[dict[str, Any]], http: Http, options: dict[str, Any], words: str
) -> None:
    mongo["d"].create_collection("other", **options)
    answer = http(
        "POST", "/_mayfly/lifecycle", {"target": "mongo:d.source", "roll_up": {**MONGO, "into": "mongo:d.other"}}
    )
    assert (answer.status in (400, 404), words in str(answer.json)) == (True, True), answer


# --- Cosmos DB -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "group", "status"),
    [
        ("/id", [], 200),
        ("/id", ["/k"], 200),
        ("/k", ["/k"], 200),
        ("/day", ["/k", {"day": "written"}], 200),
        ("/other", ["/k"], 400),
        ("/k/v", ["/k"], 400),
    ],
)
def test_the_partition_key_of_totals(
    server: RunningServer, http: Http, path: str, group: list[Any], status: int
) -> None:
    shop = server.cosmos.client().create_database("shop")
    source = shop.create_container("source", PartitionKey("/id"), default_ttl=60)
    totals = shop.create_container("totals", PartitionKey(path))
    roll_up = {"into": "cosmos:shop/totals", "group": group, "count": "n"}
    answer = http("POST", "/_mayfly/lifecycle", {"target": "cosmos:shop/source", "roll_up": roll_up})
    assert answer.status == status, answer
    if status == 400:
        assert "/id" in answer.json["hint"]
        return
    source.create_item({"id": "1", "k": {"no": "scalar"}})
    source.create_item({"id": "2"})
    server.clock.advance(hours=1)
    (total,) = totals.read_all_items()
    assert total["n"] == 2
    assert total.get("k") is None


def test_items_of_any_kind_are_rolled_up(server: RunningServer, http: Http) -> None:
    """No value of an item stops the purge of the others."""
    shop = server.cosmos.client().create_database("shop")
    source = shop.create_container("source", PartitionKey("/id"), default_ttl=60)
    totals = shop.create_container("totals", PartitionKey("/k"))
    roll_up = {"into": "cosmos:shop/totals", "group": ["/k"], "count": "n", "sum": {"s": "/v"}, "skipped": "skipped"}
    server.set_lifecycle("cosmos:shop/source", roll_up=roll_up)
    values: list[Any] = [
        10**30,
        10**308,
        -(10**308),
        1e-320,
        True,
        "",
        "\u0000",
        "ä" * 3000,
        "x" * 100_000,
        [],
        {"k": 1},
        None,
    ]
    for n, value in enumerate(values):
        source.create_item({"id": str(n), "k": value, "v": value})
    source.create_item({"id": "none"})
    server.clock.advance(hours=1)
    found = list(totals.read_all_items())
    assert sum(total["n"] for total in found) == len(values) + 1
    assert sum(total["skipped"] for total in found) == len(values) + 1 - 4


def test_members_of_clients_and_their_ttl_stay(server: RunningServer, http: Http) -> None:
    shop = server.cosmos.client().create_database("shop")
    source = shop.create_container("source", PartitionKey("/id"), default_ttl=60)
    totals = shop.create_container("totals", PartitionKey("/id"), default_ttl=-1)
    server.set_lifecycle("cosmos:shop/source", roll_up={"into": "cosmos:shop/totals", "count": "n"})
    totals.create_item({"id": "all", "note": "ours", "ttl": 86400})
    source.create_item({"id": "1"})
    server.clock.advance(hours=1)
    total = totals.read_item("all", "all")
    assert (total["n"], total["note"], total["ttl"]) == (1, "ours", 86400)


# --- YDB -----------------------------------------------------------------------------------------------------------------


class Tables:
    def __init__(self, server: RunningServer) -> None:
        import ydb

        self._driver = server.ydb.driver()
        self._pool = ydb.QuerySessionPool(self._driver)
        self.run(
            "CREATE TABLE source (id Int64, k Utf8, i Int32, u Uint64, d Double, f Float, e Decimal(10,2), t Uuid, at Timestamp, "
            'PRIMARY KEY (id)) WITH (TTL = Interval("PT100S") ON at)'
        )

    def run(self, text: str) -> list[Any]:
        return [row for each in self._pool.execute_with_retries(text) for row in each.rows]

    def close(self) -> None:
        self._pool.stop()
        self._driver.stop()


@pytest.fixture
def tables(server: RunningServer, http: Http) -> Iterator[Tables]:
    made = Tables(server)
    yield made
    made.close()


MISFITS: list[tuple[str, dict[str, Any], str]] = [
    ("k Utf8, n Uint64, PRIMARY KEY (k)", {"group": []}, "primary key"),
    ("k Utf8, j Utf8, n Uint64, PRIMARY KEY (k, j)", {}, "primary key"),
    ("k String, n Uint64, PRIMARY KEY (k)", {}, "k is String"),
    ("k Utf8 NOT NULL, n Uint64, PRIMARY KEY (k)", {}, "may be NULL"),
    ("k Utf8, n Utf8, PRIMARY KEY (k)", {}, "it counts"),
    ("k Utf8, PRIMARY KEY (k)", {}, "no column n"),
    ("k Utf8, n Uint64, o Int64 NOT NULL, PRIMARY KEY (k)", {}, "o is NOT NULL"),
    ("k Utf8, n Uint64, s Int64 NOT NULL, PRIMARY KEY (k)", {"sum": {"s": "/i"}}, "NOT NULL"),
    ("k Utf8, n Uint64, s Double, PRIMARY KEY (k)", {"sum": {"s": "/i"}}, "s is Double"),
    ("k Utf8, n Uint64, s Decimal(22,9), PRIMARY KEY (k)", {"sum": {"s": "/e"}}, "scale"),
    ("k Utf8, n Uint64, s Int64, PRIMARY KEY (k)", {"sum": {"s": "/k"}}, "s is Int64"),
    ("k Utf8, n Uint64, s Int64, PRIMARY KEY (k)", {"sum": {"s": "/none"}}, "no column none"),
    ("k Utf8, n Uint64, s Int64, PRIMARY KEY (k)", {"sum": {"s": "/i/j"}}, "no column i/j"),
    ("h Date, n Uint64, PRIMARY KEY (h)", {"group": [{"hour": "written", "name": "h"}]}, "hour"),
    ("h Int64, n Uint64, PRIMARY KEY (h)", {"group": [{"day": "written", "name": "h"}]}, "day"),
]


@pytest.mark.parametrize(("columns", "change", "words"), MISFITS)
def test_tables_that_do_not_fit(tables: Tables, http: Http, columns: str, change: dict[str, Any], words: str) -> None:
    tables.run(f"CREATE TABLE totals ({columns})")
    roll_up = {"into": "ydb:/local/totals", "group": ["/k"], "count": "n", **change}
    answer = http("POST", "/_mayfly/lifecycle", {"target": "ydb:/local/source", "roll_up": roll_up})
    assert (answer.status, words in str(answer.json)) == (400, True), answer


def insert(tables: Tables, *rows: str) -> None:
    for n, row in enumerate(rows):
        tables.run(f"UPSERT INTO source (id, k, i, u, d, f, e, at) VALUES ({n}, {row}, CAST('{START}' AS Timestamp))")


def test_numbers_of_rows(tables: Tables, server: RunningServer) -> None:
    tables.run(
        "CREATE TABLE totals (k Utf8, h Timestamp, d Date, m Utf8, n Int32, i Int64, u Uint64, x Double, f Float, "
        "e Decimal(22,2), PRIMARY KEY (h, k, d, m))"
    )
    units = [{"hour": "deadline", "name": "h"}, {"day": "deadline", "name": "d"}, {"month": "deadline", "name": "m"}]
    sums = {name: f"/{name}" for name in "iufe"} | {"x": "/d"}
    server.set_lifecycle(
        "ydb:/local/source", roll_up={"into": "ydb:/local/totals", "group": ["/k", *units], "count": "n", "sum": sums}
    )
    insert(
        tables,
        "'a'u, 2147483647, 5, 0.5, Float('0.25'), Decimal('0.10', 10, 2)",
        "'a'u, 2147483647, 6, Double('inf'), Float('0.5'), Decimal('0.20', 10, 2)",
        "NULL, NULL, NULL, NULL, NULL, Decimal('nan', 10, 2)",
    )
    server.clock.advance(hours=2)
    nulls, found = sorted(tables.run("SELECT * FROM totals"), key=lambda row: row["k"] or "")
    assert (nulls["n"], *[nulls[name] for name in "iuxfe"]) == (1, None, None, None, None, None)
    assert (found["n"], found["i"], found["u"], found["x"], found["f"], found["e"]) == (
        2, 2 * (2**31 - 1), 11, 0.5, 0.75, Decimal("0.30"),
    )  # fmt: skip
    assert (found["h"], str(found["d"]), found["m"]) == (NOW.replace(tzinfo=None), "2030-01-01", "2030-01")


def test_a_sum_that_leaves_its_column_holds_the_purge(tables: Tables, server: RunningServer) -> None:
    tables.run("CREATE TABLE totals (k Utf8, s Int32, PRIMARY KEY (k))")
    server.set_lifecycle(
        "ydb:/local/source", roll_up={"into": "ydb:/local/totals", "group": ["/k"], "sum": {"s": "/i"}}
    )
    row = "'a'u, 2147483647, 5, 0.5, Float('0.25'), Decimal('0.10', 10, 2)"
    insert(tables, row, row)
    server.clock.advance(hours=2)
    assert (server.purge()["held"], tables.run("SELECT * FROM totals")) == (["ydb:/local/source"], [])
    tables.run("DROP TABLE totals")
    tables.run("CREATE TABLE totals (k Utf8, s Int64, PRIMARY KEY (k))")
    server.purge()
    assert [row["s"] for row in tables.run("SELECT * FROM totals")] == [2 * (2**31 - 1)]
