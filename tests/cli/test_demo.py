"""The demo: a real server, the vendor's client, and what is said when something differs from what is expected."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest
from click.testing import Result

from mayflydb.cli import demo

pytestmark = pytest.mark.short

Run = Callable[..., Result]

TABLE = """\
 clock     cosmos shop/sessions       mongo app.otps              ydb /local/carts
           s1 60s   s2 120s   s3 -1   o1 _ts 30s   o2 date +90s   c1 PT1H
 +0 s      alive    alive     alive   alive        alive          alive
 +29 s     alive    alive     alive   alive        alive          alive
 +30 s     alive    alive     alive   -            alive          alive
 +59 s     alive    alive     alive   -            alive          alive
 +60 s     -        alive     alive   -            alive          alive
 +89 s     -        alive     alive   -            alive          alive
 +90 s     -        alive     alive   -            -              alive
 +2 min    -        -         alive   -            -              alive
 +2 h      -        -         alive   -            -              -
54 of 54 as expected. 5 expired, 5 purged, 2 hours in N s. s3 has ttl -1: it never expires.
"""


@pytest.fixture
def client() -> None:
    pytest.importorskip("azure.cosmos", reason='needs the vendor\'s client: pip install "mayflydb[demo]"')


def without_time(text: str) -> str:
    return re.sub(r"\d+\.\d s", "N s", text)


@pytest.mark.usefixtures("client")
def test_the_table_is_printed_to_a_pipe_as_well(run: Run) -> None:
    result = run("demo")
    assert without_time(result.stdout) == TABLE
    assert result.exit_code == 0


@pytest.mark.usefixtures("client")
def test_rows_for_programs(run: Run) -> None:
    result = run("demo", "-o", "json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert len(rows) == 54
    assert [rows[53][name] for name in ("target", "id", "life", "expected")] == ["ydb:/local/carts", "c1", "PT1H", "-"]
    assert [rows[15][name] for name in ("target", "id", "life", "expected")] == ["mongo:app.otps", "o1", "_ts 30s", "-"]
    assert rows[24] == {
        "clock": "+60 s",
        "target": "cosmos:shop/sessions",
        "id": "s1",
        "life": "60s",
        "expected": "-",
        "point_read": "-",
        "query": "-",
        "as_expected": True,
    }
    assert [json.loads(line) for line in run("demo", "-o", "jsonl").stdout.splitlines()] == rows


@pytest.mark.usefixtures("client")
def test_what_differs_is_marked_and_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mayflydb.cli import demo_steps

    _, s2, s3 = demo_steps.ITEMS
    # It is written with a ttl of 60 s, and expected to live for 61.
    monkeypatch.setattr(demo_steps, "ITEMS", (demo_steps.Item("s1", "60s", {"ttl": 60}, 61), s2, s3))
    result = run("demo")
    assert result.exit_code == 1
    lines = without_time(result.stdout).splitlines()
    assert lines[6] == " +60 s     - (!)    alive     alive   -            alive          alive"
    assert lines[-2] == "(!) s1 at +60 s: expected alive, point read -, query -"
    assert lines[-1].startswith("53 of 54 as expected. 5 expired, 5 purged")
    assert run("demo", "-o", "json").exit_code == 1


@pytest.mark.usefixtures("client")
def test_read_and_query_have_to_agree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mayflydb.cli import demo_steps

    monkeypatch.setattr(demo_steps.CosmosRecords, "can_read", lambda records, id: True)
    result = run("demo")
    assert result.exit_code == 1
    assert "(!) s2 at +2 h: expected -, point read alive, query -" in result.stdout
    assert "read alive query - (!)" in result.stdout


@pytest.mark.usefixtures("client")
def test_a_lost_immortal_is_not_praised(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mayflydb.cli import demo_steps

    s1, s2, _ = demo_steps.ITEMS
    monkeypatch.setattr(demo_steps, "ITEMS", (s1, s2, demo_steps.Item("s3", "-1", {"ttl": 300}, None)))
    result = run("demo")
    assert result.exit_code == 1
    assert "never expires" not in result.stdout
    assert "53 of 54 as expected. 6 expired, 6 purged" in result.stdout


@pytest.mark.usefixtures("client")
def test_keep_serves_on_until_interrupted() -> None:
    # A test run in the background of a shell ignores SIGINT, and so would what it starts.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", f"{heeding}; from mayflydb.cli.main import main; main()", "demo", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert without_time("".join(process.stdout.readline() for _ in TABLE.splitlines())) == TABLE
            address = re.search(r"http://\S+/", process.stderr.readline())
            assert address is not None
            with urllib.request.urlopen(address[0] + "_mayfly/ready", timeout=60) as answer:
                assert json.load(answer)["clock"] == "virtual"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("missing", demo.CLIENT_PACKAGES)
def test_without_the_client(run: Run, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == missing else find_spec(name)

    monkeypatch.setattr(demo, "find_spec", find)
    result = run("demo")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == 'Try:   pip install "mayflydb[demo]"'
