"""Opens a file read-only, and reads tables past pages that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import apsw

from mayflydb.model.errors import Unavailable
from mayflydb.store.sqlite.log_origin import Origin, find_mismatch, origin_of_file, origin_of_log
from mayflydb.store.sqlite.page_checksums import PAGE_SIZE, RESERVED_BYTES, RESERVED_OFFSET, VFS, load_checksums

BATCH = 256
UNREADABLE = (apsw.Error, UnicodeDecodeError)
"""Errors of reading a damaged page: SQLite's own, and texts that are no longer UTF-8."""

_PAGES_OFFSET = 28
"""The offset in a file's header of the number of pages."""

_LARGEST = (1 << 63) - 1


class ReadOnlyFile:
    """A file that is read and never written. The caller closes it."""

    def __init__(self, path: Path) -> None:
        """Open a file. Unavailable if there is none, or if it is no database of SQLite."""
        self.path = path.resolve()
        if not self.path.is_file():
            raise Unavailable(f"there is no file {self.path}")
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        header = os.pread(self._descriptor, 100, 0)
        if not header.startswith(b"SQLite format 3\0"):
            os.close(self._descriptor)
            raise Unavailable(f"{self.path} is no database of SQLite: its header is damaged, or it is another file")
        self.verified = header[RESERVED_OFFSET] == RESERVED_BYTES and load_checksums()
        self.log = Path(f"{self.path}-wal")
        self.foreign = find_mismatch(self.origin, origin_of_log(str(self.log)))
        self.log_bytes = self.log.stat().st_size if self.log.exists() else 0

    def connect(self, verified: bool) -> apsw.Connection:
        """A read-only connection. Without `verified`, checksums of pages are ignored, so that a flipped bit damages one record
        and not its page.
        """
        # Without a log nothing writes, and SQLite needs no file beside this one. A foreign log is left out.
        mode = "mode=ro" if self.log.exists() and self.foreign is None else "immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        vfs = VFS if verified and self.verified else None
        connection = apsw.Connection(f"file:{quote(str(self.path))}?{mode}", flags=flags, vfs=vfs)
        connection.set_busy_timeout(5000)
        connection.pragma("trusted_schema", 0)
        # Without this, SQLite refuses a file that was cut off as a whole. The connection cannot write anything.
        connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
        return connection

    @property
    def origin(self) -> Origin | None:
        """The origin of the file itself."""
        return origin_of_file(self._descriptor)

    @property
    def pages(self) -> int:
        """The pages of the file itself."""
        return os.fstat(self._descriptor).st_size // PAGE_SIZE

    @property
    def missing_pages(self) -> int:
        """The number of pages that the header counts and the file lacks; 0 if there is a log, which may hold them."""
        counted = int.from_bytes(os.pread(self._descriptor, 4, _PAGES_OFFSET))
        return 0 if self.log_bytes else max(0, counted - self.pages)

    def page(self, number: int) -> bytes:
        """Read one page of the file itself, from 1."""
        return os.pread(self._descriptor, PAGE_SIZE, (number - 1) * PAGE_SIZE)

    def close(self) -> None:
        """Close the descriptor. All connections must be closed before: this drops their locks."""
        os.close(self._descriptor)


def rows_by_id(connection: apsw.Connection, table: str, columns: str) -> Iterator[tuple[int, tuple[Any, ...] | None]]:
    """Yield (id, row) of a table with integer ids, ascending; the row is None where it cannot be read.

    Ids on pages that cannot be read are left out: indexes may have them.
    """
    last = -_LARGEST - 1
    statement = f"SELECT id, {columns} FROM {table} NOT INDEXED WHERE id > ? ORDER BY id LIMIT ?"
    rows: list[Any] | None
    while True:
        try:
            rows = list(connection.execute(statement, (last, BATCH)))
        except UNREADABLE:
            rows = None
        # A damaged tree may also lead back to where it was.
        if rows is None or any(before[0] >= after[0] for before, after in pairwise([(last,), *rows])):
            found = _next_id(connection, table, last)
            if found is None:
                return
            last = found
            yield last, row_at(connection, table, columns, last)
            continue
        if not rows:
            return
        for id, *row in rows:
            last = id
            yield id, tuple(row)


def row_at(connection: apsw.Connection, table: str, columns: str, id: int) -> tuple[Any, ...] | None:
    """Read one row; None if it is not there, or cannot be read."""
    try:
        for row in connection.execute(f"SELECT {columns} FROM {table} NOT INDEXED WHERE id = ?", (id,)):
            return tuple(row)
    except UNREADABLE:
        return None
    return None


def _next_id(connection: apsw.Connection, table: str, after: int) -> int | None:
    """Find the next id after `after` that can be read; None: there is none."""
    low, step = after, 1
    while True:
        probe = after + step
        if probe > _LARGEST:
            return None
        found = _first_from(connection, table, probe)
        if found is not False:
            break
        low, step = probe, step * 2
    high = probe
    # The page behind `low` cannot be read, that of `high` can: halve the distance, to leave out as few ids as possible.
    while high - low > 1:
        middle = (low + high) // 2
        there = _first_from(connection, table, middle)
        if there is False:
            low = middle
        else:
            high, found = middle, there
    return found


def _first_from(connection: apsw.Connection, table: str, id: int) -> int | Literal[False] | None:
    """The first id from `id` on; None: there is none; False: its page cannot be read."""
    try:
        for (found,) in connection.execute(
            f"SELECT id FROM {table} NOT INDEXED WHERE id >= ? ORDER BY id LIMIT 1", (id,)
        ):
            return int(found) if found >= id else False
    except UNREADABLE:
        return False
    return None


def rows_from_both_ends(connection: apsw.Connection, statement: str, order: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order of an index. After an unreadable page, yield rows from the other end too; some come twice."""
    try:
        yield from connection.execute(f"{statement} ORDER BY {order}")
    except UNREADABLE:
        reverse = ", ".join(f"{column} DESC" for column in order.split(", "))
        try:
            yield from connection.execute(f"{statement} ORDER BY {reverse}")
        except UNREADABLE:
            return
