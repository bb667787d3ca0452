"""The write-ahead log kept short, and free pages given back: explicit statements between commits, so that errors are seen."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from mayflydb.store.sqlite.connection import PAGE_SIZE

PASSIVE_PAGES = 16 * 1024 * 1024 // PAGE_SIZE
"""Copy the log into the file each time it has grown by this many pages; a page written often is then copied once."""

CAP_PAGES = 64 * 1024 * 1024 // PAGE_SIZE
"""Above this the log is truncated, waiting for readers."""

FREE_SHARE = 4
FREE_FLOOR_PAGES = 1024 * 1024 // PAGE_SIZE
VACUUM_STEP_PAGES = 128


class WriteAheadLog:
    """Counts the log's pages by SQLite's own hook and checkpoints by size."""

    def __init__(self, connection: apsw.Connection, halt: Callable[[str], None]) -> None:
        self._connection = connection
        self._halt = halt
        self._pages = self._maintained = 0
        connection.set_wal_hook(self._committed)

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def is_due(self) -> bool:
        """Whether the log grew enough since it was last tended to."""
        if self._pages < self._maintained:
            self._maintained = 0
        return self._pages - self._maintained >= PASSIVE_PAGES

    def maintain(self) -> None:
        """Checkpoint, and give back free pages in small steps."""
        self._maintained = self._pages
        self._attempt(self._give_back)
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._pages > CAP_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        self.checkpoint(mode)

    def checkpoint(self, mode: int) -> None:
        """Copy the log into the file."""
        self._attempt(lambda: self._connection.wal_checkpoint(mode=mode))

    def _attempt(self, work: Callable[[], object]) -> None:
        # A busy reader or a full disk only delays: the log holds everything. A failed fsync leaves the disk unknown.
        try:
            work()
        except (apsw.BusyError, apsw.FullError):
            return
        except apsw.IOError as error:
            self._halt(f"checkpoint failed: {error}")
            raise

    def _give_back(self) -> None:
        free = self._connection.pragma("freelist_count")
        if free > FREE_FLOOR_PAGES and free * FREE_SHARE > self._connection.pragma("page_count"):
            self._connection.pragma("incremental_vacuum", VACUUM_STEP_PAGES)
