"""find, count, distinct, and what cursors are asked for: getMore, killCursors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from bson import Int64

from mayflydb.engine import budget
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.capped import TailCursor, check_tailable
from mayflydb.frontends.mongo.charges import afford
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.concerns import time_limit
from mayflydb.frontends.mongo.cursors import FIRST_BATCH, Cursor, Item, Moment
from mayflydb.frontends.mongo.documents import cursor_reply
from mayflydb.frontends.mongo.pipelines import Collected, encoded, find_in_view
from mayflydb.frontends.mongo.reading import CommittedView, FoundCursor, Row, Select, exact_id, rows
from mayflydb.frontends.mongo.reports import visible_count
from mayflydb.frontends.mongo.resolving import environment, select
from mayflydb.frontends.mongo.services import Command, Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin
from mayflydb.frontends.mongo.spending import QUERY
from mayflydb.model.instant import MILLISECOND, Span
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.projection import Projection, compile_projection
from mayflydb.query.mongo.values import MISSING, Document, encode, type_name

FIND_FIELDS: Final = frozenset(
    {
        "filter",
        "sort",
        "projection",
        "skip",
        "limit",
        "batchSize",
        "singleBatch",
        "hint",
        "min",
        "max",
        "collation",
        "let",
        "returnKey",
        "showRecordId",
        "tailable",
        "awaitData",
        "noCursorTimeout",
        "allowPartialResults",
        "allowDiskUse",
        "oplogReplay",
    }
)


AWAIT: Final = 1000
"""Milliseconds that a cursor waits for more, unless its client says so."""

LOOK: Final[Span] = 100 * MILLISECOND
"""What other nodes have written is noticed within so long."""


def session_of(call: Call) -> bytes | None:
    """The session a command comes in, by its bytes."""
    lsid = call.body.get("lsid")
    return bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else None


async def find(services: Services, call: Call) -> Document | bytes:
    """Documents that match, the first batch of them."""
    call.fields(FIND_FIELDS)
    body, name = call.body, call.name
    for field in ("min", "max", "returnKey", "showRecordId"):
        if body.get(field):
            raise MqlError(238, f"find with '{field}' is not supported")
    coll = arguments.text(body, name, name)
    collection = await services.collections.find(call.database, coll)
    if collection is not None and collection.view_on is not None:
        work = await begin(services, call)
        await afford(services, call, collection, QUERY)
        batches, moment = await find_in_view(services, call, work, collection)
        cursor = Cursor(f"{call.database}.{coll}", encoded(batches), moment, lambda: (), 0, session_of(call))
        return await first_batch(services, call, cursor, arguments.whole(body, "batchSize", name))
    env = environment(services, call, collection, body)
    query = arguments.document(body, "filter", name) or {}
    skip, limit = arguments.whole(body, "skip", name, 0) or 0, _limit(body, name)
    order, at_once = arguments.document(body, "sort", name), not body.get("tailable")
    chosen = select(collection, env, query, order, body.get("hint"), skip, limit, by_place=at_once)
    projecting = arguments.document(body, "projection", name)
    projection = _projection(projecting, chosen) if projecting else None
    size = arguments.whole(body, "batchSize", name)
    single = arguments.flag(body, "singleBatch", name) or _is_negative(body.get("limit"))
    namespace = f"{call.database}.{coll}"
    tailable = check_tailable(body, collection)
    if collection is None:
        return cursor_reply(namespace, 0, (), True)
    work = await begin(services, call)
    if tailable:
        if work.aborts:
            raise MqlError(72, "Tailable cursors are not allowed in multi-document transactions.")
        tail = TailCursor(
            services.engine, collection, chosen, projection, session_of(call), bool(body.get("awaitData"))
        )
        return await first_batch(services, call, tail, size)
    by_id = exact_id(query, env, body.get("hint")) is not None
    await afford(services, call, collection, budget.MISS if by_id else QUERY)
    view = work.view
    if size is None and not skip and isinstance(view, CommittedView):
        found = await view.at_id(collection, chosen, call.now)
        if found is not None:
            # One document at most: no cursor is left, and none is needed to hand it out.
            return cursor_reply(namespace, 0, [raw for _, raw in _projected(found, projection)], True)
    moment = Moment(call.now)
    items = _items(rows(view, collection, chosen, moment), projection)
    cursor = FoundCursor(services.engine, collection, items, moment, limit, session_of(call))
    return await first_batch(services, call, cursor, size, single)


def _limit(body: Document, name: str) -> int:
    given: Any = body.get("limit")
    if _is_negative(given):
        return abs(int(given))
    return arguments.whole(body, "limit", name, 0) or 0


def _is_negative(limit: Any) -> bool:
    return type(limit) in (int, Int64, float) and limit < 0


async def _items(source: AsyncIterator[list[Row]], projection: Projection | None) -> AsyncIterator[list[Item]]:
    async for batch in source:
        yield _projected(batch, projection)


def _projected(batch: list[Row], projection: Projection | None) -> list[Item]:
    if projection is None:
        return [(row.record, row.record.value) for row in batch]
    return [(row.record, encode(projection.apply(row.document))) for row in batch]


def _projection(spec: Document, chosen: Select) -> Projection:
    filter = chosen.filter
    if filter is None and chosen.query:
        filter = compile_filter(chosen.query, chosen.env)  # A positional projection asks what the query names.
    return compile_projection(spec, chosen.env, filter, chosen.score)


async def first_batch(services: Services, call: Call, cursor: Cursor, size: int | None, single: bool = False) -> bytes:
    """The first batch of a cursor, which stays open if there is more."""
    cursor.transaction, cursor.spent, cursor.payer = call.transaction, call.spent, call.payer
    batch = await cursor.batch(FIRST_BATCH if size is None else size, call.now)
    id = 0
    if single or cursor.exhausted:
        await cursor.close()
    else:
        id = services.cursors.keep(cursor, arguments.flag(call.body, "noCursorTimeout", call.name))
    inside, beside = cursor.fields(call.now)
    return cursor_reply(cursor.namespace, id, batch, True, inside, **beside)


async def get_more(services: Services, call: Call) -> bytes:
    """The next batch of an open cursor, of what is visible now. One that waits for more does so for `maxTimeMS`, or a second."""
    call.fields({"collection", "batchSize", "term", "lastKnownCommittedOpTime"})
    id = call.body["getMore"]
    if type(id) is not Int64:
        raise type_mismatch("getMore.getMore", type_name(id), "long")
    coll = arguments.text(call.body, "collection", call.name)
    size = arguments.whole(call.body, "batchSize", call.name) or None
    cursors = services.cursors
    cursor = await cursors.find(int(id), f"{call.database}.{coll}", session_of(call), call.transaction)
    limit = time_limit(call) if call.body.get("maxTimeMS") is not None else None
    if limit is not None and not cursor.waits:
        raise bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor")
    services.failpoints.strike_get_more()
    payer = None if cursor.payer is None else await services.collections.find(*cursor.payer)
    if payer is not None:
        await afford(services, call, payer, QUERY)
    call.spent = cursor.spent
    cursor.busy = True
    try:
        if cursor.waits:
            batch = await _patiently(services, call, cursor, size, AWAIT if limit is None else limit)
        else:
            batch = await cursor.batch(size, call.now)
    except BaseException:
        # What it reads has ended with this: another batch would look like the last one.
        cursors.leave(cursor)
        raise
    finally:
        cursor.busy = False
    inside, beside = cursor.fields(call.now)
    if cursor.exhausted:
        cursors.leave(cursor)
    return cursor_reply(cursor.namespace, 0 if cursor.exhausted else cursor.id, batch, False, inside, **beside)


async def _patiently(
    services: Services, call: Call, cursor: Cursor, size: int | None, milliseconds: int
) -> list[bytes]:
    """A batch as soon as there is something to hand out; an empty one when the time, the host's, is over."""
    engine, monotonic = services.engine, services.monotonic
    bell = engine.reaper.bell
    end = monotonic() + milliseconds * MILLISECOND
    while True:
        heard = bell.rings
        batch = await cursor.batch(size, await engine.now())
        left = end - monotonic()
        if batch or cursor.exhausted or left <= 0 or bell.closed:
            return batch
        # Other nodes ring no bell here.
        await bell.wait(heard, left if engine.lease is None else min(left, LOOK))


async def kill_cursors(services: Services, call: Call) -> Document:
    """Close cursors."""
    call.fields({"cursors"})
    given = list(enumerate(arguments.array(call.body, "cursors", call.name)))
    for place, each in given:
        if each is not None and type(each) is not Int64:
            raise type_mismatch(f"{call.name}.cursors.{place}", type_name(each), "long")
    ids = [int(each) for _, each in given if each is not None]
    killed, unknown = await services.cursors.kill(ids)
    return {
        "cursorsKilled": [Int64(id) for id in killed],
        "cursorsNotFound": [Int64(id) for id in unknown],
        "cursorsAlive": [],
        "cursorsUnknown": [],
        "ok": 1.0,
    }


async def count(services: Services, call: Call) -> Document:
    """How many documents match."""
    call.fields({"query", "skip", "limit", "hint", "collation", "fields"})
    collection, chosen = await _chosen(services, call)
    total = 0
    if collection is not None:
        work = await begin(services, call)
        await afford(services, call, collection, QUERY)
        if chosen == Select({}, chosen.env) and collection.view_on is None and not work.aborts:
            work.spent.add(collection.id, QUERY)
            return {"n": await visible_count(services, call, collection), "ok": 1.0}
        async for batch in _documents(services, call, work, collection, chosen):
            total += len(batch)
    return {"n": total, "ok": 1.0}


async def distinct(services: Services, call: Call) -> Document:
    """The different values of a field, arrays unwound once."""
    call.fields({"key", "query", "collation", "hint"})
    key = arguments.text(call.body, "key", call.name)
    collection, chosen = await _chosen(services, call)
    values: dict[Any, Any] = {}
    if collection is not None:
        parts = split_path(key)
        work = await begin(services, call)
        await afford(services, call, collection, QUERY)
        async for batch in _documents(services, call, work, collection, chosen):
            for row in batch:
                for value in find_values(row.document, parts, spread=False):
                    for each in value if type(value) is list else [value]:
                        if each is not MISSING:
                            values.setdefault(chosen.env.collation.order_key(each), each)
    return {"values": list(values.values()), "ok": 1.0}


async def _documents(
    services: Services, call: Call, work: UnitOfWork, collection: Collection, chosen: Select
) -> AsyncIterator[Sequence[Row | Seen]]:
    """What a query finds in a collection or a view."""
    moment = Moment(call.now)
    if collection.view_on is None:
        async for batch in rows(work.view, collection, chosen, moment):
            yield batch
        return
    stages: list[Document] = [{"$match": chosen.query}] if chosen.query else []
    stages += [{f"${name}": number} for name, number in (("skip", chosen.skip), ("limit", chosen.limit)) if number]
    async for documents in Collected(services, call, work, chosen.env, moment).read(collection, stages):
        yield [Seen(document) for document in documents]


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A document that is no record: a view's."""

    document: Document


async def _chosen(services: Services, call: Call) -> tuple[Collection | None, Select]:
    body, name = call.body, call.name
    coll = arguments.text(body, name, name)
    collection = await services.collections.find(call.database, coll)
    env = environment(services, call, collection, body)
    query = arguments.document(body, "query", name) or {}
    skip = arguments.whole(body, "skip", name, 0) or 0
    return collection, select(collection, env, query, None, body.get("hint"), skip, _limit(body, name))


HANDLERS = {
    "find": Command(find, "read", help="gives documents that match"),
    "getMore": Command(get_more, "read", own_time=True, help="gives the next batch of a cursor"),
    "killCursors": Command(kill_cursors, "read", help="closes cursors"),
    "count": Command(count, "read", help="counts documents that match"),
    "distinct": Command(distinct, "read", help="gives the different values of a field"),
}
