"""Containers and databases are made by a form, and deleted after their names were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Cosmos
from mayflydb.http.messages import check_status
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.portal.editing import Drop
from mayflydb.portal.forms import describe_error, parse_whole_number, read_form
from mayflydb.portal.shell import Shell, Visit, container_address, keep_message

DELETED = "and everything in it is deleted at once, and cannot be brought back."


class Panels:
    """New Container, New Database, Delete Container and Delete Database."""

    def __init__(self, admin: Admin, shell: Shell, cosmos: Cosmos) -> None:
        self._admin, self._shell, self._cosmos = admin, shell, cosmos

    async def show_new(self, request: Request) -> Response:
        """Show the form of a new container. `database` of the address chooses an existing one."""
        database = request.query_params.get("database", "")
        sent = {"databaseMode": "existing", "existing": database} if database else {}
        return await self._render_new(request, sent)

    async def submit_new(self, request: Request) -> Response:
        """Create the database, if it is new, and the container, if one is named."""
        sent = await read_form(request)
        try:
            database, said = await self._create(sent)
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render_new(request, sent, [message], status)
        name = sent.get("container", "").strip()
        there = f"{container_address('cosmos', database, name)}/items" if name else "/_explorer/"
        return keep_message(RedirectResponse(there, 303), said)

    async def _create(self, sent: Mapping[str, str]) -> tuple[str, str]:
        """Create what the form asks for. Return the name of the database, and the message about it."""
        is_new, name = sent.get("databaseMode", "new") == "new", sent.get("container", "").strip()
        database = sent.get("database" if is_new else "existing", "").strip()
        if not database:
            raise BadRequest("A database id is needed.")
        if not is_new and not name:
            raise BadRequest("A container id is needed.")
        shares = is_new and "shared" in sent
        body = _container_body(sent) if name else b""
        said = []
        if is_new:
            headers = _throughput(sent) if shares else {}
            check_status(await self._cosmos("POST", ("dbs",), msgspec.json.encode({"id": database}), headers))
            said.append(f"Successfully created database {database}")
        if name:
            headers = {} if shares else _throughput(sent)
            try:
                check_status(await self._cosmos("POST", ("dbs", database, "colls"), body, headers))
            except MayflyError as error:
                # What the first step has made stays; the form says so.
                error.message = ". ".join([*said, error.message])
                raise
            said.append(f"Successfully created container {name}")
        return database, ". ".join(said)

    async def _render_new(
        self, request: Request, sent: Mapping[str, str], errors: Sequence[str] = (), status: int = 200
    ) -> Response:
        found = await self._admin.targets.list_databases()
        databases = [node.name for target, node in found if target.startswith("cosmos:")]
        content = {"sent": sent, "databases": databases, "errors": errors}
        return await self._shell.page(request, "cosmos/new.html", content, status, " ".join(errors))

    async def show_delete(self, visit: Visit) -> Response:
        """Ask for the name of the container."""
        return await self._render_drop(visit.request, visit.database, visit.name)

    async def submit_delete(self, visit: Visit) -> Response:
        """Delete the container whose name was typed."""
        return await self._drop(visit.request, visit.database, visit.name)

    async def show_delete_database(self, request: Request) -> Response:
        """Ask for the name of the database."""
        return await self._render_drop(request, request.path_params["database"])

    async def submit_delete_database(self, request: Request) -> Response:
        """Delete the database whose name was typed."""
        return await self._drop(request, request.path_params["database"])

    async def _drop(self, request: Request, database: str, container: str | None = None) -> Response:
        typed, name = (await read_form(request)).get("confirm", ""), container or database
        if typed != name:
            return await self._render_drop(request, database, container, [f"Type {name} to delete it."], 400)
        path = ("dbs", database) if container is None else ("dbs", database, "colls", container)
        try:
            check_status(await self._cosmos("DELETE", path))
        except MayflyError as error:
            message, status = describe_error(error)
            return await self._render_drop(request, database, container, [message], status)
        kind = "database" if container is None else "container"
        return keep_message(RedirectResponse("/_explorer/", 303), f"Successfully deleted {kind} {name}")

    async def _render_drop(
        self,
        request: Request,
        database: str,
        container: str | None = None,
        errors: Sequence[str] = (),
        status: int = 200,
    ) -> Response:
        await self._admin.targets.resolve_node(f"cosmos:{quote(database, safe='', errors='surrogatepass')}")
        if container is None:
            address = f"/_explorer/cosmos/{quote(database, safe='', errors='surrogatepass')}/delete-database"
            drop = Drop(
                "Delete Database", address, (), database, "Confirm by typing the database id", f"The database {DELETED}",
                "/_explorer/", "DeleteDatabaseConfirmationPanel", errors=errors,
            )  # fmt: skip
        else:
            base = container_address("cosmos", database, container)
            drop = Drop(
                "Delete Container", f"{base}/delete", ((database, ""), (container, f"{base}/items")), container,
                "Confirm by typing the container id", f"The container {DELETED}", f"{base}/items",
                "DeleteCollectionConfirmationPane", errors=errors,
            )  # fmt: skip
        return await self._shell.page(request, "drop.html", {"drop": drop}, status, " ".join(errors))


def _container_body(sent: Mapping[str, str]) -> bytes:
    """Return the container that a form describes. The front end checks it."""
    paths = [_path(part) for part in sent.get("partitionKey", "").split(",") if part.strip()]
    if not paths:
        raise BadRequest("A partition key is needed, such as /userId.")
    kind = "Hash" if len(paths) == 1 else "MultiHash"
    body: dict[str, Any] = {
        "id": sent["container"].strip(),
        "partitionKey": {"paths": paths, "kind": kind, "version": 2},
    }
    lines = [line for line in sent.get("uniqueKeys", "").splitlines() if line.strip()]
    if lines:
        keys = [{"paths": [_path(part) for part in line.split(",") if part.strip()]} for line in lines]
        body["uniqueKeyPolicy"] = {"uniqueKeys": keys}
    if sent.get("timeToLive") == "no-default":
        body["defaultTtl"] = -1
    elif sent.get("timeToLive") == "on":
        body["defaultTtl"] = parse_whole_number(sent.get("timeToLiveSeconds", ""))
    return msgspec.json.encode(body)


def _path(text: str) -> str:
    return f"/{text.strip().lstrip('/')}"


def _throughput(sent: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the chosen throughput; none: that of the service's default."""
    amount = sent.get("throughput", "").strip()
    if not amount:
        return {}
    number = parse_whole_number(amount)
    if not number:
        raise BadRequest("Throughput is a whole number of RU/s.")
    if sent.get("throughputMode") == "autoscale":
        return {"x-ms-cosmos-offer-autopilot-settings": f'{{"maxThroughput":{number}}}'}
    return {"x-ms-offer-throughput": str(number)}
