"""Bodies that are read in parts, as they arrive."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mayflydb.http.connection import PACE
from mayflydb.http.messages import Request, Response
from mayflydb.model.errors import BadRequest, TooLarge
from sockets.listening import PATIENCE, PATIENT, Bench, run

LIMIT = 4 << 20


class Sink:
    """Counts what arrives, and waits before it goes on if it is told to."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.errors: list[type[Exception]] = []
        self.going_on = asyncio.Event()
        self.going_on.set()
        self.ended = asyncio.Event()
        self.request: Request | None = None
        self.more = asyncio.Event()

    async def until(self, size: int) -> None:
        """Wait until so many bytes are taken."""
        while sum(self.sizes) < size:
            self.more.clear()
            await asyncio.wait_for(self.more.wait(), PATIENCE)

    async def answer(self, request: Request) -> Response:
        self.request = request
        try:
            async for part in request.read_parts(LIMIT):
                self.sizes.append(len(part))
                self.more.set()
                await self.going_on.wait()
            if request.path == b"/late":
                self.going_on.clear()
                self.ended.set()
                await self.going_on.wait()
        except (BadRequest, TooLarge) as error:
            self.errors.append(type(error))
            return Response(413 if isinstance(error, TooLarge) else 400)
        finally:
            self.ended.set()
        return Response(200, b"%d" % sum(self.sizes))


def put(size: int, path: str = "/") -> bytes:
    return f"PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode()


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size)


def connection_of(sink: Sink) -> Any:
    assert sink.request is not None
    return sink.request.peer


def test_a_large_body_passes_and_is_not_held(tmp_path: Path) -> None:
    sink = Sink()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        sink.going_on.clear()
        writer.write(put(LIMIT) + b"x" * LIMIT + b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        before = -1
        while not sink.sizes or before != sink.request.size:  # type: ignore[union-attr]
            before = 0 if sink.request is None else sink.request.size
            for _ in range(100):
                await asyncio.sleep(0)
        # What waits in the request is about one read of the socket.
        assert before < 1 << 20
        sink.going_on.set()
        text = await asyncio.wait_for(reader.read(), PATIENCE)
        assert text.count(b"HTTP/1.1 200") == 2
        assert b"\r\n\r\n%d" % LIMIT in text
        assert bench.listener._work.in_flight.quota.used == 0

    run(tmp_path, PATIENT, work, sink.answer)
    assert sum(sink.sizes) == LIMIT


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit(tmp_path: Path, declared: bool) -> None:
    sink = Sink()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        if declared:
            writer.write(put(LIMIT + 1))
        else:
            writer.write(b"PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"".join([chunk(65536)] * (LIMIT // 65536 + 1)))
        assert b" 413 " in await asyncio.wait_for(reader.readline(), PATIENCE)
        writer.transport.abort()

    run(tmp_path, PATIENT, work, sink.answer)
    assert sum(sink.sizes) <= LIMIT


def test_a_client_that_leaves_in_the_midst(tmp_path: Path) -> None:
    sink = Sink()

    async def work(bench: Bench) -> None:
        _, writer = await bench.connect()
        writer.write(put(100_000) + b"x" * 50_000)
        await sink.until(1)
        writer.transport.abort()
        await asyncio.wait_for(sink.ended.wait(), PATIENCE)

    run(tmp_path, PATIENT, work, sink.answer)
    assert sink.errors == [BadRequest]


def test_the_time_of_a_body_begins_anew_with_a_pace_alone(tmp_path: Path) -> None:
    sink = Sink()

    async def work(bench: Bench) -> None:
        _, writer = await bench.connect()
        writer.write(put(LIMIT) + b"x" * 1000)
        await sink.until(1)
        marker = connection_of(sink)._expires = connection_of(sink)._expires + 1000
        writer.write(b"x" * (PACE - 2000))
        await sink.until(PACE - 1000)
        assert connection_of(sink)._expires == marker
        writer.write(b"x" * 2000)
        await sink.until(PACE + 1000)
        assert connection_of(sink)._expires < marker
        writer.transport.abort()

    run(tmp_path, PATIENT, work, sink.answer)


def test_a_client_that_stops_is_cut_off(tmp_path: Path) -> None:
    sink = Sink()
    limits = msgspec.structs.replace(PATIENT, deadlines=msgspec.structs.replace(PATIENT.deadlines, body=0.05))

    async def work(bench: Bench) -> None:
        _, writer = await bench.connect()
        writer.write(put(100_000) + b"x" * 50_000)
        await asyncio.wait_for(sink.ended.wait(), PATIENCE)

    run(tmp_path, limits, work, sink.answer)
    assert sink.errors == [BadRequest]


def test_the_time_of_a_body_is_not_that_of_its_answer(tmp_path: Path) -> None:
    """A request whose body came in two reads was cut off by the time of a body while it was answered."""
    sink = Sink()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(put(2000, "/late") + b"x" * 1000)
        await sink.until(1)
        writer.write(b"x" * 1000)
        await asyncio.wait_for(sink.ended.wait(), PATIENCE)
        assert connection_of(sink)._expires == inf
        sink.going_on.set()
        assert b" 200 " in await asyncio.wait_for(reader.readline(), PATIENCE)
        writer.transport.abort()

    run(tmp_path, PATIENT, work, sink.answer)
