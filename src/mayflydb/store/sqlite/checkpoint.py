"""Checkpoints keep the write-ahead log short, and give free pages back to the file system.

Both are explicit statements between commits, so that their errors are seen; SQLite's automatic checkpoint hides them in a COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from mayflydb.store.sqlite.connection import PAGE_SIZE

PASSIVE_PAGES = 16 * 1024 * 1024 // PAGE_SIZE
"""The log is copied into the file each time that it has grown by so many pages. A page that is written often is copied once."""

CAP_PAGES = 64 * 1024 * 1024 // PAGE_SIZE
"""Above this size the log is truncated, which waits for readers; below, a checkpoint passes by what a reader still needs."""

# Free pages are given back when they are more than a quarter of the file and more than a megabyte: purged space is soon reused.
FREE_SHARE = 4
FREE_FLOOR_PAGES = 1024 * 1024 // PAGE_SIZE
VACUUM_STEP_PAGES = 128


class WriteAheadLog:
    """Counts the pages of the log by SQLite's hook and checkpoints by size."""

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
        """True if the log has grown enough since the last `maintain`."""
        # A log that was copied completely starts over at its first page, so the count falls.
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
        # After a busy reader or on a full disk the log still holds everything: the checkpoint is only late. After a failed fsync
        # the kernel may have dropped dirty pages, and a second fsync would succeed without them: only a recovery is safe.
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
