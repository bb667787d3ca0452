"""The routes of YDB's pages."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Ydb
from mayflydb.portal.forms import read_form
from mayflydb.portal.querying import QueryPage
from mayflydb.portal.shell import PageHandler, Shell, Visit
from mayflydb.portal.ydb.creating import CreatePage
from mayflydb.portal.ydb.editing import RowPages
from mayflydb.portal.ydb.querying import YqlRunner, place_of
from mayflydb.portal.ydb.rows import RowsPage


def ydb_routes(admin: Admin, shell: Shell, ydb: Ydb | None) -> Iterator[Route]:
    """Yield the routes below `/_explorer/ydb`."""
    rows, one, queries = RowsPage(admin, shell, ydb), RowPages(admin, shell, ydb), QueryPage(shell)
    creating = CreatePage(shell, one.caller)

    async def show_query(visit: Visit) -> Response:
        return await queries.show(visit.request, place_of(visit.address, visit.database, visit.name))

    async def run_query(visit: Visit) -> Response:
        place = place_of(visit.address, visit.database, visit.name)
        return await queries.submit(visit.request, place, YqlRunner(one.caller(), visit.database))

    async def submit(visit: Visit) -> Response:
        return await rows.submit(visit, await read_form(visit.request))

    def page(name: str, answer: PageHandler, method: str = "GET") -> Route:
        async def answer_page(request: Request) -> Response:
            target = await admin.targets.resolve_container(f"ydb:/{quote(request.path_params['path'])}")
            return await answer(Visit(request, target, target.database))

        return Route(f"/_explorer/ydb/{{path:path}}/{name}", answer_page, methods=[method])

    yield page("rows", rows.show)
    yield page("rows", submit, "POST")
    yield page("rows.json", rows.show_json)
    yield page("pass", rows.run_pass, "POST")
    yield page("query", show_query)
    yield page("query", run_query, "POST")
    yield page("row", one.show)
    yield page("row", one.save, "POST")
    yield page("row.json", one.show_json)
    yield page("new", one.show_new)
    yield page("new", one.save_new, "POST")
    yield page("delete", one.delete_picked, "POST")
    yield page("upload", one.show_upload)
    yield page("upload", one.upload, "POST")
    yield page("export", one.export)
    yield page("drop", one.show_drop)
    yield page("drop", one.drop, "POST")
    yield Route("/_explorer/ydb/{database}/new-table", creating.show)
    yield Route("/_explorer/ydb/{database}/new-table", creating.submit, methods=["POST"])
