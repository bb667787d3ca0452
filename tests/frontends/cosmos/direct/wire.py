"""A client of direct mode that builds its own bytes: nothing here comes from the code under test."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import struct
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from azure.cosmos import ContainerProxy

from frontends.cosmos.service import DATE, KEY, Answer, Service, signature

BYTE, USHORT, ULONG, LONG, LONGLONG, SMALL, TEXT, BYTES, DOUBLE = 0, 1, 2, 3, 5, 7, 8, 0x0B, 0x0E
SIZES = {0: "B", 1: "H", 2: "I", 3: "i", 4: "Q", 5: "q", 6: "16s", 0x0D: "f", 0x0E: "d"}
LENGTHS = {7: "B", 8: "H", 9: "I", 0x0A: "B", 0x0B: "H", 0x0C: "I"}
DATABASE, CONTAINER, ITEM, PROCEDURE = 1, 2, 3, 7
CREATE, PATCH, READ, FEED, DELETE, REPLACE, EXECUTE, QUERY, HEAD, HEAD_FEED, UPSERT, BATCH = (
    1, 2, 3, 4, 5, 6, 8, 0x0F, 0x11, 0x12, 0x13, 0x25,
)  # fmt: skip
METHODS = {
    CREATE: "POST", PATCH: "PATCH", READ: "GET", FEED: "GET", DELETE: "DELETE", REPLACE: "PUT", EXECUTE: "POST",
    QUERY: "POST", HEAD: "HEAD", HEAD_FEED: "HEAD", UPSERT: "POST", BATCH: "POST",
}  # fmt: skip
ON_FEEDS = {CREATE, FEED, QUERY, HEAD_FEED, UPSERT, BATCH}
ACTIVITY = bytes(range(16))

LSN, LOCAL_LSN, CHARGE, RANGE, SUBSTATUS, SESSION, ETAG, CONTINUATION, COUNT, TRANSPORT = (
    0x13, 0x3A, 0x15, 0x21, 0x1C, 0x3E, 4, 3, 0x14, 0x35,
)  # fmt: skip


def token(id: int, kind: int, value: Any) -> bytes:
    """One token; a text is encoded."""
    head = struct.pack("<HB", id, kind)
    if kind in SIZES:
        return head + struct.pack("<" + SIZES[kind], value)
    raw = value.encode() if isinstance(value, str) else value
    return head + struct.pack("<" + LENGTHS[kind], len(raw)) + raw


def frame(
    resource: int, operation: int, tokens: bytes, payload: bytes | None = None, activity: bytes = ACTIVITY
) -> bytes:
    """One frame of a client's."""
    head = struct.pack("<IHH", 24 + len(tokens), resource, operation) + activity + tokens
    return head if payload is None else head + struct.pack("<I", len(payload)) + payload


CONTEXT = frame(0, 0, token(0, ULONG, 1) + token(1, SMALL, "2020-07-15") + token(2, SMALL, "test"))


class Reply(NamedTuple):
    """An answer; `tokens` by their ids."""

    status: int
    activity: bytes
    tokens: dict[int, Any]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def substatus(self) -> int:
        return int(self.tokens.get(SUBSTATUS, 0))


def parse_tokens(raw: bytes) -> dict[int, Any]:
    """The tokens of an answer."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(raw):
        id, kind = struct.unpack_from("<HB", raw, at)
        at += 3
        if kind in SIZES:
            form = "<" + SIZES[kind]
            (found[id],) = struct.unpack_from(form, raw, at)
            at += struct.calcsize(form)
        else:
            form = "<" + LENGTHS[kind]
            (size,) = struct.unpack_from(form, raw, at)
            at += struct.calcsize(form) + size
            found[id] = raw[at - size : at].decode()
    assert at == len(raw)
    return found


class Direct:
    """One connection over TLS. Requests are signed for names."""

    def __init__(self, url: str, *, opened: bool = True) -> None:
        parts = urlsplit(url)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self._stream = self.socket.makefile("rb")
        self._ids = count(1)
        if opened:
            self.socket.sendall(CONTEXT)
            self.greeting = self.read()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def read(self) -> Reply:
        """The next answer. EOFError if the server has ended the connection."""
        head = self._stream.read(24)
        if len(head) < 24:
            raise EOFError
        length, status = struct.unpack_from("<II", head)
        tokens = parse_tokens(self._stream.read(length - 24))
        body = b""
        # The answer to the first frame has its version under this id, and no body.
        if tokens.get(0) == 1 and TRANSPORT in tokens:
            body = self._stream.read(struct.unpack("<I", self._stream.read(4))[0])
        return Reply(status, head[8:24], tokens, body)

    def send(
        self, resource: int, operation: int, path: str = "", body: Any = None, more: bytes = b"", **by: Any
    ) -> int:
        """Send a request, and return its number. `path`: `d`, `d/c` or `d/c/i`. `by`: see `request`."""
        number = next(self._ids)
        self.socket.sendall(request(number, resource, operation, path, body, more, **by))
        return number

    def __call__(
        self, resource: int, operation: int, path: str = "", body: Any = None, more: bytes = b"", **by: Any
    ) -> Reply:
        number = self.send(resource, operation, path, body, more, **by)
        reply = self.read()
        assert reply.tokens[TRANSPORT] == number
        return reply


def request(
    number: int, resource: int, operation: int, path: str = "", body: Any = None, more: bytes = b"", *,
    pk: Any = ..., range_id: str | None = None, key: str = KEY,
) -> bytes:  # fmt: skip
    """The frame of a signed request. `body`: bytes as they are, anything else as JSON."""
    names = [name for name in path.split("/") if name]
    words = ["dbs", "colls", "sprocs" if resource == PROCEDURE else "docs"]
    place = "/".join(f"{word}/{quote(name, safe='')}" for word, name in zip(words, names, strict=False))
    if operation in ON_FEEDS:
        place = f"{place}/{words[len(names)]}"
    payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    tokens = token(2, BYTE, payload is not None) + token(0x4D, ULONG, number)
    tokens += token(1, TEXT, signature(key, METHODS[operation], place)) + token(3, SMALL, DATE)
    for id, name in zip((0x15, 0x16, 0x1B if resource == PROCEDURE else 0x17), names, strict=False):
        tokens += token(id, TEXT, name)
    if pk is not ...:
        tokens += token(0x2B, TEXT, json.dumps([pk]))
    if range_id is not None:
        tokens += token(0x2C, TEXT, range_id)
    return frame(resource, operation, tokens + more, payload)


def addresses(service: Service, wanted: str = "dbs", more: str = "", headers: dict[str, str] | None = None) -> Answer:
    """The answer to a request for the addresses of a container's ranges, by its rids, or of the account."""
    query = f"$resolveFor={quote(wanted, safe='')}&$filter=protocol%20eq%20rntbd{more}"
    # The client signs the rid of the container as the owner of items.
    signed = _sign("dbs", "") if wanted == "dbs" else _sign("docs", wanted.split("/")[3].lower())
    return service.raw("GET", f"//addresses/?{query}", headers={"authorization": signed, **(headers or {})})


def _sign(kind: str, link: str) -> str:
    text = f"get\n{kind}\n{link}\n{DATE.lower()}\n\n".encode()
    mac = base64.b64encode(hmac.digest(base64.b64decode(KEY), text, "sha256")).decode()
    return quote(f"type=master&ver=1.0&sig={mac}", safe="")


def names(proxy: ContainerProxy) -> str:
    """`d/c` of a container."""
    _, database, _, container = proxy.container_link.split("/")
    return f"{database}/{container}"


def rids(service: Service, proxy: ContainerProxy) -> tuple[str, str]:
    """The rids of a container's database and of the container."""
    database, _, _ = names(proxy).partition("/")
    return service.client.get_database_client(database).read()["_rid"], str(proxy.read()["_rid"])
