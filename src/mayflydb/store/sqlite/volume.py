"""The file system that holds a store file: its free space, and a file of allocated bytes that can be given back to it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

_BLOCK = bytes(1 << 20)


class Volume(Protocol):
    """Free space, and a reserve. Every call may wait for the disk. Errors: OSError."""

    def free(self) -> int:
        """Return the bytes that may still be allocated."""

    def reserve_size(self) -> int:
        """Return the bytes of the reserve that are allocated."""

    def reserve(self, size: int) -> None:
        """Allocate a reserve of this size, in place of the present one. After an error there is none."""

    def release(self) -> None:
        """Give the reserve back."""


def file_sizes(path: Path) -> dict[str, int]:
    """Return the bytes of a store file and of the files beside it, by kind. Errors: OSError."""
    sizes = {"database": path.stat().st_size}
    for kind in ("wal", "shm", "reserve", "keys"):
        # The files beside it come and go.
        with contextlib.suppress(FileNotFoundError):
            sizes[kind] = path.with_name(f"{path.name}-{kind}").stat().st_size
    return sizes


class FileVolume:
    """The file system of a store file. The reserve is a file beside it, with `-reserve` at the end of its name."""

    def __init__(self, path: Path) -> None:
        self._directory = path.parent
        self._file = path.with_name(f"{path.name}-reserve")

    def free(self) -> int:
        status = os.statvfs(self._directory)
        # f_bavail: a part of the free blocks may be reserved for the superuser.
        return status.f_bavail * status.f_frsize

    def reserve_size(self) -> int:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return 0
        # A copy of the file may have holes, which hold no space.
        return min(status.st_size, status.st_blocks * 512)

    def reserve(self, size: int) -> None:
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, min(size, os.fstat(descriptor).st_size))
            _allocate(descriptor, size)
        except OSError:
            os.ftruncate(descriptor, 0)
            raise
        finally:
            os.close(descriptor)

    def release(self) -> None:
        # The name stays: a full file system may have no room for a new one.
        if self._file.exists():
            os.truncate(self._file, 0)


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        if size:
            os.posix_fallocate(descriptor, 0, size)
        return
    for offset in range(0, size, len(_BLOCK)):  # macOS
        os.pwrite(descriptor, _BLOCK[: size - offset], offset)
