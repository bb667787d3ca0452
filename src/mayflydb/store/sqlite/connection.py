"""Connections to SQLite with the settings that durability needs. Each setting is read back, and a refused one stops the start."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from mayflydb.model.errors import Unavailable
from mayflydb.store.sqlite.page_checksums import PAGE_SIZE, VFS, is_verified, reserve
from mayflydb.store.sqlite.secure_pages import secure_vfs

OLDEST_LIBRARY = (3, 51, 3)
"""Older libraries have a race between a checkpoint and a writer that can lose committed pages."""

BUSY_TIMEOUT_MS = 5000

READ_ONLY = apsw.SQLITE_OPEN_READONLY
READ_WRITE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


FILE: Mapping[str, str | int] = {
    "journal_mode": "wal",
    # FULL: each commit syncs the log. NORMAL would lose the last commits in a power cut.
    "synchronous": 2,
    # `checkpoint` does it, where its errors are seen.
    "wal_autocheckpoint": 0,
    # An I/O error under a memory map is a signal that ends the process.
    "mmap_size": 0,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "temp_store": 2,
}
"""The pragmas of a file, and the values that they must have when they are read back."""

MEMORY: Mapping[str, str | int] = {"trusted_schema": 0, "cell_size_check": 1, "temp_store": 2}


def check_library() -> None:
    """Refuse a SQLite library that is known to lose data."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_LIBRARY:
        raise Unavailable(f"SQLite {apsw.sqlite_lib_version()} is older than {'.'.join(map(str, OLDEST_LIBRARY))}")


def open_file(path: str, vfs: str | None = None, exclusive: bool = False, secure: bool = False) -> apsw.Connection:
    """A connection to a store file: WAL, full synchronous, no memory map.

    `exclusive`: no shared memory, hence one connection only; for file systems (and simulated disks) that have none. With the VFS
    of page checksums, a file that is still empty gets them. `secure`: what is deleted is overwritten.
    """
    connection = apsw.Connection(path, READ_WRITE | apsw.SQLITE_OPEN_URI, secure_vfs(vfs) if secure else vfs)
    if vfs == VFS:
        reserve(connection)
    # Set first: the pragmas below wait for locks of other connections, too.
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if exclusive:
        connection.pragma("locking_mode", "exclusive")
    # Both must be set before the first page exists, else they need a VACUUM.
    connection.pragma("page_size", PAGE_SIZE)
    connection.pragma("auto_vacuum", "INCREMENTAL")
    _apply(connection, {**FILE, "secure_delete": int(secure)})
    # macOS: fsync alone leaves data in the cache of the drive.
    connection.pragma("fullfsync", 1)
    connection.pragma("cache_size", -65536)
    if vfs == VFS and not is_verified(connection):
        raise Unavailable("SQLite does not verify the pages of this file")
    _harden(connection)
    return connection


def open_memory() -> apsw.Connection:
    """A private in-memory database."""
    connection = apsw.Connection(":memory:", READ_WRITE | apsw.SQLITE_OPEN_URI)
    connection.pragma("auto_vacuum", "INCREMENTAL")
    _apply(connection, MEMORY)
    _harden(connection)
    return connection


def open_copy(address: str, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """A connection to a copy of a database, by its path or URI. It writes without syncs: an unfinished copy is nothing."""
    connection = apsw.Connection(address, apsw.SQLITE_OPEN_URI | (READ_ONLY if read_only else READ_WRITE), vfs)
    connection.set_busy_timeout(5000)
    if vfs == VFS and not read_only:
        reserve(connection)
    _apply(connection, MEMORY)
    if not read_only:
        connection.pragma("synchronous", 0)
    _harden(connection)
    return connection


def prepare_copy(connection: apsw.Connection) -> None:
    """Write the first page of a copy that is still empty.

    The VFS of page checksums computes them once it has seen a first page with room for them. A copy of more pages than fit into
    the cache is written in any order: pages that came from the log, which have none, would get none before the first page.
    """
    connection.pragma("user_version", 1)


def _apply(connection: apsw.Connection, demanded: Mapping[str, str | int]) -> None:
    for name, value in demanded.items():
        # A pragma that the file system refuses, such as journal_mode, keeps its old value without an error.
        connection.pragma(name, value)
        actual = connection.pragma(name)
        if actual != value:
            raise Unavailable(f"SQLite refuses {name}={value} for this file: it stays {actual}")


def _harden(connection: apsw.Connection) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # Else the planner looks at bound values, and prepares many a statement anew each time that it runs with others.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.enable_load_extension(False)
