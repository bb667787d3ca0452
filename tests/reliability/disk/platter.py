# ruff: noqa: N802 -- the methods of a VFS have SQLite's names.
"""A simulated disk under SQLite: what is written is pending until its file is synced, and all is logged for replay.

One VFS object per simulation, under a name of its own. There is no shared memory, so WAL needs `locking_mode=exclusive`.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw

SECTOR = 512

Kind = Literal["read", "write", "truncate", "sync", "delete", "open"]


class Write(NamedTuple):
    """Bytes put somewhere in a file."""

    path: str
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A file cut to a length."""

    path: str
    size: int


class Sync(NamedTuple):
    """A file (and its name in the directory) made durable."""

    path: str


class Forget(NamedTuple):
    """A sync that failed, after which the kernel takes the pending pages for clean: no later sync writes them."""

    path: str


class Create(NamedTuple):
    """A new, empty file."""

    path: str


class Unlink(NamedTuple):
    """A file removed; `durable` when its directory was synced with it."""

    path: str
    durable: bool


class Mark(NamedTuple):
    """Something that happened above the disk: an answer that a client has seen."""

    what: str
    number: int


Event: TypeAlias = Write | Truncate | Sync | Forget | Create | Unlink | Mark
Fault = Callable[[Kind, str], BaseException | None]
"""Asked before each call: what it fails with, or None."""

_names = count(1)


class Platter(apsw.VFS):
    """The disk. `files` is what a reader sees now; `log` all that led there. `lying`: syncs are answered and not done."""

    def __init__(self, seed: int, lying: bool = False) -> None:
        self.name = f"platter{next(_names)}"
        self.files: dict[str, bytearray] = {}
        self.log: list[Event] = []
        self.fault: Fault | None = None
        self.short_read: Callable[[str], bool] | None = None
        self.short_write: Callable[[str], bool] | None = None
        self._lying = lying
        self._random = random.Random(seed)
        super().__init__(self.name, "")

    def check(self, kind: Kind, path: str) -> None:
        """Fail if this call is to fail."""
        if self.fault is not None:
            error = self.fault(kind, path)
            if error is not None:
                raise error

    def mark(self, what: str, number: int) -> None:
        """Note something that a client has been told."""
        self.log.append(Mark(what, number))

    def synced(self, path: str) -> None:
        """A sync has returned."""
        if not self._lying:
            self.log.append(Sync(path))

    def forgets(self, path: str) -> None:
        """A sync has failed; some kernels then drop what was pending, others keep it."""
        if self._random.random() < 0.5:
            self.log.append(Forget(path))

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "no temporary files"
        self.check("open", path)
        if path not in self.files:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError(path)
            self.files[path] = bytearray()
            self.log.append(Create(path))
        flags[1] = flags[0]
        return File(self, path)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.check("delete", filename)
        self.files.pop(filename, None)
        self.log.append(Unlink(filename, syncdir and not self._lying))

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self.files

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return self._random.randbytes(numbytes)


class File:
    """One open file."""

    def __init__(self, disk: Platter, path: str) -> None:
        self._disk = disk
        self._path = path
        self._data = disk.files[path]

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.check("read", self._path)
        if self._disk.short_read is not None and self._disk.short_read(self._path):
            return bytes(self._data[offset : offset + amount // 2])
        return bytes(self._data[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.check("write", self._path)
        if self._disk.short_write is not None and self._disk.short_write(self._path):
            self._put(data[: len(data) // 2], offset)
            raise failure(apsw.FullError, apsw.SQLITE_FULL)
        self._put(data, offset)

    def _put(self, data: bytes, offset: int) -> None:
        if offset > len(self._data):
            self._data.extend(bytes(offset - len(self._data)))
        self._data[offset : offset + len(data)] = data
        self._disk.log.append(Write(self._path, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.check("truncate", self._path)
        del self._data[newsize:]
        self._disk.log.append(Truncate(self._path, newsize))

    def xSync(self, flags: int) -> None:
        try:
            self._disk.check("sync", self._path)
        except apsw.Error:
            self._disk.forgets(self._path)
            raise
        self._disk.synced(self._path)

    def xFileSize(self) -> int:
        return len(self._data)

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        if op != apsw.SQLITE_FCNTL_MMAP_SIZE:
            return False
        # Asked for the size of the memory map: there is none.
        ctypes.c_int64.from_address(pointer).value = 0
        return True

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None: ...


def failure(kind: type[apsw.Error], code: int) -> apsw.Error:
    """An error with an extended result code, as a VFS must raise it."""
    error = kind("simulated")
    vars(error).update(extendedresult=code, result=code & 0xFF)
    return error
