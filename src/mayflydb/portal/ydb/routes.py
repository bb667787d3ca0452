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
from mayflydb.portal.lifecycle import LifecyclePage
from mayflydb.portal.paths import Endpoint, page_routes
from mayflydb.portal.querying import QueryPage
from mayflydb.portal.shell import PageHandler, Shell, Visit
from mayflydb.portal.ydb.creating import CreatePage
from mayflydb.portal.ydb.editing import RowPages
from mayflydb.portal.ydb.indexes import TableIndexes
from mayflydb.portal.ydb.querying import YqlRunner, place_of
from mayflydb.portal.ydb.rows import RowsPage
from mayflydb.portal.ydb.topic import TopicPage, is_topic

BASE = "/_explorer/ydb/{path:path}"


def ydb_routes(admin: Admin, shell: Shell, ydb: Ydb | None) -> Iterator[Route]:
    """Yield the routes below `/_explorer/ydb`."""
    rows, one, queries = RowsPage(admin, shell, ydb), RowPages(admin, shell, ydb), QueryPage(shell)
    topic = TopicPage(admin, shell)
    creating, indexes, lifecycle = CreatePage(shell, one.caller), TableIndexes(shell, one), LifecyclePage(admin, shell)

    async def show_query(visit: Visit) -> Response:
        return await queries.show(visit.request, place_of(visit.address, visit.database, visit.name))

    async def show_query_json(visit: Visit) -> Response:
        return await queries.show_json(place_of(visit.address, visit.database, visit.name))

    async def run_query(visit: Visit) -> Response:
        place = place_of(visit.address, visit.database, visit.name)
        return await queries.submit(visit.request, place, YqlRunner(one.caller(), visit.database))

    async def submit(visit: Visit) -> Response:
        return await rows.submit(visit, await read_form(visit.request))

    def visit(answer: PageHandler) -> Endpoint:
        async def answer_page(request: Request) -> Response:
            target = await admin.targets.resolve_container(f"ydb:/{quote(request.path_params['path'])}")
            if is_topic(target.node) and answer not in (topic.show, topic.show_json):
                # An address that was made for tables, as of a list of what expires.
                return await topic.show(Visit(request, target, target.database))
            return await answer(Visit(request, target, target.database))

        return answer_page

    def page(name: str, show: PageHandler, twin: PageHandler, submit: PageHandler | None = None) -> Iterator[Route]:
        return page_routes(f"{BASE}/{name}", visit(show), visit(twin), None if submit is None else visit(submit))

    yield from page("rows", rows.show, rows.show_json, submit)
    yield Route(f"{BASE}/pass", visit(rows.run_pass), methods=["POST"])
    yield from page("query", show_query, show_query_json, run_query)
    yield from page("row", one.show, one.show_json, one.save)
    yield from page("indexes", indexes.show, indexes.show_json, indexes.submit)
    yield from page("lifecycle", lifecycle.show, lifecycle.show_json, lifecycle.submit)
    yield from page("topic", topic.show, topic.show_json)
    yield from page("new", one.show_new, one.show_new, one.save_new)
    yield Route(f"{BASE}/delete", visit(one.delete_picked), methods=["POST"])
    yield from page("upload", one.show_upload, one.show_upload, one.upload)
    yield Route(f"{BASE}/export", visit(one.export))
    yield from page("drop", one.show_drop, one.show_drop, one.drop)
    yield from page_routes("/_explorer/ydb/{database}/new-table", creating.show, creating.show, creating.submit)
