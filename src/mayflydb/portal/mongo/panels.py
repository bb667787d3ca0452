"""Databases and collections are made, and dropped after their name was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Mongo
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal.editing import Drop
from mayflydb.portal.forms import describe_error, read_form
from mayflydb.portal.mongo.query import require_mongo
from mayflydb.portal.shell import Shell, Visit, container_address, keep_message
from mayflydb.query.mongo.extended_json import encode_pairs


class CollectionPanels:
    """The forms of collections and databases."""

    def __init__(self, admin: Admin, shell: Shell, mongo: Mongo | None) -> None:
        self._admin, self._shell, self._mongo = admin, shell, mongo

    async def show_new(self, request: Request) -> Response:
        """Show the form of a collection. `database` of the address fills it."""
        return await self._render_new(request, {"database": request.query_params.get("database", "")})

    async def submit_new(self, request: Request) -> Response:
        """Create a collection, and its database with it."""
        sent = await read_form(request)
        database, name = sent.get("database", "").strip(), sent.get("collection", "").strip()
        try:
            if not database or not name:
                raise BadRequest("Database and collection: both need a name.")
            await self._send(database, [("create", name)])
        except MayflyError as error:
            return await self._render_new(request, sent, *describe_error(error))
        there = f"{container_address('mongo', database, name)}/documents"
        return keep_message(RedirectResponse(there, 303), f"Successfully created collection {name}")

    async def _render_new(
        self, request: Request, sent: Mapping[str, str], error: str = "", status: int = 200
    ) -> Response:
        found = await self._admin.targets.list_databases()
        databases = [node.name for target, node in found if target.startswith("mongo:")]
        content = {"sent": sent, "databases": databases, "error": error}
        return await self._shell.page(request, "mongo/new.html", content, status, error)

    async def show_drop(self, visit: Visit) -> Response:
        """Ask for the name of the collection."""
        return await self._render_drop(visit)

    async def submit_drop(self, visit: Visit) -> Response:
        """Drop the collection whose name was typed."""
        if (await read_form(visit.request)).get("confirm") != visit.name:
            return await self._render_drop(visit, f"Type {visit.name} to drop it.", 400)
        try:
            await self._send(visit.database, [("drop", visit.name)])
        except MayflyError as error:
            return await self._render_drop(visit, *describe_error(error))
        return keep_message(RedirectResponse("/_explorer/", 303), f"Successfully deleted collection {visit.name}")

    async def _render_drop(self, visit: Visit, error: str = "", status: int = 200) -> Response:
        documents = f"{visit.address}/documents"
        drop = Drop(
            "Delete Collection", f"{visit.address}/drop", ((visit.database, ""), (visit.name, documents)), visit.name,
            "Confirm by typing the name of the collection",
            "The collection is dropped with its indexes and all of its documents, and cannot be brought back.",
            documents, "DeleteCollectionConfirmationPane", errors=[error] if error else (),
        )  # fmt: skip
        return await self._shell.page(visit.request, "drop.html", {"drop": drop}, status, error)

    async def show_drop_database(self, request: Request) -> Response:
        """Ask for the name of the database."""
        return await self._render_drop_database(request)

    async def submit_drop_database(self, request: Request) -> Response:
        """Drop the database whose name was typed."""
        name = request.path_params["database"]
        if (await read_form(request)).get("confirm") != name:
            return await self._render_drop_database(request, f"Type {name} to drop it.", 400)
        try:
            await self._send(name, [("dropDatabase", 1)])
        except MayflyError as error:
            return await self._render_drop_database(request, *describe_error(error))
        return keep_message(RedirectResponse("/_explorer/", 303), f"Successfully deleted database {name}")

    async def _render_drop_database(self, request: Request, error: str = "", status: int = 200) -> Response:
        name = request.path_params["database"]
        await self._admin.targets.resolve_node(self._admin.targets.name("mongo", name))
        drop = Drop(
            "Delete Database", f"/_explorer/mongo/{quote(name, safe='', errors='surrogatepass')}/drop-database", (), name,
            "Confirm by typing the name of the database",
            "The database is dropped with all of its collections, and cannot be brought back.",
            "/_explorer/", "DeleteDatabaseConfirmationPanel", errors=[error] if error else (),
        )  # fmt: skip
        return await self._shell.page(request, "drop.html", {"drop": drop}, status, error)

    async def _send(self, database: str, command: Sequence[tuple[str, Any]]) -> None:
        await require_mongo(self._mongo).send(database, encode_pairs(command))
