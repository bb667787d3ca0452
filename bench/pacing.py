"""Readers that keep to their time: a slow answer makes no later request wait, so that it is counted for all it delays."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter

from signed import COLLECTION, headers
from wrk import raw

from mayflydb.serving.process import loop_factory

CONNECTIONS = 16
KEYS = 50


class Connection(asyncio.Protocol):
    """One keep-alive connection: an answer ends its request when its body is there."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._due = 0.0
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, request: bytes, due: float) -> None:
        """Send; the time counts from when it was due."""
        self._due, self._got = due, b""
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a read answered {head[:60]!r}")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self._reader.answered(self, perf_counter() - self._due)


class Reader:
    """Point reads at a steady pace over a few connections. A context manager: it holds a loop and its connections."""

    def __init__(self, port: int) -> None:
        links = [f"{COLLECTION}/docs/i{number}" for number in range(KEYS)]
        self._requests = [raw("GET", f"/{link}", headers("GET", "docs", link), port).encode() for link in links]
        self._port = port
        # In turn: a connection that is never used would be closed by the server.
        self._free: deque[Connection] = deque()
        self._late: deque[tuple[bytes, float]] = deque()
        self._wanted = 0
        self._done = asyncio.Event()
        self._taken: list[float] = []
        self._runner = asyncio.Runner(loop_factory=loop_factory())

    def __enter__(self) -> Reader:
        self._runner.run(self._connect())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._port)
            self._free.append(connection)

    def p99(self, per_second: int, seconds: float) -> float:
        """Seconds within which 99 of 100 reads were answered."""
        self._taken = []
        self._runner.run(self._read(per_second, seconds))
        ordered = sorted(self._taken)
        return ordered[len(ordered) * 99 // 100]

    async def _read(self, per_second: int, seconds: float) -> None:
        began = perf_counter()
        self._wanted = int(per_second * seconds)
        self._done.clear()
        for number in range(self._wanted):
            due = began + number / per_second
            ahead = due - perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            # Our own timer's lateness is none of the server's doing.
            self._send(self._requests[number % KEYS], max(due, perf_counter()) if ahead > 0 else due)
        async with asyncio.timeout(30):
            await self._done.wait()

    def _send(self, request: bytes, due: float) -> None:
        if self._free:
            self._free.popleft().ask(request, due)
        else:
            self._late.append((request, due))

    def answered(self, connection: Connection, taken: float) -> None:
        """An answer is there; whoever waits for a connection has it now."""
        self._taken.append(taken)
        if len(self._taken) == self._wanted:
            self._done.set()
        if self._late:
            connection.ask(*self._late.popleft())
        else:
            self._free.append(connection)
