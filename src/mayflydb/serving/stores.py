"""Opens the store that the settings name. No other module names a concrete store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, assert_never

from mayflydb.announcement import StartFailed
from mayflydb.clock import boot_id, boot_us, wall_us
from mayflydb.config.settings import StorageSettings
from mayflydb.engine.catalog import node_of
from mayflydb.engine.lifecycle.scrubbing import Scrub
from mayflydb.engine.reads import Kept, keep_none
from mayflydb.engine.reaper import Lease
from mayflydb.engine.storage_sizes import ReadSizes
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.store.findings import Expected, Facts, Repaired, Report, ReportProgress
from mayflydb.store.interface import CatalogRow, DiskFacts, Holds, Store
from mayflydb.store.segments import Keys
from mayflydb.store.snapshots import Snapshots
from mayflydb.store.sqlite import SpaceLimits, SqliteStore

RESERVE = 128 << 20
"""Twice the length at which the write-ahead log is cut: purges on a full disk fill the log, and then the file."""

LEAST_FREE = 64 << 20
"""The growth of the write-ahead log until it is cut."""


class OpenedStore(NamedTuple):
    """A store and the means that its nodes share.

    `wall`: reads the clock of all nodes. `boot`, `boot_id`: read the boot-time clock of this machine, and the number of its boot.
    If several nodes share the database, `lease` gives a name to one node at a time, and `holds` keeps other nodes from purging
    records that are locked here. `disk`: reads the state of the store's disk, for a store with limits of free space; Unavailable.
    `sizes`: reads the bytes of the store by kind. `kept`: finds a committed record that the store keeps in memory.
    `snapshots`: None where the store has none.
    `scrub`: overwrites what is left of deleted records, for a store that was opened for it. `keys`: those of a store that seals
    values.
    """

    store: Store
    sizes: ReadSizes
    wall: Callable[[], Instant] = wall_us
    lease: Lease | None = None
    holds: Holds | None = None
    boot: Callable[[], int] = boot_us
    boot_id: Callable[[], int] = boot_id
    disk: Callable[[], Awaitable[DiskFacts]] | None = None
    kept: Kept = keep_none
    snapshots: Snapshots | None = None
    scrub: Scrub | None = None
    keys: Keys | None = None


async def open_alone(storage: StorageSettings, *, create: bool) -> Store:
    """Open a store for this process alone until it is closed: for commands that move data.

    `create`: a missing file is created. StartFailed for memory, or a file that is missing; MayflyError if the store cannot be
    opened or is in use. With PostgreSQL the refusal takes some seconds: a killed node counts as live until its lease ends.
    """
    return (await open_store_alone(storage, create=create)).store


async def open_store_alone(storage: StorageSettings, *, create: bool) -> OpenedStore:
    """Open the store as `open_alone` does, with its clock."""
    if storage.kind == "memory":
        raise StartFailed("what is in memory ends with its server", setting="storage.url", exit_code=2)
    if storage.path is not None and not (create or storage.path.exists()):
        raise StartFailed(f"there is no file {storage.path}", setting="storage.url")
    return await open_store(storage, alone=True)


async def open_store(storage: StorageSettings, alone: bool, secure: bool = False) -> OpenedStore:
    """Open the store. `alone`: no other node may use the same database. A file is never shared. `secure`: what is deleted from a
    file is overwritten.
    """
    match storage.kind:
        case "memory" | "sqlite":
            return await _open_sqlite(storage, secure)
        case "postgresql":
            return await _open_postgres(storage.url, alone)
        case unknown:
            assert_never(unknown)


async def _open_sqlite(storage: StorageSettings, secure: bool) -> OpenedStore:
    path = storage.path
    if path is None:
        memory = await SqliteStore.open(None)
        return OpenedStore(memory, memory.sizes, kept=memory.find_kept, snapshots=memory.snapshots())
    reserve = RESERVE if storage.reserve is None else storage.reserve
    least = LEAST_FREE if storage.min_free is None else storage.min_free
    try:
        store = await SqliteStore.open(
            str(path), limits=SpaceLimits(reserve, least), secure=secure, keys=storage.key_file
        )
        snapshots = store.snapshots()
        return OpenedStore(
            store, store.sizes, disk=store.disk, kept=store.find_kept, snapshots=snapshots,
            scrub=store.scrub if secure else None, keys=store.keys(snapshots),
        )  # fmt: skip
    except MayflyError as error:
        if "hint" not in error.detail:
            raise
        # Serving this file could lose data of the file or of its log, so a person decides.
        hint = str(error.detail["hint"])
        raise StartFailed(error.message, setting="storage.url", hint=hint, exit_code=4) from error
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
    return OpenedStore(store, store.sizes, store.wall, store.lease, store.holds)


def examine_file(path: Path, report: ReportProgress) -> Report:
    """Examine a file of SQLite, read-only. Unavailable if it cannot be examined; OSError."""
    from mayflydb.store.sqlite.doctor import examine

    return examine(path, _build_expected(), report)


def repair_file(path: Path, to: Path, report: ReportProgress) -> Repaired:
    """Build a new file from the readable data of a damaged one, which stays as it is. Conflict, Unavailable, OSError."""
    from mayflydb.store.sqlite.doctor import repair

    return repair(path, to, _build_expected(), report)


def _build_expected() -> Expected:
    return Expected(_facts_of, MARK, wall_us())


def _facts_of(row: CatalogRow) -> Facts:
    definition = node_of(row).definition
    slots = frozenset(slot.number for slot in definition.slots if slot.state == "ready")
    unique = frozenset(index.number for index in definition.indexes if index.unique and index.state == "ready")
    return Facts(slots, unique)
