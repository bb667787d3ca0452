"""Clients that remember what they were told, and what a restarted server must therefore answer."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from mayflydb.clock import wall_us
from reliability.kill9.following import Follower
from reliability.kill9.process import Server
from reliability.kill9.wire import Connection, Gone

S = 1_000_000
CLIENTS, SLOTS = 10, 6
LEAD = 1_200_000
"""After a start the server's time may be ahead of the host's by the mark's lease of a second."""

CONTAINERS = {"off": None, "default": 2, "own": -1}
OWN = (None, None, 1, 2, -1, 1000)


@dataclass
class Version:
    """A state of an item: number `n`, or deleted (None). `at`: its _ts in seconds; None while that is not known."""

    n: int | None
    ttl: int | None = None
    at: int | None = None
    sent: int = 0
    lsn: int = 0

    def due(self, default: int | None) -> int | None:
        """The microsecond of its death; None: never, or not known."""
        span = self.ttl if self.ttl is not None else default
        if default is None or span is None or span == -1 or self.at is None or self.n is None:
            return None
        return (self.at + span) * S

    def mortal(self, default: int | None) -> bool:
        span = self.ttl if self.ttl is not None else default
        return default is not None and span not in (None, -1)


@dataclass
class Item:
    """One id of one client. `pending`: a write that was sent and not answered."""

    container: str
    client: int
    id: str
    now: Version = field(default_factory=lambda: Version(None))
    pending: Version | None = None
    history: list[tuple[Version, str]] = field(default_factory=list)

    @property
    def default(self) -> int | None:
        return CONTAINERS[self.container]

    @property
    def path(self) -> str:
        return f"dbs/d/colls/{self.container}/docs/{self.id}"

    def state(self, version: Version, before: int, after: int) -> set[int | None]:
        """What may be read of a version between two instants of the host."""
        due = version.due(self.default)
        if version.n is None:
            return {None}
        if version.at is None and version.mortal(self.default):
            ttl = version.ttl if version.ttl is not None else self.default
            assert ttl is not None
            latest = wall_us() // S + 2 + ttl
            return {None} if before >= latest * S else {version.n, None}
        if due is None or after + LEAD < due:
            return {version.n}
        return {None} if before >= due else {version.n, None}


class Life:
    """One file, and everything that clients know about it over many starts."""

    doubt = 0
    """Microseconds between the server's time and this process's, at most."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.items: list[Item] = []
        self.retired: list[Item] = []
        self.acknowledged = 0
        self.checked = 0
        self.hidden = 0
        self.tally: Counter[str] = Counter()
        self.follower = Follower(CONTAINERS)
        self._n = 0
        self._kill_at = 0
        self._killed = False

    async def set_up(self) -> None:
        """The database and its containers."""
        connection = await Connection.open(self.server.port)
        answer = await connection.ask("POST", "dbs", "dbs", {"id": "d"})
        assert answer.status == 201, answer
        for name, default in CONTAINERS.items():
            body: dict[str, object] = {"id": name, "partitionKey": {"paths": ["/p"], "kind": "Hash", "version": 2}}
            if default is not None:
                body["defaultTtl"] = default
            body["changeFeedPolicy"] = {"retentionDuration": 10_000}
            body["uniqueKeyPolicy"] = {"uniqueKeys": [{"paths": ["/u"]}]}
            answer = await connection.ask("POST", "colls", "dbs/d/colls", body)
            assert answer.status == 201, answer
        connection.close()
        for client in range(CLIENTS):
            for slot in range(SLOTS):
                self.items.append(Item(self.random.choice(list(CONTAINERS)), client, f"{client}-{slot}"))

    # --- load ----------------------------------------------------------------------------------------------------------

    async def load(self, writes: int, kill: Callable[[], None]) -> None:
        """Clients write until `writes` more are acknowledged; then `kill` is called once, in the middle of all the others."""
        self._kill_at, self._killed = self.acknowledged + writes, False
        await asyncio.gather(*(self._client(number, kill) for number in range(CLIENTS)))

    async def _client(self, number: int, kill: Callable[[], None]) -> None:
        mine = [item for item in self.items if item.client == number]
        with suppress(Gone):
            connection = await Connection.open(self.server.port)
            try:
                while True:
                    item = self.random.choice(mine)
                    if self.random.random() < 0.15:
                        await self._read(connection, item)
                    else:
                        await self._write(connection, item)
                    if self.acknowledged >= self._kill_at and not self._killed:
                        self._killed = True
                        kill()
            finally:
                connection.close()

    async def _write(self, connection: Connection, item: Item) -> None:
        self._n += 1
        key = f'["{item.client}"]'
        before = wall_us()
        if self.random.random() < 0.1:
            item.pending = Version(None, sent=before)
            answer = await connection.ask("DELETE", "docs", item.path, x_ms_documentdb_partitionkey=key)
        else:
            n = self._n
            item.pending = Version(n, self.random.choice(OWN), sent=before)
            body = {
                "id": item.id,
                "p": str(item.client),
                "n": n,
                "u": f"{item.id} {n}",
                "filler": "x" * self.random.choice((10, 900)),
            }
            if item.pending.ttl is not None:
                body["ttl"] = item.pending.ttl
            path = item.path.rpartition("/")[0]
            answer = await connection.ask(
                "POST", "docs", path, body, x_ms_documentdb_partitionkey=key, x_ms_documentdb_is_upsert="true"
            )
            if answer.status in (200, 201):
                document = answer.json
                assert document["n"] == n
                item.pending.at, item.pending.lsn = document["_ts"], int(answer.headers[b"x-ms-item-lsn"])
        met = self._state(item, item.now, before)
        wanted = {
            200: {met_n for met_n in met if met_n is not None},
            204: {met_n for met_n in met if met_n is not None},
        }
        if answer.status in (201, 404):
            assert None in met, f"{answer.status} for {item}, which lives"
        else:
            assert wanted.get(answer.status), f"{answer.status} for {item}: {answer.body[:300]!r}"
        self._acknowledge(item, answer.status)

    def _acknowledge(self, item: Item, status: int) -> None:
        assert item.pending is not None
        if item.now.n is not None:
            # Whoever made way for a new item, or was not found, had died.
            item.history.append((item.now, "died" if status in (201, 404) else "changed"))
        item.now, item.pending = item.pending, None
        self.acknowledged += 1

    def _state(self, item: Item, version: Version, before: int) -> set[int | None]:
        """What may be met from `before` until now."""
        return item.state(version, before - self.doubt, wall_us() + self.doubt)

    async def _read(self, connection: Connection, item: Item) -> None:
        before = wall_us()
        answer = await connection.ask("GET", "docs", item.path, x_ms_documentdb_partitionkey=f'["{item.client}"]')
        allowed = self._state(item, item.now, before)
        if item.pending is not None:
            allowed |= self._state(item, item.pending, before)
        assert answer.status in (200, 404), answer
        found = answer.json["n"] if answer.status == 200 else None
        assert found in allowed, f"read {found} of {item}, not {allowed}, between {before} and {wall_us()}"
        self.checked += 1
        self.hidden += found is None and item.now.n is not None
        if item.pending is not None:
            self.tally["applied" if found == item.pending.n else "not applied"] += 1

    # --- after a start -------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Everything that was acknowledged is there unless it is dead; what was under way is there or not, and as a whole."""
        await asyncio.gather(self._follow(), *(self._check_client(number) for number in range(CLIENTS)))
        for number, item in enumerate(self.items):
            if item.pending is not None:
                self.retired.append(item)
                generation = f"{item.client}-{number % SLOTS}-{len(self.retired)}"
                self.items[number] = Item(self.random.choice(list(CONTAINERS)), item.client, generation)

    async def _follow(self) -> None:
        connection = await Connection.open(self.server.port)
        await self.follower.read(connection)
        connection.close()

    async def _check_client(self, number: int) -> None:
        connection = await Connection.open(self.server.port)
        for item in self.items:
            if item.client == number:
                await self._read(connection, item)
        connection.close()

    # --- at the end ----------------------------------------------------------------------------------------------------

    def check_events(self, file: Path) -> int:
        """Every death has left exactly one event, and nobody else has one; the number of deaths.

        What the follower was told by its last look is a beginning of that, without a gap.
        """
        database = apsw.Connection(str(file))
        names = dict(
            database.execute("SELECT name, id FROM catalog WHERE parent = (SELECT id FROM catalog WHERE name = 'd')")
        )
        events = Counter(database.execute("SELECT container, version FROM expiry"))
        lsns = {
            (row[0], row[1]): int(str(row[2])) for row in database.execute("SELECT container, version, lsn FROM expiry")
        }
        stored = set(database.execute("SELECT container, lsn FROM record"))
        database.close()
        assert max(events.values(), default=1) == 1, f"events twice: {events.most_common(3)}"
        for name, versions in self._acknowledged().items():
            self._check_feed(name, versions, {version: lsn for (id, version), lsn in lsns.items() if id == names[name]})
        deaths = 0
        for item in (*self.items, *self.retired):
            for version, end in item.history:
                event, there = ((names[item.container], version.lsn) in where for where in (events, stored))
                # A client that deletes a hidden record is told that nothing is there, and the record waits for the purge.
                left = "died" if event or there else "changed"
                assert left == end and not (event and there), (
                    f"{version} of {item.id} {end}: stored {there}, event {event}"
                )
                deaths += event
            if item.now.n is not None and item.pending is None:
                event, there = ((names[item.container], item.now.lsn) in where for where in (events, stored))
                assert event != there, f"{item}: stored {there}, event {event}"
                deaths += event
        return deaths

    def _acknowledged(self) -> dict[str, set[int]]:
        """The versions that clients know of."""
        found: dict[str, set[int]] = {name: set() for name in CONTAINERS}
        for item in (*self.items, *self.retired):
            found[item.container] |= {version.lsn for version, _ in item.history} | {item.now.lsn}
        return found

    def _check_feed(self, name: str, versions: set[int], deaths: dict[Any, int]) -> None:
        """`deaths`: the lsn of the event, by the version that died."""
        made, died = self.follower.made(name), self.follower.died(name)
        seen = max((row["lsn"] for row in self.follower.told[name]), default=0)
        missed = {lsn for lsn in versions if 0 < lsn <= seen} - made
        assert not missed, f"{name}: {missed} were not told"
        assert died == {version for version, lsn in deaths.items() if lsn <= seen}, f"{name}: other deaths were told"
        self.tally["told"] += len(made) + len(died)
