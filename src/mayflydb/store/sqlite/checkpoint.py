"""Checkpoints keep the write-ahead log short, and give free pages back to the file system.

Both are explicit statements between commits, so that their errors are seen; SQLite's automatic checkpoint hides them in a COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from mayflydb.store.sqlite.connection import BUSY_TIMEOUT_MS
from mayflydb.store.sqlite.damage import Damage, is_damage
from mayflydb.store.sqlite.page_checksums import PAGE_SIZE
from mayflydb.store.sqlite.space import is_full

PASSIVE_PAGES = 16 * 1024 * 1024 // PAGE_SIZE
"""The growth of the log, in pages, after which it is copied into the file. A page that is written often is copied once."""

CAP_PAGES = 64 * 1024 * 1024 // PAGE_SIZE
"""The size, in pages, above which the log is truncated: this waits for readers and then interrupts them. Below it, a checkpoint
leaves out the pages that a reader still needs.
"""

# Free pages are given back when they are more than a quarter of the file and more than a megabyte: purged space is soon reused.
FREE_SHARE = 4
FREE_FLOOR_PAGES = 1024 * 1024 // PAGE_SIZE
VACUUM_STEP_PAGES = 128

SCRUB_WAIT_MS = 50
"""The time for which a scrub waits for readers while writes wait for it."""

FULL_DISK_BYTES = 4 * 1024 * 1024
"""The length of the log file on a full disk. Its pages are written over, so that purges and the clock need no new space."""

RESERVE_SHARE = 4
"""The log is copied into the file when it has grown by this part of the disk's reserve."""

FULL_DISK_STEPS = 8
"""Steps in which free pages are given back at a time on a full disk, each in a commit of its own that fits into the log."""


class WriteAheadLog:
    """Counts the pages of the log by SQLite's hook and checkpoints by size."""

    def __init__(
        self,
        connection: apsw.Connection,
        halt: Callable[[str], None],
        damage: Damage,
        is_own: Callable[[], bool] = lambda: True,
        reserve: int = 0,
        interrupt_readers: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_own`: returns True while the log belongs to the file. Copied into another file, the log would ruin that file.

        `reserve`: bytes into which the file may grow on a full disk. The log stays shorter, since it must be copied into them.
        `interrupt_readers`: ends reads that keep the log from being cut.
        """
        self._bound = reserve // RESERVE_SHARE // PAGE_SIZE
        self._connection = connection
        self._halt = halt
        self._damage = damage
        self._is_own = is_own
        self._interrupt_readers = interrupt_readers
        self._pages = self._maintained = 0
        self.written = 0
        """Bytes that were written to the log so far."""
        connection.set_wal_hook(self._count_pages)

    def _count_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.written += PAGE_SIZE * (pages - self._pages if pages > self._pages else pages)
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def is_due(self) -> bool:
        """True if the log has grown enough for the next `maintain`."""
        # A log that was copied completely starts over at its first page, so the count falls.
        if self._pages < self._maintained:
            self._maintained = 0
        return self._pages - self._maintained >= (min(PASSIVE_PAGES, self._bound) if self._bound else PASSIVE_PAGES)

    def maintain(self) -> None:
        """Checkpoint, and give back free pages in small steps. A reader that keeps the log over its limit is interrupted."""
        self._maintained = self._pages
        self._attempt(self._give_back)
        if self._pages <= (min(CAP_PAGES, 2 * self._bound) if self._bound else CAP_PAGES):
            self.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE) is not None:
            # The checkpoint has waited for as long as the connection waits for readers.
            self._interrupt_readers()
            self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def scrub(self, insist: bool) -> bool:
        """Copy all of the log into the file and cut it. False: a reader needs it. `insist`: ends such a read.

        With a secure connection nothing of what was deleted before is in the file or the log then.
        """
        if not self._is_own():
            return False
        self._connection.set_busy_timeout(SCRUB_WAIT_MS)
        try:
            if insist:
                self._interrupt_readers()
            return self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE) is None and self._is_cut()
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _is_cut(self) -> bool:
        # A full disk, too, leaves the log as it is.
        in_log, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return in_log == 0

    def shrink(self) -> bool:
        """Give free pages and most of the log back to the file system; True: more can be given back. For a full disk."""
        if not self._is_own():
            return False
        self._limit(FULL_DISK_BYTES)
        before = self._connection.pragma("freelist_count")
        self._attempt(self._shrink)
        return bool(0 < self._connection.pragma("freelist_count") < before)

    def regrow(self) -> None:
        """Let the log grow again after `shrink`."""
        self._limit(-1)

    def _limit(self, size: int) -> None:
        self._connection.pragma("journal_size_limit", size)

    def _shrink(self) -> None:
        # Passive: a log that was copied completely begins anew, too, and no reader is waited for.
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        for _ in range(FULL_DISK_STEPS):
            if not self._connection.pragma("freelist_count"):
                break
            self._connection.pragma("incremental_vacuum", VACUUM_STEP_PAGES)
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        # A commit begins the log anew, and cuts it to the limit.
        self._connection.execute("UPDATE meta SET value = value WHERE name = 'commit_seq'")

    def checkpoint(self, mode: int) -> apsw.BusyError | None:
        """Copy the log into the file. Return the error if a reader needs the log as it is."""
        if not self._is_own():
            return None
        return self._attempt(lambda: self._connection.wal_checkpoint(mode=mode))

    def _attempt(self, work: Callable[[], object]) -> apsw.BusyError | None:
        # After a busy reader or on a full disk the log still holds everything: the checkpoint is only late. After a failed fsync
        # the kernel may have dropped dirty pages, and a second fsync would succeed without them: only a recovery is safe.
        try:
            work()
        except apsw.BusyError as error:
            return error
        except apsw.FullError:
            return None
        except (apsw.CorruptError, apsw.IOError) as error:
            if is_damage(error):
                # A page that cannot be given back. The log is as it was.
                self._damage.note(error)
                return None
            if is_full(error):
                return None
            self._halt(f"checkpoint failed: {error}")
            raise
        return None

    def _give_back(self) -> None:
        free = self._connection.pragma("freelist_count")
        if free > FREE_FLOOR_PAGES and free * FREE_SHARE > self._connection.pragma("page_count"):
            self._connection.pragma("incremental_vacuum", VACUUM_STEP_PAGES)
