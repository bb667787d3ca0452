"""Opens the store that the settings name. No other module names a concrete store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, assert_never

from mayflydb.announcement import StartFailed
from mayflydb.clock import wall_us
from mayflydb.config.settings import StorageSettings
from mayflydb.engine.reaper import Lease
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Holds, Store
from mayflydb.store.sqlite import SqliteStore


class OpenedStore(NamedTuple):
    """A store and what its nodes share.

    `wall`: reads the clock of all nodes. Where several nodes share the database: `lease` gives a name to one node at a time, and
    `holds` keeps other nodes from purging records that are locked here.
    """

    store: Store
    wall: Callable[[], Instant] = wall_us
    lease: Lease | None = None
    holds: Holds | None = None


async def open_alone(storage: StorageSettings, *, create: bool) -> Store:
    """Open a store for this process alone until it is closed: for commands that move data.

    `create`: a missing file is created. StartFailed for memory, or a file that is missing; MayflyError if the store cannot be
    opened or is in use. With PostgreSQL the refusal takes some seconds: a killed node counts as live until its lease ends.
    """
    if storage.kind == "memory":
        raise StartFailed("what is in memory ends with its server", setting="storage.url", exit_code=2)
    if storage.path is not None and not (create or storage.path.exists()):
        raise StartFailed(f"there is no file {storage.path}", setting="storage.url")
    return (await open_store(storage, alone=True)).store


async def open_store(storage: StorageSettings, alone: bool) -> OpenedStore:
    """Open the store. `alone`: no other node may use the same database. A file is never shared."""
    match storage.kind:
        case "memory" | "sqlite":
            return await _open_sqlite(storage.path)
        case "postgresql":
            return await _open_postgres(storage.url, alone)
        case unknown:
            assert_never(unknown)


async def _open_sqlite(path: Path | None) -> OpenedStore:
    try:
        return OpenedStore(await SqliteStore.open(None if path is None else str(path)))
    except OSError as error:
        raise StartFailed(f"{path} cannot be opened: {error.strerror}", setting="storage.url") from error


async def _open_postgres(url: str, alone: bool) -> OpenedStore:
    try:
        from mayflydb.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        # Any other missing module is a defect of this installation, not an extra that was left out.
        if error.name != "asyncpg":
            raise
        message, hint = "PostgreSQL's driver is not installed", 'pip install "mayflydb[postgres]"'
        raise StartFailed(message, setting="storage.url", hint=hint) from error
    store = await PostgresStore.open(url, alone)
    return OpenedStore(store, store.wall, store.lease, store.holds)
