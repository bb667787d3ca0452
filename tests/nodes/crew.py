"""Nodes on one database, all in this process: each has its own store and engine, as a process of its own would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import msgspec

from mayflydb.clock import SystemClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.engine.timekeeper import MARK
from mayflydb.frontends.cosmos.policies import parse_container
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.model.instant import MILLISECOND, Span
from mayflydb.model.record import Record
from mayflydb.store.interface import NamedNumber
from mayflydb.store.postgres import PostgresStore
from mayflydb.store.postgres.connection import connect
from postgres_cluster import ROLE, Cluster

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds that anything may take."""

SWEEP_INTERVAL: Span = 50 * MILLISECOND


class Member:
    """One node. Made by `open`; ends by `close`, or as a killed process does by `die`."""

    def __init__(self, store: PostgresStore, engine: Engine) -> None:
        self.store = store
        self.engine = engine
        self.reaping: asyncio.Task[None] | None = None
        self.dead = False

    @classmethod
    async def open(cls, url: str) -> Member:
        store = await PostgresStore.open(url)
        clock = SystemClock(await store.read(NamedNumber(MARK)), wall=store.wall)
        return cls(store, await open_engine(store, clock, SWEEP_INTERVAL, store.lease, holds=store.holds))

    @property
    def number(self) -> int:
        """Its id among the nodes."""
        return self.store._membership._node or 0

    def reap(self) -> None:
        """From now on it purges, whenever it has the lease."""
        self.reaping = asyncio.create_task(self.engine.reaper.run())

    async def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """What a client that asks this node is answered."""
        node = await self.node(container)
        return await self.engine.get(node, partition, key, await self.engine.now())

    async def node(self, container: int) -> Node:
        """A container that is there."""
        node = await self.engine.node_by_id(container)
        assert node is not None
        return node

    async def close(self) -> None:
        if not self.dead:
            await self._end([self.reaping])
            await self.store.close()

    async def die(self) -> None:
        """Its tasks end where they are and the database finds its connections closed; it tells nobody."""
        self.dead = True
        writer = self.store._writer
        await self._end([self.reaping, writer._task, *writer._background, self.store.holds._cleaning])
        await self.deafen()
        if writer._connection is not None:
            writer._connection.terminate()
        self.store._pool.terminate()

    async def deafen(self) -> None:
        """It hears nothing of the other nodes and sends no beat; all else goes on."""
        membership = self.store._membership
        await self._end([membership._task])
        if membership._connection is not None:
            membership._connection.terminate()

    async def _end(self, tasks: Iterable[asyncio.Task[None] | None]) -> None:
        ended = [task for task in tasks if task is not None]
        for task in ended:
            task.cancel()
        if ended:
            await asyncio.wait(ended, timeout=PATIENCE)


@asynccontextmanager
async def crew(url: str, count: int) -> AsyncIterator[list[Member]]:
    """So many nodes on one database."""
    async with AsyncExitStack() as stack:
        members = []
        for _ in range(count):
            members.append(await Member.open(url))
            stack.push_async_callback(members[-1].close)
        yield members


async def container(member: Member, ttl: int | None = None, name: str = "c", history: Span | None = None) -> int:
    """The id of a new container in the database `d` of the Cosmos space; `history`: how long it remembers versions."""
    engine = member.engine
    now = await engine.now()
    space = await engine.definitions.space("cosmos", now)
    database = await engine.node("cosmos", "d") or await engine.definitions.create(space.id, "d", Definition({}, now))
    described = msgspec.structs.replace(definition(ttl, now), history=history)
    return (await engine.definitions.create(database.id, name, described)).id


def definition(ttl: int | None, now: int) -> Definition:
    """A container with that default, as the Cosmos front end describes it."""
    body = {"id": "c", "partitionKey": {"paths": ["/p"], "kind": "Hash", "version": 2}}
    return Definition(parse_container(body).to_json(), now, rules=rules_of(ttl))


async def set_ttl(member: Member, id: int, ttl: int | None) -> None:
    """Another default for a container, acknowledged."""
    now = await member.engine.now()
    await member.engine.definitions.replace(id, lambda node: definition(ttl, now), now)


async def until(condition: Callable[[], Awaitable[T]], seconds: float = PATIENCE) -> T:
    """What the condition comes to once that is true; TimeoutError when it does not come true in time."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):  # noqa: ASYNC110 -- nobody tells of what happens in a database.
            await asyncio.sleep(0)
    return found


async def together(*work: Coroutine[Any, Any, Any], seconds: float = 2 * PATIENCE) -> None:
    """All of it to its end, or the first error; bounded."""
    async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)


class Admin:
    """The superuser's look into one database, which is no node's."""

    def __init__(self, connection: asyncpg.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self.cut = 0

    async def cut_all(self) -> int:
        """End every connection that nodes have to the database."""
        cut: int = await self._connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = $1 AND datname = $2",
            ROLE,
            self._name,
        )
        self.cut += cut
        return cut

    async def value(self, statement: str) -> Any:
        """What one statement comes to, in one column of one row."""
        return await self._connection.fetchval(statement)


@asynccontextmanager
async def admin(cluster: Cluster, url: str) -> AsyncIterator[Admin]:
    """A superuser's connection to the database of that url."""
    name = urlsplit(url).path
    connection = await connect(cluster.url.removesuffix("/postgres") + name)
    try:
        yield Admin(connection, name.removeprefix("/"))
    finally:
        connection.terminate()


def since(began: float) -> float:
    """Seconds."""
    return monotonic() - began
