"""The server that all wire tests talk to: one per store and process, a fresh start for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frontends.cosmos.service import START, Service
from mayflydb.embedded import serve
from stores import STORES, place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            # The vendor's client checks no certificate of 127.0.0.1, and warns that it does not.
            item.add_marker(pytest.mark.filterwarnings("ignore:Unverified HTTPS request"))


@pytest.fixture(scope="session", params=STORES)
def session_service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for https, and kept here.
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {"port": 0, "clock": "virtual", "clock_start": START}
        with serve(**place(request.param, request, directory), **options) as server:
            service = Service(server, request.param)
            yield service
            service.close()


@pytest.fixture
def service(session_service: Service) -> Service:
    session_service.begin()
    return session_service


@pytest.fixture(params=["sync", "aio"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)
