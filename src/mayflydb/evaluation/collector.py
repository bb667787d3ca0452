"""Full garbage collections of this process, kept away while large computations hold many objects.

A full collection walks all objects of the process and holds the interpreter meanwhile: 0.3 seconds for two million objects. A
computation that gathers rows makes the collector run again and again, and there is nothing to collect.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Final

_NEVER: Final = 1_000_000_000
"""A number of collections of the younger generations that is not reached."""


class FullCollections:
    """Counts those who keep full collections away. Collections of young objects go on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._usual = 0

    def pause(self) -> None:
        """Keep full collections away until `resume`."""
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
"""Of the whole process, as the collector is."""
