"""HTTP/1.1 on one connection: what comes in whatever pieces is answered in order, and nothing else is believed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mayflydb.http import connection
from mayflydb.http.connection import MAX_PIPELINED, Connection
from mayflydb.http.messages import Request, Response, render
from mayflydb.model.errors import BadRequest, MayflyError
from sockets.listening import PATIENCE, PATIENT, Bench, Streams, closed, response, run

pytestmark = pytest.mark.short

LIMIT = 1000
BIG = 512 * 1024


async def answer(request: Request) -> Response:
    """Method, path, query and body; `/wait/n` after n turns of the loop; `/unread` before the body has come.

    `/told`: host and authorization, as they are once the body has come.
    """
    if request.path == b"/unread":
        return Response(401, b"who?")
    if request.path == b"/told":
        await request.read(LIMIT)
        return Response(200, b" ".join(request.headers.get(name, b"-") for name in (b"host", b"authorization")))
    if request.path.startswith(b"/wait/"):
        for _ in range(int(request.path[6:])):
            await asyncio.sleep(0)
    try:
        body = await request.read(LIMIT)
    except MayflyError as error:
        return Response(400, type(error).__name__.encode())
    parts = (request.method.encode(), request.path, request.query, body)
    return Response(200, b" ".join(part for part in parts if part))


async def until(condition: Callable[[], Any]) -> Any:
    """What the condition comes to, once that is true."""
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):  # noqa: ASYNC110 -- nobody tells of what happens inside the server.
            await asyncio.sleep(0)
    return found


async def talk(bench: Bench, sent: bytes, piece: int | None = None) -> bytes:
    """Everything the server says until it closes."""
    reader, writer = await bench.connect()
    for start in range(0, len(sent), piece or len(sent)):
        writer.write(sent[start : start + (piece or len(sent))])
        await writer.drain()
        await asyncio.sleep(0)
    return await asyncio.wait_for(reader.read(), PATIENCE)


def answers(said: bytes) -> list[tuple[int, bytes]]:
    """(status, body) of each response in turn."""
    found = []
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        found.append((int(head.split()[1]), said[:length]))
        said = said[length:]
    return found


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers, "", ""])
    return head.encode() + body


def chunked(path: str, body: bytes, *trailers: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{len(body):x}\r\n".encode()
    return head + body + "\r\n".join(["", "0", *trailers, "", ""]).encode()


LAST = get("/last", "connection: close")
DONE = (200, b"GET /last")
CHUNKED = (
    b"POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nx-trailer: 1\r\n\r\n"
)
FIELDS = 31
"""Bytes of `name: value` in a line of a head whose lines are 33 bytes long."""
H2C = ("connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAMAAABkAARAAAAAAAIAAAAA")

CONVERSATIONS = {
    "one after the other": (get("/a") + post("/b", b"xy") + LAST, [(200, b"GET /a"), (200, b"POST /b xy"), DONE]),
    "a quick one behind slow ones": (
        get("/wait/9") + get("/wait/3") + LAST,
        [(200, b"GET /wait/9"), (200, b"GET /wait/3"), DONE],
    ),
    "a body behind a slow one": (post("/wait/9", b"ab") + LAST, [(200, b"POST /wait/9 ab"), DONE]),
    "in chunks": (CHUNKED + LAST, [(200, b"POST /c abc"), DONE]),
    "trailers change no header": (
        chunked("/told", b"a", "host: evil", "authorization: evil", "empty:") + get("/told") + LAST,
        [(200, b"x -"), (200, b"x -"), DONE],
    ),
    "trailers behind what nobody read": (
        chunked("/unread", b"a" * 5000, "x: y") + LAST,
        [(401, b"who?"), DONE],
    ),
    "an empty body": (post("/e", b"") + LAST, [(200, b"POST /e"), DONE]),
    "with a query": (get("/q?a=b?c#d") + LAST, [(200, b"GET /q a=b?c#d"), DONE]),
    "the path stays as it was sent": (get("/%2e%2E/%ff/+") + LAST, [(200, b"GET /%2e%2E/%ff/+"), DONE]),
    "in absolute form": (get("http://x:1/p?q") + get("http://x") + LAST, [(200, b"GET /p q"), (200, b"GET /"), DONE]),
    "asterisk form": (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n" + LAST, [(200, b"OPTIONS *"), DONE]),
    "an upgrade that is not wanted": (get("/u", *H2C) + LAST, [(200, b"GET /u"), DONE]),
    "the same with a body": (post("/u", b"ab", *H2C) + LAST, [(200, b"POST /u ab"), DONE]),
    "blank lines before a request": (b"\r\n\r\n" + LAST, [DONE]),
    "a body that nobody read": (post("/unread", b"x" * 5000) + LAST, [(401, b"who?"), DONE]),
    "a body over the limit": (post("/b", b"x" * (LIMIT + 1)) + LAST, [(400, b"TooLarge"), DONE]),
    "a body at the limit": (post("/b", b"x" * LIMIT) + LAST, [(200, b"POST /b " + b"x" * LIMIT), DONE]),
    "HTTP/1.0": (b"GET /old HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", [(200, b"GET /old")]),
}


DOUBLED = {
    "Host": get("/a", "host: x"),
    "Origin": get("/a", "origin: http://x", "Origin: http://y"),
    "Authorization": get("/a", "authorization: a", "AUTHORIZATION: b"),
    "Content-Length": post("/a", b"xy", "content-length: 2"),
    "Host, with an upgrade that is not wanted": get("/a", "host: y", *H2C),
}


@pytest.mark.parametrize("name", DOUBLED)
def test_a_header_that_stands_twice(tmp_path: Path, name: str) -> None:
    """What came before is answered, and the connection ends with the refusal."""

    async def work(bench: Bench) -> None:
        before, refused = answers(await talk(bench, get("/before") + DOUBLED[name]))
        assert before == (200, b"GET /before")
        assert refused[0] == 400 and b'"code":"BadRequest"' in refused[1]
        if name in ("Host", "Origin", "Authorization"):
            assert f"more than one {name}".encode() in refused[1]

    run(tmp_path, PATIENT, work, answer)


def test_a_connection_has_slots_alone() -> None:
    """Every request uses dozens of its attributes; of more than 30, those that lie in a dict are found slowly."""
    assert Connection.__dictoffset__ == 0


def test_headers_that_may_stand_twice(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        assert answers(await talk(bench, get("/a", "accept: a", "accept: b", "x: 1", "x: 2") + LAST))[0][0] == 200

    run(tmp_path, PATIENT, work, answer)


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("piece", [None, 997])
def test_trailers_and_headers_share_one_limit(tmp_path: Path, room: int, piece: int | None) -> None:
    """Up to the limit they are dropped; one byte more, and the body is not complete."""
    spare = PATIENT.head - len("POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n") + room
    lines, rest = divmod(spare, FIELDS + 2)
    trailers = [f"{n:04}: {'t' * (FIELDS - 6)}" for n in range(lines - 1)] + [f"x: {'t' * (FIELDS - 3 + rest)}"]

    async def work(bench: Bench) -> None:
        following = b"" if room else LAST
        found = answers(await talk(bench, chunked("/c", b"a", *trailers) + following, piece))
        assert [each[0] for each in found] == ([400] if room else [200, 200])

    run(tmp_path, PATIENT, work, answer)


@pytest.mark.parametrize("path", ["/c", "/unread"])
@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"x: y\r\n" * 10_000, id="many"),
        pytest.param(b"".join(b"%d: %099d\r\n" % (n, n) for n in range(1000)), id="each of another name"),
        pytest.param(b"y" * 100_000, id="one without end"),
        pytest.param(b"x: " + b"y" * 100_000, id="one value without end"),
    ],
)
def test_trailers_without_end_are_not_kept(tmp_path: Path, path: str, endless: bytes) -> None:
    """The connection ends, also where the request was answered before; nothing waits for the collector."""
    start = chunked(path, b"a").removesuffix(b"\r\n")
    gc.collect()
    gc.disable()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(start)
        if path == "/unread":
            assert await response(reader) == b"HTTP/1.1 401 Unauthorized who?"
        (connection,) = await until(lambda: bench.listener._work.connections)
        gone = weakref.ref(connection)
        del connection
        tracemalloc.start()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(_pour(writer, endless, 200), PATIENCE)
        await until(lambda: not bench.listener._work.connections)
        await until(lambda: gone() is None)
        # What is sent lies in this process too, in the client's buffer.
        assert tracemalloc.get_traced_memory()[1] < 20 * len(endless)

    try:
        run(tmp_path, PATIENT, work, answer)
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("piece", [None, 7])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(tmp_path: Path, name: str, piece: int | None) -> None:
    sent, expected = CONVERSATIONS[name]

    async def work(bench: Bench) -> None:
        assert answers(await talk(bench, sent, piece)) == expected

    run(tmp_path, PATIENT, work, answer)


def test_nothing_is_heard_after_the_last_request(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        assert answers(await talk(bench, LAST + get("/after"))) == [DONE]

    run(tmp_path, PATIENT, work, answer)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nx y: z\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\nhost: x\n\n",
    ],
)
@pytest.mark.parametrize("before", [b"", get("/wait/5")])
def test_what_is_no_request_ends_the_connection(tmp_path: Path, before: bytes, nonsense: bytes) -> None:
    """What came before is answered; what comes after is not looked at."""

    async def work(bench: Bench) -> None:
        *first, last = answers(await talk(bench, before + nonsense + get("/after")))
        assert last[0] == 400
        assert b'"code":"BadRequest"' in last[1] or last[1] == b"BadRequest"
        assert first == ([(200, b"GET /wait/5")] if before else [])

    run(tmp_path, PATIENT, work, answer)


def test_head_has_the_length_and_no_body(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        said = await talk(bench, b"HEAD /h HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert said == b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\n"

    run(tmp_path, PATIENT, work, answer)


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_has_no_length(status: int) -> None:
    assert render(Response(status, b"unsent", ((b"a", b"b"),))).endswith(b"\r\na: b\r\n\r\n")


@pytest.mark.parametrize(("path", "told"), [("/b", True), ("/unread", False)])
def test_a_client_that_asks_before_its_body(tmp_path: Path, path: str, told: bool) -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n".encode()

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(head)
        if told:
            assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE) == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"xy" + LAST)
        # Else the bytes of a next request would be taken for the body.
        said = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answers(said) == ([(200, b"POST /b xy"), DONE] if told else [(401, b"who?")])

    run(tmp_path, PATIENT, work, answer)


def test_a_client_that_leaves_within_its_body(tmp_path: Path) -> None:
    """Half a request may look like a whole one, so whoever reads it is told."""
    met: list[str] = []

    async def handler(request: Request) -> Response:
        try:
            await request.read(LIMIT)
        except BadRequest as error:
            met.append(error.message)
        return Response(200)

    async def work(bench: Bench) -> None:
        _, writer = await bench.connect()
        writer.write(post("/b", b"12345678")[:-4])
        await writer.drain()
        await until(lambda: bench.listener._work.tasks)
        writer.close()
        await until(lambda: not bench.listener.connections)

    run(tmp_path, PATIENT, work, handler)
    assert met == ["The request ended before its body was complete."]


async def _raises(request: Request) -> Response:
    if request.path == b"/wait":
        await asyncio.sleep(0)
    raise RuntimeError("a bug")


async def _splits(request: Request) -> Response:
    return Response(200, b"", ((b"x", b"a\r\nset-cookie: b"),))


@pytest.mark.parametrize(("handler", "path"), [(_raises, "/"), (_raises, "/wait"), (_splits, "/")])
def test_a_bug_is_an_internal_error(tmp_path: Path, handler: Any, path: str, caplog: pytest.LogCaptureFixture) -> None:
    async def work(bench: Bench) -> None:
        streams = await bench.connect()
        for _ in range(2):
            said = await bench.ask(streams, get(path))
            assert said.startswith(b"HTTP/1.1 500 Internal Server Error ")
            assert b"set-cookie" not in said

    run(tmp_path, PATIENT, work, handler)
    assert len(caplog.records) == 2


def test_a_client_that_does_not_take_its_answers_waits(tmp_path: Path) -> None:
    """Neither answers nor requests pile up here; all of them are given once it listens."""
    asked = 0
    count = 400

    async def handler(request: Request) -> Response:
        nonlocal asked
        asked += 1
        return Response(200, b"x" * BIG)

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        # Otherwise the system's buffer grows with what it holds, up to all of the answers.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BIG)
        for _ in range(count):
            writer.write(get("/"))
        before = -1
        while before != asked:
            before = asked
            for _ in range(50):
                await asyncio.sleep(0)
        assert asked < count / 4
        for _ in range(count):
            assert len(await response(reader)) > BIG

    run(tmp_path, PATIENT, work, handler)
    assert asked == count


def test_requests_behind_a_slow_one_are_not_read_for_ever(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def handler(request: Request) -> Response:
        await gate.wait()
        return Response(200)

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        sending = asyncio.create_task(_pour(writer, get("/", f"x: {'p' * 4000}"), 1000))
        (connection,) = await until(lambda: bench.listener._work.connections)
        await until(lambda: len(connection._waiting) > MAX_PIPELINED)
        waiting = len(connection._waiting)
        for _ in range(50):
            await asyncio.sleep(0)
        assert MAX_PIPELINED < waiting == len(connection._waiting) < 1000
        gate.set()
        for _ in range(1000):
            await response(reader)
        await sending

    run(tmp_path, PATIENT, work, handler)


async def _pour(writer: asyncio.StreamWriter, data: bytes, count: int) -> None:
    for _ in range(count):
        writer.write(data)
        await writer.drain()


def test_a_body_that_nobody_reads_yet_is_not_taken_in(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def handler(request: Request) -> Response:
        await gate.wait()
        return Response(200, b"%d" % len(await request.read(100 * BIG)))

    async def work(bench: Bench) -> None:
        streams: Streams = await bench.connect()
        sending = asyncio.create_task(_pour(streams[1], post("/", b"x" * 40 * BIG), 1))
        (connection,) = await until(lambda: bench.listener._work.connections)
        await until(lambda: connection._paused)
        assert connection._receiving is not None and connection._receiving.backlog < 2 * BIG
        gate.set()
        assert await response(streams[0]) == b"HTTP/1.1 200 OK %d" % (40 * BIG)
        await sending

    run(tmp_path, PATIENT, work, handler)


def test_what_takes_too_long_is_cut_off_at_the_end(tmp_path: Path) -> None:
    """The rest of an answer is cancelled, as any task is."""
    ended: list[str] = []

    async def handler(request: Request) -> Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("yes")
        raise AssertionError

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(get("/"))
        await until(lambda: bench.listener._work.tasks)
        await bench.listener.close(0)
        assert await closed(reader)

    run(tmp_path, PATIENT, work, handler)
    assert ended == ["yes"]


def test_a_connection_whose_admission_is_cancelled_is_closed(tmp_path: Path) -> None:
    """The server ends in the very turn in which a client has sent its first byte: no socket is left to the collector."""

    async def work(bench: Bench) -> None:
        reader, writer = await bench.connect()
        writer.write(b"G")
        (admission,) = await until(lambda: bench.listener._admissions)
        admission.cancel()
        assert await closed(reader)

    run(tmp_path, PATIENT, work, answer)


def test_the_names_of_headers_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose them, and each new one would take memory for ever."""
    kept: dict[bytes, bytes] = {}
    monkeypatch.setattr(connection, "_LOWER_CASE", kept)
    for name in [b"X" * 1000, *(b"X-%d" % number for number in range(2 * connection.MAX_NAMES))]:
        assert connection._to_lower_case(name) == name.lower()
    assert len(kept) == connection.MAX_NAMES
    assert all(name.lower() == lower and len(name) < 10 for name, lower in kept.items())
