"""Requests, responses, and the type of a handler, which makes a response of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias

import msgspec

from mayflydb.model.errors import BadRequest, MayflyError, Overloaded, TooLarge

OVERLOADED = "The server holds as many bytes for its clients as it may. Please retry later."

Fields: TypeAlias = Sequence[tuple[bytes, bytes]]

BODILESS = (204, 304)
_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status, status.phrase.encode()) for status in HTTPStatus}
_STATUS_LINES[449] = b"HTTP/1.1 449 Retry With"  # Cosmos DB's own: a concurrent write came first.


class Response(msgspec.Struct):
    """`headers` describe the body or its subject. The connection adds content-length and connection.

    `stream`: the parts of a body that is sent while it is made, in the place of `body`. A part is asked for when the client has
    taken those before it. The generator is closed if the client leaves; if it fails, the connection is dropped.

    `error`: the error that the body tells, for callers in this process. It is not sent.
    """

    status: int
    body: bytes = b""
    headers: Fields = ()
    stream: AsyncGenerator[bytes, None] | None = None
    error: MayflyError | None = None


def check_status(response: Response) -> Response:
    """Return a response that is no refusal. Raise the error that a refusal tells."""
    if response.error is not None:
        raise response.error
    return response


def read_json(response: Response) -> Any:
    """Return the JSON of a response. Raise the error that a refusal tells."""
    return msgspec.json.decode(check_status(response).body)


class Peer(Protocol):
    """The connection of a request. `turns`: those in which large answers are made."""

    @property
    def turns(self) -> asyncio.Semaphore: ...

    @property
    def address(self) -> str:
        """The client's address without a port."""

    def hold(self, request: Request, size: int) -> bool:
        """Charge bytes that are made for the answer, until it is sent. Return False, and charge none, if there is no room."""

    def release(self, request: Request, size: int) -> None:
        """Give back bytes that `hold` has charged."""

    def release_body(self, request: Request, size: int) -> None:
        """Note that the handler has taken bytes of the body, which the request holds no more."""


class Request:
    """One request whose headers are complete; its body may still be arriving.

    `size`: bytes of the body so far. `charged`: what the account of bytes in flight has been charged for the request, and for
    what is made for its answer.

    `path` and `query` as they were sent, percent-encoded. `headers` by lower-case name: of a repeated one the last counts.
    `operation`: its name in metrics, once it is known.
    `role`: the role of the session that a browser has; empty without one.
    `peer`: the connection that the request came by. `on_leave` is called if that connection ends before the answer.
    """

    __slots__ = (
        "_dropped", "_gone", "_overloaded", "_parts", "_waiter",
        "charged", "ended", "headers", "keep_alive", "method", "on_leave", "operation", "path", "peer", "query", "role",
        "scheme", "size", "wanted",
    )  # fmt: skip

    def __init__(
        self, method: str, path: bytes, headers: dict[bytes, bytes], query: bytes = b"", scheme: str = "http"
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.scheme = scheme
        self.keep_alive = True
        self.operation = "unknown"
        self.role = ""
        self.ended = False
        self.wanted: Callable[[], None] | None = None
        self.on_leave: Callable[[], None] | None = None
        self.peer: Peer | None = None
        self._gone = self._dropped = self._overloaded = False
        self._parts: list[bytes] = []
        self.size = self.charged = 0
        self._waiter: asyncio.Future[None] | None = None

    # --- for whoever answers it ------------------------------------------------------------------------------------------

    async def read(self, limit: int) -> bytes:
        """The whole body. TooLarge as soon as it is over `limit` bytes, whatever its length header claims.

        Overloaded when the server may not hold more bytes for its clients. BadRequest when the client went away before its end:
        half a request may look like a whole one.
        """
        if not self.ended:
            await self._arrival(limit)
        if self.size > limit:
            raise _too_large(limit)
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def read_parts(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, in parts that the request holds no more. While the handler works on one, the connection
        reads little of the next. Errors: as `read`; TooLarge may come after some parts.
        """
        self._check_declared(limit)
        taken = 0
        while True:
            if self._parts:
                part = b"".join(self._parts)
                self._parts.clear()
                self.size = 0
                taken += len(part)
                if taken > limit:
                    raise _too_large(limit)
                if self.peer is not None:
                    self.peer.release_body(self, len(part))
                yield part
            elif self.ended:
                return
            else:
                await self._more()
                self._check_arrival()

    async def _arrival(self, limit: int) -> None:
        self._check_declared(limit)
        while not self.ended and not self._gone and self.size <= limit:
            await self._more()
        self._check_arrival()

    def _check_declared(self, limit: int) -> None:
        declared = self.headers.get(b"content-length", b"")
        if declared and int(declared) > limit:
            raise _too_large(limit)

    async def _more(self) -> None:
        """Wait for the next part of the body, its end, or that of the connection."""
        if self._gone:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        if self.wanted is not None:
            self.wanted()
        await self._waiter

    def _check_arrival(self) -> None:
        if self._overloaded:
            raise Overloaded(OVERLOADED)
        if self._gone:
            raise BadRequest("The request ended before its body was complete.")

    def hold(self, size: int) -> None:
        """Charge bytes that are made for the answer. Overloaded if the bytes in flight leave no room."""
        if self.peer is not None and not self.peer.hold(self, size):
            raise Overloaded(OVERLOADED)

    def release(self, size: int) -> None:
        """Give back bytes that were charged by `hold`, before the answer is sent."""
        if self.peer is not None:
            self.peer.release(self, size)

    @property
    def turns(self) -> asyncio.Semaphore | None:
        """The turns in which large answers are made; None: this one needs none."""
        return None if self.peer is None else self.peer.turns

    # --- for the connection it comes from --------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """Bytes of the body that have arrived and are not read."""
        return self.size if self._waiter is None else 0

    def feed(self, data: bytes) -> None:
        """Add a part of the body."""
        if not self._dropped:
            self._parts.append(data)
            self.size += len(data)
            if self._waiter is not None:
                self._wake()

    def end(self) -> None:
        """Note that the body is complete."""
        self.ended = True
        if self._waiter is not None:
            self._wake()

    def cut(self, *, overloaded: bool = False) -> None:
        """Note that no more of the body will come. `overloaded`: the server refuses it, else the client ended it."""
        self._gone = not self.ended
        self._overloaded = overloaded
        self._wake()

    def drop(self) -> None:
        """Discard the body, arrived or not, after the request is answered."""
        self._dropped = True
        self._parts.clear()
        self.size = 0

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request is larger than the limit of {limit} bytes.")


def render(response: Response, *, head_only: bool = False, close: bool = False) -> bytes:
    """The bytes of a response, without a body that is streamed. ValueError for a header that would end its line early."""
    status, body = response.status, response.body
    lines = [_STATUS_LINES[status], *map(b": ".join, response.headers)]
    text, ends = b"\r\n".join(lines), len(lines) - 1
    if text.count(b"\n") != ends or text.count(b"\r") != ends:
        raise ValueError("a header holds a character that ends it")
    closing = b"\r\nconnection: close" if close else b""
    if status in BODILESS:
        return b"%b%b\r\n\r\n" % (text, closing)
    if response.stream is not None:
        # Without chunks the end of the connection is the end of the body.
        return b"%b%b\r\n\r\n" % (text, closing or b"\r\ntransfer-encoding: chunked")
    return b"%b\r\ncontent-length: %d%b\r\n\r\n%b" % (text, len(body), closing, b"" if head_only else body)
