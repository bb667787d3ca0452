"""The writes that wait for a writer, in two queues: users and sweeps. `next_urgency` chooses the queue that is served next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import Unavailable
from mayflydb.store.interface import Committed, Decision, Urgency

QUEUE_LIMIT = 10_000
"""Writes that one queue holds; more are refused, so that a stalled disk does not fill the memory with waiting requests."""


class QueuedWrite:
    """A decision and the future of its caller. `tries`: how often its group was run without any known effect.

    `in_doubt`: one of these attempts may be on the disk, until a later commit takes its place.
    """

    __slots__ = ("decide", "future", "in_doubt", "tries")

    def __init__(self, decide: Callable[[], Decision[Any]], future: asyncio.Future[Committed[Any]]) -> None:
        self.decide = decide
        self.future = future
        self.tries = 0
        self.in_doubt = False

    def fail(self, error: Exception) -> None:
        """Raise the error in the caller, unless the caller has given up already."""
        if not self.future.done():
            self.future.set_exception(error)


class Refusal:
    """An exception that a decision raised, kept until the commit of its group."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class WriteQueues:
    """Two queues of writes. While both hold writes, each gets about half of the writer's time."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.queues: dict[Urgency, deque[QueuedWrite]] = {"user": deque(), "sweep": deque()}
        self.closing = False
        self._refusal: str | None = None
        self._stopwatch = stopwatch
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.Event()
        self._spent: dict[Urgency, int] = {"user": 0, "sweep": 0}

    async def submit(self, decide: Callable[[], Decision[Any]], urgency: Urgency) -> Committed[Any]:
        """Queue a decision and wait for its commit. Unavailable if the queue is full or the writer is closing."""
        if self.closing:
            raise Unavailable("the store is closing")
        if self._refusal is not None:
            raise Unavailable(self._refusal)
        queue = self.queues[urgency]
        if len(queue) >= QUEUE_LIMIT:
            raise Unavailable(f"{QUEUE_LIMIT} writes are waiting")
        future: asyncio.Future[Committed[Any]] = self._loop.create_future()
        queue.append(QueuedWrite(decide, future))
        self._work.set()
        return await future

    def requeue(self, jobs: Sequence[QueuedWrite]) -> None:
        """Put these writes, of which nothing has happened, back in front of the queue of users."""
        self.queues["user"].extendleft(reversed(jobs))
        self._work.set()

    def refuse(self, reason: str) -> None:
        """Refuse writes from now on, those that are queued too: nothing of them has happened."""
        self._refusal = reason
        for queue in self.queues.values():
            while queue:
                queue.popleft().fail(Unavailable(reason))
        self._work.set()

    def wake(self) -> None:
        """End the wait for work, though there may be none."""
        self._work.set()

    def close(self, last: Callable[[], Decision[Any]] | None = None) -> None:
        """Refuse writes from now on; those that are queued are still finished, and then `last`, whose failure is not told."""
        if last is not None and self._refusal is None and not self.closing:
            future: asyncio.Future[Committed[Any]] = self._loop.create_future()
            # Its exception counts as retrieved.
            future.add_done_callback(asyncio.Future.exception)
            self.queues["user"].append(QueuedWrite(last, future))
        self.closing = True
        self._work.set()

    async def wait_for_work(self) -> None:
        """Wait until a write may be queued, or the queues are closing."""
        await self._work.wait()
        # Cleared before the queues are read: a write that arrives afterwards sets the event again.
        self._work.clear()

    def next_urgency(self) -> Urgency | None:
        """Return the queue to serve next; None if both are empty."""
        users, sweeps = self.queues["user"], self.queues["sweep"]
        if not sweeps:
            return "user" if users else None
        return "sweep" if not users or self._spent["sweep"] < self._spent["user"] else "user"

    def charge(self, urgency: Urgency, began: int) -> None:
        """Charge a queue with the time that the writer has worked for it, which began at `began` of the stopwatch."""
        self._spent[urgency] += self._stopwatch() - began
        if not all(self.queues.values()):
            # Shares of time matter only while both queues wait. A debt from before would later starve one of them.
            self._spent = {"user": 0, "sweep": 0}
