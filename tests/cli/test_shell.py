"""Completion, measurements, and the width of every help text."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mayflydb.cli.main import COMMANDS, mayfly
from mayflydb.embedded import serve

PROGRAM = "from mayflydb.cli.main import main; main()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_program(shell: str) -> None:
    result = CliRunner().invoke(mayfly, ["completion", shell])
    assert result.exit_code == 0 and "_MAYFLY_COMPLETE" in result.output and "%" + "(" not in result.output


def test_completion_completes() -> None:
    told = {"_MAYFLY_COMPLETE": "bash_complete", "COMP_WORDS": "mayfly clock adv", "COMP_CWORD": "2"}
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | told, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["plain,advance"]


def test_metrics_of_a_running_server() -> None:
    with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as server:
        url = ["--url", server.admin_url]
        every = CliRunner().invoke(mayfly, [*url, "metrics"])
        some = CliRunner().invoke(mayfly, [*url, "metrics", "mayfly_clock_"])
    assert "# TYPE mayfly_ready gauge" in every.output
    lines = some.output.splitlines()
    assert lines and all(line.startswith("mayfly_clock_") for line in lines)
    assert CliRunner().invoke(mayfly, [*url, "metrics"]).exit_code == 3


def test_the_certificate_is_that_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as server:
        url = ["--url", server.admin_url]
        target = tmp_path / "ca.crt"
        assert CliRunner().invoke(mayfly, [*url, "cert", "export", str(target)]).exit_code == 0
        printed = CliRunner().invoke(mayfly, [*url, "cert", "export"]).output
        shown = CliRunner().invoke(mayfly, [*url, "-o", "json", "cert", "show"]).output
        refused = CliRunner().invoke(mayfly, [*url, "cert", "export", str(tmp_path / "no" / "ca.crt")])
    kept = (tmp_path / "mayfly" / "ca.pem").read_text()
    assert target.read_text() == printed == kept and "PRIVATE" not in kept
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(kept)).hexdigest()
    assert json.loads(shown)["sha256"].replace(":", "").lower() == digest
    assert refused.exit_code == 1 and "cannot be written" in refused.output


def commands(group: click.Group, context: click.Context, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, context, (*path, name))
        elif command is not None:
            yield (*path, name)


def test_every_help_fits_eighty_columns() -> None:
    with mayfly.make_context("mayfly", ["status"]) as context:
        found = list(commands(mayfly, context, ()))
    assert len(found) > len(COMMANDS)
    for path in found:
        if path[:1] == ("ydb",):
            continue  # Its texts are those of YDB's own program.
        shown = CliRunner().invoke(mayfly, [*path, "--help"], terminal_width=80)
        assert shown.exit_code == 0, path
        assert [line for line in shown.output.splitlines() if len(line) > 80] == [], path
