"""Servers whose host time tests move, so that no test waits for an idle limit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

import mayflydb.serving.mongo_port
from mayflydb.clock import monotonic_us
from mayflydb.embedded import RunningServer

NAMES = count(1)


class HostTime:
    """The host's monotonic time, plus the offset that tests have added."""

    def __init__(self) -> None:
        self.moved = 0

    def __call__(self) -> int:
        return monotonic_us() + self.moved

    def pass_seconds(self, seconds: float) -> None:
        self.moved += int(seconds * 1_000_000)


@pytest.fixture(scope="module")
def host_time() -> Iterator[HostTime]:
    time = HostTime()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mayflydb.serving.mongo_port, "monotonic_us", time)
        yield time


@pytest.fixture(scope="module")
def mongo_server(host_time: HostTime, mongo_server: RunningServer) -> RunningServer:
    """Started when the host's time can be moved: its first request, at the start, takes the time along."""
    return mongo_server


@pytest.fixture(scope="module")
def client(host_time: HostTime, mongo_server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with mongo_server.mongo.client(serverSelectionTimeoutMS=5000) as client:
        yield client


@pytest.fixture
def things(client: MongoClient[dict[str, Any]]) -> Collection[dict[str, Any]]:
    """A collection of its own for each test: `_id` 1 to 3, `v` ten times that, and an index on `v`."""
    things = client.shop[f"things{next(NAMES)}"]
    things.create_index("v")
    things.insert_many([{"_id": n, "v": 10 * n} for n in (1, 2, 3)])
    return things
