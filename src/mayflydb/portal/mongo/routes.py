"""The routes of MongoDB's pages."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Mongo
from mayflydb.portal.forms import read_form
from mayflydb.portal.lifecycle import LifecyclePage
from mayflydb.portal.mongo.document_changes import DocumentChanges
from mayflydb.portal.mongo.documents import DocumentsPage
from mayflydb.portal.mongo.indexes import IndexesPage
from mayflydb.portal.mongo.panels import CollectionPanels
from mayflydb.portal.mongo.query import MongoQueries
from mayflydb.portal.paths import Endpoint, page_routes
from mayflydb.portal.shell import PageHandler, Shell, Visit

BASE = "/_explorer/mongo/{database}/{collection:path}"


def mongo_routes(admin: Admin, shell: Shell, mongo: Mongo | None) -> Iterator[Route]:
    """Yield the routes below `/_explorer/mongo`."""
    documents, indexes = DocumentsPage(admin, shell, mongo), IndexesPage(admin, shell, mongo)
    changes, panels = DocumentChanges(admin, shell, mongo), CollectionPanels(admin, shell, mongo)
    queries, lifecycle = MongoQueries(shell, mongo), LifecyclePage(admin, shell)

    async def show_query(visit: Visit) -> Response:
        return await queries.page.show(visit.request, queries.place(visit))

    async def show_query_json(visit: Visit) -> Response:
        return await queries.page.show_json(queries.place(visit))

    async def submit_query(visit: Visit) -> Response:
        return await queries.page.submit(visit.request, queries.place(visit), queries.runner(visit))

    async def submit(visit: Visit) -> Response:
        return await indexes.submit(visit, await read_form(visit.request))

    def visit(answer: PageHandler) -> Endpoint:
        async def answer_page(request: Request) -> Response:
            database, collection = request.path_params["database"], request.path_params["collection"]
            target = await admin.targets.resolve_names("mongo", database, collection)
            return await answer(Visit(request, target, database))

        return answer_page

    def page(name: str, show: PageHandler, twin: PageHandler, submit: PageHandler | None = None) -> Iterator[Route]:
        return page_routes(f"{BASE}/{name}", visit(show), visit(twin), None if submit is None else visit(submit))

    yield from page("documents", documents.show, documents.show_json, changes.choose)
    yield from page("document", changes.show, changes.show_json, changes.submit)
    yield from page("new-document", changes.show_new, changes.show_new, changes.submit_new)
    yield from page("upload", changes.show_upload, changes.show_upload, changes.submit_upload)
    yield Route(f"{BASE}/export", visit(changes.export))
    yield from page("drop", panels.show_drop, panels.show_drop, panels.submit_drop)
    yield from page_routes("/_explorer/new-collection", panels.show_new, panels.show_new, panels.submit_new)
    yield from page_routes(
        "/_explorer/mongo/{database}/drop-database",
        panels.show_drop_database,
        panels.show_drop_database,
        panels.submit_drop_database,
    )
    yield Route(f"{BASE}/pass", visit(documents.run_pass), methods=["POST"])
    yield from page("indexes", indexes.show, indexes.show_json, submit)
    yield from page("lifecycle", lifecycle.show, lifecycle.show_json, lifecycle.submit)
    yield from page("query", show_query, show_query_json, submit_query)
