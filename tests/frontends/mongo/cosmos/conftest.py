"""A server of profile `cosmos` that holds requests to what was provisioned, by a stopwatch that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from mayflydb.embedded import RunningServer, serve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    options: dict[str, Any] = {"clock": "virtual", "clock_start": "2030-01-01T00:00:00Z", "throttling": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with serve(memory=True, port=0, mongo_port=0, mongo_profile="cosmos", **options) as server:
            budgets = server._admin.engine.budgets
            assert budgets is not None
            budgets.stopwatch = lambda: 1_000_000_000
            yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client(serverSelectionTimeoutMS=5000) as client:
        yield client
