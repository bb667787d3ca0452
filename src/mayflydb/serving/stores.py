"""Opens the store that the settings name. No other module names a concrete store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mayflydb.announcement import StartFailed
from mayflydb.clock import wall_us
from mayflydb.config.settings import StorageSettings
from mayflydb.engine.reaper import Lease
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Holds, Store
from mayflydb.store.sqlite import SqliteStore


class OpenedStore(NamedTuple):
    """A store, the clock that its nodes share, and for a shared one the lease by which a node takes a name, and the holds that
    keep other nodes from purging locked records."""

    store: Store
    wall: Callable[[], Instant] = wall_us
    lease: Lease | None = None
    holds: Holds | None = None


async def open_alone(storage: StorageSettings, *, create: bool) -> Store:
    """A store for one process alone until it is closed: for commands that move data.

    `create`: a file that is missing is made. StartFailed for a place that is none; MayflyError when the store cannot be opened or
    is in use. Of a PostgreSQL database this is known after some seconds, because a node that was killed is waited for.
    """
    if storage.kind == "memory":
        raise StartFailed("what is in memory ends with its server", setting="storage.url", exit_code=2)
    if storage.path is not None and not (create or storage.path.exists()):
        raise StartFailed(f"there is no file {storage.path}", setting="storage.url")
    return (await open_store(storage, alone=True)).store


async def open_store(storage: StorageSettings, alone: bool) -> OpenedStore:
    """`alone`: no other node may have the same database. A file is never shared."""
    if storage.kind == "postgresql":
        return await _open_postgres(storage.url, alone)
    path = storage.path
    try:
        return OpenedStore(await SqliteStore.open(None if path is None else str(path)))
    except OSError as error:
        raise StartFailed(f"{path} cannot be opened: {error.strerror}", setting="storage.url") from error


async def _open_postgres(url: str, alone: bool) -> OpenedStore:
    try:
        from mayflydb.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        message, hint = "PostgreSQL's driver is not installed", 'pip install "mayflydb[postgres]"'
        raise StartFailed(message, setting="storage.url", hint=hint) from error
    store = await PostgresStore.open(url, alone)
    return OpenedStore(store, store.wall, store.lease, store.holds)
