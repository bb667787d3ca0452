"""One Starlette application of the admin API, metrics and the pages."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mayflydb.admin.import_records import FORMS
from mayflydb.admin.openapi import OCTETS
from mayflydb.admin.operations import Admin
from mayflydb.admin.routes import admin_routes, content_kind, error_handlers
from mayflydb.admin.wires import Wires
from mayflydb.http.asgi import handler
from mayflydb.http.messages import Handler
from mayflydb.http.messages import Request as HttpRequest
from mayflydb.http.messages import Response as HttpResponse
from mayflydb.metrics import exposition

MAX_BODY = 64 * 1024
"""Bytes of a request's body, except of a form."""

MAX_DOCUMENT = 4 * 1024 * 1024
"""Bytes of a resource document. The command cuts larger ones into pieces."""

MAX_UPLOAD = 1 << 40
"""Bytes of a snapshot, or of a file of records, that is uploaded: it is read part by part, and the room that there is decides."""

SNAPSHOTS, SNAPSHOT_FORM = b"/_mayfly/snapshots/", b"/_explorer/snapshots/upload"

IMPORT = b"/_mayfly/data/import"
LARGE = (b"/_mayfly/apply", IMPORT)
"""Paths of documents."""

MAX_FORM = 8 * 1024 * 1024
"""Bytes of a form. The largest has a file of records to upload."""


def web_app(admin: Admin, wires: Wires, page: str | None = None) -> Handler:
    """The applications behind the HTTP port, except Cosmos DB's front end. `page`: HTML instead of the pages for people."""

    async def measurements(request: Request) -> Response:
        return Response(await exposition.render_metrics(admin), media_type=exposition.CONTENT_TYPE)

    async def answer_page(request: Request) -> Response:
        return HTMLResponse(page, headers={"content-security-policy": "default-src 'none'; frame-ancestors 'none'"})

    pages = Pages(admin, wires)
    own = [Route("/", pages), Route("/_explorer/{path:path}", pages)]
    if page is not None:
        own = [Route("/", answer_page), Route("/_explorer/index.html", answer_page)]
    # The first route that matches answers: the certificate lies below the path of the pages.
    routes = [
        *admin_routes(admin),
        Route("/metrics", measurements),
        *own,
    ]
    app = Starlette(routes=routes, exception_handlers=error_handlers())
    api, forms, documents = handler(app, MAX_BODY), handler(app, MAX_FORM), handler(app, MAX_DOCUMENT)
    uploads = handler(app, MAX_UPLOAD, streams=True)

    async def answer(request: HttpRequest) -> HttpResponse:
        kind = content_kind(request.headers.get(b"content-type", b"").decode("latin-1"))
        if (request.path.startswith(SNAPSHOTS) and kind == OCTETS) or (request.path == IMPORT and kind in FORMS):
            return await uploads(request)
        if request.path in LARGE:
            return await documents(request)
        return await (forms if request.path.startswith(b"/_explorer/") else api)(request)

    return answer


class Pages:
    """The pages for people. Their modules are imported with the first request for a page."""

    def __init__(self, admin: Admin, wires: Wires) -> None:
        self._admin, self._wires = admin, wires
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            # The import takes a fifth of a second, in which the event loop has to answer other requests.
            self._app = await asyncio.to_thread(self._load)
        await self._app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from mayflydb.portal.routes import pages_app

        return pages_app(self._admin, self._wires)
