"""The requests of a stream in both directions: read as they arrive, within bounds, and kept until they are taken.

A client may send many requests before it is answered. What waits is bounded by count and bytes for each stream, and is charged to
the account of bytes in flight. When a bound is reached, no more is read, so gRPC's flow control slows the client down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final, Protocol

import grpc.aio
import msgspec
from google.protobuf.message import DecodeError

from mayflydb.frontends.ydb.intake import TOO_MANY_BYTES
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.sockets.in_flight import SMALL_ANSWER, BytesInFlight

MAX_WAITING: Final = 64
"""Requests of one stream that wait to be taken."""

MAX_WAITING_BYTES: Final = 8 << 20
"""Bytes of the requests that wait to be taken, the last of which may go beyond it."""


class Received(msgspec.Struct, frozen=True):
    """A parsed request, and the size of its bytes."""

    request: Any
    size: int


class Requests(Protocol):
    """The requests of a stream, for its handler."""

    target: str
    """The path that the stream is about; the handler sets it, and logs tell it."""

    @property
    def has_ended(self) -> bool:
        """True if all requests were taken, and the client sends no more."""

    @property
    def waiting(self) -> bool:
        """True if `take` would return requests."""

    def ring(self) -> None:
        """Wake the handler from its wait."""

    async def wait(self) -> None:
        """Wait until a request has arrived, the client has ended its side, or the handler is woken."""

    def take(self) -> list[Received]:
        """Return the requests that have arrived, in order. Those that were taken before are done with. Faults: the next one
        cannot be read, or is too large to be held now.
        """


class StreamRequests:
    """The requests of one gRPC stream."""

    def __init__(self, context: Any, in_flight: BytesInFlight, kind: Any) -> None:
        """`kind`: the class of the messages."""
        self.target = ""
        self._context = context
        self._in_flight = in_flight
        self._kind = kind
        self._waiting: deque[Received] = deque()
        self._waiting_bytes = 0
        self._charged = 0
        self._taken = 0
        self._ended = False
        self._failure: Fault | None = None
        self._bell = asyncio.Event()
        self._room = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._receive())

    @property
    def has_ended(self) -> bool:
        """See Requests."""
        return self._ended and not self._waiting and self._failure is None

    @property
    def waiting(self) -> bool:
        """See Requests."""
        return bool(self._waiting)

    def ring(self) -> None:
        """See Requests."""
        self._bell.set()

    async def wait(self) -> None:
        """See Requests."""
        if self._failure is None:
            await self._bell.wait()
        self._bell.clear()

    def take(self) -> list[Received]:
        """See Requests."""
        self._give_back(self._taken)
        taken = list(self._waiting)
        self._waiting.clear()
        self._taken = sum([each.size for each in taken if each.size > SMALL_ANSWER])
        self._waiting_bytes = 0
        self._room.set()
        if not taken and self._failure is not None:
            raise self._failure
        return taken

    async def close(self) -> None:
        """Read no more, and give back what is charged."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._give_back(self._charged)

    def _give_back(self, size: int) -> None:
        self._charged -= size
        if size:
            self._in_flight.charge(-size)

    async def _receive(self) -> None:
        try:
            while True:
                while len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES:
                    self._room.clear()
                    await self._room.wait()
                data = await self._context.read()
                if data is grpc.aio.EOF:
                    return
                self._add(data)
        except Fault as failure:
            self._failure = failure
        finally:
            # Also where the client is gone: gRPC then cancels the handler by itself.
            self._ended = True
            self._bell.set()

    def _add(self, data: bytes) -> None:
        size = len(data)
        if size > SMALL_ANSWER:
            if not self._in_flight.may_hold(size):
                raise fault(TOO_MANY_BYTES, status="OVERLOADED")
            self._in_flight.charge(size)
            self._charged += size
        try:
            request = self._kind.FromString(data)
        except DecodeError:
            raise fault("The request cannot be read.", status="BAD_REQUEST") from None
        self._waiting.append(Received(request, size))
        self._waiting_bytes += size
        self._bell.set()
