"""collMod and the catalogue's lists of time series collections."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.time_series.options import change_buckets, change_expire_after
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document


def describe(collection: Collection, name_only: bool) -> Document:
    """The line of listCollections, as servers up to 8.x print it: without a uuid, and without an index on `_id`."""
    short: Document = {"name": collection.name, "type": "timeseries"}
    return short if name_only else {**short, "options": collection.options, "info": {"readOnly": False}}


OF_OTHERS: Final = (
    *("validator", "validationLevel", "validationAction", "viewOn", "pipeline", "cappedSize", "cappedMax"),
    "changeStreamPreAndPostImages",
)
"""Options of collMod that no time series collection has."""

CHANGED: Final = ("expireAfterSeconds", "timeseries")
"""Options of collMod that change the collection itself."""


async def modify_series(services: Services, call: Call, collection: Collection) -> Document:
    """Carry out collMod, by a change of one catalogue row. Raise MqlError 2, 14, 26, 27, 72, 181, 40415."""
    for name in OF_OTHERS:
        if name in call.body:
            raise MqlError(72, f"collMod cannot set '{name}' on the time-series collection {collection.namespace}")
    dry_run = arguments.flag(call.body, "dryRun", call.name)
    given = {name: call.body[name] for name in CHANGED if name in call.body}

    def change(options: Document) -> Document:
        if "expireAfterSeconds" in given:
            options = change_expire_after(options, given["expireAfterSeconds"], call.now)
        return options if given.get("timeseries") is None else change_buckets(options, given["timeseries"])

    change(collection.options)  # Refused before an index is changed.
    answer: Document = {}
    index = arguments.document(call.body, "index", call.name)
    if index is not None:
        answer = await services.indexing.modify(collection, index, call.now, dry_run)
    if given and not dry_run:
        await services.indexing.change_options(collection, change, call.now)
    return {**answer, "ok": 1.0}
