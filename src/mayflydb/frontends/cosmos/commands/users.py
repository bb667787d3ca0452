"""Users of a database: list, query, create, upsert, read, replace, delete. They own permissions and nothing else."""

from __future__ import annotations

from typing import Any

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.companions import DefinitionMaker, home_of
from mayflydb.frontends.cosmos import policies
from mayflydb.frontends.cosmos.calls import NOT_FOUND, USERS, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.resources import RidKind, parse_rid, user_body
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, NotFound


async def get_user(call: CosmosCall, database: Node) -> Node:
    """Return the user that the path names, by name or rid; NotFound if there is none."""
    name = call.target.user or ""
    path = home_of(USERS, database.id)
    node = await call.engine.node(*path, name)
    rid = parse_rid(name) if node is None else None
    if rid is not None and rid.kind is RidKind.USER and rid.database == database.id:
        home = await call.engine.node(*path)
        found = await call.engine.node_by_id(rid.owner)
        node = found if found is not None and home is not None and found.parent == home.id else None
    if node is None:
        raise NotFound(NOT_FOUND)
    return node


def body_of(database: Node, node: Node) -> dict[str, Any]:
    """Return the body of a user."""
    return user_body(node.name, database.id, node.id, node.definition.version, node.definition.written)


async def _read_bodies(call: CosmosCall, database: Node) -> list[dict[str, Any]]:
    home = await call.engine.node(*home_of(USERS, database.id))
    return [] if home is None else [body_of(database, node) for node in await call.engine.children(home.id)]


async def read_feed(call: CosmosCall) -> Response:
    """GET /dbs/{d}/users."""
    database = await call.get_owning_database()
    return metadata.answer_feed(call, "Users", metadata.in_database(database), await _read_bodies(call, database))


async def query(call: CosmosCall) -> Response:
    """POST /dbs/{d}/users with a query."""
    database = await call.get_owning_database()
    return await metadata.answer_query(
        call, "Users", metadata.in_database(database), await _read_bodies(call, database)
    )


async def create(call: CosmosCall) -> Response:
    """POST /dbs/{d}/users."""
    database, name, home = await _parse_request(call)
    return _answer(201, database, await call.engine.companions.create(home.id, name, _definition_maker(call, database)))


async def upsert(call: CosmosCall) -> Response:
    """POST /dbs/{d}/users with x-ms-documentdb-is-upsert."""
    database, name, home = await _parse_request(call)
    node, is_new = await call.engine.companions.upsert(home.id, name, _definition_maker(call, database), call.now)
    return _answer(201 if is_new else 200, database, node)


async def read(call: CosmosCall) -> Response:
    """GET /dbs/{d}/users/{u}."""
    database = await call.get_owning_database()
    return _answer(200, database, await get_user(call, database))


async def replace(call: CosmosCall) -> Response:
    """PUT /dbs/{d}/users/{u}: a new name for the user, who keeps the permissions."""
    database = await call.get_owning_database()
    node = await get_user(call, database)
    name = _parse_name(call)
    changed = await call.engine.companions.replace(node.id, name, _definition_maker(call, database), call.now)
    return _answer(200, database, changed)


async def delete(call: CosmosCall) -> Response:
    """DELETE /dbs/{d}/users/{u}, with its permissions and the tokens that were issued for them."""
    database = await call.get_owning_database()
    node = await get_user(call, database)
    call.check_if_match(body_of(database, node)["_etag"])
    await call.engine.definitions.drop(node.id)
    return metadata.answer_no_content(metadata.in_database(database))


async def _parse_request(call: CosmosCall) -> tuple[Node, str, Node]:
    """Return the database, the name in the body, and the catalogue node of the database's users."""
    database = await call.get_owning_database()
    name = _parse_name(call)
    home = await call.engine.node(*home_of(USERS, database.id))
    return database, name, home or await call.engine.companions.home(USERS, database.id, call.now)


def _parse_name(call: CosmosCall) -> str:
    body = call.parse_body()
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object that describes a user.")
    for name in body:
        if name != "id" and not name.startswith("_"):
            raise BadRequest(f"The property '{name[:255]}' of the user is not known.")
    return policies.check_name(body.get("id"), "user")


def _definition_maker(call: CosmosCall, database: Node) -> DefinitionMaker:
    def make_definition(before: Node | None) -> Definition:
        if before is not None:
            call.check_if_match(body_of(database, before)["_etag"])
        return Definition({}, call.now)

    return make_definition


def _answer(status: int, database: Node, node: Node) -> Response:
    return metadata.answer_resource(status, body_of(database, node), metadata.in_database(database))
