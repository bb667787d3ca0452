"""Feeds and queries over databases, containers and other resources that fit in memory, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.catalog import Node
from mayflydb.frontends.cosmos import continuation, queries
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.headers import CONTINUATION, ETAG, ITEM_COUNT, MAX_ITEM_COUNT
from mayflydb.frontends.cosmos.resources import database_rid, feed_body
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response, json_response, owner_paths
from mayflydb.query.cosmos_sql import Context, run

DEFAULT_PAGE_ROWS = 100


def page_size(call: CosmosCall, cap: int = 1000) -> int:
    """Return the number of rows that the client asks for, at most `cap`; -1 asks for `cap`."""
    wanted = call.request.number(MAX_ITEM_COUNT)
    if wanted is None:
        return DEFAULT_PAGE_ROWS
    return cap if wanted < 1 else min(wanted, cap)


class OwnerNames(NamedTuple):
    """The owner of a feed: its path made of ids (`dbs/d/colls/c`), and its rid."""

    path: str
    rid: str


ACCOUNT: Final = OwnerNames("", "")


def in_database(node: Node) -> OwnerNames:
    """Return a database as an owner."""
    return OwnerNames(f"dbs/{node.name}", database_rid(node.id))


def in_container(view: ContainerView) -> OwnerNames:
    """Return a container as an owner."""
    return OwnerNames(f"dbs/{view.database}/colls/{view.node.name}", view.links.rid)


def answer_feed(call: CosmosCall, name: str, owner: OwnerNames, bodies: Sequence[dict[str, Any]]) -> Response:
    """Answer with one page of resource bodies. Their order must not change between pages."""
    return _page(call, name, owner, bodies, ("", None))


async def answer_query(call: CosmosCall, name: str, owner: OwnerNames, bodies: Sequence[dict[str, Any]]) -> Response:
    """Answer with one page of a query over resource bodies."""
    statement = call.statement()
    text, parameters = await queries.parse_body(statement, call.request.body, call.account.limits)
    query = await queries.compile_text(statement, text, parameters, lenient=call.account.lenient)
    # A body has some hundred bytes.
    rows = await statement.call(len(bodies) * 1024, run, query, bodies, Context(call.now))
    return _page(call, name, owner, rows, (text, parameters))


def answer_resource(status: int, body: dict[str, Any], owner: OwnerNames) -> Response:
    """Answer with one resource, its etag and the names of its owner; the account has no names."""
    paths = [] if owner is ACCOUNT else owner_paths(*owner)
    return json_response(status, body, [(ETAG, body["_etag"].encode()), *paths], prices.METADATA)


def answer_no_content(owner: OwnerNames) -> Response:
    """Answer 204, after a resource of this owner was deleted."""
    return Response(204, b"", [] if owner is ACCOUNT else owner_paths(*owner), prices.METADATA)


def _page(
    call: CosmosCall, name: str, owner: OwnerNames, rows: Sequence[Any], text_and_parameters: tuple[str, Any]
) -> Response:
    bound = continuation.binding(0, text_and_parameters[0], text_and_parameters[1], call.request.path.decode("latin-1"))
    token = call.request.text(CONTINUATION)
    start = 0
    if token:
        (position,) = continuation.unseal(call.account.secret, bound, token)
        # The token is a number of rows: the whole result is computed for each page.
        start = position if isinstance(position, int) else 0
    size = page_size(call)
    page = rows[start : start + size]
    headers = [(ITEM_COUNT, b"%d" % len(page)), *([] if owner is ACCOUNT else owner_paths(*owner))]
    if start + size < len(rows):
        headers.append((CONTINUATION, continuation.seal(call.account.secret, bound, (start + size,)).encode()))
    body = feed_body(owner.rid, name, [msgspec.json.encode(row) for row in page])
    return Response(200, body, headers, prices.METADATA)
