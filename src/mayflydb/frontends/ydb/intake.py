"""Reads the message of a call within the account of bytes in flight.

gRPC receives a message outside of Python's code, and only after a call asks for it. So the account is checked before that. The
size of a message is not known until it is complete. A message that is not complete at once is charged with what may have come in
the time since, until it is.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import grpc.aio

from mayflydb.model.quota import Quota
from mayflydb.sockets.in_flight import SMALL_ANSWER, BytesInFlight

ENTRANCES: Final = 4
"""The most messages that are received at once before they are complete or charged."""

GRACE_SECONDS: Final = 0.01
"""Seconds after which a message that is not complete is charged. Small messages arrive together with their call."""

FASTEST: Final = 800 << 20
"""The most bytes that arrive in a second."""

COPIES: Final = 2
"""Times that a message is in memory when it is complete: as gRPC has received it, and as the bytes that it hands over."""

MESSAGE_SECONDS: Final = 30.0
"""Seconds in which a message must be complete."""

TOO_MANY_BYTES: Final = "The server holds as many bytes for its clients as it may."


class CallEnded(Exception):
    """The client left before its message was complete."""


class Intake:
    """The messages that one server's calls wait for, and the answers that they wait to send."""

    def __init__(self, in_flight: BytesInFlight, calls: Quota, largest: int) -> None:
        """`calls`: the quota of calls in work. `largest`: the limit of a message, in bytes."""
        self._in_flight = in_flight
        self._calls = calls
        self._largest = largest
        self._aborting: set[asyncio.Task[None]] = set()
        self._entrance = asyncio.Semaphore(ENTRANCES)

    async def enter(self, context: Any) -> None:
        """Count a call until it ends. End it with RESOURCE_EXHAUSTED if there are too many."""
        if not self._calls.take():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"More than {self._calls.limit} calls are in work.")

    def leave(self) -> None:
        """Note the end of a call."""
        self._calls.give()

    async def read(self, context: Any, charge: Charge) -> bytes:
        """Return the first message of a call. CallEnded without one; the call ends with RESOURCE_EXHAUSTED if it cannot be taken.

        `charge`: of the call; it stays until the caller sets it to 0.
        """
        await self._entrance.acquire()
        charge.entrance = self._entrance
        loop = asyncio.get_running_loop()
        charge.timer = loop.call_later(GRACE_SECONDS, self._reserve, context, charge, GRACE_SECONDS)
        try:
            data = await context.read()
        finally:
            charge.timer.cancel()
            charge.release_entrance()
        if data is grpc.aio.EOF:
            raise CallEnded
        message: bytes = data
        size = len(message)
        charge.set(0)
        if size > SMALL_ANSWER:
            if not self._in_flight.may_hold(size):
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_BYTES)
            charge.set(size)
        return message

    async def check_answer(self, context: Any, size: int) -> None:
        """End a call with RESOURCE_EXHAUSTED if its answer is too large to be held for it now, else charge the answer."""
        if size <= SMALL_ANSWER:
            return
        if not self._in_flight.may_hold(size):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_BYTES)
        self._in_flight.charge(size)
        context.add_done_callback(lambda _: self._in_flight.charge(-size))

    def _reserve(self, context: Any, charge: Charge, seconds: float) -> None:
        """Charge what may have come in these seconds of a message that is on its way, or refuse it."""
        # Of a low limit, a slow message takes half: others must come in beside it.
        most = min(self._largest * COPIES, self._in_flight.quota.limit // 2)
        size = min(int(seconds * FASTEST) * COPIES, most)
        if not self._in_flight.may_hold(size - charge.size):
            self._abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_BYTES)
            return
        charge.set(size)
        charge.release_entrance()
        loop = asyncio.get_running_loop()
        if size < most:
            charge.timer = loop.call_later(seconds, self._reserve, context, charge, seconds * 2)
        else:
            late = grpc.StatusCode.DEADLINE_EXCEEDED, "The message took too long."
            charge.timer = loop.call_later(MESSAGE_SECONDS, self._abort, context, *late)

    def _abort(self, context: Any, code: grpc.StatusCode, text: str) -> None:
        async def abort() -> None:
            # `abort` raises here too; the call that reads gets the same exception.
            try:
                await context.abort(code, text)
            except Exception:  # noqa: BLE001 -- gRPC's AbortError, or UsageError where the call has ended meanwhile.
                return

        task = asyncio.get_running_loop().create_task(abort())
        self._aborting.add(task)
        task.add_done_callback(self._aborting.discard)


class Charge:
    """The bytes that are charged for the message of one call."""

    __slots__ = ("_in_flight", "entrance", "size", "timer")

    def __init__(self, in_flight: BytesInFlight) -> None:
        self._in_flight = in_flight
        self.size = 0
        self.timer: asyncio.TimerHandle
        self.entrance: asyncio.Semaphore | None = None

    def release_entrance(self) -> None:
        """Let the next call ask for its message."""
        if self.entrance is not None:
            self.entrance.release()
            self.entrance = None

    def take_answer(self, size: int) -> bool:
        """Set the charge to one message of a stream of answers. Return False if that message may not be sent."""
        self.set(0)
        if size > SMALL_ANSWER:
            if not self._in_flight.may_hold(size):
                return False
            self.set(size)
        return True

    def set(self, size: int) -> None:
        """Set the charge to this size."""
        before, self.size = self.size, size
        if size != before:
            self._in_flight.charge(size - before)
