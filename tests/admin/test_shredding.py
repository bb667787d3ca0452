"""Crypto-shredding over a file, as clients of all three protocols and operators see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import ydb
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from click.testing import CliRunner
from pymongo import MongoClient, ReturnDocument
from pymongo.errors import OperationFailure

from engine.test_shredding import keys_of, revealed
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

TARGETS = {"cosmos": "cosmos:shop/sessions", "mongo": "mongo:app.otps", "ydb": "ydb:/local/carts"}
NOW = datetime.fromisoformat(START)
SECRET = "gooseberry"


class Site:
    """A container of each protocol, whose records live for 100 s."""

    def __init__(self, path: Path, server: RunningServer) -> None:
        self.path, self.server, self.http, self.clock = path, server, Http(port_of(server)), server.clock
        shop = server.cosmos.client().create_database("shop")
        self.sessions = shop.create_container("sessions", partition_key=PartitionKey("/id"), default_ttl=100)
        self.mongo: MongoClient[dict[str, Any]] = server.mongo.client()
        self.otps = self.mongo["app"]["otps"]
        self.otps.create_index("at", expireAfterSeconds=100)
        self.driver = server.ydb.driver()
        self.query(
            "CREATE TABLE carts (id Int64, word Utf8, until Timestamp, PRIMARY KEY (id))"
            ' WITH (TTL = Interval("PT100S") ON until)'
        )

    def query(self, text: str) -> list[Any]:
        with ydb.QuerySessionPool(self.driver) as pool:
            return list(pool.execute_with_retries(text))

    def shred(self, shred: str = "day", *names: str) -> list[Any]:
        return [self.http.post("lifecycle", target=TARGETS[name], shred=shred) for name in names or TARGETS]

    def write(self, n: int, word: str) -> None:
        at = datetime.fromisoformat(self.clock.now().isoformat())
        self.sessions.upsert_item({"id": str(n), "word": word})
        self.otps.replace_one({"_id": n}, {"at": at, "word": word}, upsert=True)
        self.query(
            f'UPSERT INTO carts (id, word, until) VALUES ({n}, "{word}", CAST("{at.isoformat()[:19]}Z" AS Timestamp))'
        )

    def read(self) -> dict[str, list[str]]:
        rows = self.query("SELECT word FROM carts ORDER BY id")
        return {
            "cosmos": [each["word"] for each in self.sessions.read_all_items()],
            "mongo": [each["word"] for each in self.otps.find().sort("_id", 1)],
            "ydb": [row.word for part in rows for row in part.rows],
        }

    def save(self) -> Path:
        self.http("PUT", "/_mayfly/snapshots/copy")
        return Path(f"{self.path}-snapshots/copy.snapshot")

    @property
    def keys(self) -> list[bytes]:
        return keys_of(self.path)

    def forget(self) -> None:
        """Let nothing be answered from memory."""
        self.server._admin.engine.store._transaction.recent.clear()  # type: ignore[attr-defined]


def everywhere(*words: str) -> dict[str, list[str]]:
    return {name: list(words) for name in TARGETS}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path / "mayfly.db") as made:
        yield made


@contextmanager
def serving(path: Path) -> Iterator[Site]:
    with serve(path, port=0, clock="virtual", clock_start=START, erasure_log=True, index_after=1) as server:
        made = Site(path, server)
        yield made
        made.mongo.close()
        made.driver.stop()


def test_clients_read_and_write_sealed_records(site: Site) -> None:
    assert [each["shred"] for each in site.shred()] == ["day"] * 3
    for n in range(3):
        site.write(n, f"{SECRET} {n}")
    site.forget()
    assert site.read() == everywhere(*(f"{SECRET} {n}" for n in range(3)))
    assert site.otps.find_one({"word": f"{SECRET} 1"}) is not None
    found = site.sessions.query_items(
        "SELECT c.id FROM c WHERE c.word = 'gooseberry 2'", enable_cross_partition_query=True
    )
    assert [each["id"] for each in found] == ["2"]
    site.otps.update_one({"_id": 0}, {"$set": {"word": "other"}})
    with site.mongo.start_session() as session, session.start_transaction():
        site.otps.update_one({"_id": 1}, {"$set": {"word": "other"}}, session=session)
        site.forget()
        assert [each["word"] for each in site.otps.find({}, session=session).sort("_id", 1)] == [
            "other", "other", f"{SECRET} 2",
        ]  # fmt: skip
    with site.mongo.start_session() as session, session.start_transaction():
        before = site.otps.find_one({"_id": 2}, session=session)
        site.clock.advance(seconds=101)
        site.http.post("lifecycle", target=TARGETS["mongo"], shred="day")
        site.forget()
        assert before is not None
        assert site.otps.find_one({"_id": 2}, session=session) == before
    copy = site.save()
    assert b"gooseberry" not in copy.read_bytes()


def test_a_snapshot_is_noise_when_its_day_has_expired(site: Site) -> None:
    site.shred()
    site.write(1, f"{SECRET} 1")
    # The answer of a retryable write holds the document.
    site.otps.find_one_and_update({"_id": 1}, {"$set": {"n": 1}}, return_document=ReturnDocument.AFTER)
    copy = site.save()
    assert b"gooseberry" not in copy.read_bytes()
    assert sum(b"gooseberry" in value for value in revealed(copy, site.keys)) == 4
    site.clock.advance(hours=25)
    site.write(2, "new")
    site.clock.advance(seconds=0)
    assert site.read() == everywhere("new")
    shown = site.http.get("lifecycle")["targets"]
    assert [(each["keys"], each["unsealed"]) for each in shown if each["target"] in TARGETS.values()] == [(1, 0)] * 3
    opened = revealed(copy, site.keys)
    assert {value for value in opened if b"gooseberry" in value and b"txnNum" not in value} == set()
    assert site.http.post("snapshots/copy/restore")["shredded"] == 3
    assert site.read() == everywhere()


def test_the_erasure_log_tells_of_destroyed_keys(site: Site) -> None:
    site.shred("day", "cosmos", "mongo")
    site.sessions.upsert_item({"id": "1"})
    site.otps.insert_one({"_id": 1, "at": NOW})
    site.clock.advance(hours=25)
    run = CliRunner()
    for _ in range(1_000):
        report = run.invoke(mayfly, ["--url", site.server.admin_url, "-o", "json", "erasure", "report"])
        assert report.exit_code == 0, report.output
        if json.loads(report.stdout)["shredded"] == 2:
            break
    lines: list[Any] = []
    after = 0
    while (page := site.http.get(f"erasure/lines?after={after}"))["last"] != after:
        lines += map(json.loads, page["lines"])
        after = page["last"]
    told = [(each["kind"], each["path"], each.get("day")) for each in lines if each["kind"] in ("erased", "shredded")]
    assert sorted(told[:2]) == [
        ("erased", ["cosmos", "shop", "sessions"], None),
        ("erased", ["mongo", "app", "otps"], None),
    ]
    assert sorted(told[2:]) == [
        ("shredded", ["cosmos", "shop", "sessions"], "2030-01-01"),
        ("shredded", ["mongo", "app", "otps"], "2030-01-01"),
    ]
    keys = [key.hex() for key in site.keys if any(key)]
    assert keys
    assert not any(key in json.dumps(lines) for key in keys)


@pytest.mark.parametrize("shred", ["day", "off"])
def test_no_index_of_sealed_items_is_built_unasked(site: Site, shred: str) -> None:
    site.shred(shred, "cosmos")
    for n in range(9):
        site.sessions.upsert_item({"id": str(n), "word": f"{SECRET} {n}"})
    for _ in range(3):
        found = site.sessions.query_items(
            f"SELECT c.id FROM c WHERE c.word = '{SECRET} 2'", enable_cross_partition_query=True
        )
        assert [each["id"] for each in found] == ["2"]
    assert (SECRET.encode() in site.save().read_bytes()) is (shred == "off")


def test_undelete_and_touch_keep_records_readable(site: Site) -> None:
    site.shred("day", "cosmos")
    site.http.post("lifecycle", target=TARGETS["cosmos"], grace="7d", touch="1s")
    site.sessions.upsert_item({"id": "1", "word": "kept"})
    site.clock.advance(days=3)
    assert list(site.sessions.read_all_items()) == []
    site.http.post("undelete", target=TARGETS["cosmos"])
    site.clock.advance(seconds=50)
    site.forget()
    assert site.sessions.read_item("1", "1")["word"] == "kept"
    site.clock.advance(seconds=80)
    site.forget()
    assert site.sessions.read_item("1", "1")["word"] == "kept"
    # The undelete has written it anew: the key of its first day is gone.
    assert site.http.get("lifecycle?target=" + TARGETS["cosmos"])["targets"][0]["keys"] == 1
    site.clock.advance(days=9)
    assert list(site.sessions.read_all_items()) == []


@pytest.mark.parametrize("kept", [{"last_image": "1d"}, {"history": "1d"}])
def test_versions_that_are_kept_and_sealed_records_exclude_each_other(site: Site, kept: dict[str, str]) -> None:
    target = "cosmos:shop/sessions"
    site.http.post("lifecycle", target=target, **kept)
    refusal = site.http("POST", "/_mayfly/lifecycle", {"target": target, "shred": "day"})
    assert (refusal.status, "keeps no version" in refusal.body.decode()) == (400, True)
    site.http.post("lifecycle", target=target, shred="day", **dict.fromkeys(kept, "0s"))
    assert site.http("POST", "/_mayfly/lifecycle", {"target": target, **kept}).status == 400
    hold = {"target": target, "name": "case", "why": "a case", "by": "Ada"}
    assert site.http("POST", "/_mayfly/holds", hold).status == 400
    site.http.post("lifecycle", target=target, shred="off")
    assert site.http("POST", "/_mayfly/holds", hold).status == 200
    assert site.http("POST", "/_mayfly/lifecycle", {"target": target, "shred": "day"}).status == 400
    site.http.post("hold-release", name="case", why="over", by="Ada")


def test_histories_and_sealed_records_exclude_each_other(site: Site) -> None:
    site.shred("day", "mongo", "cosmos")
    site.otps.insert_one({"_id": 1})
    for watched in (site.otps, site.mongo["app"], site.mongo):
        with pytest.raises(OperationFailure, match="shreds its records") as refused:
            watched.watch()
        assert refused.value.code == 115
    site.mongo["app"]["other"].watch().close()
    seen = site.mongo["seen"]["docs"]
    seen.insert_one({"_id": 1})
    seen.watch().close()
    refusal = site.http("POST", "/_mayfly/lifecycle", {"target": "mongo:seen.docs", "shred": "day"})
    assert refusal.status == 409
    assert "history" in refusal.body.decode()
    shop = site.server.cosmos.client().get_database_client("shop")
    body = {**site.sessions.read(), "changeFeedPolicy": {"retentionDuration": 10}}
    with pytest.raises(CosmosHttpResponseError, match="shreds its records"):
        shop.client_connection.ReplaceContainer("dbs/shop/colls/sessions", body)
    shop.create_container("kept", PartitionKey("/id"), change_feed_policy={"retentionDuration": 10})
    refusal = site.http("POST", "/_mayfly/lifecycle", {"target": "cosmos:shop/kept", "shred": "day"})
    assert refusal.status == 409


def test_a_store_without_keys_refuses(server: RunningServer, http: Http) -> None:
    server.cosmos.client().create_database("shop").create_container("sessions", partition_key=PartitionKey("/id"))
    refusal = http("POST", "/_mayfly/lifecycle", {"target": TARGETS["cosmos"], "shred": "day"})
    assert refusal.status in (400, 501)
    assert "a file of SQLite only" in refusal.body.decode()
    assert http.post("lifecycle", target=TARGETS["cosmos"], grace="1d")["unsealed"] is None


def test_copies_into_other_files(tmp_path: Path) -> None:
    """A copy seals with keys of its own; an export holds plain values, which are sealed again when it is imported."""
    with serving(tmp_path / "mayfly.db") as site:
        site.shred("day", "cosmos")
        site.sessions.upsert_item({"id": "1", "word": f"{SECRET} 1"})
    run = CliRunner()
    source, target = f"sqlite:///{site.path}", tmp_path / "copied.db"
    done = run.invoke(mayfly, ["copy", source, f"sqlite:///{target}"])
    assert done.exit_code == 0, done.output
    assert b"gooseberry" not in target.read_bytes()
    assert not {key for key in site.keys if any(key)} & set(keys_of(target))
    Path(f"{site.path}-keys").rename(tmp_path / "elsewhere")
    done = run.invoke(mayfly, ["copy", source, f"sqlite:///{tmp_path / 'again.db'}"])
    assert done.exit_code != 0
    assert "--storage-key-file" in done.output
    export = tmp_path / "all.mayfly"
    named = {"MAYFLY_STORAGE_KEY_FILE": str(tmp_path / "elsewhere")}
    done = run.invoke(mayfly, ["data", "export", "--storage", source, str(export)], env=named)
    assert done.exit_code == 0, done.output
    imported = tmp_path / "imported.db"
    done = run.invoke(mayfly, ["data", "import", "--storage", f"sqlite:///{imported}", str(export)])
    assert done.exit_code == 0, done.output
    assert b"gooseberry" not in imported.read_bytes()
    for path in (target, imported):
        with serve(path, port=0, clock="virtual", mongo_port=-1, ydb_port=-1) as server:
            container = server.cosmos.client().get_database_client("shop").get_container_client("sessions")
            assert [each["word"] for each in container.read_all_items()] == [f"{SECRET} 1"]
            shown = Http(port_of(server)).get("lifecycle?target=" + TARGETS["cosmos"])["targets"][0]
            assert (shown["shred"], shown["keys"], shown["unsealed"]) == ("day", 1, 0)
            sealed = keys_of(path)[0]
            server.clock.advance(hours=25)
            assert sealed not in keys_of(path)
