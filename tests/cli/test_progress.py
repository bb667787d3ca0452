"""Commands that take long say so: on a terminal's stderr, unless -q is given; results go to stdout all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import Result

from mayflydb.cli import progress
from mayflydb.cli.progress import ProgressLine
from terminal import Screen, on_a_terminal

if TYPE_CHECKING:
    from cli.conftest import AdminStub

Run = Callable[..., Result]

NOW = {"now": "2030-01-01T00:00:00Z"}
STATS = NOW | {"targets": {"cosmos:a/b": {"due": 200_000, "purged": 0}}, "exact": True}
PREVIEW: dict[str, Any] = {
    "current": None, "proposed": 5, "exact": True, "expire_within": {"1h": 0}, "expire_now": 0, "records": 0,
    "reappear_now": 0, "notes": [],
}  # fmt: skip
LINE = {"kind": "line"}

ROWS: list[tuple[str, list[str], str]] = [
    ("POST clock/advance", ["clock", "advance", "8760h"], "advance  at 2030-01-01T00:00:00Z, 0 records purged"),
    ("POST clock/advance", ["clock", "next"], "advance  at "),
    ("POST clock/set", ["clock", "set", "1893456000"], "set  at "),
    ("POST clock/reset", ["clock", "reset"], "clock reset  "),
    ("POST purge", ["ttl", "purge"], "purge  ["),
    ("POST ttl/set", ["ttl", "set", "mongo:a.b", "5", "--field", "at", "-y"], "ttl set  "),
    ("POST ttl/preview", ["ttl", "preview", "mongo:a.b", "5", "--field", "at"], "ttl preview  "),
    ("GET ttl/forecast", ["ttl", "forecast"], "ttl forecast  "),
    ("GET ttl/advise", ["ttl", "advise"], "ttl advise  "),
    ("GET ttl", ["ttl", "list"], "ttl list  "),
    ("POST ttl/resume", ["ttl", "resume", "-y"], "ttl resume  "),
    ("POST reset", ["reset", "-y"], "reset  "),
    ("POST apply", ["apply", "shop.json"], "apply  "),
    ("PUT snapshots/monday", ["snapshot", "save", "monday"], "snapshot save  "),
    ("POST snapshots/monday/restore", ["snapshot", "restore", "monday", "-y"], "snapshot restore  "),
    ("DELETE snapshots/monday", ["snapshot", "delete", "monday", "-y"], "snapshot delete  "),
    ("GET data/export", ["data", "export", "out.jsonl", "--target", "cosmos:a/b"], "exporting  "),
    ("POST data/import", ["data", "import", "in.jsonl", "--target", "cosmos:a/b"], "importing  "),
    ("PUT snapshots/in", ["snapshot", "import", "in.snapshot"], "importing  "),
]
ANSWERS: dict[str, Any] = {
    "GET stats": STATS,
    "POST ttl/preview": PREVIEW,
    "GET ttl/forecast": NOW
    | {"due_now": 0, "in_horizon": 0, "later": 0, "never": 0, "exact": True, "buckets": [{"to": "", "count": 0}]},
    "GET ttl/advise": NOW | {"sampling": 64, "targets": []},
    "GET ttl": {"targets": []},
    "POST ttl/resume": {"targets": []},
    "POST apply": NOW | {"resources": {}, "records": {}, "differences": []},
    "GET snapshots": {"snapshots": []},
    "GET data/export": {"records": [{"id": "a"}], "after": None},
    "POST data/import": {"created": 1, "replaced": 0, "expired": 0, "failed": 0, "failures": []},
}


@pytest.fixture
def slow(server: AdminStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdminStub:
    """A server that is as slow as a test asks, files for commands to read, and no patience before the first line."""
    for name in {name for name, _, _ in ROWS} | ANSWERS.keys():
        method, _, path = name.partition(" ")
        server.answers[method, f"/_mayfly/{path}"] = (200, ANSWERS.get(name, NOW))
    (tmp_path / "shop.json").write_text(json.dumps({"databases": [{"id": "shop"}]}))
    (tmp_path / "in.jsonl").write_text('{"id": "a"}\n')
    (tmp_path / "in.snapshot").write_bytes(bytes(1000))
    for module in ("progress", "long_requests"):
        monkeypatch.setattr(f"mayflydb.cli.{module}.PATIENCE", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    monkeypatch.setattr("mayflydb.cli.long_requests.POLL_SECONDS", 0.01)
    return server


@pytest.mark.parametrize(("operation", "arguments", "line"), ROWS, ids=lambda value: str(value)[:30])
def test_a_slow_answer_is_waited_for_in_words(
    run: Run, slow: AdminStub, monkeypatch: pytest.MonkeyPatch, operation: str, arguments: list[str], line: str
) -> None:
    on_a_terminal(monkeypatch)
    slow.gate.clear()
    method, _, path = operation.partition(" ")
    slow.quick = frozenset(slow.answers.keys() - {(method, f"/_mayfly/{path}")})
    write = ProgressLine._write

    def note(self: ProgressLine, text: str) -> None:
        write(self, text)
        if text.startswith(line):
            # The server answers when the line is there.
            slow.gate.set()

    monkeypatch.setattr(ProgressLine, "_write", note)
    result = run("--url", slow.url, *arguments)
    assert result.exit_code == 0, result.output
    assert slow.gate.is_set() and f"\r{line}" in result.stderr, result.stderr[-500:]
    assert result.stderr.endswith("\r"), "the line is removed"
    assert json.loads(result.stdout)


@pytest.mark.parametrize("quiet", [("-q",), ("--quiet",)])
@pytest.mark.parametrize(("operation", "arguments", "line"), ROWS, ids=lambda value: str(value)[:30])
def test_quiet_is_quiet(
    run: Run, slow: AdminStub, monkeypatch: pytest.MonkeyPatch, quiet: list[str], operation: str, arguments: list[str],
    line: str,
) -> None:  # fmt: skip
    on_a_terminal(monkeypatch)
    for command in ((*quiet, *arguments), (*arguments, *quiet)):
        (Path("out.jsonl")).unlink(missing_ok=True)
        assert run("--url", slow.url, *command).stderr == ""


def test_lines_are_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    for shown in (False, True):
        out = Screen("1,204 of 4,310 records", is_terminal=shown)
        with ProgressLine("copying", out=out) as line:
            line.update(1204, 4310)
            assert line.is_shown == shown
            assert not shown or out.seen.wait(10)
        assert bool(out.getvalue()) == shown


def test_short_work_says_nothing_and_long_work_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Screen("5 of 10 records")
    with ProgressLine("copy", out=out) as line:
        line.update(5, 10)
    assert out.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0)
    with ProgressLine("copy", out=out) as line:
        line.update(5, 10)
        assert out.seen.wait(10)
    assert out.getvalue().rpartition("\r")[2] == "" and out.getvalue().split("\r")[-2].strip() == ""
