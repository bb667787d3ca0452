"""The account document, and the feeds of things that do not exist here."""

from __future__ import annotations

from mayflydb.engine import budget
from mayflydb.frontends.cosmos.calls import NOT_FOUND, Call
from mayflydb.frontends.cosmos.commands.query import CROSS_PARTITION, NOT_ALLOWED
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.resources import account_document, feed_body
from mayflydb.frontends.cosmos.scopes import KEY
from mayflydb.frontends.cosmos.wire import Response, json_response
from mayflydb.model.errors import BadRequest, NotFound

FEEDS = {
    Resource.STORED_PROCEDURE: "StoredProcedures",
    Resource.TRIGGER: "Triggers",
    Resource.USER_DEFINED_FUNCTION: "UserDefinedFunctions",
    Resource.CONFLICT: "Conflicts",
}


async def read(call: Call) -> Response:
    """GET /: where to send requests, which is where this one came."""
    host = call.request.text(b"host") or "localhost"
    return json_response(200, account_document(call.request.scheme, host), charge=budget.METADATA)


async def no_conflict(call: Call) -> Response:
    """GET or DELETE of a conflict: with one region there is none."""
    await call.owner()
    raise NotFound(NOT_FOUND)


async def no_conflicts(call: Call) -> Response:
    """POST of a query over conflicts, which says where as a query over items does."""
    if KEY not in call.request.headers and not call.request.flag(CROSS_PARTITION):
        raise BadRequest(NOT_ALLOWED)
    return await empty_feed(call)


async def empty_feed(call: Call) -> Response:
    """GET of stored procedures, triggers, functions or conflicts: there are none."""
    view = await call.owner()
    body = feed_body(view.owner.rid, FEEDS[call.target.resource], [])
    return Response(200, body, [(b"x-ms-item-count", b"0")], budget.METADATA)
