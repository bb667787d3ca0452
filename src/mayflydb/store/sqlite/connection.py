"""Opening SQLite so that it keeps its promises: every setting is read back, and a refusal stops the start."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from mayflydb.model.errors import Unavailable

OLDEST_LIBRARY = (3, 51, 3)
"""Older libraries have a race between a checkpoint and a writer that can lose committed pages."""

PAGE_SIZE = 4096


FILE: Mapping[str, str | int] = {
    "journal_mode": "wal",
    "synchronous": 2,
    "wal_autocheckpoint": 0,
    "mmap_size": 0,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "temp_store": 2,
}
"""Pragmas of a file and the values they must have when read back."""

MEMORY: Mapping[str, str | int] = {"trusted_schema": 0, "cell_size_check": 1, "temp_store": 2}


def check_library() -> None:
    """Refuse a SQLite library that is known to lose data."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_LIBRARY:
        raise Unavailable(f"SQLite {apsw.sqlite_lib_version()} is older than {'.'.join(map(str, OLDEST_LIBRARY))}")


def open_file(path: str, vfs: str | None = None, exclusive: bool = False) -> apsw.Connection:
    """A connection to a store file: WAL, full synchronous, no memory map.

    `exclusive`: no shared memory, hence one connection only; for file systems (and simulated disks) that have none.
    """
    connection = apsw.Connection(path, vfs=vfs)
    # The pragmas wait for others, too.
    connection.set_busy_timeout(5000)
    if exclusive:
        connection.pragma("locking_mode", "exclusive")
    # Both must be set before the first page exists, else they need a VACUUM.
    connection.pragma("page_size", PAGE_SIZE)
    connection.pragma("auto_vacuum", "INCREMENTAL")
    _apply(connection, FILE)
    connection.pragma("fullfsync", 1)
    connection.pragma("cache_size", -65536)
    _harden(connection)
    return connection


def open_memory() -> apsw.Connection:
    """A private in-memory database."""
    connection = apsw.Connection(":memory:")
    connection.pragma("auto_vacuum", "INCREMENTAL")
    _apply(connection, MEMORY)
    _harden(connection)
    return connection


def _apply(connection: apsw.Connection, demanded: Mapping[str, str | int]) -> None:
    for name, value in demanded.items():
        # journal_mode silently keeps its old value when the disk refuses; so ask again.
        connection.pragma(name, value)
        actual = connection.pragma(name)
        if actual != value:
            raise Unavailable(f"SQLite refuses {name}={value} for this file: it stays {actual}")


def _harden(connection: apsw.Connection) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.enable_load_extension(False)
