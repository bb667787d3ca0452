"""A handler as an ASGI application, for clients in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

from mayflydb.http.asgi import Application, Message
from mayflydb.http.messages import Handler, Request, Response

T = TypeVar("T")


def application(handler: Handler) -> Application:
    """Return the application that answers by a handler, on the loop of both. ValueError for connections other than HTTP."""

    async def answer(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} connections, HTTP alone")
        request = _build_request(scope)
        feeding = asyncio.create_task(_feed(request, receive))
        try:
            await _send(await handler(request), send)
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])

    return answer


def on_loop(target: Application, loop: asyncio.AbstractEventLoop) -> Application:
    """Return an application that runs another one on its own loop, whatever loop calls it."""

    async def answer(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        here = asyncio.get_running_loop()

        async def receive_there() -> Message:
            return await _await_on(here, receive())

        async def send_there(message: Message) -> None:
            await _await_on(here, send(message))

        await _await_on(loop, target(scope, receive_there, send_there))

    return answer


async def _await_on(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> T:
    """Wait for what runs on another loop. A cancelled caller cancels it."""

    async def run() -> T:
        return await awaitable

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))


def _build_request(scope: Message) -> Request:
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    headers = {name.lower(): value for name, value in scope["headers"]}
    return Request(scope["method"], path, headers, scope.get("query_string", b""), scope.get("scheme", "http"))


async def _feed(request: Request, receive: Callable[[], Awaitable[Message]]) -> None:
    """Pass the body on as the handler asks for it, then wait for the client's leaving."""
    wanted = asyncio.Event()
    request.wanted = wanted.set
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            request.cut()
            if request.on_leave is not None:
                request.on_leave()
            return
        request.feed(message.get("body", b""))
        if not message.get("more_body", False):
            request.end()
        else:
            await wanted.wait()
            wanted.clear()


async def _send(response: Response, send: Callable[[Message], Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": list(response.headers)})
    if response.stream is not None:
        async for part in response.stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": response.body})


async def _live(receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
    """Answer the start and the end of the application that this one is part of."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
