"""Attacks on the memory of a server: each makes it hold bytes for clients that do not take or end what they have begun.

An attack is a function that gets the addresses of a server, sends, and returns what keeps it going: closed, the attack is over.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Final, NamedTuple

from bson import Binary, Int64, decode, encode
from figures import Figure
from servers import mayfly, resident_mb
from signed import COLLECTION, Caller, headers, item

MB: Final = 1_000_000
QUIET_SECONDS: Final = 2.5
"""Seconds without a byte sent, and then without growth of the server, after which an attack has its effect."""

LONGEST: Final = 20.0
"""Seconds that an attack sends at most, and that its effect is waited for."""

REST_SECONDS: Final = 30.0
"""Seconds after the end of an attack in which the server shall be back: it still answers what it has been asked."""

PEAK_MB, REST_MB = 400.0, 40.0


class Target(NamedTuple):
    """Ports of a server on the loopback interface."""

    http: int
    mongo: int
    ydb: int


def fill(target: Target) -> None:
    """Write what the attacks read: 16 MB in a collection of MongoDB, and 8 MB in a container."""
    ask(target.mongo, insert="c", documents=[{"_id": n, "n": -n, "x": "x" * 400_000} for n in range(40)])
    caller = Caller(target.http)
    caller.make()
    for number in range(10):
        caller.expect(
            201, "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, item(str(number), 800_000, n=-number),
            Content_Type="application/json",
        )  # fmt: skip
    caller.close()


def op_msg(command: Mapping[str, Any], db: str = "d") -> bytes:
    document = encode({**command, "$db": db})
    return struct.pack("<iiiiIB", 21 + len(document), 1, 0, 2013, 0, 0) + document


def ask(port: int, **command: Any) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        return exchange(connection, command)


def exchange(connection: socket.socket, command: Mapping[str, Any]) -> dict[str, Any]:
    connection.sendall(op_msg(command))
    with connection.makefile("rb") as stream:
        size = int.from_bytes(stream.read(4), "little")
        answer: dict[str, Any] = decode(stream.read(size - 4)[17:])
        return answer


def request(port: int, method: str, body: bytes, size: int, **more: str) -> bytes:
    """A signed request for items with the begin of a body; `size`: that of the whole body."""
    fields = headers(method, "docs", COLLECTION) | {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"{method} /{COLLECTION}/docs HTTP/1.1", f"host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, f"content-length: {size}", "", ""]).encode() + body


def query(port: int, text: str) -> bytes:
    body = json.dumps({"query": text}).encode()
    return request(
        port, "POST", body, len(body),
        content_type="application/query+json", x_ms_documentdb_isquery="True", x_ms_max_item_count="1000",
    )  # fmt: skip


@contextmanager
def sending(port: int, messages: Sequence[bytes | Sequence[bytes]]) -> Iterator[None]:
    """One connection for each message, or for each list of parts that are sent one after the other, and none is read."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for message in messages:
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            connection.setblocking(False)
            parts = [message] if isinstance(message, bytes) else message
            selector.register(connection, selectors.EVENT_WRITE, [memoryview(part) for part in parts])
        began = last = monotonic()
        while selector.get_map() and monotonic() - last < QUIET_SECONDS and monotonic() - began < LONGEST:
            for key, _ in selector.select(0.1):
                if _send_some(key.fileobj, key.data):
                    last = monotonic()
                else:
                    selector.unregister(key.fileobj)
        yield


def _send_some(connection: Any, parts: list[memoryview]) -> bool:
    """Send what fits of the first part. Return False at the end, or if the server has closed the connection."""
    with suppress(ConnectionError):
        if not parts:
            return False
        parts[0] = parts[0][connection.send(parts[0][: 1 << 18]) :]
        if not parts[0]:
            del parts[0]
        return bool(parts)
    return False


def half_of_mongo(target: Target) -> Any:
    size = 47 * MB
    part = memoryview(struct.pack("<iiiiIB", size, 1, 0, 2013, 0, 0) + bytes(size - 1000))
    return sending(target.mongo, [[part]] * 80)  # type: ignore[list-item]


def broken_frames(target: Target) -> Any:
    """Messages of 47 MB with an opcode that is not served."""
    size = 47 * MB
    message = memoryview(struct.pack("<iiii", size, 1, 0, 4711) + bytes(size - 16))
    return sending(target.mongo, [[message]] * 100)  # type: ignore[list-item]


def whole_messages(target: Target) -> Any:
    documents = [{"_id": Int64(0), "x": "x" * 15 * MB}, {"x": "x" * 15 * MB}, {"x": "x" * 15 * MB}]
    message = memoryview(op_msg({"insert": "w", "ordered": False, "documents": documents}))
    return sending(target.mongo, [[message]] * 20)  # type: ignore[list-item]


def unread_of_mongo(target: Target, connections: int = 150, **command: Any) -> Any:
    return sending(target.mongo, [op_msg(command) * 20] * connections)


def half_of_http(target: Target) -> Any:
    return sending(target.http, [[request(target.http, "POST", b"", 2 * MB), bytes(2 * MB - 1)]] * 400)


def trailers(target: Target) -> Any:
    head = f"POST / HTTP/1.1\r\nhost: 127.0.0.1:{target.http}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n".encode()
    lines = b"".join(b"x%07d: %b\r\n" % (number, b"y" * 1000) for number in range(1000))
    return sending(target.http, [[head, *[lines] * 100]] * 4)


def unread_of_http(target: Target, text: str = "", connections: int = 150) -> Any:
    message = query(target.http, text) if text else request(target.http, "GET", b"", 0, x_ms_max_item_count="1000")
    return sending(target.http, [message * 10] * connections)


@contextmanager
def messages_of_ydb(target: Target) -> Iterator[None]:
    """Calls over four connections at once; the answers are not looked at."""
    import grpc

    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{target.ydb}", options)) for _ in range(4)]
        methods = [each.unary_unary("/Ydb.Query.V1.QueryService/CreateSession") for each in channels]
        running = [methods[number % 4].future(bytes(63 * MB)) for number in range(40)]
        end = monotonic() + LONGEST
        while monotonic() < end and not all(each.done() for each in running):
            Event().wait(0.2)
        yield
        for each in running:
            each.cancel()


@contextmanager
def cursors(target: Target) -> Iterator[None]:
    find = {"find": "c", "batchSize": 1, "noCursorTimeout": True}
    with socket.create_connection(("127.0.0.1", target.mongo), timeout=60) as connection:
        for _ in range(4000):
            exchange(connection, find)
        yield


@contextmanager
def transactions(target: Target) -> Iterator[None]:
    with socket.create_connection(("127.0.0.1", target.mongo), timeout=60) as connection:
        sessions = [{"id": Binary(number.to_bytes(16, "big"), 4)} for number in range(60)]
        for lsid in sessions:
            exchange(
                connection,
                {
                    "insert": "o", "documents": [{"x": "x" * 15 * MB}], "lsid": lsid, "txnNumber": Int64(1),
                    "autocommit": False, "startTransaction": True,
                },
            )  # fmt: skip
        yield
        exchange(connection, {"killSessions": sessions})


SORT: Final = [{"$sort": {"n": 1}}]

ATTACKS: Final[Mapping[str, Callable[[Target], Any]]] = {
    "MongoDB: 80 messages of 47 MB without their end": half_of_mongo,
    "MongoDB: 100 messages of 47 MB that mean nothing": broken_frames,
    "MongoDB: 20 inserts of 45 MB": whole_messages,
    "MongoDB: answers of 16 MB to 150 clients that do not read": lambda target: unread_of_mongo(
        target, find="c", batchSize=1000
    ),
    "MongoDB: the same, sorted": lambda target: unread_of_mongo(target, find="c", batchSize=1000, sort={"n": 1}),
    "MongoDB: the same, aggregated": lambda target: unread_of_mongo(
        target, aggregate="c", pipeline=[{"$group": {"_id": "$_id", "x": {"$first": "$x"}}}], cursor={"batchSize": 1000}
    ),
    "MongoDB: 4,000 cursors without time-out": cursors,
    "MongoDB: 60 open transactions that write 15 MB": transactions,
    "HTTP: 400 bodies of 2 MB without their end": half_of_http,
    "HTTP: 400 MB of trailers": trailers,
    "Cosmos DB: pages of 4 MB to 150 clients that do not read": unread_of_http,
    "Cosmos DB: the same, sorted": lambda target: unread_of_http(target, "SELECT * FROM c ORDER BY c.n"),
    "Cosmos DB: the same, grouped": lambda target: unread_of_http(
        target, "SELECT c.id, MAX(c.pad) AS pad FROM c GROUP BY c.id"
    ),
    "YDB: 40 messages of 63 MB": messages_of_ydb,
}  # fmt: skip


def hoarding(place: Path) -> Iterator[Figure]:
    """One row for each attack, each on a server of its own with a file."""
    for number, (name, attack) in enumerate(ATTACKS.items()):
        with mayfly(str(place / f"{number}.db"), "--ydb-port", "0") as server:
            target = Target(server.port, _port(server.mongo), _port(server.ydb))
            fill(target)
            yield _play(name, attack, target, server.pid)


def _port(address: str) -> int:
    found = re.search(r":(\d+)(?:/|$)", address)
    if found is None:
        raise RuntimeError(f"{address!r} has no port")
    return int(found[1])


def _play(name: str, attack: Callable[[Target], Any], target: Target, pid: int) -> Figure:
    Event().wait(1)
    # The peak of the process is forgotten: what filled the server is no part of the attack.
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    start = resident_mb(pid)
    with attack(target):
        _await_quiet(pid)
    ended = monotonic()
    while (rest := resident_mb(pid)) > start + REST_MB and monotonic() - ended < REST_SECONDS:
        Event().wait(0.1)
    peak, seconds = resident_mb(pid, "VmHWM"), monotonic() - ended
    met = peak <= PEAK_MB and rest <= start + REST_MB
    how = f"{start:.0f} MB before, {rest:.0f} MB {seconds:.1f} s after it"
    return Figure(name, f"{peak:.0f} MB", f"<= {PEAK_MB:g} MB, {REST_MB:g} MB more after it", met, how, peak)


def _await_quiet(pid: int) -> None:
    began = last = monotonic()
    peak = 0.0
    while monotonic() - last < QUIET_SECONDS and monotonic() - began < LONGEST:
        now = resident_mb(pid, "VmHWM")
        if now > peak + 1:
            peak, last = now, monotonic()
        Event().wait(0.1)
