"""Databases without ports: containers, clock, TTL and events, blocking and awaited, on every store; and HTTP in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import mayflydb
import mayflydb.aio
from mayflydb.announcement import StartFailed
from mayflydb.embedded.databases import Database
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.model.errors import BadRequest, Conflict, MayflyError, NotFound, PreconditionFailed
from postgres_cluster import Cluster

START = "2026-01-01T00:00:00Z"
ITEM = {"id": "s1", "userId": "u1"}


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        cluster: Cluster = request.getfixturevalue("postgres")
        return cluster.fresh()
    return ":memory:" if request.param == "memory" else str(tmp_path / "shop.db")


@pytest.fixture(scope="module")
def memory() -> Iterator[Database]:
    with mayflydb.open(":memory:", clock="virtual", clock_start=START) as db:
        yield db


@pytest.fixture
def db(memory: Database) -> Database:
    memory.reset()
    return memory


def test_an_item_expires_at_its_second(place: str) -> None:
    with mayflydb.open(place, clock="virtual", clock_start=START, allow_time_travel=True) as db:
        sessions = db.cosmos("shop").container("sessions", partition_key="/userId", default_ttl=3600)
        assert sessions.upsert(ITEM)["_ts"] == 1_767_225_600
        assert db.ttl.preview(sessions.target, 1800)["records"] == 1
        assert db.ttl.forecast("2h")["in_horizon"] == 1
        assert db.ttl.advise(sessions.target)["targets"][0]["created"] == 1
        db.clock.advance(seconds=3599)
        assert sessions.get("s1", "u1") is not None
        db.clock.advance(seconds=1)
        assert sessions.get("s1", "u1") is None
        assert [each.id for each in db.events.expired] == ["s1"]


def test_the_same_awaited(place: str) -> None:
    async def run() -> None:
        async with mayflydb.aio.open(place, clock="virtual", clock_start=START, allow_time_travel=True) as db:
            sessions = await db.cosmos("shop").container("sessions", partition_key="/userId", default_ttl=3600)
            await sessions.upsert(ITEM)
            assert (await db.ttl.advise(sessions.target))["targets"][0]["created"] == 1
            assert (await db.ttl.preview(sessions.target, 1800))["records"] == 1
            assert (await db.ttl.explain(sessions.target, "s1", "u1"))["reason"] == "default"
            await db.clock.advance("59m59s")
            assert [each["id"] async for each in sessions.query("SELECT * FROM c")] == ["s1"]
            await db.clock.advance_to_next_expiry()
            assert await sessions.get("s1", "u1") is None
            assert [each.id for each in await db.events.expired()] == ["s1"]
            assert (await db.purge())["purged"] == 0

    asyncio.run(run())


def test_a_file_keeps_what_is_written(tmp_path: Path) -> None:
    for turn in range(2):
        with mayflydb.open(tmp_path / "kept.db") as db:
            carts = db.cosmos("shop").container("carts", "/userId")
            assert (carts.get("s1", "u1") is None) == (turn == 0)
            carts.upsert(ITEM)


REFUSED: list[tuple[str, type[MayflyError], Callable[[Any], object]]] = [
    ("an id twice", Conflict, lambda c: (c.create(ITEM), c.create(ITEM))),
    ("no item to replace", NotFound, lambda c: c.replace({"id": "none", "userId": "u1"})),
    ("another etag", PreconditionFailed, lambda c: (c.upsert(ITEM), c.replace(ITEM, if_match='"0"'))),
    ("no item to delete", NotFound, lambda c: c.delete("none", "u1")),
    ("a wrong query", BadRequest, lambda c: list(c.query("SELEC * FROM c"))),
    ("a ttl of 0", BadRequest, lambda c: c.upsert(ITEM | {"ttl": 0})),
    ("an item without an id", BadRequest, lambda c: c.upsert({"userId": "u1"})),
]


@pytest.mark.parametrize(("case", "error", "call"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(db: Database, case: str, error: type[MayflyError], call: Callable[[Any], object]) -> None:
    container = db.cosmos("shop").container("c", "/userId", default_ttl=60)
    with pytest.raises(error):
        call(container)


def test_items_are_changed(db: Database) -> None:
    container = db.cosmos("shop").container("c", "/userId", default_ttl=-1)
    made = container.create(ITEM)
    assert container.replace(ITEM | {"n": 1}, if_match=made["_etag"])["n"] == 1
    assert container.patch("s1", "u1", [{"op": "incr", "path": "/n", "value": 2}])["n"] == 3
    container.delete("s1", "u1")
    assert container.get("s1", "u1") is None
    db.ttl.set(container.target, 60)
    assert container.default_ttl() == 60


def test_results_come_page_by_page(db: Database) -> None:
    container = db.cosmos("shop").container("c", "/userId")
    for n in range(250):
        container.upsert({"id": str(n), "userId": f"u{n % 7}"})
    assert len(list(container.query("SELECT VALUE c.id FROM c"))) == 250
    assert len(list(container.query("SELECT * FROM c", partition_key="u0"))) == 36
    # Groups are not merged here, so the key must be named: by the call, or by WHERE.
    assert list(container.query("SELECT VALUE COUNT(1) FROM c", partition_key="u0")) == [36]
    assert list(container.query("SELECT VALUE COUNT(1) FROM c WHERE c.userId = 'u0'")) == [36]
    with pytest.raises(BadRequest, match="can not be directly served"):
        list(container.query("SELECT VALUE COUNT(1) FROM c"))


def test_a_key_of_several_paths(db: Database) -> None:
    container = db.cosmos("shop").container("c", ["/tenant", "/userId"])
    container.upsert(ITEM | {"tenant": "t"})
    assert container.get("s1", ["t", "u1"]) is not None
    assert container.get("s1", ["t", "u2"]) is None


def test_a_container_is_opened_as_it_is(db: Database) -> None:
    shop = db.cosmos("shop")
    with pytest.raises(NotFound, match="a partition_key makes one"):
        shop.container("c")
    shop.container("c", "/userId", default_ttl=60)
    assert shop.container("c").default_ttl() == 60
    with pytest.raises(Conflict, match="partition key"):
        shop.container("c", "/other")
    with pytest.raises(Conflict, match=r"db\.ttl\.set"):
        shop.container("c", default_ttl=61)
    assert shop.containers() == ["c"]
    shop.container("c").drop()
    assert shop.containers() == []
    shop.delete()
    with pytest.raises(NotFound):
        shop.containers()


def test_seeds_and_snapshots(db: Database) -> None:
    db.seed({"databases": [{"id": "shop", "containers": [{"id": "c", "partition_key": "/userId", "items": [ITEM]}]}]})
    container = db.cosmos("shop").container("c")
    db.snapshot("before")
    container.delete("s1", "u1")
    db.restore("before")
    assert container.get("s1", "u1") is not None
    assert db.stats()["records"] == 1


@pytest.mark.parametrize(
    ("place", "keywords", "error", "text"),
    [
        (":memory:", {"port": 0}, TypeError, "no setting 'port'"),
        (":memory:", {"storage": "memory"}, TypeError, "no setting 'storage'"),
        (":memory:", {"clock": "later"}, StartFailed, "later"),
        ("mysql://u:secret@h/d", {}, TypeError, "postgresql://"),
        ("/nowhere/at/all/x.db", {}, StartFailed, "nowhere"),
    ],
)
def test_a_place_or_setting_that_is_refused(
    place: str, keywords: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        mayflydb.open(place, **keywords)
    assert "secret" not in str(caught.value)


def test_a_closed_database_says_so() -> None:
    db = mayflydb.open(":memory:")
    db.close()
    db.close()
    with pytest.raises(RuntimeError, match="ended"):
        db.stats()


def sign(key: str, method: str, path: str) -> dict[str, str]:
    async def no_app(_: object) -> Any:
        raise AssertionError

    return Caller(no_app, Keys.from_base64(key)).sign_headers(method, path.encode())


def test_http_in_process_from_another_loop(db: Database) -> None:
    db.cosmos("shop").container("c", "/userId", default_ttl=60).upsert(ITEM)

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(db.asgi), base_url="http://localhost") as client:
            path = "/dbs/shop/colls/c/docs"
            key = {"x-ms-documentdb-partitionkey": '["u1"]'}
            read = await client.get(f"{path}/s1", headers=sign(db.key, "GET", f"{path}/s1") | key)
            assert (read.status_code, read.json()["id"]) == (200, "s1")
            large = {"id": "s2", "userId": "u1", "text": "x" * 1_000_000}
            made = await client.post(path, json=large, headers=sign(db.key, "POST", path) | key)
            assert made.status_code == 201
            assert (await client.get(path)).status_code == 401
            assert (await client.get("/_mayfly/ready")).json()["ready"] is True
            assert "ports" in (await client.get("/_mayfly/info")).json()
            assert "Overview" in (await client.get("/_explorer/")).text
            assert (await client.get("/metrics")).status_code == 200
            advanced = await client.post("/_mayfly/clock/advance", json={"seconds": 60})
            assert advanced.json()["purged"] == 2
            missing = await client.get("/_mayfly/cert")
            assert (missing.status_code, missing.json()["detail"]) == (
                404,
                "no port is served here, so there is no certificate",
            )

    asyncio.run(run())


def test_http_in_process_on_its_own_loop() -> None:
    async def run() -> None:
        async with mayflydb.aio.open(":memory:", clock="virtual") as db:
            transport = httpx.ASGITransport(db.asgi)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                answer = await client.get("/_mayfly/clock")
                assert answer.json()["mode"] == "virtual"

    asyncio.run(run())


def test_the_application_takes_part_in_a_lifespan(db: Database) -> None:
    received = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def run() -> None:
        async def receive() -> dict[str, Any]:
            return received.pop(0)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await db.asgi({"type": "lifespan"}, receive, send)
        with pytest.raises(ValueError, match="HTTP alone"):
            await db.asgi({"type": "websocket"}, receive, send)

    asyncio.run(run())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
