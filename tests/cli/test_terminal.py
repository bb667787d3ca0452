"""What people see on a terminal of 80 columns: everything that matters fits, and no key is shown."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.cosmos import PartitionKey
from click.testing import Result

from mayflydb.cli.options import GROUPS
from mayflydb.config import TABLE
from mayflydb.embedded import RunningServer, serve
from terminal import on_terminal

Run = Callable[..., Result]

COLUMNS = 80
KEY = base64.b64encode(b"not the well-known key of emulators".ljust(64, b".")).decode()
PROGRAM = "from mayflydb.cli.main import main; main()"
LONG = "a-database-with-a-rather-long-name"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Containers of all protocols, one with a name that leaves no room for anything else; a key of its own."""
    directory = tmp_path_factory.mktemp("shop")
    (directory / "key").write_text(KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        start = "2030-01-01T00:00:00Z"
        with serve(memory=True, port=0, clock="virtual", clock_start=start, key_file=str(directory / "key")) as running:
            fill(running)
            yield running


def fill(running: RunningServer) -> None:
    import ydb

    cosmos = running.cosmos.client()
    for name in ("shop", LONG):
        database = cosmos.create_database(name)
        container = database.create_container("sessions", partition_key=PartitionKey("/u"), default_ttl=100)
        container.create_item({"id": "a", "u": "b"})
    with running.mongo.client() as client:
        client.app.otps.create_index("_ts", expireAfterSeconds=300)
        client.app.otps.create_index("until", expireAfterSeconds=0)
        client.app.otps.insert_one({"_id": 1})
    driver = running.ydb.driver()
    with ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE carts (id Uint64 NOT NULL, until Timestamp, PRIMARY KEY (id))"
            ' WITH (TTL = Interval("PT1H") ON until)'
        )
    driver.stop()


def shown(server: RunningServer, directory: Path, *arguments: str, code: int = 0) -> list[str]:
    """The lines that it writes on the screen."""
    command = [sys.executable, "-c", PROGRAM, "--url", server.admin_url, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended, text = on_terminal(command, environment, directory, columns=COLUMNS)
    assert ended == code, text
    assert KEY not in text
    return [line.rstrip() for line in text.splitlines()]


def table(server: RunningServer, directory: Path, *arguments: str) -> list[list[str]]:
    """The words of each line of a table that fits the screen."""
    lines = shown(server, directory, *arguments)
    assert "wide" in arguments or max(map(len, lines)) <= COLUMNS, lines
    return [line.split() for line in lines if line.strip(" ─")]


def test_the_list_of_targets_fits(shop: RunningServer, tmp_path: Path) -> None:
    lines = table(shop, tmp_path, "ttl", "list")
    assert lines[0] == ["target", "ttl", "records", "due", "next_expiry"]
    assert ["cosmos:shop/sessions", "100s", "1", "0", "2030-01-01T00:01:40Z"] in lines
    assert ["mongo:app.otps", "_ts", "300s,", "until", "0s", "1", "0", "2030-01-01T00:05:00Z"] in lines
    assert ["ydb:/local/carts", "until", "3600s", "0", "0"] in lines
    # A long name is broken, and nothing else.
    assert f"cosmos:{LONG}/sessions".startswith(next(line[0] for line in lines if line[0].startswith("cosmos:a-")))
    assert sum("2030-01-01T00:01:40Z" in line for line in lines) == 2


def test_the_wide_list_has_everything_in_one_line_each(shop: RunningServer, tmp_path: Path) -> None:
    heading, *rows = table(shop, tmp_path, "ttl", "list", "-o", "wide")
    assert {"default_ttl", "indexes", "own_ttl", "ignored_ttl", "next_pass", "next_run"} <= {*heading}
    assert [row[0] for row in rows] == [
        f"cosmos:{LONG}/sessions",
        "cosmos:shop/sessions",
        "mongo:app.otps",
        "ydb:/local/carts",
    ]


def test_what_is_paused_is_seen(shop: RunningServer, tmp_path: Path) -> None:
    shown(shop, tmp_path, "ttl", "pause", "ydb:/local/carts")
    lines = table(shop, tmp_path, "ttl", "list", "ydb:/local/carts")
    assert lines[0][-1] == "paused" and lines[1][-1] == "purge"
    shown(shop, tmp_path, "ttl", "resume", "ydb:/local/carts")


def test_the_status_is_short(shop: RunningServer, tmp_path: Path) -> None:
    lines = {name: " ".join(value) for name, *value in table(shop, tmp_path, "status")}
    assert lines["ready"] == "yes" and lines["clock"] == "virtual, 2030-01-01T00:00:00Z"
    assert (lines["databases"], lines["containers"], lines["records"], lines["hidden"]) == ("4", "4", "3", "0")
    assert lines["cosmos"] == shop.cosmos.url and lines["ydb"] == f"{shop.ydb.endpoint}/local"
    assert len(lines) < 16


@pytest.mark.parametrize("form", ["json", "jsonl", "wide"])
def test_no_form_of_the_status_has_the_key(shop: RunningServer, tmp_path: Path, form: str) -> None:
    text = " ".join(shown(shop, tmp_path, "status", "-o", "wide" if form == "wide" else form))
    assert "python" in text and "own_ttl" in text and KEY[:20] not in text


HINTS = [
    (["ttl", "preview", "cosmos:no/such", "5"], "mayfly ttl list"),
    (["ttl", "explain", "cosmos:shop/sessions", "a"], "--pk VALUE"),
    (["ttl", "explain", "mongo:app.otps", "1", "--pk", "x"], "leave --pk"),
    (["clock", "set", "2029-01-01T00:00:00Z"], "mayfly reset"),
]


@pytest.mark.parametrize(("arguments", "hint"), HINTS)
def test_hints_name_the_command(shop: RunningServer, tmp_path: Path, arguments: list[str], hint: str) -> None:
    text = " ".join(" ".join(shown(shop, tmp_path, *arguments, code=1)).split())
    assert hint in text.partition("Try:")[2]


def test_the_settings_of_serve_are_grouped_and_say_their_defaults(run: Run) -> None:
    text = run("serve", "--help").stdout
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles == [*dict.fromkeys(GROUPS.values()), "Options"]
    sections = dict(zip(titles, re.split(r"^\w.*:$", text, flags=re.MULTILINE)[1:], strict=True))
    for row in TABLE:
        named = [title for title, section in sections.items() if row.flags[-1].partition("/")[0] in section]
        assert named, row.key
    assert "--memory" in sections["Storage"] and "--mongo-sweep-interval" in sections["MongoDB"]
    assert "--sweep-interval" in sections["Expiry"] and "--ydb-run-interval" in sections["YDB"]
    joined = " ".join(text.split())
    for default in ("8081", "real", "sqlite:///./mayfly.db", "off", "10000", "/local, /Root", "1s", "on"):
        assert f"[default: {default}]" in joined
    silent = [row.key for row in TABLE if "Default:" not in row.help and row.default not in ("", [], {}, False)]
    assert joined.count("[default: ") >= len(silent)
