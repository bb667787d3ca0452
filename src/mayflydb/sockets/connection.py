"""A connection that answers its requests one after the other, in the order of their arrival.

An answer that waits for nothing is built in the turn of the event loop in which its request arrived, without a task. The code
that runs for every request stays in one frame, since each call of a method costs time.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Generic, TypeVar

from mayflydb.sockets.work import Served, Work, resume

R = TypeVar("R")
A = TypeVar("A")
W = TypeVar("W")

MAX_ANSWERS_PER_TURN: Final = 16
"""Requests of one connection that are answered in one turn of the event loop; further ones wait for those of others."""

PROGRESS_SECONDS: Final = 10.0
"""Seconds in which a client must send PROGRESS_BYTES of its message or take them of its answer, or the rest."""

PROGRESS_BYTES: Final = 1 << 20

UNREAD_CHECKS: Final = 3
"""Times PROGRESS_SECONDS that an unread answer may stay as it is while there is room for others."""


class OrderedConnection(Served, asyncio.Protocol, Generic[R, A, W]):
    """Transport, flow control and tasks. `R`: a request, `A`: its answer, `W`: an entry of the queue of requests."""

    # Without slots, the attributes of an object with more than 30 of them lie in a dict, and each use of one takes longer.
    __slots__ = (
        "_blocked", "_charged", "_closing", "_continuing", "_ended", "_expires", "_loop", "_outgoing", "_paused", "_starved",
        "_task", "_timer", "_transport", "_unread", "_unread_checks", "_unread_timer", "_unsent", "_waiting", "_work",
    )  # fmt: skip

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """`deadline`: the time of the loop at which the first request must be complete."""
        super().__init__()
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
        self._task: asyncio.Task[None] | None = None
        # The bytes that are charged to the account of bytes in flight: for requests, and for answers.
        self._charged = 0
        self._unread = 0
        self._unsent = 0
        self._starved = False
        self._continuing: asyncio.Handle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_checks = 0

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
        """Return the answer to a request whose handler raised this error; None if the connection ends without an answer."""

    @abstractmethod
    def _answering_bytes(self) -> int:
        """Return the bytes that are charged for the request that is being answered."""

    @abstractmethod
    def _check_deadline(self) -> None:
        """Abort when the client took too long, else set the timer again."""

    @property
    def address(self) -> str:
        """The client's address without a port; empty where it has none."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    # --- the transport's calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._work.connections.add(self)
        self._timer = self._loop.call_at(self._expires, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._work.connections.discard(self)
        for timer in (self._timer, self._unread_timer, self._continuing):
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        # The request that is being answered still has its bytes, until `_respond`.
        self._charge(self._answering_bytes())
        self._charge_unread(0)
        self._work.in_flight.leave(self)

    def pause_writing(self) -> None:
        self._blocked = True
        self._watch_unread()
        self._throttle()

    def resume_writing(self) -> None:
        self._blocked = False
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        self._charge_unread(0)
        self._advance()
        self._throttle()

    def read_on(self) -> None:
        """Continue a message that had to wait for others."""
        self._starved = False
        self._throttle()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._transport.abort()

    # --- bytes in flight -------------------------------------------------------------------------------------------------

    def _charge(self, held: int) -> None:
        """Set the charge for requests to the bytes that this connection holds now."""
        before, self._charged = self._charged, held
        self._work.in_flight.charge(held - before)

    def _charge_unread(self, size: int) -> None:
        before, self._unread = self._unread, size
        if size != before:
            self._work.in_flight.charge(size - before)

    def _await_taking(self, size: int) -> None:
        """Charge a large answer, and make no further one until the transport has taken it."""
        self._charge_unread(self._unread + size)
        self._blocked = True

    def _resume_answers(self) -> None:
        """Go on after a large answer that was written, unless the transport waits for its client."""
        if self._unread_timer is None:
            self._charge_unread(0)
            self._blocked = False
            self._continue_later()

    def _await_room(self, size: int) -> bool:
        """Pause in a message of this size if other messages have to end first. Return False if it is refused."""
        allowed = self._work.in_flight.may_read(self, size)
        self._starved = allowed is False
        return allowed is not None

    def _watch_unread(self) -> None:
        # A large answer stays in memory as a whole until its last byte is sent, so its charge stays too.
        self._unsent = self._transport.get_write_buffer_size()
        self._charge_unread(max(self._unread, self._unsent))
        self._unread_checks = 0
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        self._unread_timer = self._loop.call_later(PROGRESS_SECONDS, self._check_unread)

    def _check_unread(self) -> None:
        """Abort the connection of a client that does not read its answers."""
        before, left = self._unsent, self._transport.get_write_buffer_size()
        self._unsent = left
        if before - left >= min(PROGRESS_BYTES, before // 4):
            self._unread_checks = 0
        else:
            self._unread_checks += 1
            if self._unread_checks >= UNREAD_CHECKS or self._work.in_flight.short:
                self.abort()
                return
        self._unread_timer = self._loop.call_later(PROGRESS_SECONDS, self._check_unread)

    def _continue_later(self) -> None:
        """Answer the requests that wait in a later turn of the loop, after those of other connections."""
        if self._continuing is None:
            self._continuing = self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._continuing = None
        self._advance()
        self._throttle()

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
            self._task = task = self._loop.create_task(self._finish(request, answering, awaited))
            self._work.tasks.add(task)

    async def _finish(self, request: R, begun: Coroutine[Any, Any, A], awaited: Any) -> None:
        """Wait, as a task, for the rest of an answer that was begun outside of any."""
        # Not `self._task`, which a connection that answers several requests at a time has set anew.
        task = asyncio.current_task()
        assert task is not None
        answer: A | None
        try:
            answer = await resume(begun, awaited)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as error:  # noqa: BLE001 -- `_fail` decides.
            answer = self._fail(request, error)
        finally:
            # Here and not in a callback of the task, which the loop would have to call for every request.
            self._work.tasks.discard(task)
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
