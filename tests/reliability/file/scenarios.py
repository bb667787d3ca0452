"""What happens to a file behind the back of its server, played with real processes. Each scenario returns what it measured.

Each can be called alone: `asyncio.run(removed_file(directory))`, with an empty directory.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from mayflydb.store.sqlite.page_checksums import VFS, load_checksums
from mayflydb.store.sqlite.store import SqliteStore
from reliability.kill9.process import Server
from reliability.kill9.wire import Answer, Connection

CLIENTS = 4
BEFORE = 40
"""Writes that are acknowledged before anything happens."""
PATIENCE = 20.0


@dataclass
class Measured:
    """`acknowledged` in all, of which `after` since it happened; `lost`: those that are in no file that is left.

    `seconds` from the moment at which it happened to the last acknowledgement. `refusals`: status and code of the answers from
    then on. `ready` is what readiness said at the end, and `log` what the server wrote.
    """

    acknowledged: int = 0
    after: int = 0
    lost: int = 0
    seconds: float = 0.0
    refusals: set[str] = field(default_factory=set)
    ready: str = ""
    log: str = ""


@dataclass
class _Client:
    """Creates items one after the other, and remembers those that were acknowledged and when."""

    name: str
    acknowledged: list[tuple[str, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def write(self, port: int, note: Callable[[], None], until: Callable[[], bool]) -> None:
        with closing(await Connection.open(port)) as connection:
            while not until():
                id = f"{self.name}-{len(self.acknowledged) + len(self.refused)}"
                answer = await connection.ask("POST", "docs", "dbs/d/colls/c/docs", {"id": id}, **_key(id))
                if answer.status == 201:
                    self.acknowledged.append((id, time.monotonic()))
                    note()
                else:
                    self.refused.append(_name(answer))


def _key(id: str) -> dict[str, str]:
    return {"x_ms_documentdb_partitionkey": f'["{id}"]'}


def _name(answer: Answer) -> str:
    return f"{answer.status} {answer.json.get('code', '')}"


async def _play(
    directory: Path, happen: Callable[[Path], None], left: Callable[[Path], list[Path]], place: Path | None = None
) -> Measured:
    """Write, let it happen, write on until each client was refused ten times, and look into the files that are left."""
    with Server(directory) as server:
        server.file = (place or directory) / "mayfly.db"
        server.start()
        with closing(await Connection.open(server.port)) as connection:
            assert (await connection.ask("POST", "dbs", "dbs", {"id": "d"})).status == 201
            container = {"id": "c", "partitionKey": {"paths": ["/id"], "kind": "Hash"}}
            assert (await connection.ask("POST", "colls", "dbs/d/colls", container)).status == 201
            clients = [_Client(f"client-{number}") for number in range(CLIENTS)]
            happened, enough = 0.0, asyncio.Event()

            async def interfere() -> None:
                nonlocal happened
                await enough.wait()
                happen(server.file)
                happened = time.monotonic()

            def note() -> None:
                if sum(len(client.acknowledged) for client in clients) >= BEFORE:
                    enough.set()

            def over() -> bool:
                stuck = happened and time.monotonic() - happened > PATIENCE
                return bool(stuck) or all(len(client.refused) >= 10 for client in clients)

            await asyncio.gather(interfere(), *(client.write(server.port, note, over) for client in clients))
            ready = (await connection.ask("GET", "", "_mayfly/ready")).json
            id = clients[0].acknowledged[0][0]
            read = await connection.ask("GET", "docs", f"dbs/d/colls/c/docs/{id}", **_key(id))
        server.stop()
        log = server.stderr()
    told = [each for client in clients for each in client.acknowledged]
    there = {id for path in left(server.file) for id in ids_of(path)}
    return Measured(
        acknowledged=len(told),
        after=sum(at > happened for _, at in told),
        lost=sum(id not in there for id, _ in told),
        seconds=max(0.0, max(at for _, at in told) - happened),
        refusals={*(name for client in clients for name in client.refused), f"read: {_name(read)}"},
        ready=f"{ready['ready']}: {ready['store']}",
        log=log,
    )


def ids_of(path: Path) -> set[str]:
    """The ids of the items in a file as SQLite finds it, with the log that lies beside it."""
    load_checksums()
    connection = apsw.Connection(str(path), vfs=VFS)
    try:
        rows = connection.execute("SELECT value ->> '$.id' FROM record")
        return {id for (id,) in rows}
    finally:
        connection.close()


async def removed_file(directory: Path) -> Measured:
    """`rm`: what was acknowledged is gone with the file, and nothing more is acknowledged."""
    return await _play(directory, Path.unlink, lambda file: [])


async def renamed_file(directory: Path) -> Measured:
    """`mv` of the file alone, without its log: it holds everything that was acknowledged."""
    name = "elsewhere.db"
    return await _play(directory, lambda file: _rename(file, file.with_name(name)), lambda file: [file.with_name(name)])


async def renamed_directory(directory: Path) -> Measured:
    """`mv` of the directory in which file and log lie."""
    place, elsewhere = directory / "place", directory / "elsewhere"
    place.mkdir()
    return await _play(directory, lambda file: _rename(place, elsewhere), lambda file: [elsewhere / file.name], place)


async def replaced_file(directory: Path) -> Measured:
    """`mv other.db mayfly.db`, as one restores a backup. A second name keeps the old file, to see what it holds."""
    old, other = directory / "old.db", await _other(directory)

    def replace(file: Path) -> None:
        old.hardlink_to(file)
        other.rename(file)

    return await _play(directory, replace, lambda file: [old])


async def overwritten_file(directory: Path) -> Measured:
    """`cp other.db mayfly.db`: the inode stays, and what was acknowledged is gone from it, but for what the log holds."""
    other = await _other(directory)
    return await _play(directory, lambda file: _copy(other, file), lambda file: [])


async def removed_log(directory: Path) -> Measured:
    """`rm mayfly.db-wal`: the file gets what the log held."""
    return await _play(directory, lambda file: Path(f"{file}-wal").unlink(), lambda file: [file])


SCENARIOS = (removed_file, renamed_file, renamed_directory, replaced_file, overwritten_file, removed_log)


def _rename(old: Path, new: Path) -> None:
    old.rename(new)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


async def _other(directory: Path) -> Path:
    """Another database, closed."""
    path = directory / "other.db"
    await (await SqliteStore.open(str(path))).close()
    return path
