"""The command convertToCapped.

https://www.mongodb.com/docs/manual/reference/command/convertToCapped/
"""

from __future__ import annotations

from typing import Final

from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.capped import CapEnforcer
from mayflydb.frontends.mongo.collection_options import parse_size
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.decisions import Steps
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

REMOVED_AT_ONCE: Final = 256
"""Documents that one transaction removes."""


async def convert_to_cap(services: Services, call: Call) -> Document:
    """Make a collection capped: its indexes but that of `_id` go, and its oldest documents that are beyond the size.

    The cap is set first. So a process that ends in between leaves a capped collection, which the next insert trims.
    """
    call.check_fields({"size", "bypassDocumentValidation"})
    name = arguments.collection_name(call.body, call.name)
    try:
        size = parse_size(call.body.get("size"), "size", call.name)
    except MqlError as error:
        raise MqlError(72, f"Capped collection size must be greater than zero: {error.message}") from None
    collection = await services.collections.get(call.database, name)
    _check_convertible(collection)
    await services.indexing.drop(collection, "*", call.now)
    options = {each: value for each, value in collection.options.items() if each != "max"}
    await services.collections.replace_options(collection, {**options, "capped": True, "size": size}, call.now)
    capped = await services.collections.get(call.database, name)
    while await services.engine.transact(_trim(capped), call.now):
        await services.evaluation_of(call).take_turn()
    await services.collections.record_event(capped, "modify", {"cappedSize": size}, call.now)
    return {"ok": 1.0}


def _check_convertible(collection: Collection) -> None:
    if collection.view_on is not None:
        raise MqlError(166, f"cannot convert a view to a capped collection: {collection.namespace}")
    if collection.series is not None:
        raise MqlError(166, f"cannot convert a time-series collection to a capped collection: {collection.namespace}")
    if collection.clustered is not None:
        raise MqlError(72, f"cannot convert a clustered collection to a capped collection: {collection.namespace}")


def _trim(collection: Collection) -> Body[bool]:
    """Return the decision that removes the oldest documents beyond the cap; True: there are more."""

    def body(transaction: WriteTransaction) -> Steps[bool]:
        space = yield from transaction.on(collection.id)
        return (yield from CapEnforcer(collection, space).trim(REMOVED_AT_ONCE))

    return body


HANDLERS = {
    "convertToCapped": CommandEntry(convert_to_cap, "schema", help="makes a collection capped"),
}
