"""The sizes of what a store occupies, read at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import SECOND

ReadSizes = Callable[[], Awaitable[Mapping[str, int]]]
"""Reads the bytes of a store by kind. The kinds do not overlap. Errors: Unavailable."""

KEPT: Final = 10 * SECOND
"""The time for which sizes are not read again: PostgreSQL asks its file system for each file."""


class StorageSizes:
    """The last sizes that were read, however many ask."""

    def __init__(self, read: ReadSizes, stopwatch: Stopwatch) -> None:
        self._read = read
        self._stopwatch = stopwatch
        self._reading = asyncio.Lock()
        self._sizes: Mapping[str, int] = {}
        self._next = stopwatch()

    async def recent(self) -> Mapping[str, int]:
        """Return the bytes by kind; nothing while they cannot be read."""
        async with self._reading:
            if self._stopwatch() >= self._next:
                try:
                    self._sizes = await self._read()
                except Unavailable:
                    self._sizes = {}
                self._next = self._stopwatch() + KEPT
            return self._sizes
