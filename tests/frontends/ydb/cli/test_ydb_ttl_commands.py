"""The removal of rows, seen and moved from the command line; and who logs in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mayflydb.embedded import RunningServer, serve

if TYPE_CHECKING:
    from frontends.ydb.cli.conftest import Ask

Say = Callable[..., str]


@pytest.fixture
def table(ydb_server: RunningServer, say: Say, request: pytest.FixtureRequest) -> str:
    """Three rows: one is due, one will be in ten seconds, one never ends."""
    name = f"at/{request.node.name}"
    say("sql", "-s", f"CREATE TABLE `{name}` (id Uint64, at Timestamp, PRIMARY KEY (id))")
    say("table", "ttl", "set", "--column", "at", "--expire-after", "10", name)
    say(
        "sql",
        "-s",
        f"UPSERT INTO `{name}` (id, at) VALUES (1, CurrentUtcTimestamp() - Interval('PT1H')), "
        "(2, CurrentUtcTimestamp()), (3, NULL)",
    )
    return name


def told(say: Say, command: str, table: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(say("ttl", command, table))
    return found


def test_status_and_run(say: Say, table: str) -> None:
    before = told(say, "status", table)
    assert (before["records"], before["due"], before["last_run"]) == (3, 1, None)
    assert before["why"] == f"what is due stays until the next run, at {before['next_run']}"
    assert "next_pass" not in before
    after = json.loads(say("ttl", "run", "--wait", table))
    assert (after["records"], after["due"], after["erased"]) == (2, 0, 1)
    assert after["why"] == "nothing is due"
    assert after["next_run"] > before["next_run"]


def test_pause_and_resume(ydb_server: RunningServer, say: Say, table: str) -> None:
    paused = told(say, "pause", table)
    assert paused["why"] == "paused: nothing is removed until it is resumed, or a run is asked for"
    ydb_server.clock.advance(seconds=7200)
    assert told(say, "status", table)["records"] == 3
    assert told(say, "resume", table)["why"].startswith("what is due stays until the next run, at ")
    say("clock", "advance", "2h")
    assert told(say, "status", table)["records"] == 1


def test_without_a_ttl(say: Say, table: str) -> None:
    say("table", "ttl", "reset", table)
    assert told(say, "status", table)["why"] == "the table has no TTL: rows stay"


def test_the_database_is_the_servers(ydb_server: RunningServer, bare: Ask, table: str) -> None:
    result = bare("--url", ydb_server.admin_url, "ydb", "ttl", "status", table)
    assert (result.exit_code, json.loads(result.stdout)["target"]) == (0, f"ydb:/local/{table}")


# --- logging in ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One that asks who comes, with and without TLS."""
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "password").write_text("secret\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {"ydb_password_file": str(directory / "password"), "ydb_tls_port": 0}
        with serve(memory=True, port=0, mongo_port=-1, **options) as server:
            yield server


def test_users_log_in(guarded: RunningServer, bare: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("ydb", "-e", guarded.ydb.endpoint, "-d", guarded.ydb.database)
    asked = ("discovery", "whoami")
    refused = bare(*place, *asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Status: CLIENT_UNAUTHENTICATED\nIssues: \n<main>: Error: GRpc error: (16): ")
    (tmp_path / "p").write_text("secret", encoding="utf-8")
    said = bare(*place, "--user", "root", "--password-file", str(tmp_path / "p"), *asked)
    assert (said.exit_code, said.stdout) == (0, "User SID: root\n")
    wrong = bare(*place, "--user", "root", "--no-password", *asked)
    assert wrong.stderr.startswith("Status: UNAUTHORIZED\n")
    typed = bare(*place, "--user", "root", *asked, stdin="secret\n")
    assert typed.exit_code == 0
    monkeypatch.setenv("YDB_USER", "root")
    monkeypatch.setenv("YDB_PASSWORD", "secret")
    assert bare(*place, *asked).exit_code == 0


def test_tls(guarded: RunningServer, bare: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YDB_USER", "root")
    monkeypatch.setenv("YDB_PASSWORD", "secret")
    authority = str(guarded.cosmos.ca_file)
    for endpoint in (guarded.ydb.tls_endpoint, guarded.ydb.tls_endpoint.removeprefix("grpcs://")):
        result = bare("ydb", "-e", endpoint, "-d", "/local", "--ca-file", authority, "discovery", "whoami")
        assert (result.exit_code, result.stderr) == (0, "")
