"""Direct mode of Cosmos DB beside HTTP, with and without TLS: point reads of one connection, many sent at once."""

from __future__ import annotations

import io
import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from figures import Figure, microseconds, ratio
from servers import Meter, Running, mayfly, script
from signed import COLLECTION, CONTAINER, DATABASE, IDS, PARTITION, Caller, headers
from wrk import raw

ROUNDS, IN_FLIGHT, TIMES = 7, 16, 60
"""A connection of HTTP has so many requests waiting at most."""

BYTE, ULONG, SMALL, TEXT = 0, 2, 7, 8
DOCUMENT, READ = 3, 3


def direct(place: Path) -> Iterator[Figure]:
    """Point reads over rntbd against HTTP, with signatures that are checked."""
    with mayfly(str(place / "direct.db")) as server:
        yield _compare(server, "against HTTP", server.port, tls=True)
    with script(Path(__file__).with_name("plain_direct.py"), str(place / "plain.db")) as server:
        yield _compare(server, "against HTTP, both without TLS", server.plain, tls=False)


def _compare(server: Running, against: str, port: int, *, tls: bool) -> Figure:
    """Compare the two protocols over the same transport. `port`: that of direct mode."""
    caller = Caller(server.port)
    caller.make()
    caller.store(f"i{number}" for number in range(IDS))
    caller.close()
    meter = Meter(server.pid)
    pipes = {
        "direct": _Pipe(port, _frames(), _take_frame, tls),
        "http": _Pipe(server.port, _requests(server.port), _take_answer, tls),
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
    name = f"point read of 1 KB in direct mode, {IN_FLIGHT} in flight, {against}"
    what = f"one connection {'with' if tls else 'without'} TLS each; signatures checked"
    return ratio(name, found["direct"], found["http"], 1, what, used)


class _Tls(io.RawIOBase):
    """What arrives over TLS. One call of the system takes all that is there, as in the vendors' clients: by a socket of `ssl`
    each record would take two."""

    def __init__(self, plain: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._socket = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._repeat(self._tls.do_handshake)
        self._socket.sendall(self._outgoing.read())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(self._repeat(self._tls.read, len(buffer), buffer))

    def sendall(self, data: bytes) -> None:
        """Send bytes encrypted."""
        self._tls.write(data)
        self._socket.sendall(self._outgoing.read())

    def _repeat(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call until everything that it needs has arrived."""
        while True:
            try:
                return call(*arguments)
            except ssl.SSLWantReadError:
                self._socket.sendall(self._outgoing.read())
                self._incoming.write(self._socket.recv(1 << 18))


class _Pipe:
    """One connection. `take` reads one answer."""

    def __init__(self, port: int, requests: list[bytes], take: Callable[[_Pipe], None], tls: bool) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        encrypted = _Tls(self._socket) if tls else None
        self._send: Callable[[bytes], None] = self._socket.sendall if encrypted is None else encrypted.sendall
        arriving: Any = self._socket.makefile("rb", buffering=0) if encrypted is None else encrypted
        self.stream = io.BufferedReader(arriving, 1 << 16)
        self._batches = [b"".join(requests[at : at + IN_FLIGHT]) for at in range(0, len(requests), IN_FLIGHT)]
        self._take = take

    def open(self, tokens: bytes) -> None:
        """Send the first frame of rntbd."""
        self._send(struct.pack("<IHH16x", 24 + len(tokens), 0, 0) + tokens)
        (length,) = struct.unpack("<I", self.stream.read(4))
        self.stream.read(length - 4)

    def rate(self) -> float:
        """Answers in a second."""
        began = perf_counter()
        for turn in range(TIMES):
            self._send(self._batches[turn % len(self._batches)])
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
