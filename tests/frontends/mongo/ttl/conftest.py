"""The servers of the tests of expiry: one for each store and process, reset for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from frontends.mongo.ttl.world import START, World
from mayflydb.embedded import serve
from stores import STORES, place


@pytest.fixture(scope="session", params=STORES)
def session_world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for https, and kept here.
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {
            "port": 0,
            "mongo_port": 0,
            "clock": "virtual",
            "clock_start": START,
            "mongo_database": {
                "native": {"profile": "native"},
                "cosmos": {"profile": "cosmos"},
                "custom": {"profile": "cosmos", "custom_path_ttl": True},
                "hiding": {"expiry": "hide"},
                "mixed": {"collections": {"hidden": {"expiry": "hide"}}},
            },
        }
        with serve(**place(request.param, request, directory), **options) as server:
            world = World(server, request.param)
            yield world
            world.close()


@pytest.fixture
def world(session_world: World) -> World:
    session_world.begin()
    return session_world
