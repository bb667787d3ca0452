"""The state that a listener and its connections share, and coroutines that begin outside of a task."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.seats import Seat

T = TypeVar("T")


class Served(asyncio.BaseProtocol, ABC):
    """The protocol of one connection, as its listener knows it. `seat`: released when the connection is lost."""

    __slots__ = ("__weakref__", "seat")

    def __init__(self) -> None:
        self.seat: Seat | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.seat is not None:
            self.seat.release()

    @abstractmethod
    def flush(self) -> None:
        """Send the answers that are ready."""

    @abstractmethod
    def shutdown(self) -> None:
        """Close the connection after the requests so far are answered."""

    @abstractmethod
    def abort(self) -> None:
        """Drop the connection at once."""


class ClosedConnection(Served, asyncio.Protocol):
    """A connection that is closed at once: one without TLS, on a server that requires TLS."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.abort()

    def flush(self) -> None:
        """Do nothing: there is no answer."""

    def shutdown(self) -> None:
        """Do nothing: the connection is closed already."""

    def abort(self) -> None:
        """Do nothing: the connection is closed already."""


class Work:
    """The open connections of a listener, the tasks of requests, and the connections that have answers to send."""

    def __init__(self, in_flight: BytesInFlight | None = None) -> None:
        """`in_flight`: the account of the process; None: the listener gets an account of its own."""
        self.in_flight = in_flight or BytesInFlight()
        self.connections: set[Served] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._outgoing: list[Served] = []

    def post(self, connection: Served) -> None:
        """Send the answers of a connection at the end of this turn of the event loop, together with those of the others.

        A send wakes the client that waits for it, which costs more than the answer itself. One wake-up for all is much cheaper.
        """
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(connection)

    def flush(self) -> None:
        """Send everything now."""
        outgoing, self._outgoing = self._outgoing, []
        for connection in outgoing:
            connection.flush()


@coroutine
def resume(begun: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that was sent its first None outside of any task, and that waits for `awaited` since.

    A caller awaits this inside a coroutine of its own: from Python 3.12 on, a task takes no generator.
    """
    try:
        while True:
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 -- the coroutine handles it, cancellation included.
                # The error may come from what was awaited, which refers to it: by this frame they would keep each other.
                awaited = None
                awaited = begun.throw(error)
            else:
                awaited = begun.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
