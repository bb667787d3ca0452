"""Limits of HTTP's clients: bodies and answers in flight, connections by address, and requests behind each other."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mayflydb.http.connection import Limits
from mayflydb.http.messages import Request, Response
from mayflydb.model.errors import MayflyError
from mayflydb.sockets.in_flight import BytesInFlight
from sockets.listening import PATIENT, Bench, closed, response, run, turned_away

KB = 1000


async def answer(request: Request) -> Response:
    """A body of as many bytes as the path says, once the request's body is there; or the kind of its error."""
    try:
        await request.read(100 * KB * KB)
    except MayflyError as error:
        return Response(503, type(error).__name__.encode())
    return Response(200, b"x" * int(request.path[1:] or 0))


def account(bench: Bench, limit: int) -> BytesInFlight:
    found = bench.listener._work.in_flight
    found.quota.limit = limit
    return found


def post(size: int, path: str = "/") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode()


async def until_charged(found: BytesInFlight, least: int, most: int = 1 << 40) -> None:
    async with asyncio.timeout(20):
        while not least <= found.quota.used <= most:  # noqa: ASYNC110 -- the server reports no such event.
            await asyncio.sleep(0)


def test_a_body_over_the_limit_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        found = account(bench, 1000 * KB)
        first, second, third = await bench.connect(), await bench.connect(), await bench.connect()
        first[1].write(post(3000 * KB) + b"x" * 900 * KB)
        await until_charged(found, 900 * KB)
        # Up to the limit a body of less than 1 MiB is taken in; beyond it is refused, and the connection ends.
        second[1].write(post(500 * KB) + b"x" * 400 * KB)
        assert await response(second[0]) == b"HTTP/1.1 503 Service Unavailable Overloaded"
        assert await closed(second[0])
        assert found.quota.refused == 1
        assert await bench.ask(third) == b"HTTP/1.1 200 OK "
        first[1].transport.abort()
        await until_charged(found, 0, 0)

    run(tmp_path, PATIENT, work, answer)


def test_a_body_is_charged_until_it_is_answered(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def hold(request: Request) -> Response:
        await request.read(1000 * KB)
        await gate.wait()
        return Response(200)

    async def work(bench: Bench) -> None:
        found = account(bench, 1000 * KB)
        streams = await bench.connect()
        streams[1].write(post(200 * KB) + b"x" * 200 * KB)
        await until_charged(found, 200 * KB, 200 * KB)
        gate.set()
        await response(streams[0])
        assert found.quota.used == 0

    run(tmp_path, PATIENT, work, hold)


@pytest.mark.parametrize(("size", "status"), [(64 * 1024, b"200"), (900 * KB, b"200"), (1001 * KB, b"503")])
def test_an_answer_over_the_limit_is_refused(tmp_path: Path, size: int, status: bytes) -> None:
    async def work(bench: Bench) -> None:
        found = account(bench, 1000 * KB)
        streams = await bench.connect()
        got = await bench.ask(streams, f"GET /{size} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert got.split()[1] == status
        await until_charged(found, 0, 0)
        assert found.quota.refused == (status == b"503")

    run(tmp_path, PATIENT, work, answer)


def test_an_answer_to_a_write_is_not_denied(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        account(bench, 1000 * KB)
        streams = await bench.connect()
        streams[1].write(post(0, "/2000000"))
        assert await closed(streams[0])

    run(tmp_path, PATIENT, work, answer)


def test_answers_that_are_not_read_are_charged(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        found = account(bench, 40_000 * KB)
        idle = socket.socket()
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.connect(("127.0.0.1", bench.port))
        idle.sendall(b"GET /20000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        await until_charged(found, 20_000 * KB)
        other = await bench.connect()
        got = await bench.ask(other, b"GET /21000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert got.split()[1] == b"503"
        idle.close()
        await until_charged(found, 0, 0)

    run(tmp_path, PATIENT, work, answer)


def test_an_address_has_its_connections(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        first, second = await bench.connect(), await bench.connect()
        assert await bench.ask(second) == b"HTTP/1.1 200 OK http"
        assert await turned_away(bench)
        # A loopback address is one like any other, and another has its own share.
        other = await asyncio.open_connection("127.0.0.1", bench.port, local_addr=("127.0.0.2", 0))
        assert await bench.ask(other) == b"HTTP/1.1 200 OK http"
        other[1].transport.abort()
        # The end of a connection makes room.
        first[1].transport.abort()
        async with asyncio.timeout(20):
            while bench.listener.seats.quota.used > 1:  # noqa: ASYNC110 -- the server reports no end of a connection.
                await asyncio.sleep(0)
        assert await bench.ask(await bench.connect()) == b"HTTP/1.1 200 OK http"

    run(tmp_path, Limits(per_address=2), work)


def test_requests_behind_each_other_leave_turns_to_others(tmp_path: Path) -> None:
    """Many requests come with one read of the socket; others are answered between them."""
    order: list[bytes] = []

    async def note(request: Request) -> Response:
        order.append(request.path)
        return Response(200)

    async def work(bench: Bench) -> None:
        many, one = await bench.connect(), await bench.connect()
        many[1].write(b"GET /many HTTP/1.1\r\nhost: x\r\n\r\n" * 5000)
        await asyncio.sleep(0)
        for _ in range(5):
            await bench.ask(one, b"GET /one HTTP/1.1\r\nhost: x\r\n\r\n")
        answered = order.count(b"/many")
        assert order.count(b"/one") == 5 and answered < 5000
        for _ in range(5000):
            await response(many[0])

    run(tmp_path, PATIENT, work, note)


def test_no_further_answer_is_made_until_a_large_one_is_taken(tmp_path: Path) -> None:
    made: list[bytes] = []

    async def note(request: Request) -> Response:
        made.append(request.path)
        return await answer(request)

    async def work(bench: Bench) -> None:
        large, small = b"GET /20000000 HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\n"
        idle, other = await bench.connect(limit=1024), await bench.connect()
        idle[1].write(large * 2 + small * 2)
        await until_charged(account(bench, 100_000 * KB), 1)
        await bench.ask(other, small)
        assert made == [b"/20000000", b"/1"]
        # All are answered in the end, in order.
        for size in (20_000_000, 20_000_000, 1, 1):
            assert (await response(idle[0])).endswith(b"x" * size)
        assert made == [b"/20000000", b"/1", b"/20000000", b"/1", b"/1"]

    run(tmp_path, PATIENT, work, note)
