"""The routes of the pages. A GET changes nothing. A form answers with a redirect, so that going back submits nothing again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mayflydb.admin.operations import Admin
from mayflydb.admin.problems import CONTENT_TYPE, STATUS, problem_of
from mayflydb.engine.timekeeper import Verdict
from mayflydb.model.durations import parse_span
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal import words
from mayflydb.portal.container import Containers
from mayflydb.portal.cosmos import Cosmos
from mayflydb.portal.documents import DocumentsPage
from mayflydb.portal.items import ItemsPage
from mayflydb.portal.overview import OverviewPage
from mayflydb.portal.rows import RowsPage
from mayflydb.portal.settings import SettingsPage
from mayflydb.portal.shell import Shell, Visit, keep_message
from mayflydb.portal.static import Static

PageHandler = Callable[[Visit], Awaitable[Response]]

STEPS: Final = {"+1 min": "1m", "+1 h": "1h", "+1 day": "1d"}


def pages_app(admin: Admin, cosmos: Cosmos) -> ASGIApp:
    """Build the application of all pages."""
    shell, static = Shell(admin), Static()
    overview = OverviewPage(admin, shell)

    async def clock(request: Request) -> Response:
        sent = await _read_form(request)
        return keep_message(RedirectResponse(_return_address(sent), 303), await _move_clock(admin, sent.get("by", "")))

    async def file(request: Request) -> Response:
        return static.answer(request, request.path_params["name"])

    async def overview_json(request: Request) -> Response:
        return await overview.show_json()

    routes = [
        *(Route(path, overview.show) for path in ("/", "/_explorer/", "/_explorer/index.html")),
        Route("/_explorer/index.json", overview_json),
        Route("/_explorer/clock", clock, methods=["POST"]),
        Route("/_explorer/static/{name}", file),
        *_container_routes(admin, shell, Containers(cosmos)),
    ]

    async def answer_failure(request: Request, error: Exception) -> Response:
        assert isinstance(error, MayflyError)
        if request.url.path.endswith(".json"):
            status, document = problem_of(error)
            return Response(document, status, media_type=CONTENT_TYPE)
        status, title = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
        content = {"title": title, "detail": error.message, "hint": str(error.detail.get("hint", ""))}
        return await shell.page(request, "error.html", content, status)

    async def answer_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        content = {"title": error.detail, "detail": f"{request.method} {request.url.path}", "hint": ""}
        return await shell.page(request, "error.html", content, error.status_code)

    handlers: Any = {MayflyError: answer_failure, HTTPException: answer_refusal}
    return Starlette(routes=routes, exception_handlers=handlers)


def _container_routes(admin: Admin, shell: Shell, containers: Containers) -> Iterator[Route]:
    """Yield the routes of a container's pages, for each protocol."""
    items, settings = ItemsPage(admin, shell, containers), SettingsPage(admin, shell, containers)
    documents, rows = DocumentsPage(admin, shell), RowsPage(admin, shell)

    async def submit(visit: Visit) -> Response:
        return await settings.submit(visit, await _read_form(visit.request))

    async def submit_rows(visit: Visit) -> Response:
        return await rows.submit(visit, await _read_form(visit.request))

    def page(space: str, name: str, answer: PageHandler, method: str = "GET") -> Route:
        async def answer_page(request: Request) -> Response:
            database, container = request.path_params["database"], request.path_params["container"]
            target = await admin.targets.resolve_names(space, database, container)
            return await answer(Visit(request, target, database))

        return Route(f"/_explorer/{space}/{{database}}/{{container}}/{name}", answer_page, methods=[method])

    yield page("cosmos", "items", items.show)
    yield page("cosmos", "items.json", items.show_json)
    yield page("cosmos", "item", items.show_item)
    yield page("cosmos", "item.json", items.show_item_json)
    yield page("cosmos", "settings", settings.show)
    yield page("cosmos", "settings", submit, "POST")
    yield page("cosmos", "settings.json", settings.show_json)
    yield page("mongo", "documents", documents.show)
    yield page("mongo", "documents.json", documents.show_json)
    yield page("mongo", "pass", documents.run_pass, "POST")

    def path_page(name: str, answer: PageHandler, method: str = "GET") -> Route:
        async def answer_page(request: Request) -> Response:
            target = await admin.targets.resolve_container(f"ydb:/{quote(request.path_params['path'])}")
            return await answer(Visit(request, target, target.database))

        return Route(f"/_explorer/ydb/{{path:path}}/{name}", answer_page, methods=[method])

    yield path_page("rows", rows.show)
    yield path_page("rows", submit_rows, "POST")
    yield path_page("rows.json", rows.show_json)
    yield path_page("pass", rows.run_pass, "POST")


async def _read_form(request: Request) -> dict[str, str]:
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError:
        raise BadRequest("a form is sent in UTF-8") from None
    return dict(parse_qsl(text, keep_blank_values=True))


def _return_address(sent: dict[str, str]) -> str:
    """Return the path of the form's page. Only a path of these pages is accepted, so that no form redirects to another site."""
    back = sent.get("back", "")
    # A backslash is refused: browsers read it as a slash.
    return back if back.startswith("/_explorer/") and "\\" not in back else "/_explorer/"


VERDICTS: Mapping[str, Verdict] = {"accept": "accept", "reject": "reject"}


async def _move_clock(admin: Admin, by: str) -> str:
    """Move the clock as a button says, and return the message about it."""
    if by == "resume":
        await admin.clock.resume()
        return "The clock ticks"
    if by == "freeze":
        await admin.clock.freeze()
        return "The clock stands still"
    if (verdict := VERDICTS.get(by)) is not None:
        shown = await admin.clock.settle(verdict)
        return f"The {'later' if by == 'accept' else 'earlier'} time holds: it is {shown['now']}"
    if by not in (*STEPS, "next"):
        raise BadRequest(f"the clock has no button {by!r}")
    done = await admin.clock.advance(parse_span(STEPS[by]) if by in STEPS else None)
    length = words.seconds(int(done["advanced_seconds"]))
    if by == "next" and not done["advanced_seconds"]:
        return "Nothing is going to expire"
    return f"Advanced {length}: {words.number(done['expired'])} expired, {words.number(done['purged'])} purged"
