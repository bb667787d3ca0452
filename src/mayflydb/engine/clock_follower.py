"""Moves a store's clock after that of its process, which tests move: forward by a walk through everything that is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mayflydb.clock import ProcessClock
from mayflydb.engine.catalog import Node
from mayflydb.engine.clock_mover import ClockMover, newest_write
from mayflydb.engine.engine import Engine
from mayflydb.model.instant import to_rfc3339

log = logging.getLogger(__name__)


class ClockFollower:
    """Follows a `ProcessClock`. No timer has a part in it: each request looks before it reads the time.

    `containers`: lists those that a walk purges.
    """

    def __init__(
        self, engine: Engine, clock: ProcessClock, containers: Callable[[], Awaitable[Sequence[Node]]]
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._mover = ClockMover(engine, clock)
        self._containers = containers
        self._task: asyncio.Task[None] | None = None
        self._is_held = False

    async def look(self) -> None:
        """Move to the present of the process, and return when all purges on the way are done.

        A clock that went back is followed where nothing stored is newer. Otherwise time stands still, as after every step back.
        """
        if self._task is not None and asyncio.current_task() is self._task:
            # The walk itself reads the time.
            return
        while self._clock.aim() != self._clock.now():
            if self._task is None:
                # A task of its own: a client that leaves does not interrupt it.
                self._task = asyncio.create_task(self._move(), name="clock-follower")
                self._task.add_done_callback(self._finish)
                # Once: the clock may tick.
                await asyncio.shield(self._task)
                return
            await asyncio.wait((self._task,))

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            # Seen: the request that waits for it reports a failure, and the next one tries again.
            task.exception()

    async def _move(self) -> None:
        aim = self._clock.aim()
        if aim < self._clock.now():
            await self._go_back()
            return
        self._is_held = False
        due = await self._engine.reaper.next_deadline()
        if due is None or due > aim:
            self._clock.set(aim)
        else:
            await self._mover.walk(aim, await self._containers(), "scheduled")

    async def _go_back(self) -> None:
        newest = await newest_write(self._engine.reads, await self._containers())
        if self._engine.time.clock is not self._clock:
            # Stopped, or replaced, meanwhile.
            return
        aim, now = self._clock.aim(), self._clock.now()
        if newest is None or newest <= aim < now:
            self._mover.roll_back(min(aim, now))
        elif aim < now and not self._is_held:
            self._is_held = True
            log.warning(
                "the process's clock went back to %s, and the store holds something written at %s: its time stands still at %s",
                to_rfc3339(aim),
                to_rfc3339(newest),
                to_rfc3339(now),
            )
