"""Offers, the throughput of databases and containers: list, query, read, replace."""

from __future__ import annotations

from typing import Any

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.throughput import STANDARD, Throughput, decode_offer, encode_offer
from mayflydb.frontends.cosmos import throughput
from mayflydb.frontends.cosmos.calls import NOT_FOUND, SPACE, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.headers import (
    ETAG,
    MIGRATE_TO_AUTOPILOT,
    MIGRATE_TO_MANUAL,
    MIN_THROUGHPUT,
    OFFER_AUTOPILOT,
    OFFER_REPLACE_PENDING,
    OFFER_THROUGHPUT,
    OFFER_TYPE,
)
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.resources import RidKind, container_links, database_rid, offer_body, parse_rid
from mayflydb.frontends.cosmos.splitting import split_ranges
from mayflydb.frontends.cosmos.wire import Response, json_response
from mayflydb.model.errors import BadRequest, NotFound, Unsupported


def parse_throughput(call: CosmosCall) -> Throughput | None:
    """Parse the throughput that a create request asks for. BadRequest in a serverless account, which has none."""
    if level := call.request.text(OFFER_TYPE):
        raise Unsupported(f"The offer type '{level[:100]}' is not supported by Mayfly: set offer throughput instead.")
    wanted = throughput.parse_headers(call.request.text(OFFER_THROUGHPUT), call.request.text(OFFER_AUTOPILOT))
    if wanted is not None and call.account.serverless:
        kind = "database" if call.target.resource is Resource.DATABASE else "container"
        raise BadRequest(f"Setting offer throughput or autopilot on {kind} is not supported for serverless accounts.")
    return wanted


def throughput_of_container(call: CosmosCall, database: Node) -> Throughput | None:
    """Return the throughput of a new container.

    The request decides; without it the container shares that of its database (None), or gets the standard throughput.
    """
    wanted = parse_throughput(call)
    if wanted is None and database.definition.offer is None and not call.account.serverless:
        return STANDARD
    return wanted


def _own_throughput(node: Node) -> Throughput | None:
    offer = node.definition.offer
    return None if offer is None else decode_offer(offer)


def body_of(node: Node, is_database: bool) -> dict[str, Any] | None:
    """Return the body of the offer of a database or container; None without an own offer."""
    offer = _own_throughput(node)
    if offer is None:
        return None
    if is_database:
        rid = database_rid(node.id)
        link = f"dbs/{rid}/"
    else:
        links = container_links(node.parent, node.id)
        rid, link = links.rid, links.self_link
    return offer_body(node.id, link, rid, offer, node.definition.version, node.definition.written)


async def _read_bodies(call: CosmosCall) -> list[dict[str, Any]]:
    if call.account.serverless:
        return []
    space = await call.engine.node(SPACE)
    found: list[dict[str, Any] | None] = []
    for database in [] if space is None else await call.engine.children(space.id):
        found.append(body_of(database, True))
        found += [body_of(container, False) for container in await call.engine.children(database.id)]
    return [body for body in found if body is not None]


async def read_feed(call: CosmosCall) -> Response:
    """GET /offers."""
    return metadata.answer_feed(call, "Offers", metadata.ACCOUNT, await _read_bodies(call))


async def query(call: CosmosCall) -> Response:
    """POST /offers with a query, by which clients find the offer of a resource."""
    return await metadata.answer_query(call, "Offers", metadata.ACCOUNT, await _read_bodies(call))


async def _get_offer_node(call: CosmosCall) -> tuple[Node, bool]:
    rid = parse_rid(call.target.id or "")
    # The rid of an offer holds the id of its database or container.
    node = await call.engine.node_by_id(rid.number) if rid is not None and rid.kind is RidKind.OFFER else None
    if node is None or node.definition.offer is None or call.account.serverless:
        raise NotFound(NOT_FOUND)
    space = await call.engine.node(SPACE)
    return node, space is not None and node.parent == space.id


async def read(call: CosmosCall) -> Response:
    """GET /offers/{rid}."""
    node, is_database = await _get_offer_node(call)
    return _answer(node, is_database)


async def replace(call: CosmosCall) -> Response:
    """PUT /offers/{rid}: a new throughput. Ranges of a container that are too few for it are split in the same commit."""
    node, is_database = await _get_offer_node(call)
    wanted = throughput.parse_content(
        _offer_content(call),
        _own_throughput(node) or STANDARD,
        to_autoscale=call.request.flag(MIGRATE_TO_AUTOPILOT),
        to_manual=call.request.flag(MIGRATE_TO_MANUAL),
    )

    def change(before: Node) -> Definition:
        offer = encode_offer(wanted)
        if is_database:
            return msgspec.structs.replace(before.definition, offer=offer)
        key = PartitionKeyDefinition.from_json(before.body["partitionKey"])
        ranges = split_ranges(before.definition.ranges, wanted.ceiling, key)
        return msgspec.structs.replace(before.definition, offer=offer, ranges=ranges)

    return _answer(await call.engine.definitions.replace(node.id, change, call.now), is_database)


def _offer_content(call: CosmosCall) -> object:
    body = call.parse_body()
    return body.get("content") if isinstance(body, dict) else None


def _answer(node: Node, is_database: bool) -> Response:
    body = body_of(node, is_database) or {}
    headers = [(ETAG, body["_etag"].encode()), (MIN_THROUGHPUT, b"400")]
    # The new throughput and its splits are in force before the answer.
    headers.append((OFFER_REPLACE_PENDING, b"false"))
    return json_response(200, body, headers, prices.METADATA)
