"""The locks of a write transaction, which all nodes take in one order, so that no two of them wait for each other.

    containers (their catalogue rows), by id    records are read and changed
    NAMES                                       names are read, ids are given out
    SETTINGS                                    numbers of the store are written
    EVENTS                                      expiry events are numbered
    the catalogue's version                     raised by the last statement

A decision asks for one lock after the other. A transaction waits for a lock only while it has none that comes later. Where it
has one, it takes the lock if no other transaction has it; else it ends without a trace, and runs again with all of its locks
taken first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import asyncpg

from mayflydb.store import interface
from mayflydb.store.postgres import citus, reads
from mayflydb.store.postgres.connection import LockTaken
from mayflydb.store.postgres.reads import Connection

NAMES: Final = 1 << 62
SETTINGS: Final = NAMES + 1
EVENTS: Final = NAMES + 2

_NAMES = "SELECT 1 FROM mayfly.meta WHERE name = 'next_id' FOR UPDATE"
_SETTINGS = "SELECT 1 FROM mayfly.setting ORDER BY name FOR UPDATE"


class LockOrder:
    """The locks that one transaction has taken."""

    def __init__(self, connection: Connection, distributed: bool) -> None:
        self._connection = connection
        self._distributed = distributed
        self._taken: set[int] = set()
        self._last = 0

    def note(self, locks: Iterable[int]) -> None:
        """Note what a statement has locked itself, in this order."""
        self._taken.update(locks)
        self._last = max(self._taken, default=0)

    async def lock_containers(self, wanted: list[int]) -> list[interface.CatalogRow]:
        """Lock containers, given in order, and return their rows. LockTaken, as in the head of the module."""
        if not wanted:
            return []
        wait = wanted[0] > self._last
        try:
            if self._distributed:
                await citus.lock(self._connection, wanted, wait)
            rows = await reads.lock_rows(self._connection, wanted, wait)
        except asyncpg.LockNotAvailableError as error:
            raise LockTaken(frozenset({*self._taken, *wanted})) from error
        self.note(wanted)
        return rows

    async def lock_names(self) -> None:
        """Lock the names of the catalogue. LockTaken, as in the head of the module."""
        await self._lock(NAMES, _NAMES)

    async def lock_settings(self) -> None:
        """Lock the numbers of the store. LockTaken, as in the head of the module."""
        await self._lock(SETTINGS, _SETTINGS)

    async def _lock(self, place: int, statement: str) -> None:
        if place in self._taken:
            return
        try:
            await self._connection.execute(statement if place > self._last else f"{statement} NOWAIT")
        except asyncpg.LockNotAvailableError as error:
            raise LockTaken(frozenset({*self._taken, place})) from error
        self.note([place])
