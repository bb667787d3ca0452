"""Passes the bytes of a client on to an inner listener of the same process, and the answers back.

gRPC accepts connections by itself alone. Through the relay it is reached by a port of ours, which has the limits of all ports
and is there before gRPC is loaded.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from mayflydb.sockets.work import Served, Work

log = logging.getLogger(__name__)

INNER_HOST: Final = "127.0.0.1"

CHUNK: Final = 64 * 1024
"""Bytes that are read at a time. A relay holds about as many for a side that does not read."""

DESCRIPTORS: Final = 3
"""Descriptors that a client takes: its own socket, and the two ends of the inner connection."""


class Relays(Work):
    """The relays of one port to the inner listener at `port` of this machine.

    `peers`: the address of each client by that of its inner connection, both as gRPC writes them. By it the inner listener knows
    the client, and tells connections of the relay from those of others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.peers: dict[str, str] = {}
        self.buffer = bytearray(CHUNK)


class End(asyncio.BufferedProtocol):
    """One end of a relay. Its bytes are written to the other end."""

    other: End | None = None
    transport: asyncio.Transport | None = None

    def __init__(self, relays: Relays) -> None:
        super().__init__()
        self.relays = relays

    def get_buffer(self, sizehint: int) -> bytearray:
        # One buffer for all: it is emptied in the turn of the event loop that fills it.
        return self.relays.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(bytes(memoryview(self.relays.buffer)[:nbytes]))

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


class InnerEnd(End):
    """The end towards the inner listener. The client's connection is closed after its own, when everything is sent."""

    def __init__(self, relays: Relays, client: Relay) -> None:
        super().__init__(relays)
        self.other = client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Relay(End, Served):
    """The client's end. The inner connection is closed after its own."""

    def __init__(self, relays: Relays) -> None:
        End.__init__(self, relays)
        self.seat = None
        self._early = b""
        self._ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.relays.connections.add(self)
        task = asyncio.get_running_loop().create_task(self._pass_on(transport))
        self.relays.tasks.add(task)
        task.add_done_callback(self.relays.tasks.discard)

    def buffer_updated(self, nbytes: int) -> None:
        if self.other is None and self.transport is not None:
            # The inner connection is not there yet. (uvloop reads on where `connection_made` pauses it.)
            self._early += memoryview(self.relays.buffer)[:nbytes]
            self.transport.pause_reading()
        else:
            super().buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        Served.connection_lost(self, exc)
        self.relays.connections.discard(self)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _pass_on(self, transport: asyncio.Transport) -> None:
        """Connect to the inner listener, and go on until the client's connection ends."""
        inner, peers, own = InnerEnd(self.relays, self), self.relays.peers, ""
        connecting = asyncio.get_running_loop().create_connection(lambda: inner, INNER_HOST, self.relays.port)
        try:
            made, _ = await connecting
            own = peer_name(made.get_extra_info("sockname"))
            peers[own] = peer_name(transport.get_extra_info("peername"))
            made.write(self._early)
            self.other = inner
            transport.resume_reading()
            await self._ended
        except OSError as error:
            log.debug("a connection was not passed on: %s", error)
            transport.abort()
        finally:
            peers.pop(own, None)
            if inner.transport is not None:
                inner.transport.close()

    def flush(self) -> None:
        """Do nothing: bytes are written as they come."""

    def shutdown(self) -> None:
        """Do nothing: the inner listener closes its connections when their calls are done."""

    def abort(self) -> None:
        """Drop the connection at once."""
        if self.transport is not None:
            self.transport.abort()


def peer_name(address: Any) -> str:
    """Return a socket's address as gRPC writes it: `ipv4:127.0.0.1:5`, `ipv6:%5B::1%5D:5`."""
    host, port = address[:2]
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
