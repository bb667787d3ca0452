"""One port for HTTP and HTTPS, and what slow, silent and too many clients meet there."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from mayflydb.http.connection import Limits
from mayflydb.sockets.listener import SilentConnection, bind, is_tls
from sockets.listening import HASTY, PATIENCE, PATIENT, REQUEST, Bench, closed, response, run, turned_away


def test_http_and_https_share_the_port(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        trusting = ssl.create_default_context(cafile=str(bench.ca))
        for name in ("localhost", "127.0.0.1", "host.docker.internal"):
            secure = await bench.connect(ssl=trusting, server_hostname=name)
            assert await bench.ask(secure) == b"HTTP/1.1 200 OK https"
            assert await bench.ask(secure) == b"HTTP/1.1 200 OK https"
        plain = await bench.connect()
        assert await bench.ask(plain) == b"HTTP/1.1 200 OK http"

    run(tmp_path, PATIENT, work)


def test_old_tls_is_refused(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await bench.connect(ssl=old)

    with pytest.warns(DeprecationWarning, match="TLS"):
        run(tmp_path, PATIENT, work)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="silence"),
        pytest.param(b"G", id="one byte"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: local", id="half a header"),
        pytest.param(b"\r\n\r\n", id="blank lines"),
        pytest.param(b"\x16", id="half a handshake"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab", id="half a body"),
    ],
)
def test_a_client_that_stops_speaking_is_dropped(tmp_path: Path, sent: bytes) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(sent)
        assert await closed(reader)
        assert await bench.ask(await bench.connect()) == b"HTTP/1.1 200 OK http"

    run(tmp_path, HASTY, work)


def test_half_a_head_costs_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel waits for the rest: a poll of a thousand such clients would take the event loop from the others."""
    looks = 0
    peek = SilentConnection._peek

    def count_looks(self: SilentConnection) -> None:
        nonlocal looks
        looks += 1
        peek(self)

    async def work(bench: Bench) -> None:
        nonlocal looks
        reader, writer = await bench.connect()
        writer.write(b"\x16")
        for _ in range(20):
            assert await bench.ask(await bench.connect()) == b"HTTP/1.1 200 OK http"
        assert looks == 21
        # Three bytes that begin no handshake: the parser of requests refuses them.
        writer.write(b"\x01\x00\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), PATIENCE)).split()[1] == b"400"
        assert looks == 22
        reader, writer = await bench.connect()
        writer.write(b"\x16")
        writer.write_eof()
        assert await closed(reader)

    monkeypatch.setattr(SilentConnection, "_peek", count_looks)
    run(tmp_path, PATIENT, work)


def test_a_later_request_has_the_same_deadline(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        assert await bench.ask((reader, writer)) == b"HTTP/1.1 200 OK http"
        writer.write(b"GET / HTT")
        assert await closed(reader)

    run(tmp_path, HASTY, work)


def test_an_idle_connection_is_kept_beyond_the_header_deadline(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        patient = await bench.connect()
        assert await bench.ask(patient) == b"HTTP/1.1 200 OK http"
        reader, _ = await bench.connect()
        assert await closed(reader)  # A silent one was dropped meanwhile.
        assert await bench.ask(patient) == b"HTTP/1.1 200 OK http"

    run(tmp_path, HASTY, work)


def test_silent_clients_do_not_keep_others_waiting(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        silent = [await bench.connect() for _ in range(300)]
        for _, writer in silent[::2]:
            writer.write(b"GET /")
        served = [await bench.ask(await bench.connect()) for _ in range(8)]
        assert served == [b"HTTP/1.1 200 OK http"] * 8

    run(tmp_path, PATIENT, work)


def test_a_request_may_come_byte_by_byte(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        for byte in REQUEST:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        assert await response(reader) == b"HTTP/1.1 200 OK http"

    run(tmp_path, PATIENT, work)


def test_connections_beyond_the_limit_are_reset(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        first, second = await bench.connect(), await bench.connect()
        assert await bench.ask(second) == b"HTTP/1.1 200 OK http"
        assert await turned_away(bench)
        assert await bench.ask(first) == b"HTTP/1.1 200 OK http"

    run(tmp_path, Limits(connections=2), work)


@pytest.mark.parametrize(("extra", "status"), [(0, b"200"), (1, b"431")])
@pytest.mark.parametrize("pieces", [1, 3])
def test_headers_have_a_limit(tmp_path: Path, extra: int, status: bytes, pieces: int) -> None:
    limit = 4096
    padding = limit + extra - len(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: \r\n\r\n")

    async def work(bench: Bench) -> None:
        request = b"GET / HTTP/1.1\r\nhost: localhost\r\nx: %b\r\n\r\n" % (b"p" * padding)
        reader, writer = await bench.connect()
        size = -(-len(request) // pieces)
        for start in range(0, len(request), size):
            writer.write(request[start : start + size])
            await writer.drain()
        assert (await response(reader)).split()[1] == status

    run(tmp_path, Limits(head=limit), work)


def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        sending = asyncio.create_task(_pour(writer))
        head = await asyncio.wait_for(reader.readline(), PATIENCE)
        assert head.split()[1] == b"431"
        sending.cancel()

    async def _pour(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"p" * 1000)
            await writer.drain()
            await asyncio.sleep(0)

    run(tmp_path, Limits(head=4096), work)


def test_a_request_in_work_is_finished_before_the_end(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        busy = await bench.connect()
        busy[1].write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na")
        idle = await bench.connect()
        assert await bench.ask(idle) == b"HTTP/1.1 200 OK http"
        silent = await bench.connect()
        closing = asyncio.create_task(bench.listener.close(PATIENCE))
        assert await closed(idle[0])
        assert await closed(silent[0])
        with pytest.raises(ConnectionError):
            await bench.connect()
        assert not closing.done()
        busy[1].write(b"b")
        assert await response(busy[0]) == b"HTTP/1.1 200 OK http"
        await closing

    run(tmp_path, PATIENT, work)


def test_a_request_that_takes_too_long_is_dropped_at_the_end(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na")
        other = await bench.connect()
        assert await bench.ask(other) == b"HTTP/1.1 200 OK http"
        await bench.listener.close(0)
        assert await closed(reader)
        assert bench.listener.connections == 0

    run(tmp_path, PATIENT, work)


def test_localhost_is_one_port_on_both_loopback_addresses() -> None:
    sockets = bind("localhost", 0)
    try:
        assert sockets[0].getsockname()[0] == "127.0.0.1"
        assert len({each.getsockname()[1] for each in sockets}) == 1
        assert all(each.getsockname()[0] in ("127.0.0.1", "::1") for each in sockets)
        with pytest.raises(OSError, match="in use"):
            bind("localhost", sockets[0].getsockname()[1])
    finally:
        for each in sockets:
            each.close()


def test_all_addresses_means_both_kinds() -> None:
    for host, family in (("0.0.0.0", socket.AF_INET), ("127.0.0.1", socket.AF_INET)):
        (bound,) = bind(host, 0)
        assert bound.family == family
        bound.close()


@pytest.mark.parametrize(
    ("head", "tls"),
    [
        (b"G", False),
        (b"\x15\x01\x00", False),
        (b"\x16", None),
        (b"\x16\x03", None),
        (b"\x16\x03\x00", False),
        (b"\x16\x03\x01", True),
        (b"\x16\x03\x04", True),
        (b"\x16\x03\x05", False),
        (b"\x16\x01\x00", False),
        (b"\x17\x03\x01", False),
    ],
)
def test_three_bytes_tell_a_handshake(head: bytes, tls: bool | None) -> None:
    assert is_tls(head) == tls
