"""A connection that answers its requests one after the other, in the order in which they came.

An answer that waits for nothing is made in the turn of the event loop in which its request came, without a task. The methods here
are called at most as often as those of a protocol of its own would be: what runs for every request stays in one frame.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from mayflydb.sockets.work import Served, Work, resume

R = TypeVar("R")
A = TypeVar("A")
W = TypeVar("W")


class OrderedConnection(Served, Generic[R, A, W]):
    """Transport, flow control and tasks. `R`: a request, `A`: its answer, `W`: an entry of the queue of requests."""

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """`deadline`: the time of the loop at which the first request must be complete."""
        self._work = work
        self._loop = loop
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # Set before anything else is called.
        self._waiting: deque[W] = deque()
        self._outgoing: list[bytes] = []
        self._blocked = False
        self._paused = False
        self._closing = False
        self._ended = False
        self._expires = deadline
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def _advance(self) -> None:
        """Answer waiting requests, as far as that is possible now."""

    @abstractmethod
    def _throttle(self) -> None:
        """Pause or resume reading, by how far the client is ahead."""

    @abstractmethod
    def _respond(self, request: R, answer: A) -> None:
        """Send an answer."""

    @abstractmethod
    def _fail(self, request: R, error: Exception) -> A | None:
        """Return the answer to a request whose handler raised this; None where the connection ends without one."""

    @abstractmethod
    def _check_deadline(self) -> None:
        """Abort when the client took too long, else set the timer again."""

    # --- the transport's calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._work.connections.add(self)
        self._timer = self._loop.call_at(self._expires, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self._work.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def pause_writing(self) -> None:
        self._blocked = True
        self._throttle()

    def resume_writing(self) -> None:
        self._blocked = False
        self._advance()
        self._throttle()

    def abort(self) -> None:
        """Drop the connection, whatever it is about."""
        self._transport.abort()

    # --- answering -------------------------------------------------------------------------------------------------------

    def _run(self, request: R, answering: Coroutine[Any, Any, A]) -> None:
        """Answer at once where the handler waits for nothing, else go on as a task."""
        try:
            awaited = answering.send(None)
        except StopIteration as done:
            self._respond(request, done.value)
        except Exception as error:  # noqa: BLE001 -- `_fail` decides.
            failed = self._fail(request, error)
            if failed is not None:
                self._respond(request, failed)
        else:
            task = self._loop.create_task(self._finish(request, answering, awaited))
            self._work.tasks.add(task)
            task.add_done_callback(self._work.tasks.discard)

    async def _finish(self, request: R, begun: Coroutine[Any, Any, A], awaited: Any) -> None:
        """Wait, as a task, for the rest of an answer that was begun outside of any."""
        answer: A | None
        try:
            answer = await resume(begun, awaited)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as error:  # noqa: BLE001 -- `_fail` decides.
            answer = self._fail(request, error)
        if answer is not None:
            self._respond(request, answer)
            self._advance()
            self._throttle()

    def _set_paused(self, paused: bool) -> None:
        """Stop reading from the client, or go on. Callers compare first, since most requests change nothing."""
        if not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _end(self) -> None:
        """Close as soon as everything is sent; further requests are ignored."""
        self._ended = True
        self._waiting.clear()
        if not self._outgoing:
            self._transport.close()
