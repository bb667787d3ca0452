"""The commands convertToCapped and cloneCollectionAsCapped.

https://www.mongodb.com/docs/manual/reference/command/convertToCapped/,
https://www.mongodb.com/docs/manual/reference/command/cloneCollectionAsCapped/
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.capped import CapEnforcer
from mayflydb.frontends.mongo.collection_options import MAX_CAPPED_BYTES, parse_size
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.decisions import Steps
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.pipelines import INSERT_BATCH, insert_prepared
from mayflydb.frontends.mongo.preparing import PreparedInsert
from mayflydb.frontends.mongo.reading import DocumentRow, Selection, read_rows
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.work import ImmediateWork
from mayflydb.frontends.mongo.writing import DocumentWriter
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.stages.base import close_batches
from mayflydb.query.mongo.validation import MAX_NAMESPACE
from mayflydb.query.mongo.values import Document, type_name

REMOVED_AT_ONCE: Final = 256
"""Documents that one transaction removes."""


async def convert_to_cap(services: Services, call: Call) -> Document:
    """Make a collection capped: its indexes but that of `_id` go, and its oldest documents that are beyond the size.

    The cap is set first. So a process that ends in between leaves a capped collection, which the next insert trims. A clustered
    collection is not in the order of insertion, so it is replaced by a copy.
    """
    name = arguments.collection_name(call.body, call.name)
    size = _parse_size(call)
    collection = await _find_source(services, call, name)
    if collection.clustered is not None:
        await _replace_by_copy(services, call, collection, size)
        return {"ok": 1.0}
    await services.indexing.drop(collection, "*", call.now)
    options = {each: value for each, value in collection.options.items() if each != "max"}
    await services.collections.replace_options(collection, {**options, "capped": True, "size": size}, call.now)
    capped = await services.collections.get(call.database, name)
    while await services.engine.transact(_trim(capped), call.now):
        await services.evaluation_of(call).take_turn()
    await services.collections.record_event(capped, "modify", {"cappedSize": size}, call.now)
    return {"ok": 1.0}


async def clone_with_cap(services: Services, call: Call) -> Document:
    """Copy the documents of a collection into a new capped one: the last ones that fit. Indexes are not copied.

    Raise MqlError 2, 14, 26, 48, 72, 73, 166, and 10003 for a document that is larger than the cap.
    """
    name, target = _parse_name(call, call.name), _parse_name(call, "toCollection")
    size = _parse_size(call)
    source = await _find_source(services, call, name)
    there = await services.collections.find(call.database, target)
    if there is not None and there.view_on is not None:
        raise MqlError(166, f"cloneCollectionAsCapped not supported for views: {there.namespace}")
    # A collection of this name is refused by its creation.
    await _copy(services, call, source, target, {"capped": True, "size": size})
    return {"ok": 1.0}


def _parse_name(call: Call, field: str) -> str:
    value = call.body.get(field)
    if type(value) is not str:
        raise type_mismatch(f"{call.name}.{field}", type_name(value), "string")
    return value


def _parse_size(call: Call) -> int:
    """Raise MqlError 72 for what is no number above 0, 2 for more than MAX_CAPPED_BYTES."""
    try:
        return parse_size(call.body.get("size"), "size", call.name)
    except MqlError as error:
        if error.message.startswith(f"BSON field 'size' value must be <= {MAX_CAPPED_BYTES}"):
            raise
        raise MqlError(72, f"Capped collection size must be greater than zero: {error.message}") from None


async def _find_source(services: Services, call: Call, name: str) -> Collection:
    """Find the collection to convert or to copy. Raise MqlError 26, 73, 166."""
    if len(f"{call.database}.{name}".encode("utf-8", "surrogateescape")) > MAX_NAMESPACE:
        raise MqlError(26, f"ns does not exist: {call.database}.{name[:MAX_NAMESPACE]}...")
    if name == "system.views":
        raise bad_value(f"{call.name} cannot be used on the definitions of views: {call.database}.{name}")
    collection = await services.collections.get(call.database, name)
    if collection.view_on is not None or collection.series is not None:
        kind = "views" if collection.view_on is not None else "time-series collections"
        raise MqlError(166, f"{call.name} not supported for {kind}: {collection.namespace}")
    return collection


async def _replace_by_copy(services: Services, call: Call, collection: Collection, size: int) -> None:
    kept = {
        each: value
        for each, value in collection.options.items()
        if each not in ("clusteredIndex", "expireAfterSeconds", "max")
    }
    interim = f"tmp.convertToCapped.{services.chance.getrandbits(64):016x}"
    fresh = await _copy(services, call, collection, interim, {**kept, "capped": True, "size": size})
    try:
        await services.collections.rename(fresh, call.database, collection.name, collection, call.now)
    except BaseException:
        await services.collections.drop(fresh, call.now)
        raise


async def _copy(services: Services, call: Call, source: Collection, target: str, options: Document) -> Collection:
    """Create a collection with the documents of another one, in the order in which they lie there. On failure it is removed."""
    fresh = await services.collections.create(call.database, target, options, call.now)
    env = Env(to_milliseconds(call.now))
    writer, work = DocumentWriter(fresh, env, validates=False), ImmediateWork(services, call)
    evaluation = services.evaluation_of(call)
    found = read_rows(work.view, source, Selection({}, env), services.read_time_of(call))
    try:
        async for rows in found:
            for first in range(0, len(rows), INSERT_BATCH):
                some = rows[first : first + INSERT_BATCH]
                prepared = await evaluation.compute(False, 0, _prepare, writer, some)
                await work.perform(partial(insert_prepared, fresh.id, writer, prepared))
    # Cancellation, too, must not leave half a copy behind.
    except BaseException:
        await services.collections.drop(fresh, call.now)
        raise
    finally:
        await close_batches(found)
    return fresh


def _prepare(writer: DocumentWriter, rows: Sequence[DocumentRow]) -> list[PreparedInsert]:
    return [writer.prepare_insert(row.document, row.record.value) for row in rows]


def _trim(collection: Collection) -> Body[bool]:
    """Return the decision that removes the oldest documents beyond the cap; True: there are more."""

    def body(transaction: WriteTransaction) -> Steps[bool]:
        space = yield from transaction.on(collection.id)
        return (yield from CapEnforcer(collection, space).trim(REMOVED_AT_ONCE))

    return body


HANDLERS = {
    "cloneCollectionAsCapped": CommandEntry(clone_with_cap, "schema", help="copies a collection into a capped one"),
    "convertToCapped": CommandEntry(convert_to_cap, "schema", help="makes a collection capped"),
}
