"""Pauses full garbage collections of this process while large computations hold many objects.

A full collection walks all objects of the process under the interpreter lock: 0.3 seconds for two million objects. A computation
that collects rows in memory triggers it repeatedly, and it frees nothing.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Final

_NEVER: Final = 1_000_000_000
"""A threshold that is never reached: collections of the middle generation before a full one."""


class FullCollections:
    """Pauses full collections, and counts the pauses. Collections of young objects go on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._usual = 0

    def pause(self) -> None:
        """Pause full collections until `resume`. Pauses may overlap."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                first, second, self._usual = gc.get_threshold()
                gc.set_threshold(first, second, _NEVER)

    def resume(self) -> None:
        """End one `pause`."""
        with self._lock:
            self._users -= 1
            if not self._users:
                first, second, _ = gc.get_threshold()
                gc.set_threshold(first, second, self._usual)


full_collections: Final = FullCollections()
"""One object for the whole process, since the collector belongs to the process."""
