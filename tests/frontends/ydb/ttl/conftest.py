"""The servers that tests of rows that end talk to: one per store and process, a fresh start for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.embedded import serve
from stores import STORES, place
from ydb_world import START, YdbWorld


@pytest.fixture(scope="session", params=STORES)
def session_world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[YdbWorld]:
    directory = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made, and kept here; what asks the admin API does not know it.
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {"port": 0, "mongo_port": -1, "clock": "virtual", "clock_start": START}
        with serve(**place(request.param, request, directory) | {"scheme": "http"}, **options) as server:
            world = YdbWorld(server, request.param)
            yield world
            world.close()


@pytest.fixture
def world(session_world: YdbWorld) -> YdbWorld:
    session_world.begin()
    return session_world
