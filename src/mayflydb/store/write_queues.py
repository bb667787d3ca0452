"""Who waits for a writer: users and sweeps, and whose next_urgency it is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import Unavailable
from mayflydb.store.interface import Committed, Decision, Urgency

QUEUE_LIMIT = 10_000


class QueuedWrite:
    """One decision and who waits for it. `tries`: how often its group was run and nothing came of it."""

    __slots__ = ("decide", "future", "tries")

    def __init__(self, decide: Callable[[], Decision[Any]], future: asyncio.Future[Committed[Any]]) -> None:
        self.decide = decide
        self.future = future
        self.tries = 0

    def fail(self, error: Exception) -> None:
        """Tell whoever waits, if somebody still does."""
        if not self.future.done():
            self.future.set_exception(error)


class Refusal:
    """What a decision raised instead of coming to an outcome."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class WriteQueues:
    """Two queues. While both have somebody, each has about half of the writer's time."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.queues: dict[Urgency, deque[QueuedWrite]] = {"user": deque(), "sweep": deque()}
        self.closing = False
        self._stopwatch = stopwatch
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.Event()
        self._spent: dict[Urgency, int] = {"user": 0, "sweep": 0}

    async def submit(self, decide: Callable[[], Decision[Any]], urgency: Urgency) -> Committed[Any]:
        """Queue a decision and wait for its commit. Unavailable when too many wait, or the writer is closing."""
        if self.closing:
            raise Unavailable("the store is closing")
        queue = self.queues[urgency]
        if len(queue) >= QUEUE_LIMIT:
            raise Unavailable(f"{QUEUE_LIMIT} writes are waiting")
        future: asyncio.Future[Committed[Any]] = self._loop.create_future()
        queue.append(QueuedWrite(decide, future))
        self._work.set()
        return await future

    def requeue(self, jobs: Sequence[QueuedWrite]) -> None:
        """Nothing has come of these; they are next."""
        self.queues["user"].extendleft(reversed(jobs))
        self._work.set()

    def close(self) -> None:
        """What is queued is finished, what comes later refused."""
        self.closing = True
        self._work.set()

    async def wait_for_work(self) -> None:
        """Wait until there may be something to do."""
        await self._work.wait()
        self._work.clear()

    def next_urgency(self) -> Urgency | None:
        """Whose next_urgency it is; None: nobody waits."""
        users, sweeps = self.queues["user"], self.queues["sweep"]
        if not sweeps:
            return "user" if users else None
        return "sweep" if not users or self._spent["sweep"] < self._spent["user"] else "user"

    def charge(self, urgency: Urgency, began: int) -> None:
        """The writer has worked for them since then."""
        self._spent[urgency] += self._stopwatch() - began
        if not all(self.queues.values()):
            # Nobody was kept waiting by the other: no debts.
            self._spent = {"user": 0, "sweep": 0}
