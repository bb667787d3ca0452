"""The commands find, count, distinct, getMore and killCursors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from bson import Int64

from mayflydb.engine import prices
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.privileges import CLUSTER, allows
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.capped import TailCursor, check_tailable
from mayflydb.frontends.mongo.charges import reserve
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.concerns import parse_time_limit
from mayflydb.frontends.mongo.cursors import FIRST_BATCH_SIZE, Cursor, CursorItem
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES, cursor_reply
from mayflydb.frontends.mongo.evaluation import Evaluation, Interrupted
from mayflydb.frontends.mongo.pipelines import CollectionSource, find_in_view
from mayflydb.frontends.mongo.protocol.time_limits import run_within
from mayflydb.frontends.mongo.quick_finds import find_quickly
from mayflydb.frontends.mongo.reading import (
    CommittedView,
    DocumentRow,
    QueryCursor,
    Selection,
    bytes_of,
    find_exact_id,
    read_rows,
)
from mayflydb.frontends.mongo.resolving import build_env, compile_selection
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.sessions.work import begin_work
from mayflydb.frontends.mongo.sizes import count_visible
from mayflydb.frontends.mongo.spending import QUERY_PRICE
from mayflydb.model.errors import Overloaded
from mayflydb.model.instant import MILLISECOND, Span
from mayflydb.query.mongo.cheapness import is_cheap_projection
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.paths import Parts, find_values, split_path
from mayflydb.query.mongo.projection import Projection, compile_projection
from mayflydb.query.mongo.stages.base import close_batches
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN, MISSING, Document, encode, is_number, type_name
from mayflydb.query.sorting import sort_in_runs

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


DEFAULT_AWAIT_MS: Final = 1000
"""Milliseconds that an awaiting cursor waits for new results, unless its client says otherwise."""

REMOTE_POLL: Final[Span] = 100 * MILLISECOND
"""The interval in which an awaiting cursor looks for writes of other nodes."""


async def find(services: Services, call: Call) -> Document | bytes:
    """Return the first batch of the documents that match."""
    answer = await find_quickly(services, call)
    if answer is not None:
        return answer
    call.check_fields(FIND_FIELDS)
    body, name = call.body, call.name
    for field in ("min", "max", "returnKey", "showRecordId"):
        if body.get(field):
            raise MqlError(238, f"find with '{field}' is not supported")
    collection_name = arguments.collection_name(body, name)
    collection = await services.collections.find(call.database, collection_name)
    if collection is not None and collection.view_on is not None:
        return await _find_in_view(services, call, collection)
    selection, projection, cheap = await _compile_find(services, call, collection)
    size = arguments.whole_number(body, "batchSize", name)
    single = arguments.flag(body, "singleBatch", name)
    namespace = f"{call.database}.{collection_name}"
    tailable = check_tailable(body, collection)
    if collection is None:
        return cursor_reply(namespace, 0, (), True)
    work = await begin_work(services, call)
    if tailable:
        if work.in_transaction:
            raise MqlError(72, "Tailable cursors are not allowed in multi-document transactions.")
        tail = _build_tail(services, call, collection, selection, projection)
        return await first_batch_reply(services, call, tail, size)
    by_id = find_exact_id(selection.query, selection.env, selection.hint) is not None
    await reserve(services, call, collection, prices.MISS if by_id else QUERY_PRICE)
    view = work.view
    if size is None and cheap and isinstance(view, CommittedView):
        if not by_id:
            found = await view.read_few(collection, selection, call.now)
        else:
            found = None if selection.skip else await view.read_id(collection, selection, call.now)
        if found is not None:
            # All of it fits into one batch: the answer needs no cursor.
            if projection is None:
                return cursor_reply(namespace, 0, [row.record.value for row in found], True)
            items = await _apply_projection(services, call, found, projection)
            return cursor_reply(namespace, 0, [raw for _, raw in items], True)
    read_time = services.read_time_of(call)
    rows = read_rows(view, collection, selection, read_time)
    batches = _cursor_items(rows, projection, cheap, read_time.evaluation)
    cursor = QueryCursor(services.engine, collection, batches, read_time, selection.limit, call.session_id)
    return await first_batch_reply(services, call, cursor, size, single)


async def _compile_find(
    services: Services, call: Call, collection: Collection | None
) -> tuple[Selection, Projection | None, bool]:
    """Compile the query and the projection of find. Return them, and whether the projection is cheap."""
    body, name = call.body, call.name
    env = await build_env(services, call, collection, body)
    if "filter" in body and body["filter"] is None:
        raise type_mismatch("find.filter", "null", "object")
    query, order = arguments.document(body, "filter", name) or {}, arguments.document(body, "sort", name)
    skip, limit = (
        arguments.whole_number(body, "skip", name, 0) or 0,
        arguments.whole_number(body, "limit", name, 0) or 0,
    )
    projecting, hint, by_identity = (
        arguments.document(body, "projection", name),
        arguments.hint(body),
        not body.get("tailable"),
    )

    def compile_both() -> tuple[Selection, Projection | None]:
        selection = compile_selection(collection, env, query, order, hint, skip, limit, by_identity=by_identity)
        return selection, _compile_projection(projecting, selection) if projecting else None

    if not call.is_cheap:
        return *await services.evaluation_of(call).compute(False, call.size, compile_both), False
    if projecting:
        return *compile_both(), env.collation.is_simple and is_cheap_projection(projecting)
    return (
        compile_selection(collection, env, query, order, hint, skip, limit, by_identity=by_identity),
        None,
        True,
    )


async def _apply_projection(
    services: Services, call: Call, found: list[DocumentRow], projection: Projection
) -> list[CursorItem]:
    if bytes_of(row.record for row in found) <= CHEAP_BYTES:
        return _project(found, projection)
    return await services.evaluation_of(call).compute(False, 0, _project, found, projection)


async def _find_in_view(services: Services, call: Call, view: Collection) -> bytes:
    work = await begin_work(services, call)
    await reserve(services, call, view, QUERY_PRICE)
    items, read_time = await find_in_view(services, call, work, view)
    cursor = Cursor(view.namespace, items, read_time, lambda: (), 0, call.session_id)
    return await first_batch_reply(services, call, cursor, arguments.whole_number(call.body, "batchSize", call.name))


def _build_tail(
    services: Services, call: Call, collection: Collection, selection: Selection, projection: Projection | None
) -> TailCursor:
    awaits, read_time = bool(call.body.get("awaitData")), services.read_time_of(call)
    return TailCursor(services.engine, collection, selection, projection, call.session_id, awaits, read_time)


async def _cursor_items(
    source: AsyncIterator[list[DocumentRow]], projection: Projection | None, cheap: bool, evaluation: Evaluation
) -> AsyncIterator[list[CursorItem]]:
    try:
        async for batch in source:
            size = 0 if projection is None else bytes_of(row.record for row in batch)
            yield await evaluation.compute(cheap, size, _project, batch, projection)
    finally:
        await close_batches(source)


def _project(batch: list[DocumentRow], projection: Projection | None) -> list[CursorItem]:
    if projection is None:
        return [(row.record, row.record.value) for row in batch]
    return [(row.record, projection.encode(row.record.value)) for row in batch]


def _compile_projection(spec: Document, selection: Selection) -> Projection:
    filter = selection.filter
    if filter is None and selection.query:
        # A positional projection needs to know which array element the filter matched.
        filter = compile_filter(selection.query, selection.env)
    return compile_projection(spec, selection.env, filter, selection.score)


async def first_batch_reply(
    services: Services, call: Call, cursor: Cursor, size: int | None, single: bool = False
) -> bytes:
    """Return the first batch of a cursor, and keep the cursor open if more results follow."""
    cursor.transaction, cursor.spent, cursor.payer = call.transaction, call.spent, call.payer
    cursor.owner, cursor.in_flight, cursor.epoch = call.owner, services.in_flight, services.engine.epoch
    try:
        batch = await cursor.next_batch(FIRST_BATCH_SIZE if size is None else size, call.now)
    except BaseException:
        await cursor.close()
        raise
    id = 0
    if single or cursor.exhausted:
        await cursor.close()
    else:
        limit = parse_time_limit(call)
        if limit and not cursor.awaits_data:
            spent = services.monotonic() - call.started_monotonic
            cursor.time_left = max(1, limit * MILLISECOND - spent)
        try:
            id = services.cursors.add(cursor, arguments.flag(call.body, "noCursorTimeout", call.name))
        except Overloaded:
            await cursor.close()
            raise
    return cursor_reply(cursor.namespace, id, batch, True, cursor.reply_fields)


async def get_more(services: Services, call: Call) -> bytes:
    """Return the next batch of a cursor, by the present visibility.

    An awaiting cursor waits for results up to `maxTimeMS`, by default one second.
    """
    call.check_fields({"collection", "batchSize", "term", "lastKnownCommittedOpTime"})
    id = call.body["getMore"]
    if type(id) is not Int64:
        raise type_mismatch("getMore.getMore", type_name(id), "long")
    collection_name = arguments.text(call.body, "collection", call.name)
    size = arguments.whole_number(call.body, "batchSize", call.name) or None
    cursors = services.cursors
    namespace = f"{call.database}.{collection_name}"
    cursor = await cursors.get(int(id), namespace, call.owner, call.session_id, call.transaction)
    if cursor.epoch not in (None, services.engine.epoch):
        await cursors.kill([cursor.id])
        raise cursor.build_undone_error()
    limit = parse_time_limit(call) if call.body.get("maxTimeMS") is not None else None
    if limit is not None and not cursor.awaits_data:
        raise bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor")
    services.failpoints.trigger_get_more()
    payer = None if cursor.payer is None else await services.collections.find(*cursor.payer)
    if payer is not None:
        await reserve(services, call, payer, QUERY_PRICE)
    call.spent = cursor.spent
    services.continue_evaluation(call, cursor.read_time.evaluation)
    # Another getMore of the cursor is refused, and a killCursors leaves the generators to this command.
    cursor.busy = True
    try:
        batch = await _next_batch(services, call, cursor, size, limit)
    except BaseException as error:
        # The error has ended the cursor's generators: a further batch would look like a regular end.
        cursors.remove(cursor)
        if cursor.killed and isinstance(error, Interrupted):
            raise MqlError(237, "operation was interrupted because its cursor was killed") from None
        raise
    finally:
        cursor.busy = False
    if cursor.exhausted:
        cursors.remove(cursor)
    else:
        await _recharge(services, cursor)
    return cursor_reply(cursor.namespace, 0 if cursor.exhausted else cursor.id, batch, False, cursor.reply_fields)


async def _recharge(services: Services, cursor: Cursor) -> None:
    """Charge what the cursor keeps now; where that is too much, end it: its batch is not sent, so it has no next one."""
    try:
        services.cursors.recharge(cursor)
    except Overloaded:
        await services.cursors.kill([cursor.id])
        raise


async def _next_batch(
    services: Services, call: Call, cursor: Cursor, size: int | None, limit: int | None
) -> list[bytes]:
    """Return the next batch. Raise MqlError 50 when the time of the command that opened the cursor is over."""
    if cursor.awaits_data:
        return await _await_batch(services, call, cursor, size, DEFAULT_AWAIT_MS if limit is None else limit)
    if cursor.time_left is None:
        return await cursor.next_batch(size, call.now)
    started = services.monotonic()
    # `maxTimeMS` counts what the server does for a cursor, and not the time between its batches.
    batch = await run_within(max(1, cursor.time_left // MILLISECOND), cursor.next_batch(size, call.now))
    cursor.time_left -= services.monotonic() - started
    return batch


async def _await_batch(
    services: Services, call: Call, cursor: Cursor, size: int | None, milliseconds: int
) -> list[bytes]:
    """Return a batch as soon as there are results, and an empty one after `milliseconds` of the host's time."""
    engine, monotonic = services.engine, services.monotonic
    notifier = engine.reaper.notifier
    end = monotonic() + milliseconds * MILLISECOND
    while True:
        # Read before the batch: a write that comes during the read then ends the wait below at once, and is not missed.
        notified = notifier.notifications
        # Each attempt has its own now: the time goes on while the cursor waits.
        batch = await cursor.next_batch(size, await engine.now())
        left = end - monotonic()
        if batch or cursor.exhausted or left <= 0 or notifier.closed:
            return batch
        # Other nodes do not notify this node of their writes, so the cursor polls for those.
        await notifier.wait(notified, left if engine.lease is None else min(left, REMOTE_POLL))


async def kill_cursors(services: Services, call: Call) -> Document:
    """Close cursors."""
    call.check_fields({"cursors"})
    given = list(enumerate(arguments.array(call.body, "cursors", call.name)))
    for position, each in given:
        if each is not None and type(each) is not Int64:
            raise type_mismatch(f"{call.name}.cursors.{position}", type_name(each), "long")
    ids = [int(each) for _, each in given if each is not None]
    user = call.connection.user
    may_kill_all = user is None or user.has_right("server", "admin") or allows(user.grants, ("killAnyCursor",), CLUSTER)
    if not may_kill_all:
        services.cursors.check_owner(ids, call.owner)
    killed, unknown = await services.cursors.kill(ids)
    return {
        "cursorsKilled": [Int64(id) for id in killed],
        "cursorsNotFound": [Int64(id) for id in unknown],
        "cursorsAlive": [],
        "cursorsUnknown": [],
        "ok": 1.0,
    }


async def count(services: Services, call: Call) -> Document:
    """Count the documents that match."""
    call.check_fields({"query", "skip", "limit", "hint", "collation", "fields"})
    collection, selection = await _resolve_query(services, call, _parse_count_limit(call.body))
    total = 0
    if collection is not None:
        work = await begin_work(services, call)
        await reserve(services, call, collection, QUERY_PRICE)
        # The counts of the store answer without reading any document.
        if selection == Selection({}, selection.env) and collection.view_on is None and not work.in_transaction:
            work.spent.add(collection.id, QUERY_PRICE)
            return {"n": await count_visible(services, call, collection), "ok": 1.0}
        async for batch in _read_documents(services, call, work, collection, selection):
            total += len(batch)
    return {"n": total, "ok": 1.0}


async def distinct(services: Services, call: Call) -> Document:
    """Return the distinct values of a field, in their order; an array counts by its elements."""
    call.check_fields({"key", "query", "collation", "hint"})
    key = arguments.text(call.body, "key", call.name)
    if "\0" in key:
        raise bad_value("The key of distinct cannot contain a null byte")
    collection, selection = await _resolve_query(services, call, 0)
    values: dict[Any, Any] = {}
    if collection is not None:
        parts = split_path(key)
        work = await begin_work(services, call)
        await reserve(services, call, collection, QUERY_PRICE)
        evaluation, found = services.evaluation_of(call), _DistinctValues(parts, selection.env)
        async for batch in _read_documents(services, call, work, collection, selection):
            size = sum(len(row.record.value) for row in batch if isinstance(row, DocumentRow))
            cheap = selection.env.collation.is_simple and collection.view_on is None
            await evaluation.compute(cheap, size, found.add, batch)
        values = found.values
    ordered = sort_in_runs([*values.items()], lambda item: item[0])
    return {"values": [value for _, value in ordered], "ok": 1.0}


class _DistinctValues:
    """The distinct values at a path. Raise MqlError 17217 for more than fit into a reply."""

    def __init__(self, parts: Parts, env: Env) -> None:
        self.values: dict[Any, Any] = {}
        self._parts = parts
        self._key_of = env.collation.order_key
        self._bytes = 0

    def add(self, rows: Sequence[DocumentRow | ViewRow]) -> None:
        """Add the values of documents; an array counts by its elements."""
        for row in rows:
            for value in find_values(row.document, self._parts, spread=False):
                for each in value if type(value) is list else [value]:
                    if each is not MISSING and (key := self._key_of(each)) not in self.values:
                        self.values[key] = each
                        self._bytes += len(encode({"": each}))
            if self._bytes > MAX_DOCUMENT_BYTES:
                raise MqlError(17217, "distinct too big, 16mb cap")


async def _read_documents(
    services: Services, call: Call, work: UnitOfWork, collection: Collection, selection: Selection
) -> AsyncIterator[Sequence[DocumentRow | ViewRow]]:
    """The documents that a query finds in a collection or a view."""
    read_time = services.read_time_of(call)
    if collection.view_on is None:
        async for batch in read_rows(work.view, collection, selection, read_time):
            yield batch
        return
    stages: list[Document] = [{"$match": selection.query}] if selection.query else []
    stages += [
        {f"${name}": number} for name, number in (("skip", selection.skip), ("limit", selection.limit)) if number
    ]
    async for documents in CollectionSource(services, call, work, selection.env, read_time).read(collection, stages):
        yield [ViewRow(document) for document in documents]


class ViewRow(msgspec.Struct, frozen=True, gc=False):
    """A document of a view, which is not stored as a record."""

    document: Document


def _parse_count_limit(body: Document) -> int:
    """The most that count counts; 0 for all. Raise MqlError 2 for another type, 9 for a number that is no int64."""
    if "limit" not in body:
        return 0
    limit: Any = body["limit"]
    if not is_number(limit):
        raise bad_value(f"Failed to parse limit: it is of type {type_name(limit)}")
    whole = exact_integer(limit)
    if whole is None or not INT64_MIN <= whole <= INT64_MAX:
        raise failed_to_parse(f"Failed to parse limit: {limit} is no 64-bit integer")
    if whole == INT64_MIN:
        raise bad_value(f"limit value for count cannot be {whole}")
    return abs(whole)


async def _resolve_query(services: Services, call: Call, limit: int) -> tuple[Collection | None, Selection]:
    body, name = call.body, call.name
    collection_name = arguments.collection_name(body, name)
    collection = await services.collections.find(call.database, collection_name)
    env = await build_env(services, call, collection, body)
    query = arguments.document(body, "query", name) or {}
    skip = arguments.whole_number(body, "skip", name, 0) or 0
    compiling = partial(compile_selection, collection, env, query, None, arguments.hint(body), skip, limit)
    selection = await services.evaluation_of(call).compute(True, call.size, compiling)
    return collection, selection


HANDLERS = {
    "find": CommandEntry(find, "read", help="gives documents that match"),
    "getMore": CommandEntry(get_more, "read", handles_time_limit=True, help="gives the next batch of a cursor"),
    "killCursors": CommandEntry(kill_cursors, "read", help="closes cursors"),
    "count": CommandEntry(count, "read", help="counts documents that match"),
    "distinct": CommandEntry(distinct, "read", help="gives the different values of a field"),
}
