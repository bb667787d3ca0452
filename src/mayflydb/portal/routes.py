"""The routes of the pages. A GET changes nothing. A form answers with a redirect, so that going back submits nothing again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.admin.operations import Admin
from mayflydb.admin.problems import CONTENT_TYPE, STATUS, problem_of
from mayflydb.admin.wires import Wires
from mayflydb.model.errors import MayflyError
from mayflydb.portal.clock import ClockPage
from mayflydb.portal.connect import ConnectPage
from mayflydb.portal.cosmos.routes import cosmos_routes
from mayflydb.portal.erasure import ErasureLogPage
from mayflydb.portal.events import EventsPage
from mayflydb.portal.finding import FindPage
from mayflydb.portal.guard import GuardPage
from mayflydb.portal.mongo.routes import mongo_routes
from mayflydb.portal.overview import OverviewPage
from mayflydb.portal.paths import page_routes
from mayflydb.portal.shell import OVERVIEW, OVERVIEW_TWIN, Shell
from mayflydb.portal.snapshots import SnapshotsPage
from mayflydb.portal.static import Static
from mayflydb.portal.ttl_advice import AdvicePage
from mayflydb.portal.webhooks import WebhooksPage
from mayflydb.portal.ydb.routes import ydb_routes


def pages_app(admin: Admin, wires: Wires) -> ASGIApp:
    """Build the application of all pages."""
    static = Static()
    shell = Shell(admin, static)

    async def file(request: Request) -> Response:
        return static.answer(request, request.path_params["name"])

    routes = [
        *_server_routes(admin, shell, wires),
        *_snapshot_routes(admin, shell),
        Route("/_explorer/static/{name:path}", file),
        *cosmos_routes(admin, shell, wires.cosmos),
        *mongo_routes(admin, shell, wires.mongo),
        *ydb_routes(admin, shell, wires.ydb),
    ]
    return Starlette(routes=routes, exception_handlers=_error_handlers(shell))


def _server_routes(admin: Admin, shell: Shell, wires: Wires) -> Iterator[Route]:
    """Yield the routes of the pages that are of no container."""
    overview, events, find = OverviewPage(admin, shell, wires), EventsPage(admin, shell), FindPage(admin, shell)
    connect, guard, clock = ConnectPage(admin, shell), GuardPage(admin, shell), ClockPage(admin, shell)
    webhooks, erasure, advice = WebhooksPage(admin, shell), ErasureLogPage(admin, shell), AdvicePage(admin, shell)
    yield from (Route(path, overview.show) for path in OVERVIEW)
    yield Route(OVERVIEW_TWIN, overview.show_json)
    yield from page_routes("/_explorer/find", find.show, find.show_json)
    yield from page_routes("/_explorer/connect", connect.show, connect.show_json)
    yield from page_routes("/_explorer/guard", guard.show, guard.show_json, guard.submit)
    yield from page_routes("/_explorer/advice", advice.show, advice.show_json)
    yield from page_routes("/_explorer/webhooks", webhooks.show, webhooks.show_json, webhooks.submit)
    yield from page_routes("/_explorer/erasure", erasure.show, erasure.show_json)
    yield Route("/_explorer/erasure.jsonl", erasure.download)
    yield from page_routes("/_explorer/due", overview.show_due, overview.show_due_json)
    yield from page_routes("/_explorer/events", events.show, events.show_json)
    yield Route("/_explorer/events.jsonl", events.download)
    yield from page_routes("/_explorer/clock", clock.show, clock.show_json, clock.move)


def _snapshot_routes(admin: Admin, shell: Shell) -> Iterator[Route]:
    snapshots = SnapshotsPage(admin, shell)
    yield from page_routes("/_explorer/snapshots", snapshots.show, snapshots.show_json, snapshots.submit)
    yield Route("/_explorer/snapshots/upload", snapshots.upload, methods=["POST"])
    yield Route("/_explorer/snapshots/{name}.snapshot", snapshots.download)


def _error_handlers(shell: Shell) -> Any:
    """Return Starlette's handlers of exceptions, which answer with a page, or with a problem document."""

    async def answer_failure(request: Request, error: Exception) -> Response:
        assert isinstance(error, MayflyError)
        if request.url.path.endswith(".json"):
            status, document = problem_of(error)
            return Response(document, status, media_type=CONTENT_TYPE)
        status, title = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
        content = {"title": title, "detail": error.message, "hint": word_hint(hint_of(error), "page")}
        return await shell.page(request, "error.html", content, status)

    async def answer_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        content = {"title": error.detail, "detail": f"{request.method} {request.url.path}", "hint": ""}
        return await shell.page(request, "error.html", content, error.status_code)

    return {MayflyError: answer_failure, HTTPException: answer_refusal}
