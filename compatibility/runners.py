"""What runs the tests of a file and reports their outcomes: pytest, or a program of `go test`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import outcomes
from outcomes import File, Needs, Outcome, Test

# What reads the output of Mayfly's own checks in Go.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
from clients.outcomes import FAILED, SKIPPED, Check, from_go

# Seconds. A test that takes longer fails; a file that does is interrupted, and reports what it has.
TEST_LIMIT = 90
FILE_LIMIT = 900


class Runner(msgspec.Struct, frozen=True):
    """`command` takes a suite, where its tests lie, a file and the path for the report; `read` what `outcomes.read` takes.

    `in_order`: exit codes after which all tests of the file have run.
    """

    command: Callable[[Any, Path, str, Path], Sequence[str]]
    read: Callable[[str, Path, bool, Needs], File]
    in_order: tuple[int, ...]


# --- pytest ----------------------------------------------------------------------------------------------------------


def _pytest(suite: Any, _: Path, name: str, report: Path) -> Sequence[str]:
    plugins = [part for plugin in ("pytest_timeout", *suite.plugins) for part in ("-p", plugin)]
    return [
        *(sys.executable, "-m", "pytest", name, "-c", str(suite.settings), "--rootdir", "."),
        *(*plugins, "-p", "no:cacheprovider"),
        *("--timeout", str(TEST_LIMIT), "--tb", "native", "--junit-xml", str(report)),
    ]


# All passed, some failed, none there.
PYTEST = Runner(_pytest, outcomes.read, (0, 1, 5))

# --- go test ---------------------------------------------------------------------------------------------------------

GO_PROGRAM = "suite.test"
"""The built tests, below the suite's root."""

# An assertion names its error after the place of the test; an error of the SDK names places of its own.
_GO_ERROR = re.compile(r"Error:\s+(?:Received unexpected error:\s+)?(.+)")
_GO_LINE = re.compile(r"\w+_test\.go:\d+: (?=\S)(.+)")
_GO_WHERE = re.compile(r" at `[^`]*`")
_GO_TEST = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\)", re.MULTILINE)


def go_tests(path: Path) -> list[str]:
    """The tests that a file defines."""
    return _GO_TEST.findall(path.read_text(encoding="utf-8"))


def _go(_: Any, tests: Path, name: str, report: Path) -> Sequence[str]:
    wanted = f"^({'|'.join(go_tests(tests / name))})$"
    limit = f"-test.timeout={FILE_LIMIT - 2 * TEST_LIMIT}s"
    program = ["go", "tool", "test2json", "-t", "-p", "suite", f"./{GO_PROGRAM}", "-test.v=test2json", limit]
    return ["sh", "-c", 'exec "$@" >"$0"', str(report), *program, f"-test.run={wanted}"]


def _go_read(name: str, report: Path, whole: bool, needs: Needs) -> File:
    """A test that has begun and not ended has failed, and what the file has after it has not run."""
    try:
        events = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    except (OSError, ValueError):
        return File(name, [], whole=False)
    ended = {event.get("Test") for event in events if event["Action"] in ("pass", "fail", "skip")}
    begun = {event["Test"]: event for event in events if event["Action"] == "run"}
    cut_off = [event | {"Action": "fail"} for test, event in begun.items() if test not in ended]
    checks = from_go("\n".join(json.dumps(event) for event in (*events, *cut_off)))
    said = _go_said(events)
    return File(name, [_go_test(name, check, needs, said) for check in checks], whole and not cut_off)


def _go_said(events: list[Any]) -> dict[str, str]:
    """What each test printed."""
    said: dict[str, list[str]] = {}
    for event in events:
        if event["Action"] == "output" and "Test" in event:
            said.setdefault(event["Test"], []).append(event["Output"])
    return {test: "".join(parts) for test, parts in said.items()}


def _go_test(file: str, check: Check, needs: Needs, said: dict[str, str]) -> Test:
    """A test that has failed says what those around it say as well: they may have ended it."""
    name = check.name.partition("/")[2]
    id = f"{file}::{name}"
    if check.outcome == FAILED:
        around = [said.get(name.rsplit("/", count)[0], "") for count in range(1, name.count("/") + 1)]
        return Test(id, Outcome.FAILED, _GO_WHERE.sub("", "\n".join((_go_error(check.said), check.said, *around))))
    if check.outcome == SKIPPED:
        said = _go_skip(check.said)
        needed = needs(said)
        return Test(id, Outcome.SKIPPED, said) if needed is None else Test(id, Outcome.NOT_APPLICABLE, needed)
    return Test(id, Outcome.PASSED)


def _go_error(said: str) -> str:
    """The first line of what a failed assertion says, or of what the test says."""
    found = _GO_ERROR.search(said) or _GO_LINE.search(said)
    return found[1].strip() if found else ""


def _go_skip(said: str) -> str:
    """The reason that a skipped test gives, without the place where it gives it."""
    found = re.findall(r"^\s*\S+\.go:\d+: (.*)$", said, re.MULTILINE)
    return found[-1].strip() if found and found[-1].strip() else "It says no reason"


# Both codes are of a program that has run all its tests, or was ended: what did not end is seen in the report.
GO = Runner(_go, _go_read, (0, 1))
