"""The routes of MongoDB's pages."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Mongo
from mayflydb.portal.forms import read_form
from mayflydb.portal.mongo.document_changes import DocumentChanges
from mayflydb.portal.mongo.documents import DocumentsPage
from mayflydb.portal.mongo.indexes import IndexesPage
from mayflydb.portal.mongo.panels import CollectionPanels
from mayflydb.portal.mongo.query import MongoQueries
from mayflydb.portal.shell import PageHandler, Shell, Visit


def mongo_routes(admin: Admin, shell: Shell, mongo: Mongo | None) -> Iterator[Route]:
    """Yield the routes below `/_explorer/mongo`."""
    documents, indexes = DocumentsPage(admin, shell, mongo), IndexesPage(admin, shell, mongo)
    changes, panels = DocumentChanges(admin, shell, mongo), CollectionPanels(admin, shell, mongo)
    queries = MongoQueries(shell, mongo)

    async def show_query(visit: Visit) -> Response:
        return await queries.page.show(visit.request, queries.place(visit))

    async def show_query_json(visit: Visit) -> Response:
        return await queries.page.show_json(queries.place(visit))

    async def submit_query(visit: Visit) -> Response:
        return await queries.page.submit(visit.request, queries.place(visit), queries.runner(visit))

    async def submit(visit: Visit) -> Response:
        return await indexes.submit(visit, await read_form(visit.request))

    def page(name: str, answer: PageHandler, method: str = "GET") -> Route:
        async def answer_page(request: Request) -> Response:
            database, collection = request.path_params["database"], request.path_params["collection"]
            target = await admin.targets.resolve_names("mongo", database, collection)
            return await answer(Visit(request, target, database))

        return Route(f"/_explorer/mongo/{{database}}/{{collection:path}}/{name}", answer_page, methods=[method])

    yield page("documents", documents.show)
    yield page("documents", changes.choose, "POST")
    yield page("documents.json", documents.show_json)
    yield page("document", changes.show)
    yield page("document", changes.submit, "POST")
    yield page("document.json", changes.show_json)
    yield page("new-document", changes.show_new)
    yield page("new-document", changes.submit_new, "POST")
    yield page("upload", changes.show_upload)
    yield page("upload", changes.submit_upload, "POST")
    yield page("export", changes.export)
    yield page("drop", panels.show_drop)
    yield page("drop", panels.submit_drop, "POST")
    yield Route("/_explorer/new-collection", panels.show_new)
    yield Route("/_explorer/new-collection", panels.submit_new, methods=["POST"])
    yield Route("/_explorer/drop-database/{database}", panels.show_drop_database)
    yield Route("/_explorer/drop-database/{database}", panels.submit_drop_database, methods=["POST"])
    yield page("pass", documents.run_pass, "POST")
    yield page("indexes", indexes.show)
    yield page("indexes", submit, "POST")
    yield page("indexes.json", indexes.show_json)
    yield page("query", show_query)
    yield page("query", submit_query, "POST")
    yield page("query.json", show_query_json)
