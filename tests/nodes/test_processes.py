"""Two servers on one database, one of them killed again and again: the other goes on, and nothing acknowledged is lost.

Each death is told once by events, by the erasure log and by a webhook.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import cast
from urllib.parse import urlsplit

import apsw
import pytest

from mayflydb.store.postgres.connection import connect
from nodes.crew import since, together
from postgres_cluster import Cluster
from reliability.deaths import Receiver, check_agreement
from reliability.kill9.load import CLIENTS, Item, Life
from reliability.kill9.process import Server
from reliability.kill9.wire import Connection, Gone
from served import Http

ROUNDS, WRITES = 3, 150
"""Kills, and acknowledged writes before each."""

SOAKED = 100
"""Kills of one pair of servers in a long run."""

SURVIVOR = 40
"""Writes that the other server must acknowledge after each kill."""


class OnPostgres(Server):
    """A server on a database that others share."""

    def __init__(self, directory: Path, url: str) -> None:
        directory.mkdir()
        self._url = url
        super().__init__(directory)

    @property
    def _arguments(self) -> list[str]:
        return ["serve", "--storage", self._url, "-p", "0", "--sweep-interval", "50ms", "--erasure-log"]


class Pair:
    """Two servers, of which whoever asks for the port gets one or the other."""

    def __init__(self, servers: Sequence[Server], seed: int) -> None:
        self.servers = servers
        self._random = random.Random(seed)

    @property
    def port(self) -> int:
        return self._random.choice(self.servers).port


class Shared(Life):
    """Clients who each write to one server and read from both."""

    # Nodes go by the database's time, as far as their beats can measure it.
    doubt = 5_000

    def __init__(self, pair: Pair, seed: int) -> None:
        super().__init__(cast(Server, pair), seed)
        self.pair = pair
        self.after_kill = 0
        self._victim = 0
        self._back = asyncio.Event()

    async def round(self) -> None:
        """Load; one of the two is killed in the middle and starts again, while the other goes on; then all is checked."""
        self._victim, self._killed, self.after_kill = 1 - self._victim, False, 0
        self._kill_at = self.acknowledged + self.random.randint(WRITES // 2, WRITES * 3 // 2)
        victim, dying = self.pair.servers[self._victim], asyncio.Event()
        self._back.clear()

        def kill() -> None:
            os.kill(victim.pid, signal.SIGKILL)
            dying.set()

        async def restart() -> None:
            await dying.wait()
            await asyncio.to_thread(victim.ended)
            await asyncio.to_thread(victim.start)
            self._back.set()

        await together(restart(), *(self._client(number, kill) for number in range(CLIENTS)))
        assert self.after_kill >= SURVIVOR
        await self.check()

    async def _client(self, number: int, kill: Callable[[], None]) -> None:
        mine = [item for item in self.items if item.client == number]
        own = number % 2
        connections = {n: await Connection.open(server.port) for n, server in enumerate(self.pair.servers)}
        try:
            while not (self._back.is_set() and self.after_kill >= SURVIVOR):
                await self._step(connections, own, self.random.choice(mine))
                if self.acknowledged >= self._kill_at and not self._killed:
                    self._killed = True
                    kill()
        except Gone:
            assert self._killed and own == self._victim, f"client {number} lost a server that was not killed"
        finally:
            for connection in connections.values():
                connection.close()

    async def _step(self, connections: dict[int, Connection], own: int, item: Item) -> None:
        if self.random.random() > 0.3:
            await self._write(connections[own], item)
            self.after_kill += self._killed and own != self._victim
            return
        by = self.random.choice(list(connections))
        try:
            await self._read(connections[by], item)
        except Gone:
            if by == own:
                raise
            connections.pop(by).close()


def copied(cluster: Cluster, url: str, file: Path) -> Path:
    """What the judge of events looks at, as a file."""
    database = cluster.url.removesuffix("/postgres") + urlsplit(url).path
    tables = {
        "catalog": ("id, name, parent", "id, convert_from(name, 'UTF8'), parent"),
        "expiry": ("container, version, lsn", "container, version, lsn"),
        "record": ("container, lsn", "container, lsn"),
    }

    async def fetched() -> dict[str, list[tuple[object, ...]]]:
        connection = await connect(database)
        try:
            return {
                table: [tuple(row) for row in await connection.fetch(f"SELECT {columns} FROM mayfly.{table}")]
                for table, (_, columns) in tables.items()
            }
        finally:
            await connection.close()

    copy = apsw.Connection(str(file))
    for table, rows in asyncio.run(fetched()).items():
        names = tables[table][0]
        copy.execute(f"CREATE TABLE {table}({names})")
        copy.executemany(f"INSERT INTO {table} VALUES({', '.join('?' for _ in names.split(','))})", rows)
    copy.close()
    return file


def killed(rounds: int, seed: int, postgres: Cluster, directory: Path) -> str:
    """One of two servers is killed so often under load; what was acknowledged and what died is counted. The account of it."""
    url = postgres.fresh()
    began = monotonic()
    directory.mkdir(exist_ok=True)
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        servers = [stack.enter_context(OnPostgres(directory / name, url)) for name in ("first", "second")]
        for server in servers:
            server.start()
        life = Shared(Pair(servers, seed), seed)

        async def live() -> None:
            await life.set_up()
            Http(servers[0].port).post("webhooks", name="audit", url=receiver.url)
            for _ in range(rounds):
                await life.round()

        asyncio.run(live())
        # Whichever node purged, wrote lines and sent messages, before it was killed or after.
        told = check_agreement(Http(servers[1].port), receiver)
        for server in servers:
            server.kill()
    deaths = life.check_events(copied(postgres, url, directory / "copy.db"))
    assert life.acknowledged >= rounds * (WRITES // 2 + SURVIVOR) and deaths and life.hidden
    assert all(server.starts > 1 for server in servers)
    assert told
    return (
        f"N={rounds} kills in {since(began):.0f} s, {life.acknowledged} acknowledged writes, {life.checked} reads,"
        f" {life.hidden} of the dead, {deaths} deaths, {told} told in {len(receiver.messages)} messages, {dict(life.tally)}"
    )


def test_a_killed_server_takes_nothing_with_it(
    seed: int, postgres: Cluster, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    figure(killed(ROUNDS, seed, postgres, tmp_path))


@pytest.mark.soak
def test_killed_servers_for_long(
    seed: int,
    postgres: Cluster,
    tmp_path: Path,
    soaking: Callable[[float], Iterator[int]],
    figure: Callable[[str], None],
) -> None:
    for number in soaking(0.1):
        figure(killed(SOAKED, seed + number, postgres, tmp_path / str(number)))
