"""The fixtures of tests that talk to a whole server over HTTP: one server a module, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of


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
