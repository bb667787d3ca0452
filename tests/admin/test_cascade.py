"""Cascades: the records that name an expired record leave with it, for all three protocols, on every store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from pymongo import ASCENDING

import stores
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

LIFE = 100


class World:
    """Orders, their lines, and notes on lines: a container of each protocol.

    `put`: writes a record with its owner; `delete`, `ids`: as a client sees them.
    """

    targets: dict[str, str]
    path: str
    put: Callable[[str, str, str | None], object]
    delete: Callable[[str, str], object]
    ids: Callable[[str], list[str]]

    def __init__(self, server: RunningServer, protocol: str) -> None:
        self.server, self.protocol = server, protocol
        self.http = Http(port_of(server))
        self.close: Callable[[], object] = lambda: None
        getattr(self, f"_open_{protocol}")()

    def _open_cosmos(self) -> None:
        client = self.server.cosmos.client()
        shop = client.create_database("shop")
        made = {
            name: shop.create_container(name, PartitionKey("/pk"), default_ttl=life)
            for name, life in (("orders", LIFE), ("lines", None), ("notes", None))
        }
        self.targets = {name: f"cosmos:shop/{name}" for name in made}
        self.path = "/owner"
        self.put = lambda name, id, owner: made[name].upsert_item({"id": id, "pk": "p", "owner": owner})
        self.delete = lambda name, id: made[name].delete_item(id, "p")
        self.ids = lambda name: sorted(item["id"] for item in made[name].read_all_items())

    def _open_mongo(self) -> None:
        from datetime import datetime

        client = self.server.mongo.client(tz_aware=True)
        self.close = client.close
        app = client["app"]
        app["orders"].create_index("at", expireAfterSeconds=LIFE)
        for name in ("lines", "notes"):
            app[name].create_index([("owner", ASCENDING)])
        self.targets = {name: f"mongo:app.{name}" for name in ("orders", "lines", "notes")}
        self.path = "owner"

        def put(name: str, id: str, owner: str | None) -> None:
            at = datetime.fromisoformat(self.http.get("clock")["now"])
            app[name].replace_one({"_id": id}, {"_id": id, "owner": owner, "at": at}, upsert=True)

        self.put = put
        self.delete = lambda name, id: app[name].delete_one({"_id": id})
        self.ids = lambda name: sorted(each["_id"] for each in app[name].find())

    def _open_ydb(self) -> None:
        import ydb

        driver = self.server.ydb.driver()
        pool = ydb.QuerySessionPool(driver)

        def close() -> None:
            pool.stop()
            driver.stop()

        self.close = close
        run = pool.execute_with_retries
        run(
            "CREATE TABLE orders (id Utf8, owner Utf8, at Timestamp, PRIMARY KEY (id))"
            f' WITH (TTL = Interval("PT{LIFE}S") ON at)'
        )
        # The lines by their own index, the notes by the beginning of their key.
        run(
            "CREATE TABLE lines (id Utf8, owner Utf8, at Timestamp, INDEX by_owner GLOBAL ON (owner), PRIMARY KEY (id))"
        )
        run("CREATE TABLE notes (owner Utf8, id Utf8, at Timestamp, PRIMARY KEY (owner, id))")
        self.targets = {name: f"ydb:/local/{name}" for name in ("orders", "lines", "notes")}
        self.path = "owner"

        def put(name: str, id: str, owner: str | None) -> None:
            value = "NULL" if owner is None else f'"{owner}"u'
            run(f'UPSERT INTO {name} (id, owner, at) VALUES ("{id}"u, {value}, CurrentUtcTimestamp())')

        self.put = put
        self.delete = lambda name, id: run(f'DELETE FROM {name} WHERE id = "{id}"u')
        self.ids = lambda name: sorted(row.id for row in run(f"SELECT id FROM {name}")[0].rows)

    def cascade(self, parent: str, *children: str) -> dict[str, Any]:
        wanted = [{"to": self.targets[child], "path": self.path} for child in children]
        return dict(self.http.post("lifecycle", target=self.targets[parent], cascade=wanted))

    def refuse(self, parent: str, child: str, path: str | None = None) -> tuple[int, str]:
        wanted = [{"to": self.targets[child], "path": path or self.path}]
        answer = self.http("POST", "/_mayfly/lifecycle", {"target": self.targets[parent], "cascade": wanted})
        return answer.status, str(answer.json)

    def expire(self, seconds: int = LIFE) -> None:
        self.server.clock.advance(seconds=seconds)
        self.http.post("purge")

    def all(self) -> dict[str, list[str]]:
        return {name: self.ids(name) for name in self.targets}

    def events(self) -> list[tuple[str, str, str]]:
        found = self.http.get("events/expired?limit=1000")["events"]
        return sorted((each["target"], str(each["id"]).strip('"'), each["reason"]) for each in found)


@pytest.fixture(scope="module", params=stores.STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory: Path = tmp_path_factory.mktemp("cascade")
    place = stores.place(request.param, request, directory) | {"scheme": "http"}
    with serve(port=0, clock="virtual", clock_start=START, **place) as running:
        yield running


@pytest.fixture(params=["cosmos", "mongo", "ydb"])
def world(store: RunningServer, request: pytest.FixtureRequest) -> Iterator[World]:
    store.start_at(START)
    made = World(store, request.param)
    yield made
    made.close()


def test_children_and_their_children_leave_with_a_record(world: World) -> None:
    assert [each["indexed"] for each in world.cascade("lines", "notes")["cascade"]] == [True]
    world.cascade("orders", "lines")
    for order in ("o1", "o2"):
        world.put("orders", order, None)
        for line in ("a", "b"):
            world.put("lines", f"{order}{line}", order)
            world.put("notes", f"{order}{line}n", f"{order}{line}")
    world.put("lines", "free", None)
    world.put("lines", "stray", "o3")
    world.server.clock.advance(seconds=50)
    world.put("orders", "o2", None)
    world.expire(50)
    assert world.all() == {
        "orders": ["o2"],
        "lines": ["free", "o2a", "o2b", "stray"],
        "notes": ["o2an", "o2bn"],
    }
    cause = {"cosmos": "default", "mongo": "index", "ydb": "column"}[world.protocol]

    def key(owner: str, id: str) -> str:
        return f'["{owner}","{id}"]' if world.protocol == "ydb" else id

    assert world.events() == sorted(
        [(world.targets["orders"], "o1", cause)]
        + [(world.targets["lines"], f"o1{line}", "cascade") for line in "ab"]
        + [(world.targets["notes"], key(f"o1{line}", f"o1{line}n"), "cascade") for line in "ab"]
    )


def test_a_record_stays_until_its_last_child_has_left(world: World) -> None:
    world.cascade("orders", "lines")
    world.put("orders", "o1", None)
    world.put("lines", "a", "o1")
    world.http.post("ttl/pause", target=world.targets["lines"])
    world.expire()
    assert world.ids("lines") == ["a"]
    assert world.events() == []
    world.http.post("ttl/resume", target=world.targets["lines"])
    world.expire(60)
    assert (world.ids("lines"), len(world.events())) == ([], 2)


def test_a_delete_by_a_client_is_no_expiry(world: World) -> None:
    world.cascade("orders", "lines")
    world.put("orders", "o1", None)
    world.put("lines", "a", "o1")
    world.delete("orders", "o1")
    world.expire()
    assert (world.ids("lines"), world.events()) == (["a"], [])


def test_what_cannot_be_is_refused(world: World) -> None:
    world.cascade("lines", "notes")
    assert world.refuse("notes", "lines")[0] == 400
    assert world.refuse("lines", "lines")[0] == 400
    status, words = world.refuse("orders", "lines", {"cosmos": "no path"}.get(world.protocol, "missing"))
    assert status == {"cosmos": 400, "mongo": 409, "ydb": 400}[world.protocol], words
    status, words = world.refuse("orders", "lines", {"cosmos": "no path"}.get(world.protocol, "at"))
    assert status == {"cosmos": 400, "mongo": 409, "ydb": 400}[world.protocol], words
    world.cascade("lines")
    assert world.http.get(f"lifecycle?target={world.targets['lines']}")["targets"][0]["cascade"] == []


def test_many_children_leave_in_several_transactions(world: World) -> None:
    world.cascade("orders", "lines")
    world.put("orders", "o1", None)
    chance = random.Random(5)
    number = 700 if world.protocol == "mongo" else 60
    for n in chance.sample(range(number), number):
        world.put("lines", f"l{n}", "o1")
    world.expire()
    assert (world.ids("orders"), world.ids("lines"), len(world.events())) == ([], [], number + 1)
