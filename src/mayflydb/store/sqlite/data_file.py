"""The file of a store: the real one behind its names, locked for one process, and watched while it is served.

Two processes on one file would not see each other's catalogue and record cache, so both would acknowledge writes that contradict.
The lock is of the file itself, and not of a name: of one byte of it, far behind those that SQLite locks, by an open file
description (`F_OFD_SETLK` of Linux). Names can be removed, linked and mounted twice; that lock stays. SQLite's own locks are of
the older kind, of which a process loses all when it closes any descriptor of the file. The descriptor held here is opened before
SQLite opens the file and closed after SQLite has closed it, and all reads that do not go through SQLite use it.

The file `-lock` is locked as well, for earlier versions, which lock only this file, and for systems without locks of this kind.
On these systems it is watched like the file, so that a server whose lock was removed stops answering within a second.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import struct
import sys
from pathlib import Path

from mayflydb.model.errors import InUse, Unavailable
from mayflydb.store.sqlite.log_origin import Origin, find_mismatch, origin_of_file, origin_of_log
from mayflydb.store.sqlite.page_checksums import RESERVED_BYTES, RESERVED_OFFSET, VFS, load_checksums

log = logging.getLogger(__name__)

_LOCKED_BYTE = 1 << 62
_LOCK = struct.Struct("@hhqqi")
"""`struct flock` of fcntl(2): type, whence, start, length, and a process, which is 0 here."""

Identity = tuple[int, int]
"""Device and inode."""


class DataFile:
    """A locked file. `take` makes it; `close` it after SQLite has closed its connections."""

    def __init__(self, path: Path, descriptor: int, lock: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lock = lock
        self._names: dict[Path, Identity] = {path: _identity(os.fstat(descriptor))}
        self._eras: frozenset[int | None] = frozenset()
        self._looks_foreign = False

    @classmethod
    def take(cls, given: str) -> DataFile:
        """Find, create if need be, and lock a file. Unavailable if it is in use or cannot be served; OSError."""
        # The log lies beside the name by which the file is opened, so there must be one such name.
        path = Path(given).resolve()
        if path.exists() and not path.is_file():
            raise Unavailable(f"{path} is not a file")
        lock = _lock_name(path)
        descriptor = -1
        try:
            if not path.exists():
                _refuse_foreign_log(path, None)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _refuse_links(path, descriptor)
            is_locked = _lock_inode(path, descriptor)
            _refuse_foreign_log(path, origin_of_file(descriptor))
            taken = cls(path, descriptor, lock)
            if not is_locked:
                # The lock is all that keeps a second server away: without it, this one has to end.
                taken._names[_lock_path(path)] = _identity(os.fstat(lock))
        except BaseException:
            for each in (descriptor, lock):
                if each != -1:
                    os.close(each)
            raise
        return taken

    def close(self) -> None:
        """Release the locks."""
        os.close(self._descriptor)
        os.close(self._lock)

    @property
    def origin(self) -> Origin | None:
        """The origin of the file itself, without its log."""
        return origin_of_file(self._descriptor)

    def vfs(self) -> str | None:
        """The VFS to open the file with: that of page checksums for a new file, and for one that has them."""
        header = os.pread(self._descriptor, RESERVED_OFFSET + 1, 0)
        if header and header[-1] != RESERVED_BYTES:
            return None
        if load_checksums():
            return VFS
        if header:
            # Written without the VFS, its pages would keep checksums that are wrong from then on.
            raise Unavailable(
                f"{self.path} has page checksums, and the installed apsw has no cksumvfs; install apsw's wheel of PyPI"
            )
        return None

    def watch(self, eras: frozenset[int | None]) -> None:
        """Begin to watch, once SQLite has opened the file and its log. `eras`: those that the file may be in from now on."""
        self._eras = eras
        if _identity(self.path.stat()) != self._names[self.path]:
            # Some network file systems number a file anew each time. What it holds is looked at all the same.
            log.warning("%s has another number for each look at it: a rename will not be noticed", self.path)
            del self._names[self.path]
        beside = Path(f"{self.path}-wal")
        self._names[beside] = _identity(beside.stat())

    def find_change(self) -> str | None:
        """Return a description of a change of the file by other programs; None: no change. Takes some microseconds."""
        for name, known in self._names.items():
            try:
                there = _identity(name.stat())
            except (FileNotFoundError, NotADirectoryError):
                there = None
            except OSError:
                # The file cannot be looked at, for example in a directory without rights: that moves no file.
                continue
            if there != known:
                return self._describe(name, there is not None)
        return f"{self.path} was overwritten" if self._is_overwritten() else None

    def is_own(self) -> bool:
        """Return True if the file, under any name, holds the database that was opened. False if it cannot be read."""
        return self._reads_own() is True

    def _reads_own(self) -> bool | None:
        """Return True if the file holds that database; None: it cannot be read at present, which is no sign of an overwrite."""
        try:
            origin = self.origin
        except OSError:
            return None
        return origin is not None and origin.era in self._eras

    def _describe(self, name: Path, replaced: bool) -> str:
        if name != self.path:
            kind = "lock" if name == _lock_path(self.path) else "log"
            return f"the {kind} {name} was {'replaced' if replaced else 'removed'}"
        if os.fstat(self._descriptor).st_nlink:
            return f"{name} was renamed (or its directory){', and another file has its name' if replaced else ''}"
        return f"{name} was {'replaced' if replaced else 'removed'}"

    def _is_overwritten(self) -> bool:
        """True if the file has twice held another database: the first look may have met a checkpoint that was writing."""
        before, self._looks_foreign = self._looks_foreign, self._reads_own() is False
        return before and self._looks_foreign


def foreign_log(log: str, reason: str) -> Unavailable:
    """The refusal of a file with a log that is not its own. Detail `hint`: the ways out."""
    hint = "put the file that the log belongs to in its place; or remove the log, and with it what it holds"
    return Unavailable(f"{log} does not belong to the file beside it: {reason}", hint=hint)


def _refuse_foreign_log(path: Path, origin: Origin | None) -> None:
    log = f"{path}-wal"
    reason = find_mismatch(origin, origin_of_log(log))
    if reason is not None:
        raise foreign_log(log, reason)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _lock_path(path: Path) -> Path:
    return Path(f"{path}-lock")


def _lock_name(path: Path) -> int:
    """Lock the file `-lock` and return its descriptor."""
    name = _lock_path(path)
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Removed between the two calls, it would be the lock of nothing.
            if name.exists() and _identity(name.stat()) == _identity(os.fstat(descriptor)):
                return descriptor
        except OSError:
            os.close(descriptor)
            raise _in_use(path) from None
        os.close(descriptor)


def _lock_inode(path: Path, descriptor: int) -> bool:
    """Lock the file itself; False where that is not possible. Unavailable if another process has it."""
    if sys.platform != "linux":
        return False
    wanted = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _LOCKED_BYTE, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    except (BlockingIOError, PermissionError):
        raise _in_use(path) from None
    except OSError:
        # A file system without locks of this kind.
        return False
    return True


def _in_use(path: Path) -> InUse:
    return InUse(f"{path} is in use by another Mayfly process")


def _refuse_links(path: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Unavailable(f"{path} is not a file")
    if status.st_nlink > 1:
        raise Unavailable(
            f"{path} has {status.st_nlink} names (hard links), and its log would lie beside one of them",
            hint=f"find the others with `find -samefile {path.name}` and remove them",
        )
