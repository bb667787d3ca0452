"""Changefeeds as the vendor's reader sees them: erasures by TTL on both sides of each boundary, on every store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ydb_world import HOUR, MINUTE, SECOND, T, YdbWorld

pytestmark = pytest.mark.everywhere

TABLE = """CREATE TABLE t (id Uint64, n Int32, at Timestamp, PRIMARY KEY (id),
    CHANGEFEED f WITH (MODE = 'NEW_AND_OLD_IMAGES', FORMAT = 'JSON', USER_SIDS = TRUE, VIRTUAL_TIMESTAMPS = TRUE))
    WITH (TTL = Interval('PT1H') ON at)"""


class Feed:
    """A consumer of one changefeed, which remembers where it has come to."""

    def __init__(self, world: YdbWorld, path: str, consumer: str = "c") -> None:
        self.world, self.path, self.consumer = world, path, consumer
        world.do(f"ALTER TOPIC `{path}` ADD CONSUMER {consumer}")

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next records; there are exactly so many."""
        with self.world.driver.topic_client.reader(self.path, self.consumer) as reader:
            found = []
            for _ in range(count):
                message = reader.receive_message(timeout=20)
                found.append(json.loads(message.data))
                reader.commit_with_ack(message)
            assert self.left() == 0
        return found

    def left(self) -> int:
        """How many records are written and not committed."""
        described = self.world.driver.topic_client.describe_topic(self.path, include_stats=True)
        ends = sum(each.partition_stats.partition_end for each in described.partitions)
        told = self.world.driver.topic_client.describe_consumer(self.path, self.consumer, include_stats=True)
        return int(ends - sum(each.partition_consumer_stats.committed_offset for each in told.partitions))


def erased(key: int, image: dict[str, Any], user: str = "ttl@system") -> dict[str, Any]:
    return {"erase": {}, "key": [key], "oldImage": image, "user": user}


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name != "ts"} for record in records]


def test_an_erasure_is_told_by_the_run_that_erases(world: YdbWorld) -> None:
    world.do(TABLE)
    feed = Feed(world, "t/f")
    world.do("UPSERT INTO t (id, n, at) VALUES (1, 1, Timestamp('2030-01-01T00:00:00Z'))")
    image = {"n": 1, "at": "2030-01-01T00:00:00.000000Z"}
    assert without_times(feed.take(1)) == [{"update": {}, "key": [1], "newImage": image, "user": "root@builtin"}]
    # Due at 01:00:00, and erased by the next run; runs are an hour apart, at full ticks.
    world.to(HOUR * SECOND - 1)
    assert feed.left() == 0
    world.to(HOUR * SECOND)
    assert (world.ids("t"), feed.left()) == ([1], 0)
    assert world.advance(HOUR) == {"t": 1}
    (record,) = feed.take(1)
    at, _ = record.pop("ts")
    assert record == erased(1, image)
    (ran, *_) = world.ran("t")
    assert at == (T + (ran or 0)) * 1000


def test_a_refreshed_row_is_not_told_as_erased(world: YdbWorld) -> None:
    world.do(TABLE)
    feed = Feed(world, "t/f")
    world.do(
        "UPSERT INTO t (id, at) VALUES (1, Timestamp('2030-01-01T00:00:00Z')), (2, Timestamp('2030-01-01T00:00:00Z'))"
    )
    world.to(HOUR * SECOND)
    world.do("UPSERT INTO t (id, at) VALUES (1, Timestamp('2030-01-01T01:00:00Z'))")
    world.advance(HOUR)
    assert [next(iter(record.keys() & {"update", "erase"})) for record in feed.take(4)] == [
        "update",
        "update",
        "update",
        "erase",
    ]
    assert world.ids("t") == [1]


def test_a_delete_by_a_client_names_the_client(world: YdbWorld) -> None:
    world.do(TABLE)
    feed = Feed(world, "t/f")
    world.do("UPSERT INTO t (id, n) VALUES (1, 1)", "DELETE FROM t WHERE id = 1", "DELETE FROM t WHERE id = 1")
    assert without_times(feed.take(2))[1] == erased(1, {"n": 1, "at": None}, "root@builtin")


def test_transactions_and_verbs(world: YdbWorld) -> None:
    world.do("CREATE TABLE t (id Uint64, n Int32, s Utf8, PRIMARY KEY (id))")
    world.do("ALTER TABLE t ADD CHANGEFEED f WITH (MODE = 'UPDATES', FORMAT = 'JSON')")
    feed = Feed(world, "t/f")

    def change(transaction: Any) -> None:
        for text in ("UPSERT INTO t (id, n) VALUES (1, 1)", "REPLACE INTO t (id, n) VALUES (2, 2)"):
            with transaction.execute(text):
                pass
        with transaction.execute("UPDATE t SET s = 'x' WHERE id = 1", commit_tx=True):
            pass

    world.pool.retry_tx_sync(change)
    world.do("INSERT INTO t (id, s) VALUES (3, 'y')")
    assert feed.take(4) == [
        {"update": {"n": 1}, "key": [1]},
        {"reset": {"n": 2}, "key": [2]},
        {"update": {"s": "x"}, "key": [1]},
        {"update": {"s": "y"}, "key": [3]},
    ]

    def undo(transaction: Any) -> None:
        with transaction.execute("UPSERT INTO t (id, n) VALUES (4, 4)"):
            pass
        raise RuntimeError

    with pytest.raises(RuntimeError):
        world.pool.retry_tx_sync(undo)
    with pytest.raises(world.ydb.Error):
        world.do("INSERT INTO t (id, n) VALUES (5, 5), (1, 1)")
    assert feed.left() == 0


def test_an_initial_scan_tells_each_row_once(world: YdbWorld) -> None:
    world.do("CREATE TABLE t (id Uint64, n Int32, PRIMARY KEY (id))")
    rows = ",".join(f"({n}, 0)" for n in range(400))
    world.do(f"UPSERT INTO t (id, n) VALUES {rows}")
    world.do("ALTER TABLE t ADD CHANGEFEED f WITH (MODE = 'NEW_IMAGE', FORMAT = 'JSON', INITIAL_SCAN = TRUE)")
    # Beside the scan, or after it.
    world.do(
        "UPDATE t SET n = 1 WHERE id % 100 = 99", "DELETE FROM t WHERE id = 7", "UPSERT INTO t (id, n) VALUES (400, 5)"
    )
    feed = Feed(world, "t/f")
    state: dict[int, list[int | None]] = {}
    for record in feed.take(400 + 4 + 1 + 1):
        (key,) = record["key"]
        state.setdefault(key, []).append(None if "erase" in record else record["newImage"]["n"])
    assert state.pop(7) == [0, None]
    assert state.pop(400) == [5]
    assert state == {n: [0, 1] if n % 100 == 99 else [0] for n in range(400) if n != 7}


def test_records_end_by_the_retention_of_the_feed(world: YdbWorld) -> None:
    world.do("CREATE TABLE t (id Uint64, PRIMARY KEY (id))")
    world.do(
        "ALTER TABLE t ADD CHANGEFEED f WITH (MODE = 'KEYS_ONLY', FORMAT = 'JSON', RETENTION_PERIOD = Interval('PT10M'))"
    )
    feed, late = Feed(world, "t/f"), Feed(world, "t/f", "late")
    world.do("UPSERT INTO t (id) VALUES (1)")
    world.to(10 * MINUTE * SECOND - 1)
    assert [record["key"] for record in feed.take(1)] == [[1]]
    world.to(10 * MINUTE * SECOND)
    world.do("UPSERT INTO t (id) VALUES (2)")
    # The first record is over; reading goes on behind it, and no offset is used again.
    with world.driver.topic_client.reader("t/f", late.consumer) as reader:
        message = reader.receive_message(timeout=20)
        assert (json.loads(message.data)["key"], message.offset) == ([2], 1)


def test_two_runs_tell_the_same(world: YdbWorld) -> None:
    def run() -> list[dict[str, Any]]:
        world.begin()
        world.do(TABLE)
        feed = Feed(world, "t/f")
        for n in range(5):
            world.do(f"UPSERT INTO t (id, n, at) VALUES ({n}, {n}, CurrentUtcTimestamp())")
            world.advance(20 * MINUTE)
        world.advance(3 * HOUR)
        return feed.take(10)

    first, second = run(), run()
    assert [record["key"] for record in first if "erase" in record] == [[n] for n in range(5)]
    # Numbers of transactions go on where they were; their instants and all else are the same.
    assert without_times(first) == without_times(second)
    assert [record["ts"][0] for record in first] == [record["ts"][0] for record in second]
    numbers = [record["ts"] for record in first]
    assert numbers == sorted(numbers)
