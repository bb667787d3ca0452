"""`mayfly copy` and `mayfly data`: what they say, what they refuse, and what the vendor's client finds afterwards."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from click.testing import CliRunner, Result

from frontends.cosmos.service import older_rid
from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.config import file_url
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import SECOND
from mayflydb.moving.copy import UNFINISHED
from mayflydb.store.interface import SetNumber, Store
from mayflydb.store.postgres import PostgresStore, membership
from mayflydb.store.sqlite import SqliteStore
from moving.contents import Everything, change, everything, fill
from postgres_cluster import PASSWORD, Cluster

START = "2030-01-01T00:00:00Z"
PATIENCE = 60


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine or the user reach a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("MAYFLY_CONFIG", "MAYFLY_STORAGE_URL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(mayfly, [str(argument) for argument in arguments], catch_exceptions=False)


def done(*arguments: object) -> dict[str, Any]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


async def opened(url: str) -> Store:
    if url.startswith("postgresql"):
        return await PostgresStore.open(url, alone=True)
    return await SqliteStore.open("/" + url.removeprefix("sqlite:///").removeprefix("/"))


def within(url: str, work: Callable[[Store], Any]) -> Any:
    """What a coroutine finds in a store that is opened for it."""

    async def there() -> Any:
        store = await opened(url)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(there())


def contents(url: str) -> Everything:
    found: Everything = within(url, everything)
    return found


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A store with records of every kind."""
    url = file_url(tmp_path / "old.db")
    within(url, lambda store: fill(store, 1, 200))
    return url


@pytest.fixture
def new(tmp_path: Path) -> str:
    return file_url(tmp_path / "new.db")


# --- what they do --------------------------------------------------------------------------------------------------------


def test_copy(old: str, new: str) -> None:
    found = done("copy", old, new)
    assert (found["from"], found["to"], found["there_before"]) == (old, new, 0)
    assert found["records"] == sum(map(len, contents(new).records.values())) > 100
    assert contents(new) == contents(old)
    assert done("copy", old, new)["there_before"] == found["records"]


def test_export_and_import(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = done("data", "export", "all.mayfly", "--storage", old)
    assert (out["from"], out["to"]) == (old, "all.mayfly")
    monkeypatch.setenv("MAYFLY_STORAGE_URL", new)
    back = done("data", "import", "all.mayfly")
    assert (back["from"], back["to"], back["records"]) == ("all.mayfly", new, out["records"])
    assert contents(new) == contents(old)


def test_the_default_is_that_of_serve(old: str, tmp_path: Path) -> None:
    (tmp_path / "old.db").rename(tmp_path / "mayfly.db")
    assert done("data", "export", "all.mayfly")["from"] == file_url(tmp_path / "mayfly.db")


# --- what they refuse ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("copy", "sqlite:///./missing.db", "NEW"), "there is no file"),
        (("copy", "memory", "NEW"), "what is in memory ends"),
        (("copy", "OLD", "memory"), "what is in memory ends"),
        (("copy", "OLD", "OLD"), "are the same"),
        (("copy", "old.db", "NEW"), "is not a storage"),
        (("copy", "OLD", "sqlite:///./there/is/no/directory.db"), "cannot be opened"),
        (("data", "export", "all.mayfly", "--storage", "sqlite:///./missing.db"), "there is no file"),
        (("data", "export", "old.db", "--storage", "OLD"), "old.db exists"),
        (("data", "export", "there/is/no/directory", "--storage", "OLD"), "No such file"),
        (("data", "import", "missing", "--storage", "NEW"), "No such file"),
        (("data", "import", "old.db", "--storage", "NEW"), "no export"),
    ],
)
def test_refused(old: str, new: str, tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    """With a sentence; beside the lock and the reserve of a store that is opened, nothing is made and nothing is changed."""
    before = contents(old)
    result = run(*[{"OLD": old, "NEW": new}.get(word, word) for word in arguments])
    assert result.exit_code in (1, 2)
    assert reason in result.stderr
    assert "Traceback" not in result.output
    assert {path.name for path in tmp_path.iterdir()} <= {"old.db", "old.db-lock", "old.db-reserve", "data"}
    assert contents(old) == before


def test_what_is_served_is_not_moved(old: str, new: str, tmp_path: Path) -> None:
    with serve(tmp_path / "new.db", port=0):
        for arguments in (("copy", new, "sqlite:///./another.db"), ("copy", old, new)):
            assert "new.db is in use" in run(*arguments).stderr
        exported = run("data", "export", "--storage", new, str(tmp_path / "all.export"))
        assert "new.db is in use" in exported.stderr
        assert "data export FILE --target TARGET" in exported.stderr and "snapshot export NAME FILE" in exported.stderr
    assert not (tmp_path / "another.db").exists()
    # Its events and its time are those of another life.
    assert "new.db is not new: it has been served before" in run("copy", old, new).stderr


def test_a_database_that_is_served_is_not_moved(new: str, postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.fresh()
    with serve(storage=url, port=0):
        result = run("copy", url, new)
    assert "in use by another node" in result.stderr
    assert PASSWORD not in result.output
    assert not (tmp_path / "new.db").exists()


def test_half_a_copy_is_not_served(old: str, tmp_path: Path) -> None:
    within(old, lambda store: change(store, SetNumber(UNFINISHED, 5)))
    with pytest.raises(StartFailed, match="holds an unfinished copy") as caught, serve(tmp_path / "old.db", port=0):
        pass
    assert (caught.value.setting, caught.value.exit_code) == ("storage.url", 4)


def test_no_password_is_shown(old: str, postgres: Cluster) -> None:
    for url in (postgres.fresh(), postgres.fresh().replace("/d", "/missing"), f"postgresql://u:{PASSWORD}@h:port/d"):
        results = [run("copy", old, url), run("data", "export", "f", "--storage", url)]
        assert not [result.output for result in results if PASSWORD in result.output]


# --- killed --------------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from mayflydb.cli.progress import ProgressLine
from mayflydb.cli.main import mayfly
from mayflydb.moving import source

def update(self, done, total=None):
    if done >= 40:
        os.kill(os.getpid(), signal.SIGKILL)

source.PIECE_RECORDS = 7
ProgressLine.update = update
mayfly.main(sys.argv[1:])
"""


def killed(*arguments: str) -> None:
    """The command in a process of its own, which is killed when some records are there."""
    ended = subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=PATIENCE, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_a_copy_that_was_killed_goes_on(
    old: str, new: str, request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = new if kind == "file" else request.getfixturevalue("postgres").fresh()
    killed("copy", old, target)
    # The next one waits until the dead one's lease is over.
    monkeypatch.setattr(membership, "LEASE", SECOND // 4)
    assert 0 < done("copy", old, target)["there_before"] < 40 + 7
    assert contents(target) == contents(old)


def test_an_export_and_an_import_that_were_killed_go_on(old: str, new: str, tmp_path: Path) -> None:
    killed("data", "export", "all.mayfly", "--storage", old)
    assert not (tmp_path / "all.mayfly").exists()
    assert done("data", "export", "all.mayfly", "--storage", old)["there_before"] > 0
    killed("data", "import", "all.mayfly", "--storage", new)
    assert done("data", "import", "all.mayfly", "--storage", new)["there_before"] > 0
    assert contents(new) == contents(old)


# --- as the vendor's client sees it --------------------------------------------------------------------------------------

SHOP: dict[str, dict[str, Any]] = {
    "plain": {"id": "plain", "pk": "a", "email": "1"},
    "own": {"id": "own", "pk": "a", "email": "2", "ttl": 100},
    "for ever": {"id": "for ever", "pk": "b", "email": "3", "ttl": -1},
}


def open_shop(server: RunningServer) -> Any:
    return server.cosmos.client().get_database_client("shop").get_container_client("items")


def make_shop(server: RunningServer) -> None:
    database = server.cosmos.client().create_database("shop")
    unique = {"uniqueKeys": [{"paths": ["/email"]}]}
    items = database.create_container("items", PartitionKey("/pk"), default_ttl=50, unique_key_policy=unique)
    for item in SHOP.values():
        items.create_item(item)
        server.clock.advance(seconds=1)
    items.replace_item("plain", SHOP["plain"] | {"more": True})


def look(server: RunningServer) -> list[Any]:
    """Everything with its system properties: _rid, _etag, _ts."""
    database = server.cosmos.client().get_database_client("shop")
    return [database.read(), open_shop(server).read(), *open_shop(server).read_all_items()]


def moved_to(kind: str, old: str, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The shop in another store, and the keywords to serve it."""
    if kind == "postgres":
        url = request.getfixturevalue("postgres").fresh()
        done("copy", old, url)
        return {"storage": url, "allow_time_travel": True}
    new = file_url(tmp_path / "new.db")
    if kind == "file":
        done("copy", old, new)
    else:
        done("data", "export", "shop.mayfly", "--storage", old)
        done("data", "import", "shop.mayfly", "--storage", new)
    return {"path": tmp_path / "new.db"}


@pytest.mark.parametrize("kind", ["file", "postgres", "export"])
def test_the_client_finds_everything_as_it_was(tmp_path: Path, request: pytest.FixtureRequest, kind: str) -> None:
    place = tmp_path / "shop.db"
    with serve(place, port=0, clock="virtual", clock_start=START) as server:
        make_shop(server)
        before, now = look(server), server.clock.now()
    assert all({"_rid", "_etag", "_ts"} <= each.keys() for each in before)
    with serve(**moved_to(kind, file_url(place), tmp_path, request), port=0, clock="virtual") as server:
        assert server.clock.now() >= now
        assert look(server) == before
        items = open_shop(server)
        for item in before[2:]:
            # The rids of earlier versions are brought along too.
            link = item["_self"].replace(item["_rid"], older_rid(item["_rid"]))
            assert link != item["_self"] and items.read_item({**item, "_self": link}, item["pk"]) == item
        lives(server, items)
        made = server.cosmos.client().create_database("other").create_container("items", PartitionKey("/pk"))
        assert made.read()["_rid"] not in {each["_rid"] for each in before}


def lives(server: RunningServer, items: Any) -> None:
    """Unique keys hold, versions are told apart, and each item dies at the second at which it would have."""
    with pytest.raises(CosmosHttpResponseError, match="Unique"):
        items.create_item({"id": "new", "pk": "a", "email": "2"})
    # The plain one was written again at 3, its own ttl was given at 1.
    for second, gone in [(52, set()), (53, {"plain"}), (100, {"plain"}), (101, {"plain", "own"})]:
        server.clock.set(f"2030-01-01T00:0{second // 60}:{second % 60:02}Z")
        assert {item["id"] for item in items.read_all_items()} == SHOP.keys() - gone, second
    items.create_item({"id": "new", "pk": "a", "email": "2"})
