"""The fixtures of tests that talk to a whole server over HTTP: one server a module, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy


@pytest.fixture(autouse=True)
def own_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))
        with serve(memory=True, port=0, clock="virtual", clock_start=START, allow_host=["db.test"]) as running:
            yield running


@pytest.fixture
def http(server: RunningServer) -> Http:
    server.start_at(START)
    return Http(port_of(server))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mayfly.db"


@pytest.fixture
def sessions(server: RunningServer, http: Http) -> ContainerProxy:
    """s60 dies after its own 60 s, s100 by the default, s-1 never."""
    from azure.cosmos import PartitionKey

    database = server.cosmos.client().create_database("shop")
    container = database.create_container("sessions", partition_key=PartitionKey("/userId"), default_ttl=100)
    for id, ttl in (("s60", 60), ("s100", None), ("s-1", -1)):
        container.create_item({"id": id, "userId": "u1"} | ({} if ttl is None else {"ttl": ttl}))
    return container
