"""`mayfly hold` from the first hold to its release."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from served import START

TARGET = "cosmos:shop/sessions"
ITEMS = [{"id": str(n), "userId": f"u{n % 2}"} for n in range(250)]
WORDS = ("--why", "a case", "--by", "Ada")

Run = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, clock="virtual", clock_start=START) as running:
        sessions = {"id": "sessions", "partition_key": "/userId", "default_ttl": 60, "items": ITEMS}
        running.seed({"databases": [{"id": "shop", "containers": [sessions]}]})
        yield running


@pytest.fixture
def run(server: RunningServer) -> Run:
    def run(*arguments: object, code: int = 0) -> Any:
        result: Result = CliRunner().invoke(mayfly, ["--url", server.admin_url, "-o", "json", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else result.stderr

    return run


def test_a_hold_from_its_addition_to_its_release(server: RunningServer, run: Run, tmp_path: Path) -> None:
    options = ("--where", 'c.userId = "u1"', *WORDS, "--matter", "7/2030")
    dry = run("hold", "add", TARGET, "case-7", *options, "--dry-run")
    assert (dry["matching"], dry["exact"], run("hold", "list")["holds"]) == (125, True, [])
    added = run("hold", "add", TARGET, "case-7", *options, "--no-versions")["hold"]
    assert run("hold", "list", TARGET)["holds"] == [added]
    assert (added["matter"], added["versions"]) == ("7/2030", False)
    server.clock.advance(hours=1)
    shown = run("hold", "show", "case-7")
    assert (shown["preserved"], shown["exact"]) == (125, True)
    file = tmp_path / "case.jsonl"
    assert run("hold", "export", "case-7", file)["records"] == 125
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(line["record"]["id"] for line in lines) == sorted(
        item["id"] for item in ITEMS if item["userId"] == "u1"
    )
    assert {(line["end"], line["deadline"]) for line in lines} == {("expired", "2030-01-01T00:01:00Z")}
    assert "exists" in run("hold", "export", "case-7", file, code=1)
    assert file.read_text().count("\n") == 125
    assert "hold release case-7" in run("reset", "--yes", code=1)
    # Without a terminal the release of so much needs -y.
    assert "-y" in run("hold", "release", "case-7", *WORDS, code=4)
    released = run("hold", "release", "case-7", *WORDS, "--yes")
    assert (released["removed"], released["expired"], released["done"]) == (125, 125, True)
    assert [line["action"] for line in run("hold", "list", "--all")["lines"]] == ["added", "released"]
    assert run("hold", "list", "mongo:app.none", "--all")["lines"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "none"),
        ("export", "none", "file"),
        ("release", "none", *WORDS),
        ("add", "cosmos:shop/none", "h", *WORDS),
    ],
)
def test_what_is_not_there_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    given = [str(tmp_path / each) if each == "file" else each for each in arguments]
    assert "there is no" in run("hold", *given, code=1)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("missing", ["--why", "--by"])
def test_a_hold_needs_a_reason_and_a_person(run: Run, missing: str) -> None:
    place = WORDS.index(missing)
    assert missing in run("hold", "add", TARGET, "h", *WORDS[:place], *WORDS[place + 2 :], code=2)
