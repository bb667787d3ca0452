"""Direct mode of Cosmos DB beside HTTP over the same TLS port: point reads of one connection, many sent at once."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from figures import Figure, microseconds, ratio
from servers import Meter, mayfly
from signed import COLLECTION, CONTAINER, DATABASE, IDS, PARTITION, Caller, headers
from wrk import raw

ROUNDS, IN_FLIGHT, TIMES = 7, 16, 60
"""A connection of HTTP has so many requests waiting at most."""

BYTE, ULONG, SMALL, TEXT = 0, 2, 7, 8
DOCUMENT, READ = 3, 3


def direct(place: Path) -> Iterator[Figure]:
    """Point reads over rntbd against HTTP, both with TLS, and both with signatures that are checked."""
    with mayfly(str(place / "direct.db")) as server:
        caller = Caller(server.port)
        caller.make()
        caller.store(f"i{number}" for number in range(IDS))
        caller.close()
        meter = Meter(server.pid)
        pipes = {
            "direct": _Pipe(server.port, _frames(), _take_frame),
            "http": _Pipe(server.port, _requests(server.port), _take_answer),
        }
        pipes["direct"].open(_token(0, ULONG, 1) + _token(1, SMALL, b"2020-07-15"))
        found: dict[str, list[float]] = {name: [] for name in pipes}
        for turn in range(ROUNDS + 1):
            for name, pipe in pipes.items():
                meter.start()
                rate = pipe.rate()
                meter.stop(name, IN_FLIGHT * TIMES)
                if turn:
                    found[name].append(rate)
        for pipe in pipes.values():
            pipe.close()
    used = microseconds(meter.cost("direct"), meter.cost("http"))
    name = f"point read of 1 KB in direct mode, {IN_FLIGHT} in flight, against HTTP"
    yield ratio(name, found["direct"], found["http"], 1, "one connection with TLS each; signatures checked", used)


class _Pipe:
    """One connection with TLS. `take` reads one answer."""

    def __init__(self, port: int, requests: list[bytes], take: Callable[[_Pipe], None]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._socket = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
        self.stream = self._socket.makefile("rb")
        self._batches = [b"".join(requests[at : at + IN_FLIGHT]) for at in range(0, len(requests), IN_FLIGHT)]
        self._take = take

    def open(self, tokens: bytes) -> None:
        """Send the first frame of rntbd."""
        self._socket.sendall(struct.pack("<IHH16x", 24 + len(tokens), 0, 0) + tokens)
        (length,) = struct.unpack("<I", self.stream.read(4))
        self.stream.read(length - 4)

    def rate(self) -> float:
        """Answers in a second."""
        began = perf_counter()
        for turn in range(TIMES):
            self._socket.sendall(self._batches[turn % len(self._batches)])
            for _ in range(IN_FLIGHT):
                self._take(self)
        return IN_FLIGHT * TIMES / (perf_counter() - began)

    def close(self) -> None:
        self.stream.close()
        self._socket.close()


def _token(id: int, kind: int, value: int | bytes) -> bytes:
    head = struct.pack("<HB", id, kind)
    if isinstance(value, int):
        return head + struct.pack("<B" if kind == BYTE else "<I", value)
    return head + struct.pack("<B" if kind == SMALL else "<H", len(value)) + value


def _frames() -> list[bytes]:
    """Point reads as clients send them."""
    return [_frame(number) for number in range(IDS // IN_FLIGHT * IN_FLIGHT)]


def _frame(number: int) -> bytes:
    id = f"i{number}"
    fields = headers("GET", "docs", f"{COLLECTION}/docs/{id}")
    tokens = b"".join(
        [
            _token(0x02, BYTE, 0),
            _token(0x03, SMALL, fields["x-ms-date"].encode()),
            _token(0x13, TEXT, b"/apps/mayfly/services/5/partitions/0/replicas/2s"),
            _token(0x49, ULONG, 60_000),
            _token(0x4A, ULONG, 0),
            _token(0x4D, ULONG, number),
            _token(0xA2, ULONG, 11),
            _token(0x01, TEXT, fields["authorization"].encode()),
            _token(0x15, TEXT, DATABASE.encode()),
            _token(0x16, TEXT, CONTAINER.encode()),
            _token(0x17, TEXT, id.encode()),
            _token(0x28, SMALL, b"2020-07-15"),
            _token(0x2B, TEXT, json.dumps([PARTITION]).encode()),
        ]
    )
    return struct.pack("<IHH16s", 24 + len(tokens), DOCUMENT, READ, bytes(16)) + tokens


def _requests(port: int) -> list[bytes]:
    return [
        raw("GET", f"/{link}", headers("GET", "docs", link), port).encode()
        for link in (f"{COLLECTION}/docs/i{number}" for number in range(IDS // IN_FLIGHT * IN_FLIGHT))
    ]


def _take_frame(pipe: _Pipe) -> None:
    head = pipe.stream.read(24)
    length, status = struct.unpack_from("<II", head)
    pipe.stream.read(length - 24)
    (size,) = struct.unpack("<I", pipe.stream.read(4))
    if status != 200 or len(pipe.stream.read(size)) < size:
        raise RuntimeError(f"a read in direct mode was answered with {status}")


def _take_answer(pipe: _Pipe) -> None:
    status, size = pipe.stream.readline(), 0
    if b" 200 " not in status:
        raise RuntimeError(f"a read by HTTP was answered with {status!r}")
    while (line := pipe.stream.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    pipe.stream.read(size)
