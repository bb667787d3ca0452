"""The account document, and the feed of conflicts, which is always empty."""

from __future__ import annotations

from mayflydb.engine import prices
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.headers import HOST
from mayflydb.frontends.cosmos.resources import account_document
from mayflydb.frontends.cosmos.wire import Response, json_response


async def read(call: CosmosCall) -> Response:
    """GET /. Clients send further requests to the address in the answer: that of this request, or the advertised one."""
    host = call.request.text(HOST) or "localhost"
    address = call.account.resolve_address(f"{call.request.scheme}://{host}")
    return json_response(200, account_document(address, call.account.consistency_level), charge=prices.METADATA)


async def read_conflict_feed(call: CosmosCall) -> Response:
    """GET …/conflicts. The feed is empty, since an account of one region has no conflicts."""
    view = await call.get_owning_container()
    return metadata.answer_feed(call, "Conflicts", metadata.in_container(view), [])
