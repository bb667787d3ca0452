"""Databases: list, query, create, read, delete."""

from __future__ import annotations

from typing import Any

from mayflydb.engine import prices
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.throughput import encode_offer
from mayflydb.frontends.cosmos import policies
from mayflydb.frontends.cosmos.calls import SPACE, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.commands.offers import parse_throughput
from mayflydb.frontends.cosmos.resources import database_body
from mayflydb.frontends.cosmos.wire import Response


def body_of(node: Node) -> dict[str, Any]:
    """Return the body of a database."""
    definition = node.definition
    return database_body(node.name, node.id, definition.version, definition.written)


async def _read_bodies(call: CosmosCall) -> list[dict[str, Any]]:
    space = await call.engine.node(SPACE)
    return [] if space is None else [body_of(node) for node in await call.engine.children(space.id)]


async def read_feed(call: CosmosCall) -> Response:
    """GET /dbs."""
    return metadata.answer_feed(call, "Databases", metadata.ACCOUNT, await _read_bodies(call))


async def read_state(call: CosmosCall) -> Response:
    """HEAD /dbs, by which a client in direct mode asks how far the account is."""
    return Response(200, b"", (), prices.METADATA)


async def query(call: CosmosCall) -> Response:
    """POST /dbs with a query."""
    return await metadata.answer_query(call, "Databases", metadata.ACCOUNT, await _read_bodies(call))


async def create(call: CosmosCall) -> Response:
    """POST /dbs."""
    name = policies.parse_database(call.parse_body())
    throughput = parse_throughput(call)
    space = await call.engine.definitions.space(SPACE, call.now)
    node = await call.engine.definitions.create(
        space.id, name, Definition({}, call.now, offer=encode_offer(throughput))
    )
    return _answer(201, node)


async def read(call: CosmosCall) -> Response:
    """GET /dbs/{d}."""
    return _answer(200, await call.get_database())


async def delete(call: CosmosCall) -> Response:
    """DELETE /dbs/{d}, with everything in it."""
    node = await call.get_database()
    call.check_if_match(body_of(node)["_etag"])
    await call.engine.definitions.drop(node.id)
    return metadata.answer_no_content(metadata.ACCOUNT)


def _answer(status: int, node: Node) -> Response:
    return metadata.answer_resource(status, body_of(node), metadata.ACCOUNT)
