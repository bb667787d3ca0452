"""The frames of rntbd: those that open a connection, requests and answers. Pure.

A frame begins with its length, this number included and a payload excluded, and has a head of 24 bytes. A payload has a length of
its own before it. Every length is checked before anything is made of it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from mayflydb.frontends.cosmos.direct import ids
from mayflydb.frontends.cosmos.direct.tokens import Kind, Malformed, Value, decode, encode

HEAD_BYTES: Final = 24
MAX_HEAD: Final = 32 * 1024
"""Bytes of a frame without its payload, as of the headers of a request by HTTP."""

MAX_PAYLOAD: Final = 64 * 1024 * 1024
"""Bytes of a payload that are read, and dropped, to answer that it is too large. A longer one ends the connection."""

LENGTH: Final = Struct("<I")
_REQUEST: Final = Struct("<IHH16s")
_ANSWER: Final = Struct("<II16s")
_GUID: Final = Struct("<IHH")
_ANSWER_BEGIN: Final = Struct("<II16sHBBHBI")

PROTOCOL_VERSION: Final = 1
MAX_VERSION: Final = 255
"""Bytes of the client's version, which is repeated in the answer."""

CONTEXT_BYTES: Final = 3
"""Bytes that tell a client of rntbd from one of HTTP."""


class Addressee(msgspec.Struct, frozen=True, gc=False):
    """The request that an answer is for. `activity`: a GUID in the order of bytes of the wire. `number`: given by the client."""

    activity: bytes
    number: int
    replica_path: bytes


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """A request without its payload. `activity`: a GUID in the order of bytes of the wire."""

    resource: int
    operation: int
    activity: bytes
    tokens: dict[int, Value]

    @property
    def has_payload(self) -> bool:
        return bool(self.tokens.get(ids.PAYLOAD_PRESENT))

    @property
    def addressee(self) -> Addressee:
        number, path = self.tokens[ids.TRANSPORT_REQUEST_ID], self.tokens.get(ids.REPLICA_PATH_TOKEN)
        assert isinstance(number, int)  # As `parse_request` has checked.
        return Addressee(self.activity, number, path if isinstance(path, bytes) else b"")


def begins_context(head: bytes) -> bool:
    """Return True if a connection that begins with these CONTEXT_BYTES bytes is one of rntbd.

    Its first frame is shorter than 64 KiB, so that the third byte of its length is zero. No request of HTTP has a zero byte.
    """
    return head[CONTEXT_BYTES - 1] == 0


def frame_size(data: bytes | bytearray, position: int) -> int | None:
    """Return the bytes of the frame at `position`; None if its length has not arrived. Malformed for a wrong length."""
    if len(data) - position < LENGTH.size:
        return None
    size: int = LENGTH.unpack_from(data, position)[0]
    if not HEAD_BYTES <= size <= MAX_HEAD:
        raise Malformed(f"a frame of {size} bytes; there are {HEAD_BYTES} to {MAX_HEAD}")
    return size


def payload_size(data: bytes | bytearray, position: int) -> int | None:
    """Return the bytes of the payload whose length is at `position`; None if that has not arrived. Malformed beyond the limit."""
    if len(data) - position < LENGTH.size:
        return None
    size: int = LENGTH.unpack_from(data, position)[0]
    if size > MAX_PAYLOAD:
        raise Malformed(f"a payload of {size} bytes; there are at most {MAX_PAYLOAD}")
    return size


def parse_request(frame: bytes) -> RequestHead:
    """Parse a frame without its payload. Malformed unless its tokens are whole and name the request."""
    _, resource, operation, activity = _REQUEST.unpack_from(frame)
    tokens = decode(frame, HEAD_BYTES)
    number = tokens.get(ids.TRANSPORT_REQUEST_ID)
    if (resource or operation) and not (isinstance(number, int) and 0 <= number < 1 << 32):
        # The client could not tell which of its requests an answer belongs to.
        raise Malformed("a request has no transport request id of 32 bits")
    return RequestHead(resource, operation, activity, tokens)


def is_context(head: RequestHead) -> bool:
    """Return True for the frame that opens a connection."""
    return head.resource == ids.CONNECTION and head.operation == ids.CONNECTION


def build_context_answer(head: RequestHead, agent: bytes, version: bytes, idle_seconds: int) -> bytes:
    """Build the answer to the frame that opens a connection. Clients demand `agent` and `version`.

    Malformed for another version of the protocol than 1.
    """
    asked = head.tokens.get(ids.CONTEXT_PROTOCOL_VERSION)
    if asked != PROTOCOL_VERSION:
        raise Malformed(f"version {asked!r} of the protocol, and there is version {PROTOCOL_VERSION} alone")
    client = head.tokens.get(ids.CONTEXT_CLIENT_VERSION, b"")
    if not isinstance(client, bytes) or len(client) > MAX_VERSION:
        raise Malformed(f"the version of the client is no text of at most {MAX_VERSION} bytes")
    tokens = b"".join(
        [
            encode(ids.CONTEXT_PROTOCOL_VERSION, Kind.ULONG, PROTOCOL_VERSION),
            encode(ids.CONTEXT_CLIENT_VERSION, Kind.SMALL_STRING, client),
            encode(ids.CONTEXT_SERVER_AGENT, Kind.SMALL_STRING, agent),
            encode(ids.CONTEXT_SERVER_VERSION, Kind.SMALL_STRING, version),
            encode(ids.CONTEXT_IDLE_SECONDS, Kind.ULONG, idle_seconds),
            encode(ids.CONTEXT_UNAUTHENTICATED_SECONDS, Kind.ULONG, 0),
        ]
    )
    return _ANSWER.pack(HEAD_BYTES + len(tokens), 200, head.activity) + tokens


def build_answer(addressee: Addressee, status: int, tokens: bytes, body: bytes) -> bytes:
    """Build an answer. `tokens`: encoded, without those that every answer begins with."""
    head = _ANSWER_BEGIN.pack(
        _ANSWER_BEGIN.size + len(tokens), status, addressee.activity,
        ids.ANSWER_PAYLOAD_PRESENT, Kind.BYTE, bool(body),
        ids.ANSWER_TRANSPORT_REQUEST_ID, Kind.ULONG, addressee.number,
    )  # fmt: skip
    return b"".join((head, tokens, LENGTH.pack(len(body)), body)) if body else head + tokens


def format_activity(activity: bytes) -> bytes:
    """Return a GUID of the wire as text: its first three parts have their lowest byte first."""
    first, second, third = _GUID.unpack_from(activity)
    rest = activity[8:].hex()
    return b"%08x-%04x-%04x-%b-%b" % (first, second, third, rest[:4].encode(), rest[4:].encode())
