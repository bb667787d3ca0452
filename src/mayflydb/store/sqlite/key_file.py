"""The file of keys: one slot for each key that was ever made, written in place, so that a destroyed key is in no free space.

    slot 0    "mayfly keys 1\\n" | 2 unused | id of the file     8 | zeros 36 | CRC-32 4
    slot n    1: a key, 2: destroyed  1 | 7 unused | serial n    8 | mark 8 | key 32, zeros when destroyed | 4 unused | CRC-32 4

A key is on the disk before the first value that it seals is committed. To destroy it, its bytes are written over in their place
and synced. The rows of `sealing` in the data file name a key by its serial number and its mark, a random number. `meta` has the
id of the file. So another file, an older copy of the file and a damaged one are told apart from keys that were destroyed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import apsw

from mayflydb.model.errors import InUse, Unavailable

KEY_BYTES: Final = 32
SLOT_BYTES: Final = 64
GROWTH: Final = 64
"""Slots by which the file grows: a new key then needs no new space of the disk, except every 64th one."""

_MAGIC: Final = b"mayfly keys 1\n"
_HEADER: Final = Struct("<14s2xQ36x")
_SLOT: Final = Struct("<B7xQQ32s4x")
_CRC: Final = Struct("<I")
_KEY, _DESTROYED = 1, 2


class KeyName(NamedTuple):
    """The name of a key in the data file: its serial number, from 1, and its mark."""

    serial: int
    mark: int


class KeyFile:
    """The keys of one data file. Its methods wait for the disk, except `add` and `discard`."""

    def __init__(self, path: Path, id: int, slots: int, lock: int | None) -> None:
        """`slots`: the number of keys that were ever made. `lock`: a descriptor that locks it; None: it is not there yet."""
        self.path = path
        self.id = id
        self._slots = slots
        self._lock = lock
        self._pending: dict[int, bytes] = {}

    @classmethod
    def create(cls, path: Path) -> KeyFile:
        """Return the keys of a data file that has none; the file is created with the first key.

        A file of keys that lies there is used: a server ended before its first key was, or the data file is older.
        Unavailable if another file lies there; InUse.
        """
        if path.exists():
            return cls.open(path, None)
        return cls(path, int.from_bytes(os.urandom(7)), 0, None)

    @classmethod
    def open(cls, path: Path, id: int | None) -> KeyFile:
        """Open the file with an id; None: with any. Unavailable if it is missing, or another one; InUse."""
        try:
            lock = _lock(path)
        except OSError as error:
            raise _unusable(path, f"it cannot be read ({error.strerror})") from error
        try:
            return cls._read(path, id, lock)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def _read(cls, path: Path, id: int | None, lock: int) -> KeyFile:
        content = path.read_bytes()
        header = content[:SLOT_BYTES]
        if len(header) < SLOT_BYTES or not header.startswith(_MAGIC) or not _is_whole(header):
            raise _unusable(path, "it is no file of keys, or its beginning is damaged")
        found = _HEADER.unpack_from(header)[1]
        if id is not None and found != id:
            raise _unusable(path, "it has the keys of another data file")
        slots = len(content) // SLOT_BYTES - 1
        while slots and not any(content[slots * SLOT_BYTES : (slots + 1) * SLOT_BYTES]):
            slots -= 1
        return cls(path, found, slots, lock)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self, name: KeyName) -> bytes | None:
        """Return a key; None: it was destroyed. Unavailable if the file does not know it."""
        with self.path.open("rb") as file:
            slot = os.pread(file.fileno(), SLOT_BYTES, name.serial * SLOT_BYTES)
        if len(slot) < SLOT_BYTES or not any(slot):
            raise _unusable(self.path, f"it is an older copy, without key {name.serial}")
        if not _is_whole(slot):
            raise _unusable(self.path, f"key {name.serial} is damaged")
        kind, serial, mark, key = _SLOT.unpack_from(slot)
        if (serial, mark) != name:
            raise _unusable(self.path, f"its key {name.serial} is that of another copy of the data file")
        return key if kind == _KEY else None

    def add(self) -> tuple[KeyName, bytes]:
        """Make a key. `flush` writes it."""
        key, name = os.urandom(KEY_BYTES), KeyName(self._slots + 1, int.from_bytes(os.urandom(7)))
        self._slots += 1
        self._pending[name.serial] = _slot(_KEY, name, key)
        return name, key

    @property
    def has_unwritten(self) -> bool:
        """True if keys were made since the last `flush`."""
        return bool(self._pending)

    def discard(self) -> None:
        """Forget the keys that were made since the last `flush`: their transaction was rolled back."""
        self._slots -= len(self._pending)
        self._pending.clear()

    def flush(self) -> None:
        """Write and sync the keys that were made. apsw.FullError on a full disk; apsw.IOError, with the code of
        a failed fsync where the process must end.
        """
        if self._pending:
            try:
                self._write(self._pending)
            except OSError as error:
                raise _disk_error(error) from error
            self._pending.clear()

    def destroy(self, names: list[KeyName]) -> None:
        """Write over keys and sync. Those that are destroyed already stay so. OSError."""
        self._write({name.serial: _slot(_DESTROYED, name, bytes(KEY_BYTES)) for name in names})

    def _write(self, slots: dict[int, bytes]) -> None:
        if self._lock is None:
            self._lock = self._create()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if not os.path.sameopenfile(descriptor, self._lock):
                raise OSError(errno.ESTALE, "it was replaced while it was served")
            size = -(-(max(slots) + 1) // GROWTH) * GROWTH * SLOT_BYTES
            there = os.fstat(descriptor).st_size
            if there < size:
                os.pwrite(descriptor, bytes(size - there), there)
            for serial, slot in slots.items():
                os.pwrite(descriptor, slot, serial * SLOT_BYTES)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _create(self) -> int:
        # Under its name only when it is whole: a torn header would look like a damaged file.
        draft = self.path.with_name(f"{self.path.name}.unfinished")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, _sum(_HEADER.pack(_MAGIC, self.id)))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # A link, which does not replace a file that appeared meanwhile.
        os.link(draft, self.path)
        draft.unlink()
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return _lock(self.path)


def _lock(path: Path) -> int:
    """Lock a file of keys: two servers that made keys in it would write over each other's. InUse; OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InUse(f"the file of keys {path} is in use by another Mayfly process") from None
    return descriptor


def _slot(kind: int, name: KeyName, key: bytes) -> bytes:
    return _sum(_SLOT.pack(kind, *name, key))


def _sum(content: bytes) -> bytes:
    return content + _CRC.pack(crc32(content))


def _is_whole(slot: bytes) -> bool:
    return bool(_CRC.unpack_from(slot, SLOT_BYTES - 4)[0] == crc32(slot[:-4]))


def _unusable(path: Path, reason: str) -> Unavailable:
    hint = (
        "put the file of keys in its place, or name it with --storage-key-file; without it no sealed record can be read"
    )
    return Unavailable(f"the data file has sealed records, and {path} has not their keys: {reason}", hint=hint)


def _disk_error(error: OSError) -> apsw.Error:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return apsw.FullError(f"the file of keys could not grow: {error.strerror}")
    failed = apsw.IOError(f"the file of keys could not be written: {error.strerror}")
    if error.errno == errno.EIO:
        # A later sync may succeed without what this one has lost.
        failed.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]  # SQLite's own errors have it.
    return failed
