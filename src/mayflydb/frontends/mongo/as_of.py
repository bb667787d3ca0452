"""Reads as of another instant: `comment: {mayflyAsOf: <date>}` in find, aggregate, count and distinct.

A comment is the one argument that every driver sends as it is given.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from bson import DatetimeMS

from mayflydb.engine.catalog import Node, node_as_of
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.expiry.as_of import check_as_of, is_past
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection, Collections
from mayflydb.frontends.mongo.services import Services
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import type_name

AS_OF: Final = "mayflyAsOf"
"""The field of a comment with the date of a read."""

READS: Final = frozenset({"find", "aggregate", "count", "distinct"})


class _CollectionsAsOf(Collections):
    """The collections for reads as of a later instant. Those of an earlier one have their rules from its engine."""

    def from_node(self, node: Node, database: str) -> Collection:
        return super().from_node(node_as_of(node), database)


def services_as_of(services: Services, call: Call) -> Services:
    """Return the services for a command. If its comment has a date, its reads are as of that instant, and so is `call.now`.

    Raise MqlError 14 and 72, and BadRequest as `check_as_of` does.
    """
    comment = call.body.get("comment")
    # Drivers repeat the comment in each getMore; the cursor has its instant.
    if type(comment) is not dict or AS_OF not in comment or call.name == "getMore":
        return services
    given = comment[AS_OF]
    if type(given) is not DatetimeMS:
        raise type_mismatch(f"{call.name}.comment.{AS_OF}", type_name(given), "date")
    if call.name not in READS or call.body.get("tailable"):
        kind = "tailable cursors" if call.name in READS else f"the command '{call.name}'"
        raise MqlError(72, f"{AS_OF} is not supported by Mayfly for {kind}")
    if "autocommit" in call.body or "startTransaction" in call.body:
        raise MqlError(72, f"{AS_OF} is not supported by Mayfly in transactions, which read one instant")
    at = check_as_of(int(given) * MILLISECOND)
    found = copy(services)
    collections: type[Collections] = _CollectionsAsOf
    if is_past(at, call.now):
        call.is_past, collections = True, Collections
        found.engine = engine_as_of(
            services.engine, at, lambda node: services.collections.from_node(node, "").index_keys
        )
    call.now = call.as_of = at
    retention = services.options.change_stream_retention
    found.collections = collections(found.engine, services.contracts, lambda: services.new_uuid().bytes, retention)
    return found
