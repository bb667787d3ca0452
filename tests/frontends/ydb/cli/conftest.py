"""`mayfly ydb` in process, against the server of the tests; every test has a home of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer

Ask = Callable[..., Result]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine or the user reach a test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("MAYFLY_URL", "XDG_CONFIG_HOME", "YDB_TOKEN", "YDB_USER", "YDB_PASSWORD", "YDB_CA_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bare() -> Ask:
    """Run `mayfly` with these arguments."""

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(mayfly, arguments, input=stdin, catch_exceptions=False)

    return invoke


@pytest.fixture
def ask(ydb_server: RunningServer, bare: Ask) -> Ask:
    """Run `mayfly ydb` with these arguments, on the server of this module."""
    place = ("--url", ydb_server.admin_url, "ydb", "-e", ydb_server.ydb.endpoint, "-d", ydb_server.ydb.database)
    return lambda *arguments, stdin=None: bare(*place, *arguments, stdin=stdin)


@pytest.fixture
def say(ask: Ask) -> Callable[..., str]:
    """The same, for what goes well and warns of nothing: gives what is printed."""

    def invoke(*arguments: str, stdin: str | None = None) -> str:
        result = ask(*arguments, stdin=stdin)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    return invoke
