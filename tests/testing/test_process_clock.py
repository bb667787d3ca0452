"""A database that follows the clock of its process, which real tools move."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import freezegun
import pytest
import time_machine
import ydb
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosResourceNotFoundError
from pymongo import MongoClient

import mayflydb
from mayflydb.clock import monotonic_us, wall_us
from mayflydb.embedded import RunningServer
from mayflydb.model.errors import Conflict, Forbidden
from mayflydb.model.instant import to_datetime

HOUR = timedelta(hours=1)
START = datetime(2031, 1, 1, tzinfo=UTC)
PAST = datetime(2020, 1, 1, tzinfo=UTC)

Shift = Callable[[timedelta], None]
Travel = Callable[[datetime], AbstractContextManager[Shift]]


@contextmanager
def by_time_machine(to: datetime) -> Iterator[Shift]:
    with time_machine.travel(to, tick=False) as traveller:
        yield traveller.shift


@contextmanager
def by_freezegun(to: datetime) -> Iterator[Shift]:
    with freezegun.freeze_time(to) as frozen:

        def shift(span: timedelta) -> None:
            frozen.tick(span)

        yield shift


@pytest.fixture(params=[by_time_machine, by_freezegun], ids=["time-machine", "freezegun"])
def travel(request: pytest.FixtureRequest) -> Travel:
    found: Travel = request.param
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with mayflydb.serve(memory=True, port=0, mongo_port=0, ydb_port=0, clock="virtual") as server:
            yield server


@pytest.fixture(scope="module")
def mongo(running: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with running.mongo.client(tz_aware=True) as client:
        yield client


@pytest.fixture
def server(running: RunningServer) -> RunningServer:
    running.reset(keep_clock=True)
    running.follow_process()
    return running


def test_items_vanish_in_their_second(server: RunningServer, travel: Travel) -> None:
    with travel(START) as shift:
        database = server.cosmos.client().create_database("shop")
        items = database.create_container("sessions", PartitionKey("/k"), default_ttl=3600)
        items.create_item({"id": "hour", "k": "k"})
        items.create_item({"id": "minute", "k": "k", "ttl": 60})
        shift(timedelta(seconds=59))
        assert items.read_item("minute", "k")
        shift(timedelta(seconds=1))
        with pytest.raises(CosmosResourceNotFoundError):
            items.read_item("minute", "k")
        shift(timedelta(seconds=3539))
        assert [item["id"] for item in items.read_all_items()] == ["hour"]
        shift(timedelta(seconds=1))
        assert list(items.read_all_items()) == []
        assert [(event.id, event.due, event.purged_at) for event in server.events.expired] == [
            ("minute", START + timedelta(minutes=1), START + timedelta(minutes=1)),
            ("hour", START + HOUR, START + HOUR),
        ]
        assert server.clock.now() == datetime.now(UTC) == START + HOUR


def test_documents_vanish_in_their_second(
    server: RunningServer, mongo: MongoClient[dict[str, Any]], travel: Travel
) -> None:
    with travel(START) as shift:
        mongo.app.otps.create_index("_ts", expireAfterSeconds=3600)
        mongo.app.otps.insert_one({"_id": "ts"})
        mongo.app.consents.create_index("until", expireAfterSeconds=0)
        mongo.app.consents.insert_one({"_id": "date", "until": datetime.now(UTC) + HOUR})
        shift(timedelta(seconds=3599))
        assert (mongo.app.otps.count_documents({}), mongo.app.consents.count_documents({})) == (1, 1)
        shift(timedelta(seconds=1))
        assert (mongo.app.otps.count_documents({}), mongo.app.consents.count_documents({})) == (0, 0)
        assert {(event.id, event.purged_at) for event in server.events.expired} == {
            ("ts", START + HOUR),
            ("date", START + HOUR),
        }


def test_rows_vanish_with_a_run(server: RunningServer, travel: Travel) -> None:
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool, travel(START) as shift:
        run = pool.execute_with_retries
        run("CREATE TABLE carts (id Uint64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON until)")
        run("UPSERT INTO carts (id, until) VALUES (1, CurrentUtcTimestamp() + Interval('PT1M'))")
        shift(timedelta(seconds=59))
        assert server.stats()["records"] == 1
        shift(timedelta(hours=2))
        assert run("SELECT COUNT(*) AS n FROM carts")[0].rows[0].n == 0
        [event] = server.events.expired
        assert (event.target, event.due) == ("ydb:/local/carts", START + timedelta(minutes=1))


def test_a_trip_within_a_trip(server: RunningServer, mongo: MongoClient[dict[str, Any]], travel: Travel) -> None:
    notes = mongo.app.notes
    with travel(PAST):
        # Nothing is stored: the database goes back with its process.
        assert server.clock.now() == PAST
        notes.insert_one({"_id": 1})
        with travel(PAST + HOUR):
            assert server.clock.now() == PAST + HOUR
        # Nothing was written on the trip.
        assert server.clock.now() == PAST
        with travel(PAST + HOUR):
            notes.insert_one({"_id": 2})
        # What was written an hour later is here, so the database is an hour later, too.
        assert server.clock.now() == PAST + HOUR
        assert notes.count_documents({}) == 2
        server.reset()
        assert server.clock.now() == PAST
    assert server.clock.now() > START - 20 * 365 * timedelta(days=1)


def test_back_in_the_present(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with by_time_machine(START):
        server.seed({"databases": [{"id": "shop", "containers": [{"id": "c", "partition_key": "/k"}]}]})
        server.snapshot("later")
    assert server.clock.now() == START
    assert "the process's clock went back" in caplog.text
    server.reset()
    now = datetime.now(UTC)
    assert now <= server.clock.now() < START
    with pytest.raises(Conflict, match="which is later than now"):
        server.restore("later")
    with by_time_machine(START + HOUR):
        server.restore("later")
        assert (server.stats()["containers"], server.clock.now()) == (1, START + HOUR)


def test_a_clock_that_ticks(server: RunningServer, mongo: MongoClient[dict[str, Any]]) -> None:
    with time_machine.travel(START, tick=True) as traveller:
        mongo.app.otps.create_index("_ts", expireAfterSeconds=3600)
        mongo.app.otps.insert_one({"_id": 1})
        before = server.clock.now()
        assert START < before < server.clock.now() < START + HOUR
        traveller.shift(HOUR)
        assert mongo.app.otps.count_documents({}) == 0


def test_requests_at_once_wait_for_one_walk(server: RunningServer) -> None:
    with by_time_machine(START) as shift:
        database = server.cosmos.client().create_database("shop")
        items = database.create_container("sessions", PartitionKey("/k"), default_ttl=60)
        found: list[str] = []

        def look() -> None:
            found.extend(item["id"] for item in items.read_all_items())

        for turn in range(4):
            for n in range(5):
                items.create_item({"id": f"{turn}-{n}", "k": "k"})
            shift(timedelta(seconds=60))
            threads = [threading.Thread(target=look) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert found == []
        assert len(server.events.expired) == 20


def test_events_come_without_a_request(server: RunningServer) -> None:
    """The reaper looks at the process's clock as well."""
    sessions = {"id": "s", "partition_key": "/k", "default_ttl": 60, "items": [{"id": "s1", "k": "k"}]}
    with by_time_machine(START) as shift:
        server.seed({"databases": [{"id": "shop", "containers": [sessions]}]})
        with urllib.request.urlopen(f"{server.admin_url}/events?types=expired", timeout=10) as stream:
            shift(timedelta(minutes=1))
            told = next(line for line in stream if line.startswith(b"data:"))
    assert b'"id":"s1"' in told.replace(b" ", b"")


def test_it_is_moved_by_its_process_alone(server: RunningServer) -> None:
    clock = server.clock
    for move in (
        lambda: clock.advance(hours=1),
        lambda: clock.set(START),
        clock.resume,
        clock.advance_to_next_expiry,
    ):
        with pytest.raises(Conflict, match="follows that of the process") as refused:
            move()
        assert "travel with time_machine" in refused.value.__notes__[0]
    with by_time_machine(START):
        clock.now()
        clock.freeze()
    assert clock.now() == START
    clock.advance(hours=1)
    assert clock.now() == START + HOUR


@pytest.mark.parametrize("in_thread", [False, True])
def test_freezegun_is_seen_from_any_thread(in_thread: bool) -> None:
    """It gives real time to callers near the root of a thread, and stops the monotonic clocks that it knows."""
    found: list[int] = []
    with freezegun.freeze_time(PAST.replace(microsecond=123_457)):
        if in_thread:
            thread = threading.Thread(target=lambda: found.append(wall_us()))
            thread.start()
            thread.join()
        else:
            found.append(wall_us())
        before = monotonic_us()
        while monotonic_us() == before:
            pass
        assert monotonic_us() - before < 10_000_000
    assert to_datetime(found[0]) == PAST.replace(microsecond=123_457)


def test_a_file_does_not_follow(tmp_path: Path) -> None:
    with (
        mayflydb.serve(tmp_path / "m.db", port=0, mongo_port=-1, ydb_port=-1, clock="virtual") as server,
        pytest.raises(Forbidden, match="serve memory"),
    ):
        server.follow_process()
