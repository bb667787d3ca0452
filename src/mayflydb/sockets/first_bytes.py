"""A connection whose protocol is told by its first bytes: after TLS there is no socket to peek at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from mayflydb.sockets.work import Served, Work

Choice: TypeAlias = Callable[[bytes], Served]
"""Builds the protocol of a connection from its first bytes, of which there are as many as asked for."""


class FirstBytes(Served, asyncio.Protocol):
    """Waits for the first bytes of a connection, then lets the protocol that they begin take its place."""

    __slots__ = ("_choose", "_deadline", "_loop", "_received", "_size", "_timer", "_transport", "_work")

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop, deadline: float, size: int, choose: Choice) -> None:
        """`deadline`: the time of the loop at which `size` bytes must have come."""
        super().__init__()
        self._work = work
        self._loop = loop
        self._deadline = deadline
        self._size = size
        self._choose = choose
        self._received = b""
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # Set before anything else is called.
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._work.connections.add(self)
        self._timer = self._loop.call_at(self._deadline, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < self._size:
            return
        self._leave()
        chosen = self._choose(self._received[: self._size])
        chosen.seat, self.seat = self.seat, None
        self._transport.set_protocol(chosen)
        chosen.connection_made(self._transport)
        chosen.data_received(self._received)  # type: ignore[attr-defined]

    def _leave(self) -> None:
        self._work.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def flush(self) -> None:
        """Do nothing: there is no answer."""

    def shutdown(self) -> None:
        """Close the connection: nothing was asked."""
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
