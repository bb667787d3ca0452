"""Requests and responses of the REST protocol, and ASGI in and out of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

import msgspec

from mayflydb.frontends.cosmos.paths import Target
from mayflydb.model.errors import BadRequest, TooLarge

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

MAX_BODY = 2 * 1024 * 1024 + 64 * 1024
JSON = (b"content-type", b"application/json")


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


async def read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The request's body; TooLarge as soon as it is, whatever its length header claims; BadRequest if it was cut off."""
    declared = headers.get(b"content-length")
    if declared is None and b"transfer-encoding" not in headers:
        return b""
    if declared is not None and int(declared) > MAX_BODY:
        raise TooLarge(f"The request is larger than the limit of {MAX_BODY} bytes.")
    message = await receive()
    body = _part(message)
    if not message.get("more_body"):
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        part = _part(message)
        size += len(part)
        if size > MAX_BODY:
            raise TooLarge(f"The request is larger than the limit of {MAX_BODY} bytes.")
        parts.append(part)
    return b"".join(parts)


def _part(message: Message) -> bytes:
    # Half a request may look like a whole one: nothing is done for a client that went away before its end.
    if message["type"] == "http.disconnect":
        raise BadRequest("The request ended before its body was complete.")
    body: bytes = message.get("body", b"")
    return body


async def send_response(send: Send, response: Response, common: Headers) -> None:
    """Write a response with the headers that every answer has."""
    headers = [*common, *response.headers, (b"x-ms-request-charge", b"%.2f" % response.charge)]
    if response.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(response.body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
