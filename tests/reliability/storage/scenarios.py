"""Faults of the disk under a real server. Each scenario returns what it measured.

`python -m reliability.storage.scenarios full_disk DIRECTORY` plays one alone and prints its measurements as JSON. `full_disk`
and `sudden_end` mount a small file system: `unshare -m` (as root) or `unshare -Urm` gives them a place. The others need strace.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reliability.kill9.process import Server
from reliability.kill9.wire import Answer, Connection, Gone

DISK, RESERVE, LEAST = "24m", "4MiB", "2MiB"
CLIENTS = 4
MORTALS, SPAN = 20, 2
"""Items that die while the disk is full, and after how many seconds."""
SQUEEZE = 3.5
"""Seconds for which another program takes every byte."""
VALUE = "v" * 20_000
PATIENCE = 30.0
READ_ITEMS = 400


@dataclass
class Measured:
    """What clients were told, and what was true.

    `lost`: items that were acknowledged and are not there, or not as they were sent; `back`: items that are there although their
    deletion was acknowledged. `readable_dead`: items that were read after their deadline. `refusals`: answers to writes that did
    nothing, by status; `unknown`: writes of unknown outcome. `reads` that were tried meanwhile, of which `failed` had no right
    answer, by status in `failures`. `purged`: items that were purged before the disk had space again. `resumed`: seconds from the
    end of the fault (or the start after it) to the first acknowledgement. `ready`: what readiness said of the disk.
    """

    acknowledged: int = 0
    deleted: int = 0
    lost: int = 0
    back: int = 0
    readable_dead: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    reads: int = 0
    failed: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    purged: int = 0
    resumed: float = 0.0
    ready: list[str] = field(default_factory=list)
    log: str = ""


class DiskServer(Server):
    """A server with a small reserve. `least`: the free space below which it refuses writes."""

    least = LEAST

    @property
    def _arguments(self) -> list[str]:
        return [*super()._arguments, "--storage-reserve", RESERVE, "--storage-min-free", self.least]


class Shop:
    """A container and all that clients were told about it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.alive: set[str] = set()
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()
        self.mortal: dict[str, float] = {}
        self.answers: Counter[str] = Counter()
        self.measured = Measured()
        self._next = 0

    async def open(self) -> Connection:
        return await Connection.open(self.server.port)

    async def set_up(self) -> None:
        with closing(await self.open()) as connection:
            await connection.ask("POST", "dbs", "dbs", {"id": "d"})
            container = {"id": "c", "partitionKey": {"paths": ["/id"], "kind": "Hash"}, "defaultTtl": -1}
            assert (await connection.ask("POST", "colls", "dbs/d/colls", container)).status == 201

    async def create(self, connection: Connection, ttl: int | None = None) -> int:
        """Create one item; the status. Gone if the server ends meanwhile."""
        self._next += 1
        id = f"i{self._next}"
        body = {"id": id, "v": VALUE + id} | ({} if ttl is None else {"ttl": ttl})
        self.doubtful.add(id)
        status = (await connection.ask("POST", "docs", "dbs/d/colls/c/docs", body, **_key(id))).status
        if status != 408:
            self.doubtful.discard(id)
        if status == 201 and ttl is None:
            self.alive.add(id)
        elif status == 201 and ttl is not None:
            # Rounded up to the second of the write and its end.
            self.mortal[id] = time.monotonic() + ttl + 1
        else:
            self.answers[str(status)] += 1
        return status

    async def delete(self, connection: Connection, id: str) -> int:
        status = (await connection.ask("DELETE", "docs", f"dbs/d/colls/c/docs/{id}", **_key(id))).status
        if status == 204:
            self.alive.discard(id)
            self.deleted.add(id)
        elif status == 408:
            self.alive.discard(id)
            self.doubtful.add(id)
        return status

    async def read(self, connection: Connection, id: str) -> Answer:
        return await connection.ask("GET", "docs", f"dbs/d/colls/c/docs/{id}", **_key(id))

    async def write_until(self, over: Callable[[], bool]) -> None:
        """Let all clients create items until it is over, or the server ends."""

        async def one() -> None:
            try:
                with closing(await self.open()) as connection:
                    while not over():
                        await self.create(connection)
            except Gone:
                return

        await asyncio.wait_for(asyncio.gather(*(one() for _ in range(CLIENTS))), PATIENCE)

    async def look(self, connection: Connection) -> None:
        """Read each item once, those that are dead too, while the fault goes on."""
        for id in sorted(self.alive):
            answer = await self.read(connection, id)
            self.measured.reads += 1
            self.measured.failed += answer.status != 200 or answer.json["v"] != VALUE + id
        await self.look_for_dead(connection)

    async def look_for_dead(self, connection: Connection) -> None:
        for id, ends in self.mortal.items():
            dead = time.monotonic() > ends
            answer = await self.read(connection, id)
            self.measured.readable_dead += dead and answer.status == 200

    async def tally(self) -> Measured:
        """Compare all that clients were told with what is there."""
        measured = self.measured
        with closing(await self.open()) as connection:
            for id in self.alive:
                answer = await self.read(connection, id)
                measured.lost += answer.status != 200 or answer.json["v"] != VALUE + id
            for id in self.deleted:
                measured.back += (await self.read(connection, id)).status != 404
            await self.look_for_dead(connection)
        measured.acknowledged = len(self.alive) + len(self.deleted) + len(self.mortal)
        measured.deleted = len(self.deleted)
        measured.unknown = self.answers.pop("408", 0)
        measured.refusals = dict(self.answers)
        measured.log = self.server.stderr()
        return measured

    async def note_ready(self, connection: Connection) -> None:
        document = (await connection.ask("GET", "", "_mayfly/ready")).json
        self.measured.ready.append(f"{document['ready']}: {document['disk'].partition(':')[0]}")

    async def resume(self) -> None:
        """Write until something is acknowledged again, and take the time."""
        began = time.monotonic()
        with closing(await self.open()) as connection:
            while await self.create(connection) != 201:
                assert time.monotonic() < began + PATIENCE, self.answers
        self.measured.resumed = max(self.measured.resumed, time.monotonic() - began)


def _key(id: str) -> dict[str, str]:
    return {"x_ms_documentdb_partitionkey": f'["{id}"]'}


# --- a full disk -----------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of DISK bytes. CalledProcessError where mounting is not allowed."""
    place = directory / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class Eater:
    """Another program on the disk, which takes each byte that gets free, as long as the block lasts."""

    def __init__(self, place: Path) -> None:
        self._file = place / "other program"
        self._ends = threading.Event()
        self._full = threading.Event()
        self._thread = threading.Thread(target=self._eat)

    def _eat(self) -> None:
        with self._file.open("wb", buffering=0) as file:
            while not self._ends.is_set():
                try:
                    while not self._ends.is_set():
                        file.write(bytes(4096))
                except OSError:
                    self._full.set()
                    self._ends.wait(0.002)

    def __enter__(self) -> Eater:
        self._thread.start()
        assert self._full.wait(PATIENCE)
        return self

    def rest(self) -> None:
        """Keep what was taken, and take no more."""
        self._ends.set()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.rest()
        self._file.unlink()


async def full_disk(directory: Path) -> Measured:
    """Writes fill the disk; deletes make room; another program takes every byte; a killed server starts on a full disk."""
    with small_disk(directory) as place, DiskServer(directory) as server:
        server.file = place / "mayfly.db"
        server.start()
        shop = Shop(server)
        await shop.set_up()
        await shop.write_until(lambda: shop.answers["403"] >= 40)
        with closing(await shop.open()) as connection:
            await shop.note_ready(connection)
            await shop.look(connection)
            for id in sorted(shop.alive)[: len(shop.alive) // 2]:
                await shop.delete(connection, id)
        await shop.resume()
        await _squeeze(shop, place)
        await shop.resume()
        with Eater(place) as other:
            # Else the quicker of the two would have the reserve that the start gives back.
            other.rest()
            server.kill()
            server.start()
            with closing(await shop.open()) as connection:
                await shop.note_ready(connection)
                await shop.look(connection)
                await shop.create(connection)
        await shop.resume()
        server.kill()
        server.start()
        return await shop.tally()


async def sudden_end(directory: Path) -> Measured:
    """Commits meet the end of the disk, since no limit keeps writes away from it: the reserve is released."""
    server = DiskServer(directory)
    server.least = "0"
    with small_disk(directory) as place, server:
        server.file = place / "mayfly.db"
        server.start()
        shop = Shop(server)
        await shop.set_up()
        await shop.write_until(lambda: shop.answers["403"] >= 10)
        with closing(await shop.open()) as connection:
            await shop.look(connection)
            for id in sorted(shop.alive)[: len(shop.alive) // 2]:
                await shop.delete(connection, id)
        await shop.resume()
        server.kill()
        server.start()
        return await shop.tally()


async def _squeeze(shop: Shop, place: Path) -> None:
    """Read, write and delete while another program takes every byte, until the items that die meanwhile are purged."""
    with closing(await shop.open()) as connection:
        while len(shop.mortal) < MORTALS:
            await shop.create(connection, SPAN)
        ends = time.monotonic() + SQUEEZE
        purged = 0
        with Eater(place):
            # Purges race with the other program for what they free: some of them fail, and are tried again.
            while (now := time.monotonic()) < ends or (purged < MORTALS and now < ends + PATIENCE):
                await shop.create(connection)
                for id in sorted(shop.alive)[:2]:
                    await shop.delete(connection, id)
                await shop.look(connection)
                purged = await _count_purged(connection)
            await shop.note_ready(connection)
    shop.measured.purged = purged


async def _count_purged(connection: Connection) -> int:
    metrics = (await connection.ask("GET", "", "metrics")).body.decode()
    return sum(int(line.split()[1]) for line in metrics.splitlines() if line.startswith("mayfly_ttl_purged_total{"))


# --- errors of the disk, injected into system calls ------------------------------------------------------------------


def _inject(file: Path, calls: str, when: str, error: str = "EIO") -> tuple[str, ...]:
    return "-P", str(file), "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={when}"


async def failed_sync(directory: Path) -> Measured:
    """The 60th sync of the log fails: the server ends, and the next one has all that was acknowledged."""
    with Server(directory) as server:
        assert server.start_traced(*_inject(Path(f"{server.file}-wal"), "fsync,fdatasync", "60"))
        shop = Shop(server)
        await shop.set_up()
        await shop.write_until(lambda: False)
        server.ended()
        server.start()
        await shop.resume()
        return await shop.tally()


async def write_error(directory: Path) -> Measured:
    """Writes to the log fail for a while: their commits are unknown, and the server goes on when the disk does."""
    with Server(directory) as server:
        assert server.start_traced(*_inject(Path(f"{server.file}-wal"), "pwrite64", "400..440"))
        shop = Shop(server)
        await shop.set_up()
        await shop.write_until(lambda: shop.answers["408"] > 0)
        await shop.resume()
        server.kill()
        server.start()
        return await shop.tally()


async def read_error(directory: Path) -> Measured:
    """Reads of the file fail for a while: nothing is answered as missing, and after a restart all is there."""
    with Server(directory) as server:
        server.start()
        shop = Shop(server)
        await shop.set_up()
        await shop.write_until(lambda: len(shop.alive) >= READ_ITEMS)
        server.stop()
        failures: Counter[str] = Counter()
        assert server.start_traced(*_inject(server.file, "pread64", "1000..1200"))
        with closing(await shop.open()) as connection:
            for id in sorted(shop.alive):
                answer = await shop.read(connection, id)
                shop.measured.reads += 1
                if answer.status != 200:
                    shop.measured.failed += 1
                    failures[str(answer.status)] += 1
            # Whether an id is taken cannot be known after such an error.
            await shop.create(connection)
        shop.measured.failures = dict(failures)
        server.kill()
        server.start()
        await shop.resume()
        return await shop.tally()


SCENARIOS: dict[str, Callable[[Path], Coroutine[Any, Any, Measured]]] = {
    each.__name__: each for each in (full_disk, sudden_end, failed_sync, write_error, read_error)
}

if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(SCENARIOS[sys.argv[1]](Path(sys.argv[2]).absolute())))))
