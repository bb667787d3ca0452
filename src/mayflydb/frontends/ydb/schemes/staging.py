"""Hidden tables, to which no path leads: copies and results of queries while they are filled, and temporary tables.

A hidden table belongs to the server that has made it. Its name is "<owner> <number>". Where several nodes share a store, each
server has a lease of its number as an owner, so that the others see when it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Final

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import Conflict, MayflyError, NotFound
from mayflydb.model.instant import DAY, Instant, Span

log = logging.getLogger(__name__)

HIDDEN_SPACE: Final = "ydb copies"
"""The space of hidden tables."""

LEASE: Final[Span] = 365 * DAY
"""The time of a lease. It ends earlier with its node."""


class HiddenTables:
    """The hidden tables of one server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owner: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(self, definition: Definition, now: Instant) -> Node:
        """Create a hidden table."""
        engine = self._engine
        space = await engine.definitions.space(HIDDEN_SPACE, now)
        if self._owner is None:
            self._owner = await self._claim()
        # Names only have to differ. Another call may take one first; then the next number is tried.
        count = len(await engine.children(space.id))
        while True:
            try:
                return await engine.definitions.create(space.id, f"{self._owner} {count}", definition)
            except Conflict:
                count += 1

    async def drop(self, id: int) -> None:
        """Drop a hidden table, if it still exists."""
        with contextlib.suppress(NotFound):
            await self._engine.definitions.drop(id)

    def discard(self, ids: Iterable[int]) -> None:
        """Drop hidden tables in the background. Those that a failure leaves are dropped by the next start."""
        task = asyncio.create_task(self._drop_all(tuple(ids)), name="drop hidden tables")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until all discarded tables are dropped."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def drop_unfinished(self) -> None:
        """Drop the hidden tables of servers that have stopped."""
        space = await self._engine.node(HIDDEN_SPACE)
        gone: dict[str, bool] = {}
        for node in [] if space is None else await self._engine.children(space.id):
            owner = node.name.partition(" ")[0]
            if owner not in gone:
                gone[owner] = await self._take_over(owner)
            if gone[owner]:
                await self.drop(node.id)

    async def _claim(self) -> int:
        """Return a number that no living server has. What an earlier owner of the number has left is dropped."""
        owner = 0
        while not await self._take_over(str(owner)):
            owner += 1
        space = await self._engine.node(HIDDEN_SPACE)
        for node in [] if space is None else await self._engine.children(space.id):
            if node.name.partition(" ")[0] == str(owner):
                await self.drop(node.id)
        return owner

    async def _take_over(self, owner: str) -> bool:
        """Return whether no other server lives that has this number."""
        lease = self._engine.lease
        return lease is None or await lease(f"{HIDDEN_SPACE} {owner}", LEASE)

    async def _drop_all(self, ids: tuple[int, ...]) -> None:
        for id in ids:
            try:
                await self.drop(id)
            except MayflyError as error:
                log.warning("a temporary table was not dropped: %s", error)
