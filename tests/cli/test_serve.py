"""What `mayfly serve` does around the server: settings in, announcement out, failures explained."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result

from mayflydb.announcement import Announcement, StartFailed
from mayflydb.cli.ports import owner_of
from mayflydb.config import Settings

Run = Callable[..., Result]
Serve = Callable[[Settings, Callable[[Announcement], None]], int]

RUNNING = Announcement(
    pid=os.getpid(),
    cosmos_endpoint="http://127.0.0.1:1/",
    cosmos_key="k",
    portal=None,
    admin="http://127.0.0.1:1/_mayfly",
    metrics=None,
    storage="memory",
    clock="virtual",
    version="0",
    seconds_to_ready=0.1,
)


class Server:
    """Stands in for the server: `body` is what `run` does; `settings` is what it was given."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.body: Serve = self.end_with(0)

    @staticmethod
    def end_with(code: int) -> Serve:
        def body(_: Settings, announce: Callable[[Announcement], None]) -> int:
            announce(RUNNING)
            return code

        return body

    def run(self, settings: Settings, announce: Callable[[Announcement], None]) -> int:
        self.settings = settings
        return self.body(settings, announce)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    module: Any = ModuleType("mayflydb.serving.process")
    module.run = found.run
    monkeypatch.setitem(sys.modules, "mayflydb.serving.process", module)
    return found


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_the_form_for_ci(run: Run, stand_in: Server, tmp_path: Path) -> None:
    place = tmp_path / "ready.json"
    seen: list[Any] = []

    def body(_: Settings, announce: Callable[[Announcement], None]) -> int:
        announce(RUNNING)
        seen.append(json.loads(place.read_text(encoding="utf-8")))
        return 0

    stand_in.body = body
    arguments = "--memory --clock virtual -p 0 --mongo-port 0 --ydb-port 0 --ready-file ready.json"
    result = run("serve", *arguments.split())
    assert result.exit_code == 0, result.output
    assert [json.loads(result.stdout)] == seen
    assert (seen[0]["mongo"], seen[0]["ydb"]) == (None, None)
    assert not place.exists()
    settings = stand_in.settings
    assert settings is not None
    assert (settings.storage.url, settings.clock.mode, settings.server.port) == ("memory", "virtual", 0)
    assert settings.mongo.port == 0
    assert (settings.ydb.port, settings.ydb.tls_port) == (0, -1)


def test_mayfly_alone_serves_the_default_file(run: Run, stand_in: Server, tmp_path: Path) -> None:
    assert run().exit_code == 0
    assert stand_in.settings is not None
    assert stand_in.settings.storage.path == tmp_path / "mayfly.db"


def test_the_settings_file_named_before_the_command_counts(run: Run, stand_in: Server, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("server.port = 0", encoding="utf-8")
    assert run("-c", "own.toml").exit_code == 0
    assert run("-c", "own.toml", "serve", "data.db").exit_code == 0
    assert stand_in.settings is not None
    assert (stand_in.settings.server.port, stand_in.settings.storage.path) == (0, tmp_path / "data.db")


def test_a_server_that_ends_badly_leaves_its_code_and_its_file(run: Run, stand_in: Server, tmp_path: Path) -> None:
    stand_in.body = stand_in.end_with(1)
    assert run("serve", "-m", "--ready-file", "ready.json").exit_code == 1
    assert (tmp_path / "ready.json").exists()


@pytest.mark.parametrize("code", [1, 2, 4])
def test_a_failed_start_says_what_why_and_what_helps(run: Run, stand_in: Server, code: int) -> None:
    def body(_: Settings, __: Callable[[Announcement], None]) -> int:
        raise StartFailed("the store is from the future", setting="clock.mode", hint="--clock virtual", exit_code=code)

    stand_in.body = body
    result = run("serve", "-m")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.splitlines() == [
        "Error: the store is from the future",
        "Setting: clock.mode",
        "Try:   --clock virtual",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_port_that_is_taken_names_its_owner(run: Run, stand_in: Server, taken: int) -> None:
    def body(settings: Settings, __: Callable[[Announcement], None]) -> int:
        raise StartFailed(f"port {settings.server.port} is taken", setting="server.port", hint="-p 0")

    stand_in.body = body
    result = run("serve", "-m", "-p", str(taken))
    assert result.exit_code == 1
    assert f"port {taken} is taken; process {os.getpid()} (" in result.stderr
    assert "Try:   -p 0" in result.stderr


def test_nobody_has_a_port_where_nothing_can_be_looked_up(tmp_path: Path, taken: int) -> None:
    assert owner_of(taken, tmp_path) is None
