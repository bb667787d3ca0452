"""A gate between two programs: a port that passes everything on, until a test holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

CHUNK = 1 << 16


class Gate:
    """Passes connections on to one place. While it is held, connections that were open before wait; new ones pass."""

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._requests_pass = True
        self._left = 0
        self._numbers = count(1)
        self._held: set[int] = set()
        self._writers: dict[int, tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Gate]:
        """Take connections on a free port of 127.0.0.1."""
        server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.release()
            server.close()
            self.cut()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def hold(self, answers: int = 0) -> None:
        """Hold answers, but for the next ones, so many; after the last of these requests are held too."""
        self._left, self._requests_pass = answers, True
        self._held = set(self._writers)
        self._open.clear()

    def release(self) -> None:
        """Pass everything on again."""
        self._held = set()
        self._open.set()

    def cut(self) -> None:
        """End all connections."""
        for writers in self._writers.values():
            for writer in writers:
                writer.close()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(*self._place)
        number = next(self._numbers)
        self._writers[number] = (writer, requests)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(number, reader, requests, self._before_request))
                group.create_task(self._pump(number, answers, writer, self._before_answer))
        except* OSError:
            pass
        finally:
            del self._writers[number]

    async def _pump(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                if number in self._held:
                    await turn()
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()

    async def _before_answer(self) -> None:
        if self._left:
            self._left -= 1
            self._requests_pass = self._left > 0
        else:
            await self._open.wait()

    async def _before_request(self) -> None:
        if not self._requests_pass:
            await self._open.wait()
