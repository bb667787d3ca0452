"""Which server `mayfly ydb` asks where little is said of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mayflydb.cli.admin import AdminClient
from mayflydb.embedded import RunningServer

if TYPE_CHECKING:
    from frontends.ydb.cli.conftest import Ask


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-e", "grpc://127.0.0.1:1"], "Missing required option 'database'."),
        (["-d", "x"], "Path to a database \"x\" is incorrect. It must be absolute and thus must begin with '/'."),
        (["-d", "/local", "-e", "http://x"], 'Endpoint "http://x" is incorrect.'),
        (["-d", "/local", "-p", "p"], "Profile p does not exist."),
        (["-d", "/local", "--token-file", "/nowhere"], "Can't read file /nowhere: No such file or directory"),
        (["-d", "/local", "--token-file", sys.executable], f"Can't read file {sys.executable}: it is not UTF-8"),
        (
            ["-d", "/local", "-e", "grpcs://localhost:1", "--ca-file", "/nowhere"],
            "Can't read file /nowhere: No such file or directory",
        ),
        (
            ["-d", "/local", "--token-file", "/a", "--user", "u"],
            "Options 'token-file' and 'user' are mutually exclusive.",
        ),
    ],
)
def test_options_that_are_wrong(bare: Ask, options: list[str], said: str) -> None:
    result = bare("ydb", *options, "scheme", "ls")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)


def test_the_local_server_is_meant_where_nothing_is_said(
    bare: Ask, ydb_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local server is the one at the default of `--url`. The test puts its own server there."""
    address = "mayflydb.cli.ydb.context.admin_client"
    monkeypatch.setattr(address, lambda _: AdminClient(ydb_server.admin_url))
    result = bare("ydb", "-v", "scheme", "ls")
    assert (result.exit_code, ".sys" in result.stdout) == (0, True)
    assert "database /local" in result.stderr
    monkeypatch.setattr(address, lambda _: AdminClient("http://127.0.0.1:1"))
    result = bare("ydb", "scheme", "ls")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "Missing required option 'database'.\nThe local server would tell it, but no server"
    )
