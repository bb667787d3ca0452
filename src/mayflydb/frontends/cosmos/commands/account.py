"""The account document, and the feed of what does not exist here."""

from __future__ import annotations

from mayflydb.engine import budget
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.headers import HOST
from mayflydb.frontends.cosmos.resources import account_document
from mayflydb.frontends.cosmos.wire import Response, json_response


async def read(call: CosmosCall) -> Response:
    """GET /: where to send requests, which is where this one came unless another address is advertised."""
    host = call.request.text(HOST) or "localhost"
    address = call.account.resolve_address(f"{call.request.scheme}://{host}")
    return json_response(200, account_document(address), charge=budget.METADATA)


async def empty_feed(call: CosmosCall) -> Response:
    """GET of conflicts: there are none."""
    view = await call.get_owner()
    return metadata.feed(call, "Conflicts", metadata.in_container(view), [])
