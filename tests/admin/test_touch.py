"""Sliding expiry: a read gives a record a new life, as clients of all three protocols see it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from mayflydb.embedded import RunningServer
from mayflydb.engine.lifecycle.accesses import MOST_NOTES, Accesses
from mayflydb.model.errors import OutOfSpace
from served import START, Http

TARGETS = {"cosmos": "cosmos:shop/sessions", "mongo": "mongo:app.otps", "ydb": "ydb:/local/carts"}
NOW = datetime.fromisoformat(START)


class Site:
    """A container of each protocol with two records, which live for 100 s; reads count each 20 s."""

    def __init__(self, server: RunningServer, http: Http) -> None:
        self.server, self.http = server, http
        self.clock = server.clock
        shop = server.cosmos.client().create_database("shop")
        self.sessions = shop.create_container("sessions", partition_key=PartitionKey("/id"), default_ttl=100)
        self.otps = server.mongo.client()["app"]["otps"]
        self.otps.create_index("at", expireAfterSeconds=100)
        self.otps.create_index("code")
        self.driver = server.ydb.driver()
        self.query(
            'CREATE TABLE carts (id Int64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT100S") ON until)'
        )
        for n in range(2):
            self.sessions.create_item({"id": str(n)})
            self.otps.insert_one({"_id": n, "at": NOW, "code": f"c{n}"})
            self.query(f"UPSERT INTO carts (id, until) VALUES ({n}, CAST('{START}' AS Timestamp))")
        for target in TARGETS.values():
            http.post("lifecycle", target=target, touch="20s")

    def query(self, text: str) -> list[Any]:
        import ydb

        with ydb.QuerySessionPool(self.driver) as pool:
            return list(pool.execute_with_retries(text))

    def read(self, n: int = 0) -> dict[str, bool]:
        """Read one record by its key in each protocol; True: it is there."""
        try:
            item = bool(self.sessions.read_item(str(n), str(n)))
        except CosmosResourceNotFoundError:
            item = False
        rows = self.query(f"SELECT id FROM carts WHERE id = {n}")[0].rows
        return {"cosmos": item, "mongo": self.otps.find_one({"_id": n}) is not None, "ydb": bool(rows)}

    def deadlines(self, n: int = 0) -> dict[str, int]:
        """The seconds from the start to the deadline of a record."""
        found = {}
        for name, target in TARGETS.items():
            pk = f"&pk={n}" if name == "cosmos" else ""
            told = self.http.get(f"ttl/explain?target={target}&id={n}{pk}")["deadline"]
            found[name] = round((datetime.fromisoformat(told) - NOW).total_seconds())
        return found


@pytest.fixture
def site(server: RunningServer, http: Http) -> Iterator[Site]:
    made = Site(server, http)
    yield made
    made.otps.database.client.close()
    made.driver.stop()


def everywhere(value: object) -> dict[str, object]:
    return dict.fromkeys(TARGETS, value)


def test_a_record_that_is_read_lives_on_and_another_does_not(site: Site) -> None:
    for _ in range(3):
        site.clock.advance(seconds=80)
        assert site.read() == everywhere(True)
    site.clock.advance(seconds=0)
    assert site.deadlines() == everywhere(340)
    assert site.read(1)["cosmos"] is False
    site.clock.advance(seconds=99)
    # A query without key and index reads records, and gives them no life.
    assert len(site.otps.find({"x": None}).to_list()) >= 1
    assert [each["id"] for each in site.sessions.read_all_items()] == ["0"]
    site.clock.advance(hours=2)
    assert site.read() == everywhere(False)


def test_reads_within_the_interval_write_nothing(site: Site) -> None:
    site.clock.advance(seconds=19)
    assert site.read() == everywhere(True)
    site.clock.advance(seconds=0)
    assert site.deadlines() == everywhere(100)
    site.clock.advance(seconds=1)
    site.read()
    site.clock.advance(seconds=0)
    assert site.deadlines() == everywhere(120)


def test_version_and_content_stay(site: Site) -> None:
    before = site.sessions.read_item("0", "0")
    site.clock.advance(seconds=50)
    after = site.sessions.read_item("0", "0")
    site.clock.advance(seconds=40)
    assert site.deadlines()["cosmos"] == 150
    assert after == before == site.sessions.read_item("0", "0")
    # A client that knows the etag may write.
    from azure.core import MatchConditions

    site.sessions.replace_item(
        "0", {"id": "0", "a": 1}, etag=before["_etag"], match_condition=MatchConditions.IfNotModified
    )
    site.otps.find_one({"_id": 0})
    assert site.otps.find_one({"_id": 0})["at"] == NOW.replace(tzinfo=None)  # type: ignore[index]


def test_a_find_by_an_index_is_a_read(site: Site) -> None:
    site.clock.advance(seconds=50)
    assert site.otps.find_one({"code": "c1"}) is not None
    assert site.otps.find({"code": {"$gte": "c0"}}).sort("code", 1).limit(1).to_list()[0]["_id"] == 0
    site.clock.advance(seconds=0)
    assert (site.deadlines(0)["mongo"], site.deadlines(1)["mongo"]) == (150, 150)


def test_a_read_as_of_a_later_instant_and_a_portal_prolong_nothing(site: Site) -> None:
    site.clock.advance(seconds=50)
    later = "2030-01-01T00:01:10Z"
    site.sessions.read_item("0", "0", headers={"x-mayfly-as-of": later})
    site.otps.find_one({"_id": 0}, comment={"mayflyAsOf": datetime.fromisoformat(later)})
    site.query(f'PRAGMA mayfly.AsOf = "{later}"; SELECT id FROM carts WHERE id = 0')
    site.http.get("data/export?target=mongo:app.otps")
    site.clock.advance(seconds=0)
    assert site.deadlines() == everywhere(100)


def test_a_date_that_lies_ahead_is_not_moved_back(site: Site) -> None:
    site.http.post("lifecycle", target=TARGETS["mongo"], touch="1s")
    site.otps.insert_one({"_id": 7, "at": datetime.fromisoformat("2030-01-01T01:00:00Z")})
    site.otps.find_one({"_id": 7})
    site.clock.advance(seconds=0)
    assert round(site.deadlines(0)["mongo"]) == 100
    told = site.http.get("ttl/explain?target=mongo:app.otps&id=7")["deadline"]
    assert told == "2030-01-01T01:01:40Z"


def test_a_record_at_its_own_date_does_not_slide(site: Site) -> None:
    site.otps.drop_indexes()
    site.otps.create_index("at", expireAfterSeconds=0)
    site.otps.insert_one({"_id": 8, "at": datetime.fromisoformat("2030-01-01T00:02:00Z")})
    site.clock.advance(seconds=119)
    assert site.otps.find_one({"_id": 8}) is not None
    site.clock.advance(minutes=2)
    assert site.otps.find_one({"_id": 8}) is None


def test_reads_answer_where_nothing_can_be_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = site.server._admin.engine
    missed = engine.accesses.missed

    async def refuse(*_: object) -> None:
        raise OutOfSpace("the disk is full")

    monkeypatch.setattr(engine.accesses, "_transact", refuse)
    site.clock.advance(seconds=50)
    assert site.read() == everywhere(True)
    site.clock.advance(seconds=0)
    assert (site.deadlines(), engine.accesses.missed - missed) == (everywhere(100), 3)


@pytest.mark.parametrize("seed", range(3))
def test_random_reads_are_those_of_the_model(site: Site, seed: int) -> None:
    """A record lives for 100 s after its last counted read, and a read counts 20 s after the last counted one."""
    chance = random.Random(seed)
    counted, now = 0, 0
    while True:
        step = chance.choice([1, 5, 19, 20, 21, 60, 99, 100])
        site.clock.advance(seconds=step)
        now += step
        is_alive = now < counted + 100
        try:
            site.sessions.read_item("0", "0")
            assert is_alive, (seed, now)
        except CosmosResourceNotFoundError:
            assert not is_alive, (seed, now)
            break
        if now - counted >= 20:
            counted = now


def test_notes_have_a_limit() -> None:
    accesses = Accesses.__new__(Accesses)
    accesses._notes = {(1, (b"p", b"%d" % n)): 0 for n in range(MOST_NOTES)}
    accesses.missed = 0
    accesses._add((1, (b"p", b"more")), 5)
    assert (accesses.missed, len(accesses._notes)) == (1, MOST_NOTES)
