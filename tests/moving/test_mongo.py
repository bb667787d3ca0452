"""Collections of MongoDB, moved: indexes, uniqueness, options, users, and how long each document has left to live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, WriteError

from mayflydb.cli.main import mayfly
from mayflydb.config import file_url
from mayflydb.embedded import RunningServer, serve
from postgres_cluster import Cluster

START = "2030-01-01T00:00:00Z"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
DOCUMENTS = [
    {"_id": "default", "n": 1, "tags": ["a", "b"]},
    {"_id": "own", "n": 2, "ttl": Int64(600), "tags": ["b"]},
    {"_id": "never", "n": 3, "ttl": -1},
    {"_id": "ignored", "n": 4, "ttl": 20.5},
    {"_id": "dated", "n": 5, "ttl": -1, "at": [NOW, datetime(2029, 1, 1, tzinfo=UTC)]},
    {"_id": {"a": [1, 2.5]}, "n": 6, "ttl": -1, "at": NOW},
]
LIVES = {
    "default": 3600,
    "own": 600,
    "never": None,
    "ignored": 3600,
    "dated": None,
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("MAYFLY_STORAGE_URL", raising=False)


@contextmanager
def served(url: str, **options: Any) -> Iterator[tuple[RunningServer, MongoClient[dict[str, Any]]]]:
    options = {"storage": url, "port": 0, "mongo_port": 0, "clock": "virtual", "allow_time_travel": True, **options}
    with serve(**options) as server, server.mongo.client() as client:
        yield server, client


def fill(client: MongoClient[dict[str, Any]]) -> None:
    shop = client.shop
    shop.create_collection("otps", validator={"n": {"$gt": 0}}, collation={"locale": "en", "strength": 2})
    otps = shop.otps
    otps.create_index("at", expireAfterSeconds=400 * 24 * 3600)
    otps.create_index("n", unique=True)
    otps.create_index("tags", sparse=True)
    otps.create_index([("n", -1), ("tags", 1)], name="both", partialFilterExpression={"n": {"$gt": 1}})
    otps.create_index("gone")
    otps.insert_many(DOCUMENTS)
    # Another version, and an index that came when the documents were there.
    otps.update_one({"_id": "own"}, {"$set": {"more": "x" * 5000}})
    otps.create_index("_ts", expireAfterSeconds=3600)
    otps.drop_index("gone_1")
    readings = shop.create_collection(
        "readings", timeseries={"timeField": "at", "metaField": "m"}, expireAfterSeconds=300 * 24 * 3600
    )
    readings.insert_many([{"_id": 1, "at": NOW, "m": n % 2, "n": n} for n in range(5)])
    shop.create_collection("seen", viewOn="otps", pipeline=[{"$match": {"n": {"$gt": 3}}}])
    client.admin.command("createUser", "ann", pwd="secret of ann", roles=[{"role": "read", "db": "shop"}])


def shape(server: RunningServer, client: MongoClient[dict[str, Any]]) -> dict[str, Any]:
    """What must be the same, as clients and the admin API see it."""
    shop = client.shop
    users = client.admin.command("usersInfo", {"user": "ann", "db": "admin"}, showCredentials=True)["users"]
    return {
        "documents": list(shop.otps.find().sort("n")),
        "indexes": shop.otps.index_information(),
        "collections": sorted(map(str, shop.list_collections())),
        "readings": list(shop.readings.find({"_id": 1}).sort("n")),
        "buckets": shop.command("collStats", "readings")["timeseries"]["bucketCount"],
        "seen": [each["_id"] for each in shop.seen.find()],
        "by tags": sorted(each["n"] for each in shop.otps.find({"tags": "b"}).hint("tags_1")),
        "by both": [each["n"] for each in shop.otps.find({"n": {"$gt": 1}}).hint("both")],
        "users": str(users),
        "sleep": server._admin.engine.monitor.sleep,
        "due": server._home.call(server._admin.reports.list_containers()),
        "events ahead": server.clock.next_expiry(),
    }


def moved(arguments: list[str]) -> None:
    result = CliRunner().invoke(mayfly, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["records"] >= len(DOCUMENTS)


def check_lives(server: RunningServer, client: MongoClient[dict[str, Any]]) -> None:
    """Each goes at its own second, and uniqueness and validation hold."""
    otps = client.shop.otps
    with pytest.raises(DuplicateKeyError):
        otps.insert_one({"n": 5})
    with pytest.raises(WriteError):
        otps.insert_one({"n": -1})
    there = {"default", "own", "never", "ignored", "dated"}
    for seconds in sorted({each for each in LIVES.values() if each is not None}):
        server.clock.set(datetime.fromtimestamp(NOW.timestamp() + seconds - 1, UTC))
        assert there <= {str(each) for each in otps.distinct("_id")}
        server.clock.advance(seconds=1)
        there -= {id for id, life in LIVES.items() if life == seconds}
        assert {str(each) for each in otps.distinct("_id")} & LIVES.keys() == there
    # 400 days from the earlier of its dates; the other one from its only one.
    for days, left in ((34, ["dated", {"a": [1, 2.5]}]), (35, [{"a": [1, 2.5]}]), (400, [])):
        server.clock.set(datetime.fromtimestamp(NOW.timestamp() + days * 86400, UTC))
        assert [each["_id"] for each in otps.find({"at": {"$exists": True}}).sort("n")] == left
    assert [each["_id"] for each in otps.find()] == ["never"]


@pytest.mark.parametrize("way", ["copy", "file"])
def test_everything_is_as_it_was(tmp_path: Path, postgres: Cluster, way: str) -> None:
    """From a file to PostgreSQL and back, or through an export."""
    first, last = file_url(tmp_path / "first.db"), file_url(tmp_path / "last.db")
    with served(first, clock_start=START) as (server, client):
        fill(client)
        engine = server._admin.engine
        server._home.call(engine.monitor.set_sleep(7, server._home.call(engine.now())))
        wanted = shape(server, client)
    if way == "copy":
        between = postgres.fresh()
        moved(["copy", first, between])
        moved(["copy", between, last])
    else:
        moved(["data", "export", "all.mayfly", "--storage", first])
        moved(["data", "import", "all.mayfly", "--storage", last])
    with served(last) as (server, client):
        server.clock.set(server.clock.now())
        found = shape(server, client)
        # Clocks go on from a whole second that nobody has seen yet.
        for row in (*wanted["due"]["targets"], *found["due"]["targets"]):
            row.pop("next_pass")
        wanted["due"].pop("now"), found["due"].pop("now")
        assert found == wanted
        assert found["sleep"] == 7
        check_lives(server, client)
