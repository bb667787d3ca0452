"""The server of these tests: one for each module, in memory, with a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from mayflydb.embedded import RunningServer, serve
from stores import place

START = "2030-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def mongo_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """In memory; on another store where a test parametrizes this fixture indirectly with one of `stores.STORES`."""
    store = getattr(request, "param", "memory")
    directory = tmp_path_factory.mktemp(store)
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for TLS, and kept here.
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {"clock": "virtual", "clock_start": START, "mongo_test_commands": True}
        with serve(**place(store, request, directory), port=0, mongo_port=0, **options) as server:
            yield server


@pytest.fixture(scope="module")
def mongo_client(mongo_server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    """One client for the tests of a module."""
    with mongo_server.mongo.client(serverSelectionTimeoutMS=5000) as client:
        yield client
