"""Answers that are sent while they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mayflydb.http.messages import Request, Response
from sockets.listening import PATIENCE, PATIENT, Bench, run

pytestmark = pytest.mark.short

PART = b"x" * 65536


class Source:
    """`/three`: three parts. `/ever`: parts without end. `/wait`: one part, then nothing. `/fail`: one part, then an error."""

    def __init__(self) -> None:
        self.made = 0
        self.ended = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        return Response(200, stream=self.parts(request.path))

    async def parts(self, path: bytes) -> AsyncGenerator[bytes, None]:
        try:
            while path != b"/three" or self.made < 3:
                self.made += 1
                # An empty part, as of a download without lines, is no end of the body.
                yield b""
                yield PART if path == b"/ever" else b"part %d" % self.made
                if path == b"/fail":
                    raise ValueError("planned")
                if path == b"/wait":
                    await asyncio.Event().wait()
        finally:
            self.ended.set()


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def test_parts_are_chunks_and_the_connection_goes_on(tmp_path: Path) -> None:
    source = Source()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(get("/three") + get("/three", "connection: close"))
        text = await asyncio.wait_for(reader.read(), PATIENCE)
        first, _, second = text.partition(b"0\r\n\r\n")
        head, _, body = first.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head and b"content-length" not in head
        assert body == b"6\r\npart 1\r\n6\r\npart 2\r\n6\r\npart 3\r\n"
        assert b"connection: close" in second and b"chunked" not in second

    run(tmp_path, PATIENT, work, source.answer)


@pytest.mark.parametrize("leaves", [True, False])
def test_the_source_waits_for_its_client_and_ends_with_it(tmp_path: Path, leaves: bool) -> None:
    source = Source()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(get("/wait" if leaves else "/ever"))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        if not leaves:
            made = -1
            # What lies between is finite: the buffers of two sockets and of this reader.
            while made != source.made:
                made = source.made
                for _ in range(1000):
                    await asyncio.sleep(0)
            assert made < 1000
        writer.transport.abort()
        await asyncio.wait_for(source.ended.wait(), PATIENCE)

    run(tmp_path, PATIENT, work, source.answer)


def test_a_stream_that_fails_has_no_end(tmp_path: Path) -> None:
    source = Source()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(get("/fail"))
        try:
            text = await asyncio.wait_for(reader.read(), PATIENCE)
        except ConnectionResetError:
            text = b""
        assert b"0\r\n\r\n" not in text
        assert source.ended.is_set()

    run(tmp_path, PATIENT, work, source.answer)


def test_head_is_the_head_alone(tmp_path: Path) -> None:
    source = Source()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(get("/three", "connection: close").replace(b"GET", b"HEAD"))
        assert (await asyncio.wait_for(reader.read(), PATIENCE)).endswith(b"\r\n\r\n")
        assert source.made == 0

    run(tmp_path, PATIENT, work, source.answer)
