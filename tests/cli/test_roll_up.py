"""`mayfly lifecycle set --roll-up`: JSON, a file of it, or off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from served import START

SOURCE = "cosmos:shop/sales"
ROLL_UP = {"into": "cosmos:shop/totals", "group": ["/tenant"], "count": "n"}

Run = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, clock="virtual", clock_start=START) as running:
        shop = running.cosmos.client().create_database("shop")
        for name in ("sales", "totals"):
            shop.create_container(name, PartitionKey("/id"), default_ttl=60)
        yield running


@pytest.fixture
def run(server: RunningServer) -> Run:
    def run(*arguments: str, code: int = 0, output: str = "json") -> str:
        result: Result = CliRunner().invoke(mayfly, ["--url", server.admin_url, "-o", output, "lifecycle", *arguments])
        assert result.exit_code == code, result.output
        return result.stderr if code else result.stdout

    return run


def shown(run: Run) -> Any:
    return json.loads(run("show", SOURCE))["targets"][0]["roll_up"]


def test_it_is_set_by_json_or_a_file_and_ended_by_off(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "roll-up.json"
    file.write_text(json.dumps(ROLL_UP))
    for given in (json.dumps(ROLL_UP), f"@{file}"):
        assert json.loads(run("set", SOURCE, "--roll-up", given))["roll_up"] == ROLL_UP
        assert shown(run) == ROLL_UP
        table = run("show", output="table")
        assert "cosmos:shop/totals" in table.replace("\n", "") and '"into"' not in table
        run("set", SOURCE, "--grace", "0s")
        assert shown(run) == ROLL_UP
        run("set", SOURCE, "--roll-up", "off")
        assert shown(run) is None


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("{", 2, "no JSON"),
        ("@no-such-file", 2, "No such file"),
        ("[]", 1, "Bad request"),
        ('{"into": "cosmos:shop/totals"}', 1, "a roll-up has a count"),
        (json.dumps(ROLL_UP | {"last": {"x": "/y"}}), 1, "last"),
        (json.dumps(ROLL_UP | {"into": "cosmos:shop/none"}), 1, "there is no cosmos:shop/none"),
    ],
)
def test_what_is_refused(run: Run, given: str, code: int, words: str) -> None:
    assert words in run("set", SOURCE, "--roll-up", given, code=code)
