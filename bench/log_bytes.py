"""How many bytes a file's store writes to its log, as SQLite's own index of the log tells."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from threading import Event, Thread

FRAME = 4096 + 24
"""A page and its head in the log."""

INTERVAL = 0.001
_MX_FRAME = struct.Struct("=I")
_OFFSET = 16
"""Of the number of the last frame in the head of the index (https://www.sqlite.org/walformat.html)."""


class LogBytes:
    """Adds up the frames that are appended while the block runs. Frames between a look and a restart of the log are missed."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-shm")
        self._over = Event()
        self.count = 0

    def __enter__(self) -> LogBytes:
        with self._path.open("rb") as file:
            self._index = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._last = self._frame()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self._index.close()

    def _frame(self) -> int:
        frame: int = _MX_FRAME.unpack_from(self._index, _OFFSET)[0]
        return frame

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self._look()

    def _look(self) -> None:
        frame = self._frame()
        # The log begins anew when all of it is in the file.
        self.count += (frame - self._last if frame >= self._last else frame) * FRAME
        self._last = frame
