"""Requests and responses of the REST protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from mayflydb.frontends.cosmos.headers import (
    ALT_CONTENT_PATH,
    CONTENT_PATH,
    CONTENT_TYPE,
    PREFER,
    SUPPORTED_FORMATS,
)
from mayflydb.frontends.cosmos.paths import Target
from mayflydb.http.messages import Request as HttpRequest
from mayflydb.model.errors import BadRequest, MayflyError

Headers: TypeAlias = list[tuple[bytes, bytes]]

MAX_BODY = 2_202_010 + 64 * 1024
"""The bytes of a request. The .NET client fills a batch with operations up to the first number."""

JSON = (CONTENT_TYPE, b"application/json")

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def owner_paths(path: str, rid: str) -> Headers:
    """Return the headers that name a resource's owner: by `path`, made of ids (`dbs/d` for a container in d), and by `rid`.

    Clients append the rest to `path` to name the resource. Control characters, which would end the header line, are
    percent-encoded.
    """
    name = _CONTROL.sub(lambda found: b"%%%02X" % found.group()[0], path.encode("utf-8", "surrogatepass"))
    return [(ALT_CONTENT_PATH, name), (CONTENT_PATH, rid.encode())]


class Request:
    """One request with its body. `arrived`: the message of HTTP that it came in."""

    __slots__ = ("activity_id", "arrived", "body", "headers", "method", "path", "scheme", "target")

    def __init__(self, arrived: HttpRequest, path: bytes, target: Target, activity_id: bytes) -> None:
        self.arrived = arrived
        self.method = arrived.method
        self.path = path
        self.scheme = arrived.scheme
        self.headers = arrived.headers
        self.target = target
        self.activity_id = activity_id
        self.body = b""

    def text(self, name: bytes) -> str | None:
        """Return a header as text, or None."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def flag(self, name: bytes) -> bool:
        """Return a boolean header, which some clients write `True` and others `true`."""
        return self.headers.get(name, b"").lower() == b"true"

    @property
    def minimal(self) -> bool:
        """Return True if the answer of a write should not contain the item."""
        return self.headers.get(PREFER) == b"return=minimal"

    @property
    def wants_binary(self) -> bool:
        """Return True if the client takes binary JSON, and no text."""
        formats = self.headers.get(SUPPORTED_FORMATS)
        return formats is not None and {each.strip() for each in formats.lower().split(b",")} == {b"cosmosbinary"}

    def number(self, name: bytes) -> int | None:
        """Return an integer header, or None. BadRequest names a header that is no integer."""
        value = self.headers.get(name)
        if value is None or not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise BadRequest(f"The header {name.decode()} must be an integer.") from None


class Response(msgspec.Struct):
    """The answer of a command. `charge` is in request units. `error`: the error that a refusal tells."""

    status: int
    body: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()
    charge: float = 1.0
    error: MayflyError | None = None


def json_response(
    status: int, value: Any, headers: Sequence[tuple[bytes, bytes]] = (), charge: float = 1.0
) -> Response:
    """Build a response with a JSON body."""
    return Response(status, msgspec.json.encode(value), headers, charge)
