"""One Starlette application of the admin API, the certificate, metrics and the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mayflydb.admin.operations import Admin, Operation
from mayflydb.admin.problems import CONTENT_TYPE, problem, problem_of
from mayflydb.http.asgi import handler
from mayflydb.http.messages import Handler
from mayflydb.metrics import exposition
from mayflydb.model.errors import BadRequest, MayflyError

if TYPE_CHECKING:
    from mayflydb.portal.cosmos import Cosmos

MAX_BODY = 64 * 1024
PEM = "application/x-pem-file"

Endpoint = Callable[[Request], Awaitable[Response]]


def web_app(admin: Admin, cosmos: Cosmos) -> Handler:
    """Routes from the table of operations, and the few answers that are not JSON."""
    routes: list[BaseRoute] = [
        Route(f"/_mayfly/{operation.path}", _endpoint(operation), methods=[operation.method])
        for operation in admin.operations()
    ]

    async def info(request: Request) -> Response:
        _no_query(request)
        return _json(admin.info(f"{request.scope['scheme']}://{request.headers['host']}"))

    async def certificate(request: Request) -> Response:
        return Response(await admin.ca_pem(), media_type=PEM)

    async def measurements(request: Request) -> Response:
        return Response(await exposition.exposition(admin), media_type=exposition.CONTENT_TYPE)

    pages = Pages(admin, cosmos)
    routes += [
        Route("/_mayfly/info", info),
        Route("/_mayfly/cert", certificate),
        Route("/_explorer/emulator.pem", certificate),
        Route("/metrics", measurements),
        Route("/", pages),
        Route("/_explorer/{path:path}", pages),
    ]
    handlers: Any = {MayflyError: _answer_failure, HTTPException: _answer_refusal, Exception: _answer_bug}
    return handler(Starlette(routes=routes, exception_handlers=handlers), MAX_BODY)


class Pages:
    """The pages for people, which are loaded when the first of them is asked for: a server without visitors does without."""

    def __init__(self, admin: Admin, cosmos: Cosmos) -> None:
        self._admin, self._cosmos = admin, cosmos
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            # It takes a fifth of a second, in which others are answered.
            self._app = await asyncio.to_thread(self._load)
        await self._app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from mayflydb.portal.routes import pages_app

        return pages_app(self._admin, self._cosmos)


def _endpoint(operation: Operation) -> Endpoint:
    decode = msgspec.json.Decoder(operation.takes).decode

    async def from_body(request: Request) -> Response:
        _no_query(request)
        body = await request.body()
        return await answer(lambda: decode(body or b"{}"))

    async def from_query(request: Request) -> Response:
        query = dict(request.query_params)
        return await answer(lambda: msgspec.convert(query, operation.takes, strict=False))

    async def answer(parse: Callable[[], msgspec.Struct]) -> Response:
        try:
            taken = parse()
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(str(error)) from error
        return _json(await operation.call(taken))

    return from_body if operation.method == "POST" else from_query


def _no_query(request: Request) -> None:
    for name in request.query_params:
        raise BadRequest(f"there is no query parameter {name} here")


def _json(document: Any) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


async def _answer_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, MayflyError)
    status, document = problem_of(error)
    return Response(document, status, media_type=CONTENT_TYPE)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}"
    document = problem(error.status_code, error.detail, detail, "the admin API is described in the documentation")
    return Response(document, error.status_code, dict(error.headers or {}), CONTENT_TYPE)


async def _answer_bug(request: Request, error: Exception) -> Response:
    # Starlette raises it again afterwards, so that the listener logs it.
    return Response(problem(500, "Internal error", "the log says more"), 500, media_type=CONTENT_TYPE)
