"""An ASGI application as a handler, for the parts that are written with a framework."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from mayflydb.http.messages import Fields, Handler, Request, Response

log = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class Streamed:
    """The response of an application whose body is sent while it is made, as `Response.stream`."""

    def __init__(self, status: int, headers: Fields, stream: AsyncGenerator[bytes, None]) -> None:
        self._start = {"type": "http.response.start", "status": status, "headers": headers, "stream": stream}

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        await send(self._start)
        await send({"type": "http.response.body", "body": b""})


def handler(application: Application, max_body: int, streams: bool = False) -> Handler:
    """Answers are sent whole, except `Streamed` ones. Bodies are received whole, up to `max_body` bytes (beyond, the application
    meets TooLarge); in parts, as they arrive, if it `streams`.

    An application that receives again after the body waits until the client leaves.
    """

    async def handle(request: Request) -> Response:
        start: Message = {}
        parts: list[bytes] = []

        is_read = False
        gone = asyncio.Event()
        request.on_leave = gone.set
        body = request.read_parts(max_body)

        async def receive() -> Message:
            nonlocal is_read
            if is_read:
                await gone.wait()
                return {"type": "http.disconnect"}
            if streams and (part := await anext(body, None)) is not None:
                return {"type": "http.request", "body": part, "more_body": True}
            is_read = True
            rest = b"" if streams else await request.read(max_body)
            return {"type": "http.request", "body": rest, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        # Frameworks look for the task they run in, and a request that has not waited yet has none.
        task = asyncio.create_task(_run(application, _scope(request), receive, send))
        try:
            await task
        except Exception:
            if not parts:
                raise
            # It was answered, and raised again to be logged.
            log.exception("a request failed: %s %s", request.method, request.path.decode("latin-1"))
        headers = [pair for pair in start["headers"] if pair[0] not in (b"content-length", b"connection")]
        return Response(start["status"], b"".join(parts), headers, start.get("stream"))

    return handle


async def _run(application: Application, scope: Message, receive: Any, send: Any) -> None:
    await application(scope, receive, send)


def _scope(request: Request) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote(request.path.decode("latin-1")),
        "raw_path": request.path,
        "query_string": request.query,
        "root_path": "",
        "headers": list(request.headers.items()),
        "mayfly.role": request.role,
    }
