"""One connection that sends a request, waits for its answer, and sends the next: what a single client meets."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from itertools import cycle
from time import perf_counter

from signed import COLLECTION, headers, item
from wrk import raw


class Line:
    """A keep-alive connection to a server of HTTP, as lean as Python allows."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> bytes:
        """Send a request, and return the body of its answer. RuntimeError if that is no success."""
        self._socket.sendall(request)
        data = b""
        while True:
            data += self._socket.recv(262_144)
            head, found, body = data.partition(b"\r\n\r\n")
            if found and len(body) >= int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]):
                break
        if head[9:10] != b"2":
            raise RuntimeError(f"a request was answered {data[:300]!r}")
        return body

    def seconds(self, requests: Sequence[bytes]) -> float:
        """Seconds that one request takes, the client's own part included."""
        began = perf_counter()
        for request in requests:
            self.ask(request)
        return (perf_counter() - began) / len(requests)


def inserts(port: int, first: int, count: int, size: int) -> list[bytes]:
    """Creates of new items."""
    fields = headers("POST", "docs", COLLECTION) | {"Content-Type": "application/json"}
    numbers = range(first, first + count)
    return [raw("POST", f"/{COLLECTION}/docs", fields, port, item(f"l{n}", size)).encode() for n in numbers]


def point_reads(port: int, ids: Sequence[str], count: int) -> list[bytes]:
    """Point reads of these ids in turn."""
    links = [f"{COLLECTION}/docs/{id}" for id, _ in zip(cycle(ids), range(count), strict=False)]
    return [raw("GET", f"/{link}", headers("GET", "docs", link), port).encode() for link in links]


def query(port: int, text: str) -> bytes:
    """A query over one partition, in one page."""
    fields = headers("POST", "docs", COLLECTION) | {
        "Content-Type": "application/query+json",
        "x-ms-documentdb-isquery": "True",
        "x-ms-max-item-count": "1000",
    }
    return raw("POST", f"/{COLLECTION}/docs", fields, port, json.dumps({"query": text}).encode()).encode()
