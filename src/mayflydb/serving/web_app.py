"""One Starlette application of the admin API, metrics and the pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mayflydb.admin.operations import Admin
from mayflydb.admin.routes import admin_routes, error_handlers
from mayflydb.http.asgi import handler
from mayflydb.http.messages import Handler
from mayflydb.metrics import exposition

if TYPE_CHECKING:
    from mayflydb.portal.cosmos import Cosmos

MAX_BODY = 64 * 1024
"""Bytes of a request's body. The largest is a settings form with its indexing policy."""


def web_app(admin: Admin, cosmos: Cosmos) -> Handler:
    """The applications behind the HTTP port, except Cosmos DB's front end."""

    async def measurements(request: Request) -> Response:
        return Response(await exposition.render_metrics(admin), media_type=exposition.CONTENT_TYPE)

    pages = Pages(admin, cosmos)
    # The first route that matches answers: the certificate lies below the path of the pages.
    routes = [
        *admin_routes(admin),
        Route("/metrics", measurements),
        Route("/", pages),
        Route("/_explorer/{path:path}", pages),
    ]
    return handler(Starlette(routes=routes, exception_handlers=error_handlers()), MAX_BODY)


class Pages:
    """The pages for people. Their modules are imported with the first request for a page."""

    def __init__(self, admin: Admin, cosmos: Cosmos) -> None:
        self._admin, self._cosmos = admin, cosmos
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            # The import takes a fifth of a second, in which the event loop has to answer other requests.
            self._app = await asyncio.to_thread(self._load)
        await self._app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from mayflydb.portal.routes import pages_app

        return pages_app(self._admin, self._cosmos)
