"""The routes of Cosmos DB's pages."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Cosmos
from mayflydb.portal.cosmos.containers import Containers
from mayflydb.portal.cosmos.item_changes import ItemChanges
from mayflydb.portal.cosmos.items import ItemsPage
from mayflydb.portal.cosmos.panels import Panels
from mayflydb.portal.cosmos.query import ItemQueries, query_place
from mayflydb.portal.cosmos.settings import SettingsPage
from mayflydb.portal.forms import read_form
from mayflydb.portal.querying import QueryPage
from mayflydb.portal.shell import PageHandler, Shell, Visit


def cosmos_routes(admin: Admin, shell: Shell, cosmos: Cosmos) -> Iterator[Route]:
    """Yield the routes below `/_explorer/cosmos`."""
    containers = Containers(cosmos)
    items, settings = ItemsPage(admin, shell, containers, cosmos), SettingsPage(admin, shell, containers)

    changes, panels, queries = ItemChanges(admin, shell, cosmos), Panels(admin, shell, cosmos), QueryPage(shell)

    async def show_query(visit: Visit) -> Response:
        return await queries.show(visit.request, query_place(visit))

    async def show_query_json(visit: Visit) -> Response:
        return await queries.show_json(query_place(visit))

    async def submit_query(visit: Visit) -> Response:
        return await queries.submit(visit.request, query_place(visit), ItemQueries(cosmos, visit))

    async def submit(visit: Visit) -> Response:
        return await settings.submit(visit, await read_form(visit.request))

    def page(name: str, answer: PageHandler, method: str = "GET") -> Route:
        async def answer_page(request: Request) -> Response:
            database, container = request.path_params["database"], request.path_params["container"]
            target = await admin.targets.resolve_names("cosmos", database, container)
            return await answer(Visit(request, target, database))

        return Route(f"/_explorer/cosmos/{{database}}/{{container}}/{name}", answer_page, methods=[method])

    yield page("items", items.show)
    yield page("items.json", items.show_json)
    yield page("item", items.show_item)
    yield page("item.json", items.show_item_json)
    yield page("items", changes.choose, "POST")
    yield page("item", changes.submit, "POST")
    yield page("new-item", changes.show_new)
    yield page("new-item", changes.submit_new, "POST")
    yield page("upload", changes.show_upload)
    yield page("upload", changes.submit_upload, "POST")
    yield page("query", show_query)
    yield page("query", submit_query, "POST")
    yield page("query.json", show_query_json)
    yield page("delete", panels.show_delete)
    yield page("delete", panels.submit_delete, "POST")
    yield Route("/_explorer/new-container", panels.show_new)
    yield Route("/_explorer/new-container", panels.submit_new, methods=["POST"])
    yield Route("/_explorer/delete-database/{database}", panels.show_delete_database)
    yield Route("/_explorer/delete-database/{database}", panels.submit_delete_database, methods=["POST"])
    yield page("settings", settings.show)
    yield page("settings", submit, "POST")
    yield page("settings.json", settings.show_json)
