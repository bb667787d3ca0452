"""A server that holds requests to what was provisioned, and the stopwatch its budgets go by, in the hands of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from frontends.cosmos.service import START, Service
from frontends.cosmos.throughput.watch import Watch
from mayflydb.embedded import serve
from stores import STORES, place


@pytest.fixture(scope="session", params=STORES)
def session_service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp(request.param)
    options: dict[str, Any] = {"port": 0, "clock": "virtual", "clock_start": START, "throttling": True}
    with serve(**place(request.param, request, directory) | {"scheme": "http"}, **options) as server:
        service = Service(server, request.param)
        yield service
        service.close()


@pytest.fixture
def watch(service: Service) -> Watch:
    budgets = service.server._admin.engine.budgets
    assert budgets is not None
    return Watch(budgets)
