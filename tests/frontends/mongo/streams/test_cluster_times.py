"""Cluster times on a clock beyond the 32 bits of seconds of a BSON Timestamp."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from mayflydb.embedded import serve
from mayflydb.frontends.mongo.streams import options

LAST = Timestamp(4_294_967_295, 1)


@pytest.mark.parametrize(
    ("instant", "time"),
    [
        (0, Timestamp(0, 1)),
        (1_893_456_000_000_001, Timestamp(1_893_456_000, 2)),
        (4_294_967_295_999_999, Timestamp(4_294_967_295, 1_000_000)),
        (4_294_967_296_000_000, Timestamp(4_294_967_295, 1_000_001)),
        (4_294_967_356_000_000, Timestamp(4_294_967_295, 1_000_002)),
        (253_402_300_740_000_000, Timestamp(4_294_967_295, 1_000_001 + 4_151_788_890)),
    ],
)
def test_cluster_times_last_until_the_year_9999(instant: int, time: Timestamp) -> None:
    assert options.cluster_time(instant) == time
    before = options.first_instant(time)
    assert before <= instant < before + 60_000_000
    assert options.cluster_time(before) == time


@pytest.mark.parametrize("topology", [{}, {"mongo_topology": "replicaset:rs"}])
def test_beyond_the_seconds_of_a_timestamp(topology: dict[str, str]) -> None:
    """A clock in 2106 and later: writes are answered, and a stream that begins at the time of a reply tells what follows."""
    with (
        serve(
            memory=True, port=0, mongo_port=0, clock="virtual", clock_start="2106-02-07T06:28:10Z", **topology
        ) as server,
        MongoClient[dict[str, Any]](server.mongo.uri) as client,
    ):
        things = client.gossip.things
        things.insert_one({"_id": 0})
        server.clock.advance(days=1)
        before = things.database.command("insert", "things", documents=[{"_id": 1}])["operationTime"]
        server.clock.advance(hours=23)
        with things.watch(start_at_operation_time=before) as stream:
            things.insert_one({"_id": 2, "at": Timestamp(0, 0)})
            things.update_one({"_id": 2}, {"$currentDate": {"since": {"$type": "timestamp"}}})
            events = [stream.try_next() for _ in range(3)]
        assert [None if event is None else event["operationType"] for event in events] == ["insert", "update", None]
        assert things.find_one({"_id": 2}) == {"_id": 2, "at": LAST, "since": LAST}
