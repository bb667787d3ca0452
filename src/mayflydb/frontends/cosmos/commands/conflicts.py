"""Conflicts between regions. Mayfly has one region, so there are none."""

from __future__ import annotations

from mayflydb.frontends.cosmos.calls import NOT_FOUND, CosmosCall
from mayflydb.frontends.cosmos.commands.account import read_conflict_feed
from mayflydb.frontends.cosmos.commands.query import CROSS_PARTITION_DISABLED
from mayflydb.frontends.cosmos.headers import ENABLE_CROSS_PARTITION, PARTITION_KEY
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, NotFound


async def query(call: CosmosCall) -> Response:
    """POST …/conflicts with a query. Its scope is checked as that of a query over items."""
    if PARTITION_KEY not in call.request.headers and not call.request.flag(ENABLE_CROSS_PARTITION):
        raise BadRequest(CROSS_PARTITION_DISABLED)
    return await read_conflict_feed(call)


async def answer_missing(call: CosmosCall) -> Response:
    """GET or DELETE of …/conflicts/{id}."""
    await call.get_owning_container()
    raise NotFound(NOT_FOUND)
