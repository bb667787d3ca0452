"""A listener under test, and a client that speaks to it byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from mayflydb.http.connection import Deadlines, Limits
from mayflydb.http.listener import Listener, Other
from mayflydb.http.messages import Handler, Request, Response
from mayflydb.serving.certificates import Authority
from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.listener import bind

PATIENT = Limits()
HASTY = Limits(deadlines=Deadlines(head=0.5, body=0.5))
REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
PATIENCE = 20.0
"""Seconds after which a test that waits for a server's move is given up."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(request: Request) -> Response:
    """Answers with the scheme once the body is there."""
    await request.read(1000)
    return Response(200, request.scheme.encode())


class Bench:
    """A listener on a free port."""

    def __init__(self, listener: Listener, port: int, ca: Path) -> None:
        self.listener = listener
        self.port = port
        self.ca = ca
        self._opened: list[asyncio.StreamWriter] = []

    async def connect(self, **options: Any) -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", self.port, **options)
        self._opened.append(streams[1])
        return streams

    async def close(self) -> None:
        await self.listener.close(0)
        for writer in self._opened:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._opened), return_exceptions=True)

    async def ask(self, streams: Streams, request: bytes = REQUEST) -> bytes:
        streams[1].write(request)
        return await response(streams[0])


async def response(reader: asyncio.StreamReader) -> bytes:
    """Status line and body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await asyncio.wait_for(reader.readexactly(length), PATIENCE)
    return head.partition(b"\r\n")[0] + b" " + body


async def closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server ends the connection, without a word."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE) == b""
    except ConnectionResetError:
        return True


async def turned_away(bench: Bench) -> bool:
    """Whether a new client is reset, be it before or after it notices that it is connected."""
    try:
        reader, _ = await bench.connect()
    except ConnectionResetError:
        return True
    return await closed(reader)


def run(
    tmp_path: Path,
    limits: Limits,
    work: Callable[[Bench], Awaitable[None]],
    app: Handler = hello,
    other: Other | None = None,
    in_flight: BytesInFlight | None = None,
) -> None:
    async def main() -> None:
        authority = Authority(tmp_path)
        context = authority.context()

        async def certificate() -> ssl.SSLContext:
            return context

        listener = Listener(app, certificate, limits, in_flight, other=other)
        sockets = bind("127.0.0.1", 0)
        listener.serve(sockets)
        bench = Bench(listener, sockets[0].getsockname()[1], authority.ca_path)
        try:
            await work(bench)
        finally:
            await bench.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
