"""A client that begins with HTTP/2 is told to use HTTP/1.1, in frames that it understands, and others are served beside it."""

from __future__ import annotations

import asyncio
import ssl
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from sockets.listening import HASTY, PATIENCE, PATIENT, Bench, run

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
HTTP_1_1_REQUIRED = 13
TARGET = bytes((0x82, 0x84, 0x86))
"""Of HPACK's static table: GET, /, http."""


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream) + payload


def frames(said: bytes) -> list[Frame]:
    found = []
    while said:
        length = int.from_bytes(said[:3], "big")
        found.append(Frame(said[3], said[4], int.from_bytes(said[5:9], "big"), said[9 : 9 + length]))
        assert len(found[-1].payload) == length
        said = said[9 + length :]
    return found


def request(stream: int) -> bytes:
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, TARGET)


OFFER = frame(SETTINGS, payload=struct.pack(">HL", 4, 1 << 20))
HELLO = Frame(SETTINGS, 0, 0, b"")
TAKEN = Frame(SETTINGS, ACK, 0, b"")
ALL_OVER = Frame(GOAWAY, 0, 0, struct.pack(">LL", 0, HTTP_1_1_REQUIRED))


def reset(stream: int) -> Frame:
    return Frame(RST_STREAM, 0, stream, struct.pack(">L", HTTP_1_1_REQUIRED))


CONVERSATIONS = {
    "settings and a request": (OFFER + request(1), [HELLO, TAKEN, reset(1), ALL_OVER]),
    "a request alone": (request(3), [HELLO, reset(3), ALL_OVER]),
    "headers in parts": (
        OFFER + frame(HEADERS, 0, 1, TARGET) + frame(CONTINUATION, 0, 1, b"a" * 9),
        [HELLO, TAKEN, reset(1), ALL_OVER],
    ),
    "settings that are acknowledged": (
        OFFER + frame(SETTINGS, ACK) + request(1),
        [HELLO, TAKEN, reset(1), ALL_OVER],
    ),
    "more requests": (request(1) + request(3) + request(5), [HELLO, reset(1), ALL_OVER]),
    "a long request": (frame(HEADERS, 0, 1, b"a" * 70_000) + request(3), [HELLO, reset(1), ALL_OVER]),
    "nothing but settings": (OFFER * 1000, [HELLO, *[TAKEN] * 15, ALL_OVER]),
    "nothing but pings": (frame(PING, 0, 0, b"12345678") * 1000, [HELLO, ALL_OVER]),
}


async def talk(bench: Bench, sent: bytes, piece: int) -> bytes:
    reader, writer = await bench.connect()
    for start in range(0, len(sent), piece):
        writer.write(sent[start : start + piece])
        await asyncio.sleep(0)
    said = b""
    async with asyncio.timeout(PATIENCE):
        while not said or frames(said)[-1].kind != GOAWAY:
            part = await reader.read(1 << 16)
            assert part, frames(said)
            said += part
    return said


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("piece", [1 << 20, 5, 1])
def test_http2_is_declined(tmp_path: Path, name: str, piece: int) -> None:
    sent, said = CONVERSATIONS[name]
    if piece < 5 and len(sent) > 1000:
        sent = sent[:1000]

    async def work(bench: Bench) -> None:
        assert frames(await talk(bench, PREFACE + sent, piece)) == said
        assert await bench.ask(await bench.connect()) == b"HTTP/1.1 200 OK http"

    run(tmp_path, PATIENT, work)


def test_http2_over_tls(tmp_path: Path) -> None:
    """Asked by a client that offers nothing else, and by one that offers both and goes on with what it is granted."""

    async def work(bench: Bench) -> None:
        context = ssl.create_default_context(cafile=bench.ca)
        for offered in (["h2"], ["h2", "http/1.1"], ["http/1.1"]):
            context.set_alpn_protocols(offered)
            reader, writer = await bench.connect(ssl=context, server_hostname="localhost")
            chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
            assert chosen in (None, "http/1.1")
            if offered == ["h2"]:
                writer.write(PREFACE + request(1))
                said = await asyncio.wait_for(reader.readexactly(9 + 13 + 17), PATIENCE)
                assert frames(said) == [HELLO, reset(1), ALL_OVER]
            else:
                assert await bench.ask((reader, writer)) == b"HTTP/1.1 200 OK https"

    run(tmp_path, PATIENT, work)


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server ends the connection, whatever it says before."""
    try:
        await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionResetError:
        return True
    return reader.at_eof()


@pytest.mark.parametrize("sent", [PREFACE[:10], PREFACE, PREFACE + OFFER, PREFACE + request(1)])
def test_who_stays_is_dropped_in_time(tmp_path: Path, sent: bytes) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(sent)
        assert await ended(reader)

    run(tmp_path, HASTY, work)


def test_nothing_is_kept_of_what_is_not_heard(tmp_path: Path) -> None:
    """Payloads pass by, and a client that goes on after it has been told is not answered any more."""

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(PREFACE + OFFER + request(1))
        said = await asyncio.wait_for(reader.readexactly(9 + 9 + 13 + 17), PATIENCE)
        assert frames(said)[-1] == ALL_OVER
        (connection,) = bench.listener._work.connections
        for _ in range(100):
            writer.write(frame(HEADERS, 0, 3, b"a" * 16_000))
            await writer.drain()
        assert connection._declining._head == b"" and not connection._outgoing  # type: ignore[attr-defined]

    run(tmp_path, PATIENT, work)


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\nhost: x\r\n\r\n",
        b"PRI / HTTP/1.1\r\nhost: x\r\n\r\n",
        # Half of the preface after a request that is still being answered is no preface.
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\nPRI * HTTP/2.0\r\n\r\nXX",
    ],
)
def test_what_only_looks_like_http2(tmp_path: Path, sent: bytes) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(sent)
        said = await asyncio.wait_for(reader.read(), PATIENCE)
        assert b"HTTP/1.1 400 Bad Request\r\n" in said and b"not a request of HTTP/1.1" in said

    run(tmp_path, PATIENT, work)
