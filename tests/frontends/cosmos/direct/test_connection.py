"""One connection under attack: frames that are broken, slow or far too many end or slow down their own connection alone."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from frontends.cosmos.direct.wire import (
    CONTEXT,
    CREATE,
    ITEM,
    READ,
    TRANSPORT,
    Reply,
    frame,
    parse_tokens,
    request,
    token,
)
from mayflydb.frontends.cosmos.direct.connection import MAX_IN_WORK, MAX_WAITING, build_if_direct
from mayflydb.http.connection import Deadlines, Limits
from mayflydb.http.messages import Request, Response
from mayflydb.model.errors import MayflyError
from mayflydb.model.quota import Quota
from mayflydb.sockets.in_flight import BytesInFlight
from sockets.listening import PATIENCE, PATIENT, REQUEST, Bench, Streams, closed, response, run

PATH = "d/c/i"
HASTY = Limits(deadlines=Deadlines(head=0.1, body=0.1))


class Gate:
    """A handler that waits, before it answers, for as long as a test holds it."""

    def __init__(self) -> None:
        self.going_on = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        self.left = asyncio.Event()
        self.at_once = self.most = 0
        self.bodies: list[bytes | str] = []
        self.announced: list[bytes | None] = []

    async def answer(self, request: Request) -> Response:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        request.on_leave = self.left.set
        self.announced.append(request.headers.get(b"content-length"))
        self.begun.release()
        try:
            if request.method != "GET" or request.path.endswith(b"/wait"):
                await self.going_on.wait()
            self.bodies.append(await request.read(100_000))
        except MayflyError as error:
            self.bodies.append(type(error).__name__)
            return Response(413 if type(error).__name__ == "TooLarge" else 503, b"{}")
        finally:
            self.at_once -= 1
        return Response(200, b'{"at":"%b"}' % request.path)


async def connect(bench: Bench, first: bytes = CONTEXT) -> Streams:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bench.ca)
    streams = await bench.connect(ssl=context, server_hostname="localhost")
    streams[1].write(first)
    if first == CONTEXT:
        assert (await read(streams)).tokens[2] == "Mayfly"
    return streams


async def read(streams: Streams) -> Reply:
    reader = streams[0]
    head = await asyncio.wait_for(reader.readexactly(24), PATIENCE)
    length, status = struct.unpack_from("<II", head)
    tokens = parse_tokens(await reader.readexactly(length - 24))
    body = b""
    if TRANSPORT in tokens and tokens[0]:
        body = await reader.readexactly(struct.unpack("<I", await reader.readexactly(4))[0])
    return Reply(status, head[8:24], tokens, body)


async def number(streams: Streams) -> int:
    return int((await read(streams)).tokens[TRANSPORT])


def play(
    tmp_path: Path, work: Callable[[Bench, Gate], Awaitable[None]], limits: Limits = PATIENT, room: int = 0
) -> Gate:
    """Let a client play with a listener that serves HTTP and direct mode. `room`: of the account of bytes in flight."""
    gates: list[Gate] = []

    async def answer(request: Request) -> Response:
        return await gates[0].answer(request)

    async def begin(bench: Bench) -> None:
        gates.append(Gate())
        await work(bench, gates[0])

    account = BytesInFlight(Quota("bytes_in_flight", room)) if room else BytesInFlight()
    run(tmp_path, limits, begin, answer, build_if_direct, account)
    assert account.quota.used == 0
    return gates[0]


def test_a_slow_request_does_not_hold_those_behind_it(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        streams[1].write(request(1, ITEM, READ, "d/c/wait") + request(2, ITEM, READ, PATH))
        assert await number(streams) == 2
        gate.going_on.set()
        assert await number(streams) == 1

    play(tmp_path, work)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_frames_in_pieces(tmp_path: Path, size: int) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench, b"")
        gate.going_on.set()
        sent = CONTEXT + request(1, ITEM, CREATE, "d/c", b"x" * 50) + request(2, ITEM, READ, PATH)
        for at in range(0, len(sent), size):
            streams[1].write(sent[at : at + size])
            await streams[1].drain()
        assert (await read(streams)).tokens[2] == "Mayfly"
        assert {await number(streams), await number(streams)} == {1, 2}

    gate = play(tmp_path, work)
    assert (sorted(gate.bodies), gate.announced) == ([b"", b"x" * 50], [b"50", None])


def test_http_is_served_beside_it(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        for size in (1, 2, 3, len(REQUEST)):
            streams = await connect(bench, b"")
            for at in range(0, len(REQUEST), size):
                streams[1].write(REQUEST[at : at + size])
                await streams[1].drain()
            assert (await response(streams[0])).startswith(b"HTTP/1.1 200")
        # Without TLS there is HTTP alone.
        plain = await bench.connect()
        plain[1].write(CONTEXT)
        assert (await response(plain[0])).startswith(b"HTTP/1.1 400")

    play(tmp_path, work)


def test_thousands_of_requests_at_once(tmp_path: Path) -> None:
    many = 3000

    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        sending = asyncio.ensure_future(flood(streams))
        for _ in range(MAX_IN_WORK):
            await gate.begun.acquire()
        # Another client is answered meanwhile.
        other = await connect(bench)
        other[1].write(request(1, ITEM, READ, PATH))
        assert await number(other) == 1
        gate.going_on.set()
        assert sorted([await number(streams) for _ in range(many)]) == [*range(many)]
        await sending

    async def flood(streams: Streams) -> None:
        for each in range(many):
            streams[1].write(request(each, ITEM, CREATE, "d/c", b"{}"))
            await streams[1].drain()

    assert play(tmp_path, work).most <= MAX_IN_WORK + 1


def test_a_client_that_does_not_read_is_not_read(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        for each in range(4 * (MAX_IN_WORK + MAX_WAITING)):
            streams[1].write(request(each, ITEM, CREATE, "d/c", b"{}"))
        for _ in range(MAX_IN_WORK):
            await gate.begun.acquire()
        for _ in range(100):
            await asyncio.sleep(0)
        (connection,) = bench.listener._work.connections
        assert (len(connection._in_work), len(connection._waiting) <= MAX_WAITING) == (MAX_IN_WORK, True)  # type: ignore[attr-defined]
        assert connection._paused  # type: ignore[attr-defined]
        streams[1].transport.abort()
        await asyncio.wait_for(gate.left.wait(), PATIENCE)
        gate.going_on.set()

    play(tmp_path, work)


OPEN = request(1, ITEM, READ, PATH)
BROKEN = {
    "a length below that of a head": struct.pack("<I", 23) + b"\0" * 100,
    "a length beyond the limit": struct.pack("<I", 33_000) + b"\0" * 100,
    "the greatest length": b"\xff" * 100,
    "zeros": b"\0" * 100,
    "a payload beyond the limit": request(1, ITEM, CREATE, "d/c", b"")[:-4] + b"\xff\xff\xff\x7f",
    "a token that is cut off": frame(ITEM, READ, token(0x4D, 2, 1) + b"\x01\x00\x08\xff\xff"),
    "a type that there is not": frame(ITEM, READ, token(0x4D, 2, 1) + b"\x01\x00\x77\x00"),
    "too many tokens": frame(ITEM, READ, token(0x4D, 2, 1) + b"\x01\x00\xff" * 600),
    "no number": frame(ITEM, READ, token(2, 0, 0)),
    "a second beginning": CONTEXT,
    "a request of HTTP": REQUEST,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_frame_ends_its_connection(tmp_path: Path, name: str) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        other, streams = await connect(bench), await connect(bench)
        # What came before it is answered.
        streams[1].write(OPEN + BROKEN[name])
        assert await number(streams) == 1
        assert await closed(streams[0])
        other[1].write(OPEN)
        assert await number(other) == 1

    play(tmp_path, work)


@pytest.mark.parametrize(
    "first",
    [request(1, ITEM, READ, PATH), frame(0, 0, token(0, 2, 2)), frame(0, 0, b""), b"\x18\0\0\0" + b"\1" * 20],
)
def test_another_beginning_ends_the_connection(tmp_path: Path, first: bytes) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench, first)
        assert await closed(streams[0])

    assert play(tmp_path, work).bodies == []


@pytest.mark.parametrize(
    "half",
    [
        CONTEXT[:3],
        CONTEXT[:-1],
        CONTEXT + OPEN[:2],
        CONTEXT + OPEN[:-1],
        CONTEXT + request(1, ITEM, CREATE, "d/c", b"xx")[:-1],
    ],
)
def test_half_a_frame_has_its_time(tmp_path: Path, half: bytes) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench, half)
        await asyncio.wait_for(streams[0].read(), PATIENCE)

    play(tmp_path, work, HASTY)


def test_single_bytes_give_no_further_time(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        long = frame(ITEM, READ, token(0x4D, 2, 1) + token(1, 8, "x" * 20_000))
        ended = asyncio.ensure_future(closed(streams[0]))
        sent = 0
        while not ended.done():
            streams[1].write(long[sent : sent + 1])
            sent += 1
            await asyncio.wait([ended], timeout=0.01)
        assert ended.result() and sent < 1000

    play(tmp_path, work, HASTY)


def test_a_payload_that_is_too_large_is_read_and_dropped(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        gate.going_on.set()
        streams[1].write(request(1, ITEM, CREATE, "d/c", b"x" * 5_000_000) + request(2, ITEM, READ, PATH))
        first, second = await read(streams), await read(streams)
        assert [first.status, second.status] == [413, 200]

    assert play(tmp_path, work).bodies == ["TooLarge", b""]


def test_payloads_beyond_the_room_are_refused(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        streams[1].write(request(1, ITEM, CREATE, "d/c", b"x" * 90_000))
        await gate.begun.acquire()
        other = await connect(bench)
        other[1].write(request(3, ITEM, CREATE, "d/c", b"x" * 90_000) + request(4, ITEM, READ, PATH))
        served = await read(other)
        gate.going_on.set()
        refused = await read(other)
        assert {refused.tokens[TRANSPORT]: refused.status, served.tokens[TRANSPORT]: served.status} == {3: 503, 4: 200}
        assert await number(streams) == 1

    play(tmp_path, work, room=100_000)


def test_a_client_that_leaves_is_told_to_its_requests(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        streams[1].write(request(1, ITEM, READ, "d/c/wait"))
        await gate.begun.acquire()
        streams[1].transport.abort()
        await asyncio.wait_for(gate.left.wait(), PATIENCE)
        gate.going_on.set()

    play(tmp_path, work)


def test_requests_in_work_are_answered_before_a_stop(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        streams = await connect(bench)
        streams[1].write(request(1, ITEM, READ, "d/c/wait"))
        await gate.begun.acquire()
        stopping = asyncio.ensure_future(bench.listener.close(PATIENCE))
        await asyncio.sleep(0)
        gate.going_on.set()
        assert await number(streams) == 1
        assert await closed(streams[0])
        await stopping

    play(tmp_path, work)


def test_silent_connections_are_counted_and_closed(tmp_path: Path) -> None:
    async def work(bench: Bench, gate: Gate) -> None:
        silent = await connect(bench, b"\x50")
        opened = await connect(bench)
        await bench.listener.close(0)
        assert await closed(silent[0]) and await closed(opened[0])

    play(tmp_path, work)
