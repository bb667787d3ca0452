"""The routes of Cosmos DB's pages."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Cosmos
from mayflydb.portal.as_of import read_as_of
from mayflydb.portal.cosmos.containers import Containers
from mayflydb.portal.cosmos.item_changes import ItemChanges
from mayflydb.portal.cosmos.items import ItemsPage, query_text
from mayflydb.portal.cosmos.panels import Panels
from mayflydb.portal.cosmos.query import ItemQueries, query_place
from mayflydb.portal.cosmos.settings import SettingsPage
from mayflydb.portal.forms import read_form
from mayflydb.portal.lifecycle import LifecyclePage
from mayflydb.portal.paths import Endpoint, page_routes
from mayflydb.portal.querying import QueryPage
from mayflydb.portal.shell import PageHandler, Shell, Visit

BASE = "/_explorer/cosmos/{database}/{container}"


def cosmos_routes(admin: Admin, shell: Shell, cosmos: Cosmos) -> Iterator[Route]:
    """Yield the routes below `/_explorer/cosmos`."""
    containers = Containers(cosmos)
    items, settings = ItemsPage(admin, shell, containers, cosmos), SettingsPage(admin, shell, containers)
    changes, panels, queries = ItemChanges(admin, shell, cosmos), Panels(admin, shell, cosmos), QueryPage(shell)
    lifecycle = LifecyclePage(admin, shell)

    async def show_query(visit: Visit) -> Response:
        return await queries.show(visit.request, query_place(visit))

    async def show_query_json(visit: Visit) -> Response:
        return await queries.show_json(query_place(visit))

    async def submit_query(visit: Visit) -> Response:
        return await queries.submit(visit.request, query_place(visit), ItemQueries(cosmos, visit))

    async def export(visit: Visit) -> Response:
        text = query_text(visit.request.query_params)
        runner = ItemQueries(cosmos, visit, read_as_of(visit.request))
        return await queries.export(visit.request, runner, text, visit.name)

    async def submit(visit: Visit) -> Response:
        return await settings.submit(visit, await read_form(visit.request))

    def visit(answer: PageHandler) -> Endpoint:
        async def answer_page(request: Request) -> Response:
            database, container = request.path_params["database"], request.path_params["container"]
            target = await admin.targets.resolve_names("cosmos", database, container)
            return await answer(Visit(request, target, database))

        return answer_page

    def page(name: str, show: PageHandler, twin: PageHandler, submit: PageHandler | None = None) -> Iterator[Route]:
        return page_routes(f"{BASE}/{name}", visit(show), visit(twin), None if submit is None else visit(submit))

    yield from page("items", items.show, items.show_json, changes.choose)
    yield from page("item", items.show_item, items.show_item_json, changes.submit)
    yield from page("new-item", changes.show_new, changes.show_new, changes.submit_new)
    yield from page("upload", changes.show_upload, changes.show_upload, changes.submit_upload)
    yield Route(f"{BASE}/export", visit(export))
    yield from page("query", show_query, show_query_json, submit_query)
    yield from page("delete", panels.show_delete, panels.show_delete, panels.submit_delete)
    yield from page_routes("/_explorer/new-container", panels.show_new, panels.show_new, panels.submit_new)
    yield from page_routes(
        "/_explorer/cosmos/{database}/delete-database",
        panels.show_delete_database,
        panels.show_delete_database,
        panels.submit_delete_database,
    )
    yield from page("settings", settings.show, settings.show_json, submit)
    yield from page("lifecycle", lifecycle.show, lifecycle.show_json, lifecycle.submit)
