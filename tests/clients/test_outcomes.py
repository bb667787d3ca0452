"""Reports of other languages' test runners, as they print them, and what the readers make of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clients.outcomes import FAILED, PASSED, SKIPPED, Check, from_cargo, from_go, from_surefire

PACKAGE = "example/cosmos"


def events(*rows: tuple[str, str, str]) -> str:
    """`go test -json` of (action, test, output) rows."""
    named = [{"Action": action, "Package": PACKAGE, "Test": test, "Output": output} for action, test, output in rows]
    return "\n".join(json.dumps({key: value for key, value in row.items() if value}) for row in named)


def branch(outcome: str, *leaves: tuple[str, str]) -> str:
    """One test with subtests: (name, outcome)."""
    rows = [("run", "TestTtl", "")]
    for name, ended in leaves:
        rows += [("run", f"TestTtl/{name}", ""), ("output", f"TestTtl/{name}", f"{name} said\n")]
        rows += [(ended, f"TestTtl/{name}", "")]
    return events(*rows, (outcome, "TestTtl", ""))


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        (events(("run", "TestA", ""), ("pass", "TestA", "")), [("cosmos/TestA", PASSED)]),
        (events(("run", "TestA", ""), ("skip", "TestA", "")), [("cosmos/TestA", SKIPPED)]),
        (branch("pass", ("CM1", "pass"), ("CM2", "pass")), [("cosmos/TestTtl/CM1", PASSED), ("cosmos/TestTtl/CM2", PASSED)]),
        (branch("fail", ("CM1", "fail"), ("CM2", "pass")), [("cosmos/TestTtl/CM1", FAILED), ("cosmos/TestTtl/CM2", PASSED)]),
        # The test itself failed, beside its subtests.
        (branch("fail", ("CM1", "pass")), [("cosmos/TestTtl", FAILED), ("cosmos/TestTtl/CM1", PASSED)]),
        ("go: downloading something\n" + events(("pass", "", "")), []),
    ],
)  # fmt: skip
def test_go(text: str, checks: list[tuple[str, str]]) -> None:
    assert [(check.name, check.outcome) for check in from_go(text)] == checks


def test_go_keeps_what_a_check_said() -> None:
    assert from_go(branch("fail", ("CM1", "fail")))[0].said == "CM1 said\n"


@pytest.mark.parametrize(
    "text",
    [
        events(("run", "TestA", "")),
        json.dumps({"Action": "build-fail", "ImportPath": PACKAGE}),
        json.dumps({"Action": "fail", "Package": PACKAGE, "FailedBuild": PACKAGE}),
    ],
)
def test_go_cut_short(text: str) -> None:
    with pytest.raises(ValueError, match=r"did not end|does not build"):
        from_go(text)


CARGO = """
running 4 tests
test cosmos::ttl::cm1 ... ok
test cosmos::ttl::cm2 ... a line without a test's capture
FAILED
test ydb::rows::upsert ... ignored, because
test ydb::rows::query ... ok

failures:

---- cosmos::ttl::cm2 stdout ----
assertion failed

failures:
    cosmos::ttl::cm2

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def test_cargo() -> None:
    assert from_cargo(CARGO) == [
        Check("cosmos/ttl/cm1", PASSED),
        Check("cosmos/ttl/cm2", FAILED, "assertion failed\n\n"),
        Check("ydb/rows/upsert", SKIPPED),
        Check("ydb/rows/query", PASSED),
    ]


@pytest.mark.parametrize(
    "text", [CARGO.partition("test result")[0], CARGO.replace("cm1 ... ok", "cm1 ... "), "error[E0433]: no such crate"]
)
def test_cargo_cut_short(text: str) -> None:
    with pytest.raises(ValueError, match="the run counted"):
        from_cargo(text)


def test_surefire(tmp_path: Path) -> None:
    text = """<testsuite>
        <testcase classname="clients.cosmos.TtlTest" name="cm1"/>
        <testcase classname="clients.cosmos.TtlTest" name="cm2"><failure message="404">at line 1</failure></testcase>
        <testcase classname="clients.mongo.FlowTest" name="a"><error message="lost">at line 2</error></testcase>
        <testcase classname="clients.mongo.FlowTest" name="b"><skipped/></testcase>
    </testsuite>"""
    (tmp_path / "TEST-clients.xml").write_text(text)
    assert from_surefire(tmp_path) == [
        Check("cosmos/TtlTest/cm1", PASSED),
        Check("cosmos/TtlTest/cm2", FAILED, "404\nat line 1"),
        Check("mongo/FlowTest/a", FAILED, "lost\nat line 2"),
        Check("mongo/FlowTest/b", SKIPPED),
    ]


def test_surefire_without_a_report(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no report"):
        from_surefire(tmp_path)


MODULE = """
import sys

import pytest

import clients.languages as languages
from clients.languages import Client, Language, verify
from clients.outcomes import from_go

@pytest.mark.parametrize(("word", "report", "code", "least"), {rows!r})
def test_go(word, report, code, least, subtests, monkeypatch):
    monkeypatch.setattr(languages, "HERE", languages.Path({place!r}))
    monkeypatch.setattr(languages, "RECORDS", languages.Path({place!r}))
    command = [sys.executable, "-c", f"import sys; print({{report!r}}); sys.exit({{code}})"]
    verify(Language(word, "Go", command, from_go, {{"cosmos": Client("azcosmos", "1.0")}}, least), {{}}, subtests)
"""

RUNS = [
    ("whole", branch("pass", ("CM1", "pass"), ("CM2", "skip")), 0, 2),
    ("failed", branch("fail", ("CM1", "fail"), ("CM2", "pass")), 1, 2),
    ("few", branch("pass", ("CM1", "pass")), 0, 2),
    ("code", branch("pass", ("CM1", "pass")), 2, 1),
    ("unseen", branch("fail", ("CM1", "fail")), 0, 1),
    ("nothing", "no report", 0, 0),
]
"""Word, report, exit code and least number of checks; all but the first are failures."""


def test_only_a_whole_run_passes_and_a_failed_check_fails_by_name(tmp_path: Path) -> None:
    for word, *_ in RUNS:
        (tmp_path / word).mkdir()
    (tmp_path / "test_made.py").write_text(MODULE.format(rows=RUNS, place=str(tmp_path)))
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_made.py"]
    done = subprocess.run(command, check=False, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=300)
    assert len(re.findall(r"^FAILED ", done.stdout, re.MULTILINE)) == len(RUNS) - 1, done.stdout + done.stderr
    assert "[cosmos/TestTtl/CM1]" in done.stdout and "CM1 said" in done.stdout
    client = {"client": "azcosmos", "version": "1.0", "checks": 2}
    assert {path.stem: json.loads(path.read_text())["clients"] for path in tmp_path.glob("*.json")} == {
        "whole": [client | {"failed": [], "skipped": ["cosmos/TestTtl/CM2"]}],
        "failed": [client | {"failed": ["cosmos/TestTtl/CM1"], "skipped": []}],
    }
