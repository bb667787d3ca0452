"""Free space of the disk: a reserve that is given back when the disk is full, and a limit below which writes are refused.

Deletes, sweeps, checkpoints and the clock's mark are never refused. They need a little space themselves, which the limit and the
reserve leave to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import apsw
import msgspec

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import OutOfSpace
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.store import interface
from mayflydb.store.interface import DiskFacts
from mayflydb.store.sqlite.volume import Volume

log = logging.getLogger(__name__)

LOOK_US = SECOND
LOOK_BYTES = 8 * 1024 * 1024
"""The free space is read after so many microseconds, or after so many bytes of the write-ahead log.

With a low limit it is read after fewer bytes, since the limit must not be passed between two readings.
"""

RECORD_OVERHEAD = 1024
"""Bytes that a deletion may write for each removed record: in a history, or for the retry of a client."""

CONTAINER_OVERHEAD = 64 * 1024
"""Bytes that the drop of a container may write."""

MEBIBYTE = 1024 * 1024


class SpaceLimits(msgspec.Struct, frozen=True):
    """`reserve`: bytes that are kept allocated beside the file. `least`: free bytes below which growing writes are refused."""

    reserve: int
    least: int


class Space:
    """The state of one disk. `look`, `release` and `facts` wait for the disk, and run on a thread of the store.

    `is_short`: writes that make the store grow are refused. `reserve`: the wanted size of the reserve.
    """

    def __init__(self, volume: Volume, limits: SpaceLimits, stopwatch: Stopwatch) -> None:
        self.is_short = False
        self.reserve = limits.reserve
        self._volume = volume
        self._limits = limits
        self._look_bytes = min(LOOK_BYTES, limits.least // 2) if limits.least else LOOK_BYTES
        self._stopwatch = stopwatch
        self._looked_at: int | None = None
        self._written = 0
        self._free = 0
        self._is_kept = False
        self._refused = 0

    def is_due(self, written: int) -> bool:
        """Return True if the next look is due. `written`: the bytes of the log that were written so far."""
        if self._looked_at is None or written - self._written >= self._look_bytes:
            self._written = written
            return True
        return self._stopwatch() - self._looked_at >= LOOK_US

    def hurry(self) -> None:
        """Make the next look due at once."""
        self._looked_at = None

    def look(self) -> None:
        """Read the free space, and build the reserve if there is room for it."""
        self._looked_at = self._stopwatch()
        wanted = self._limits.reserve
        try:
            reserved = self._volume.reserve_size()
            self._free = self._volume.free()
            if reserved != wanted and self._free + reserved >= wanted + self._limits.least:
                self._volume.reserve(wanted)
                reserved, self._free = wanted, self._volume.free()
        except OSError as error:
            log.warning("the free space of the disk could not be read: %s", error)
            return
        self._is_kept = reserved >= wanted
        self._judge(self._free < self._limits.least or not self._is_kept)

    def release(self) -> None:
        """Give the reserve back: the disk is full."""
        try:
            self._volume.release()
        except OSError as error:
            log.warning("the reserve could not be given back: %s", error)
        self._is_kept = self._limits.reserve == 0
        self._free = 0
        self._judge(True)

    def _judge(self, short: bool) -> None:
        if short != self.is_short:
            self.is_short = short
            if short:
                log.warning("the disk is full: %s; writes are refused, reads and deletes go on", self._describe())
            else:
                log.warning("the disk has space again: %s; writes go on", self._describe())

    def _describe(self) -> str:
        limits = self._limits
        needed = limits.least + (0 if self._is_kept else limits.reserve)
        return f"{self._free // MEBIBYTE} MiB are free, and {-(-needed // MEBIBYTE)} MiB are needed"

    def refuse(self) -> OutOfSpace:
        """Count a refused write and return its error."""
        self._refused += 1
        return OutOfSpace(f"The disk of the store is full: {self._describe()}. Nothing was written.")

    def room(self) -> int:
        """Return the free bytes above the limit. Errors: OSError."""
        return self._volume.free() - self._limits.least

    def facts(self) -> DiskFacts:
        """Return the present state. Errors: OSError."""
        free, limits = self._volume.free(), self._limits
        short = self.is_short or free < limits.least
        return DiskFacts(
            free, limits.least, limits.reserve if self._is_kept else 0, limits.reserve, short, self._refused
        )


def is_full(error: apsw.Error) -> bool:
    """Return True if an error means that the disk is full. The index of the log is a file too, which SQLite extends."""
    extended = getattr(error, "extendedresult", 0)
    return isinstance(error, apsw.FullError) or extended == apsw.SQLITE_IOERR_SHMSIZE


def grows(changes: Sequence[interface.Change], exists: Callable[[int], bool]) -> bool:
    """Return True if changes add more bytes to the store than they remove. `exists`: returns True for an existing catalogue row.

    The new version of a record counts in full. Purges and trims count nothing: they make room.
    """
    balance = 0
    for change in changes:
        match change:
            case interface.Put(record=record, entries=entries):
                balance += _size(record) + sum(len(entry.key) for entry in entries or ())
            case interface.AddVersion(version=version):
                balance += len(version.value)
            case interface.ReplaceEntries(entries=entries):
                balance += sum(len(key) for _, keys in entries for key in keys)
            case interface.PutRow(row=row) if not exists(row.id):
                balance += len(row.data) + 1
            case interface.Delete(record=record):
                balance -= _size(record) + RECORD_OVERHEAD
            case interface.DropRow():
                balance -= CONTAINER_OVERHEAD
    return balance > 0


def _size(record: Record) -> int:
    return len(record.value) + len(record.key) + len(record.partition)
