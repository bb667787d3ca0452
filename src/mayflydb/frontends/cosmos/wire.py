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
)
from mayflydb.frontends.cosmos.paths import Target
from mayflydb.model.errors import BadRequest

Headers: TypeAlias = list[tuple[bytes, bytes]]

MAX_BODY = 2 * 1024 * 1024 + 64 * 1024
JSON = (CONTENT_TYPE, b"application/json")

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def owner_paths(path: str, rid: str) -> Headers:
    """The names of a resource's owner: `path` is made of ids (`dbs/d` of a container in d), `rid` is the owner's own.

    Clients append the rest to `path` to name the resource. Control characters, which would end the line, are percent-encoded.
    """
    name = _CONTROL.sub(lambda found: b"%%%02X" % found.group()[0], path.encode("utf-8", "surrogatepass"))
    return [(ALT_CONTENT_PATH, name), (CONTENT_PATH, rid.encode())]


class Request:
    """One HTTP request, its body read. `headers` are by lower-case name; of a repeated one the last counts."""

    __slots__ = ("activity_id", "body", "headers", "method", "path", "scheme", "target")

    def __init__(
        self, method: str, path: bytes, scheme: str, headers: dict[bytes, bytes], target: Target, activity_id: bytes
    ) -> None:
        self.method = method
        self.path = path
        self.scheme = scheme
        self.headers = headers
        self.target = target
        self.activity_id = activity_id
        self.body = b""

    def text(self, name: bytes) -> str | None:
        """A header, or None."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def flag(self, name: bytes) -> bool:
        """A boolean header, written `True` by some clients and `true` by others."""
        return self.headers.get(name, b"").lower() == b"true"

    @property
    def minimal(self) -> bool:
        """Whether writes are to be answered without the items written."""
        return self.headers.get(PREFER) == b"return=minimal"

    def number(self, name: bytes) -> int | None:
        """An integer header; BadRequest, naming it, for anything else."""
        value = self.headers.get(name)
        if value is None or not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise BadRequest(f"The header {name.decode()} must be an integer.") from None


class Response(msgspec.Struct):
    """What a command answers. `charge` is in request units."""

    status: int
    body: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()
    charge: float = 1.0


def json_response(
    status: int, value: Any, headers: Sequence[tuple[bytes, bytes]] = (), charge: float = 1.0
) -> Response:
    """A response with a JSON body."""
    return Response(status, msgspec.json.encode(value), headers, charge)
