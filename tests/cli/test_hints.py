"""Each hint that the command line can print is in its own words: commands and flags, run against a server that refuses."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest
from azure.cosmos import PartitionKey
from click.testing import Result

from mayflydb import serve
from mayflydb.admin.hints import WORDS, word_hint
from mayflydb.admin.problems import problem
from mayflydb.embedded import RunningServer
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.hints import Hint
from mayflydb.testing.remote import RemoteControls

if TYPE_CHECKING:
    from cli.conftest import AdminStub

Run = Callable[..., Result]

SOURCES = Path(__file__).parents[2] / "src" / "mayflydb"
START = "2030-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def filled() -> Iterator[RunningServer]:
    settings: dict[str, Any] = {"port": 0, "mongo_port": 0, "ydb_port": 0, "clock": "virtual", "clock_start": START}
    with serve(memory=True, **settings) as server:
        with server.cosmos.client() as client:
            shop = client.create_database("shop")
            sessions = shop.create_container("sessions", PartitionKey("/userId"), default_ttl=60)
            sessions.create_item({"id": "s1", "userId": "u1"})
            shop.create_container("carts", PartitionKey(["/a", "/b"], kind="MultiHash"))
        with server.mongo.client() as client:
            client.app.otps.insert_one({"_id": 1})
            client.app.create_collection("seen", viewOn="otps")
        with server.ydb.driver() as driver:
            import ydb

            with ydb.QuerySessionPool(driver) as pool:
                pool.execute_with_retries("CREATE TABLE visits (id Uint64, at Timestamp, n Uint32, PRIMARY KEY (id))")
        server.clock.advance(seconds=10)
        yield server


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("clock set 2030-01-01T00:00:05Z", "nothing stored is newer: mayfly clock set TIME --force"),
        ("clock set 2029-01-01T00:00:00Z --force", "mayfly snapshot restore NAME"),
        ("clock reset", "mayfly snapshot restore NAME"),
        ("ttl list cosmos:none", "mayfly ttl list names all targets"),
        ("ttl list nonsense", "write cosmos:database/container"),
        ("ttl preview cosmos:shop 60", "name a container: cosmos:shop/CONTAINER"),
        ("ttl preview cosmos:shop/sessions 60 --field at", "leave --index and --field out"),
        ("ttl explain cosmos:shop/sessions s1", "add --pk VALUE"),
        ("ttl explain cosmos:shop/carts s1 --pk x", """write it as a JSON array: --pk '["a","b"]'"""),
        ("ttl explain mongo:app.otps 1 --pk x", "leave --pk out"),
        ("ttl explain ydb:/local/visits 1 --pk x", "leave --pk out"),
        ("ttl explain cosmos:shop/sessions s2 --pk u1", "purged records are not kept"),
        ("ttl preview mongo:app.otps 60 --index at_1", "--index with one of _id_; or --field NAME"),
        ("ttl preview ydb:/local/visits 60", "name one: --column NAME"),
        ("ttl preview ydb:/local/visits 60 --column at --unit seconds", "leave --unit out"),
        ("ttl forecast --horizon 5us --buckets 60", "--buckets from 1 to 1000, each 1us of --horizon or longer"),
        ("snapshot restore none -y", "mayfly snapshot list names all of them"),
        ("snapshot delete none -y", "mayfly snapshot list names all of them"),
    ],
)
def test_what_a_server_refuses(run: Run, filled: RunningServer, arguments: str, hint: str) -> None:
    result = run("--url", filled.admin_url, *arguments.split(" "))
    assert result.exit_code == 1, result.output
    told = result.stderr.partition("Try:   ")[2].strip()
    assert told.startswith(hint), result.stderr


def test_what_a_server_without_parts_refuses(run: Run, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(b64encode(bytes(64)).decode())
    key.chmod(0o600)
    with serve(memory=True, port=0, secure=True, key_file=str(key), mongo_port=-1, ydb_port=-1) as server:
        refused = run("--url", server.admin_url, "clock", "show")
        assert (refused.exit_code, "Try:   mayfly --token-file PATH" in refused.stderr) == (4, True), refused.output
    other: dict[str, Any] = {"port": 0, "mongo_port": 0, "mongo_profile": "native", "ydb_port": -1}
    with serve(memory=True, allow_time_travel=False, **other) as server:
        refused = run("--url", server.admin_url, "clock", "advance", "1h")
        assert (refused.exit_code, "Try:   mayfly serve --allow-time-travel" in refused.stderr) == (4, True)
        with server.mongo.client() as client:
            client.app.otps.insert_one({"_id": 1})
        refused = run("--url", server.admin_url, "ttl", "preview", "mongo:app.otps", "60")
        assert (refused.exit_code, "Try:   name one: --index NAME, or --field NAME" in refused.stderr) == (1, True)


def test_the_limit_of_snapshots(run: Run, filled: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayflydb.store.sqlite.snapshots.MAX_SNAPSHOTS", 0)
    refused = run("--url", filled.admin_url, "snapshot", "save", "one")
    assert "Try:   delete one: mayfly snapshot delete NAME" in refused.stderr


@pytest.mark.parametrize("key", WORDS)
def test_each_hint_has_words_of_the_command_line(run: Run, server: AdminStub, key: str) -> None:
    formats = (WORDS[key].http, WORDS[key].cli, WORDS[key].python, WORDS[key].page)
    names = {name for text in formats for _, name, _, _ in Formatter().parse(text.replace('{"', "")) if name}
    hint = Hint(key, {name: f"<{name}>" for name in names})
    server.answers["GET", "/_mayfly/clock"] = (409, problem(409, "Conflict", "no", hint))
    told = run("--url", server.url, "clock", "show").stderr.partition("Try:   ")[2].strip()
    assert told == word_hint(hint, "cli")
    assert "/_mayfly" not in told and '"force"' not in told and "serve(" not in told
    assert all(f"<{name}>" in told for name in names)


def test_each_hint_is_used_and_has_a_row() -> None:
    used = {
        key for path in SOURCES.rglob("*.py") for key in re.findall(r'\bHint\("([a-z-]+)"', path.read_text("utf-8"))
    }
    assert used == set(WORDS)


def test_a_hint_of_another_version_is_shown_as_it_came(run: Run, server: AdminStub) -> None:
    for values in ({"hint_key": "of-tomorrow"}, {"hint_key": "units"}, {"hint_key": "units", "hint_values": 5}):
        server.answers["GET", "/_mayfly/clock"] = (409, {"title": "no", "hint": "wait"} | values)
        assert run("--url", server.url, "clock", "show").stderr == "Error: no\nTry:   wait\n"


def test_python_says_the_hint_in_its_own_words(filled: RunningServer) -> None:
    with pytest.raises(Conflict) as refused:
        filled.clock.set("2030-01-01T00:00:05Z")
    assert refused.value.__notes__ == ["Try: nothing stored is newer: clock.set(to, force=True)"]
    with pytest.raises(NotFound) as remote:
        RemoteControls(filled.admin_url).ask("POST", "snapshots/{name}/restore", name="none")
    assert remote.value.__notes__ == ["Try: GET /_mayfly/snapshots names all of them"]


def test_http_says_it_in_its_own_words() -> None:
    document = json.loads(problem(404, "Not found", "no index", Hint("no-such-index", {"names": "_id_"})))
    assert document["hint"] == "it has _id_; or name a field"
    assert (document["hint_key"], document["hint_values"]) == ("no-such-index", {"names": "_id_"})
