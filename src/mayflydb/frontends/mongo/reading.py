"""Reads of the records that match a query: by `_id`, by an index, or by a scan, in the requested order."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from bson import Regex

from mayflydb.engine.catalog import Index
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import SCAN_BATCH, Scope
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.expiry.as_of import rules_as_of
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.cursors import Cursor, CursorItem, ReadTime
from mayflydb.frontends.mongo.evaluation import Evaluation
from mayflydb.frontends.mongo.spending import QUERY_PRICE, SpentUnits
from mayflydb.frontends.mongo.time_series.reading import read_by_ids
from mayflydb.frontends.mongo.truncated_keys import TruncatedKeySorter
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record
from mayflydb.query.mongo.cheapness import is_cheap_query
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.indexes.exact import exact_range, find_exact_plan, shape_of
from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.indexes.planner import Plan, plan
from mayflydb.query.mongo.indexes.specs import ID
from mayflydb.query.mongo.sort import Sort, compile_sort
from mayflydb.query.mongo.stages.base import BATCH_SIZE, MEMORY_LIMIT, close_batches, memory_error
from mayflydb.query.mongo.values import Document, decode
from mayflydb.query.sorting import sort_in_runs
from mayflydb.sockets.in_flight import SMALL_ANSWER

CHEAP_SORT: Final = 500
"""Number of rows that are sorted on the event loop."""

MAX_UNORDERED_READS: Final = 1_000
"""Records that a query may scan because `_id` has no ordered index. A query that scans more requests the index."""

MAX_FEW: Final = 100
"""Index entries of a query that is answered without a cursor: fewer than a first batch holds."""

MAX_SEEK_RECORDS: Final = 10_000
"""Maximum records whose numbers a seek collects in memory. Above that, records are read in the order of the index."""


class DocumentRow:
    """A record and its document, which is decoded on first use."""

    __slots__ = ("_document", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self._document: Document | None = None

    @property
    def document(self) -> Document:
        if self._document is None:
            self._document = decode(self.record.value)
        return self._document


class Selection(msgspec.Struct, frozen=True):
    """A compiled query: filter, order, skip, limit and hint.

    `filter` None: every document that is read matches. Either the query is empty, or the read is by the identity of an `_id`
    (see `find_exact_id`). `is_large`: the query has so many values that planning it takes long.
    """

    query: Document
    env: Env
    filter: Filter | None = None
    sort: Sort | None = None
    order: Document = {}
    skip: int = 0
    limit: int = 0
    hint: Any = None
    score: Callable[[Document], float] | None = None
    is_large: bool = False

    @property
    def is_cheap(self) -> bool:
        """True if matching takes time linear in the bytes of the documents."""
        return self.env.collation.is_simple and is_cheap_query(self.query)


# With a regular expression, `_id` may match many strings: no single identity answers the query.
_REGEX_TYPES: Final = (Regex, re.Pattern)


def find_id_equality(query: Document) -> Any:
    """The only value of `_id` that a query asks for, in a list, because the value may be None; None: any other query."""
    if len(query) != 1 or "_id" not in query:
        return None
    value = query["_id"]
    if type(value) is dict:
        if len(value) == 1 and "$eq" in value and type(value["$eq"]) not in _REGEX_TYPES:
            return [value["$eq"]]
        return None if any(name.startswith("$") for name in value) else [value]
    if type(value) is list:
        return None  # Arrays with an equal element would match, too.
    return None if type(value) in _REGEX_TYPES else [value]


def find_exact_id(query: Document, env: Env, hint: Any) -> Any:
    """The `_id` of a query whose only possible match is the document of that identity, in a list; None: any other query."""
    return find_id_equality(query) if hint is None and env.collation.is_simple else None


class QueryCursor(Cursor):
    """The cursor of a query on a collection. Each batch uses the collection's rules of its instant."""

    def __init__(
        self,
        engine: Engine,
        collection: Collection,
        items: AsyncIterator[list[CursorItem]],
        read_time: ReadTime,
        limit: int,
        session: bytes | None,
    ) -> None:
        super().__init__(collection.namespace, items, read_time, lambda: self._rules_now, limit, session)
        self._engine = engine
        self._collection = collection.id
        self._rules_now = collection.node.rules

    async def next_batch(self, size: int | None, now: Instant) -> list[bytes]:
        """Return a batch. Raise MqlError 175 for a further batch when the collection is gone."""
        # The first batch has no id yet: its collection was just found. A transaction reads its snapshot, where it still
        # exists.
        if self.id and self.transaction is None:
            node = await self._engine.node_by_id(self._collection)
            if node is None:
                raise MqlError(175, f"query plan killed :: caused by :: {self.namespace} dropped")
            is_later = self.read_time.as_of is not None and not self.read_time.is_past
            self._rules_now = rules_as_of(node.rules) if is_later else node.rules
        return await super().next_batch(size, now)


class ReadView(Protocol):
    """The state that a command reads: the committed state, or a transaction's."""

    keeps_clusters: bool
    """True if what is read by the index of a clustered collection comes in its order."""

    def rows(
        self, collection: Collection, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[DocumentRow]]:
        """The rows that match and are visible; in the requested order where `is_ordered` says so."""

    def is_ordered(self, collection: Collection, selection: Selection) -> bool:
        """True if `rows` returns rows in the requested order."""


class CommittedView:
    """A view of the committed state. `keys_read`, `documents_read`: numbers of index entries and of records read so far."""

    keeps_clusters = True

    def __init__(
        self, engine: Engine, request_id_index: Callable[[Collection], None] = lambda collection: None
    ) -> None:
        """`request_id_index`: called for a collection where an ordered index of `_id` would have spared a scan."""
        self._engine = engine
        self._request_id_index = request_id_index
        self.keys_read = 0
        self.documents_read = 0
        self.spent = SpentUnits()
        self._chosen: tuple[Selection, Plan] | None = None

    async def rows(
        self, collection: Collection, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[DocumentRow]]:
        """Read by the planner's choice, in the requested order if the plan has it."""
        found = await self.read_id(collection, selection, read_time.now)
        if found is not None:
            yield found
            return
        known = self._chosen
        if known is not None and known[0] is selection:
            chosen = known[1]
        else:
            chosen = await read_time.evaluation.compute(not selection.is_large, 0, plan_query, collection, selection)
        count_accesses(collection, chosen)
        is_exact = chosen.kind == "walk" and _is_decided(collection, chosen, selection)
        self.spent.add(collection.id, QUERY_PRICE)
        read_count = 0
        candidates = self._candidates(collection, chosen, selection, read_time)
        try:
            async for records in candidates:
                read_count += len(records)
                found = await match_rows(records, selection, read_time.evaluation, is_exact)
                self.spent.add_query_read(collection.id, records, len(found))
                yield found
        finally:
            # Else its records would stay until the event loop has closed one generator after the other.
            await close_batches(candidates)
        # Only now, when the scan has cost something: small collections never need the index.
        if chosen.kind == "scan" and read_count > MAX_UNORDERED_READS and would_use_id_index(collection, selection):
            self._request_id_index(collection)

    def is_ordered(self, collection: Collection, selection: Selection) -> bool:
        plan = plan_query(collection, selection)
        self._chosen = selection, plan
        return plan.sorted

    async def read_id(self, collection: Collection, selection: Selection, now: Instant) -> list[DocumentRow] | None:
        """The complete answer to a query for one `_id`; None: it is another query, which `rows` answers."""
        ids = find_exact_id(selection.query, selection.env, selection.hint)
        if ids is None or collection.series is not None:
            return None
        collection.usage.accesses[collection.id_index.name] += 1
        found = await self._find_by_ids(collection, ids, now)
        self.spent.add_point_read(collection.id, [row.record for row in found])
        return found

    async def read_few(self, collection: Collection, selection: Selection, now: Instant) -> list[DocumentRow] | None:
        """The complete answer to a cheap query that an index narrows to MAX_FEW entries, and to CHEAP_BYTES of documents.

        None: it is another query, which `rows` answers.
        """
        if selection.sort is not None or selection.is_large or not selection.query or not selection.is_cheap:
            return None
        plan = plan_query(collection, selection)
        self._chosen = selection, plan
        if plan.kind != "seek":
            return None
        index, indexes, node = index_of(collection, plan), self._engine.indexes, collection.node
        seqs = await indexes.seek(node, index, [KeyRange(*each) for each in plan.ranges], MAX_FEW)
        records = None if seqs is None else await indexes.fetch_few(node, seqs, now)
        if seqs is None or records is None or bytes_of(records) > CHEAP_BYTES:
            return None
        await self._check_index_exists(collection, index)
        count_accesses(collection, plan)
        rows = matching_rows(records, selection.filter)
        self.keys_read += len(seqs)
        self.documents_read += len(records)
        self.spent.add(collection.id, QUERY_PRICE)
        self.spent.add_query_read(collection.id, records, len(rows))
        rows = rows[selection.skip :] if selection.skip else rows
        return rows[: selection.limit] if selection.limit else rows

    def _candidates(
        self, collection: Collection, plan: Plan, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[Record]]:
        """A superset of the records that match, each once."""
        if plan.kind == "scan":
            return (
                self._scan(collection, read_time)
                if not plan.descending
                else self._scan_backwards(collection, read_time)
            )
        if plan.kind == "walk":
            return self._walk(collection, plan, selection, read_time)
        if plan.kind == "seek":
            return self._seek(collection, plan, selection, read_time)
        if plan.kind == "either":
            return self._read_union(collection, plan, selection, read_time)
        return self._read_ids(collection, plan, read_time)

    async def _scan(self, collection: Collection, read_time: ReadTime) -> AsyncIterator[list[Record]]:
        batches = self._engine.scan(collection.node, Scope(), None, read_time.now)
        try:
            async for batch in batches:
                self.documents_read += len(batch.records)
                yield batch.records
        finally:
            await close_batches(batches)

    async def _scan_backwards(self, collection: Collection, read_time: ReadTime) -> AsyncIterator[list[Record]]:
        found: list[Record] = []
        async for records in self._scan(collection, read_time):
            await read_time.evaluation.take_turn()
            found += records
        found.reverse()
        for first in range(0, len(found), SCAN_BATCH):
            yield found[first : first + SCAN_BATCH]

    async def _read_ids(self, collection: Collection, plan: Plan, read_time: ReadTime) -> AsyncIterator[list[Record]]:
        if collection.series is not None:
            reads = partial(self._engine.scan, collection.node, after=None, now=read_time.now)
            async for records in read_by_ids(plan.ids, reads):
                await read_time.evaluation.take_turn()
                self.documents_read += len(records)
                yield records
            return
        yield [row.record for row in await self._find_by_ids(collection, plan.ids, read_time.now, read_time.evaluation)]

    async def _find_by_ids(
        self, collection: Collection, ids: Sequence[Any], now: Instant, evaluation: Evaluation | None = None
    ) -> list[DocumentRow]:
        """`evaluation`: takes turns between the reads of many documents."""
        found: list[DocumentRow] = []
        if evaluation is None:
            identities = _identities_of(ids)
        else:
            identities = await evaluation.compute(len(ids) <= MAX_UNORDERED_READS, 0, _identities_of, ids)
        for identity in identities:
            if evaluation is not None:
                await evaluation.take_turn()
            record = await self._engine.get(collection.node, identity.partition, identity.key, now)
            if record is not None:
                found.append(DocumentRow(record))
        self.keys_read += len(found)
        self.documents_read += len(found)
        return found

    async def _seek(
        self, collection: Collection, plan: Plan, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[Record]]:
        index = index_of(collection, plan)
        indexes = self._engine.indexes
        # Records are collected by number, then read in the order of creation, each once, however many keys match.
        seqs = await indexes.seek(collection.node, index, [KeyRange(*each) for each in plan.ranges], MAX_SEEK_RECORDS)
        if seqs is None:
            async for records in self._walk(collection, plan, selection, read_time):
                yield records
            return
        self.keys_read += len(seqs)
        async for records in indexes.fetch(collection.node, seqs, read_time.now, SCAN_BATCH):
            self.documents_read += len(records)
            yield records
        await self._check_index_exists(collection, index)

    async def _walk(
        self, collection: Collection, plan: Plan, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[Record]]:
        index = index_of(collection, plan)
        # With a limit, a batch of twice the wanted size is mostly enough: some records do not match.
        batch = min(SCAN_BATCH, max(16, 2 * (selection.skip + selection.limit))) if selection.limit else SCAN_BATCH
        seen: set[int] = set()
        sorter = TruncatedKeySorter(_walk_order(plan, selection))
        for lower, upper in reversed(plan.ranges) if plan.descending else plan.ranges:
            within = KeyRange(lower, upper)
            found = self._engine.indexes.walk(collection.node, index, within, plan.descending, read_time.now, batch)
            async for pairs in found:
                self.keys_read += len(pairs)
                self.documents_read += len(pairs)
                fresh: list[tuple[bytes, Record]] = []
                for key, record in pairs:
                    # A multikey index has several keys of one record. The first in the direction of the walk gives its
                    # place.
                    if not plan.duplicates or record.seq not in seen:
                        fresh.append((key, record))
                        if plan.duplicates:
                            seen.add(record.seq)
                yield await read_time.evaluation.compute(True, sorter.held_bytes, sorter.add, fresh)
        yield await read_time.evaluation.compute(True, sorter.held_bytes, sorter.flush)
        await self._check_index_exists(collection, index)

    async def _read_union(
        self, collection: Collection, plan: Plan, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[Record]]:
        seen: set[int] = set()
        for branch in plan.branches:
            async for records in self._candidates(collection, branch, selection, read_time):
                fresh = [record for record in records if record.seq not in seen]
                seen.update(record.seq for record in fresh)
                yield fresh

    async def _check_index_exists(self, collection: Collection, index: Index) -> None:
        """Raise MqlError 175 if the index was dropped during the read, which may therefore be incomplete."""
        if not await self._engine.indexes.has_all(collection.id, (index,)):
            raise MqlError(175, f"query plan killed :: caused by :: index of {collection.namespace} dropped")


def _identities_of(ids: Sequence[Any]) -> dict[Identity, None]:
    """The identities of values of `_id`, each once, in order."""
    return dict.fromkeys(map(identity_of, ids))


def _walk_order(plan: Plan, selection: Selection) -> Sort | None:
    """The order that a walk must keep: the requested one, or that of a hinted index."""
    if selection.hint is None or selection.sort is not None or plan.index is None:
        return selection.sort if plan.sorted else None
    env = msgspec.structs.replace(selection.env, collation=plan.index.collator)
    return compile_sort({path: way for path, way in plan.index.key if type(way) is int}, env)


def plan_query(collection: Collection, selection: Selection) -> Plan:
    """Plan a query. Errors: those of `planner.plan`."""
    order, specs = selection.order or None, collection.usable_specs
    chosen = plan(
        selection.query, order, selection.hint, specs, selection.env, collection.multikey, collection.namespace
    )
    if collection.series is not None and chosen.kind == "ids" and chosen.sorted:
        # One `_id` is one document elsewhere, and in any order.
        return msgspec.structs.replace(chosen, sorted=False)
    return chosen if collection.clustered is None else _in_order_of_ids(collection, chosen)


def _in_order_of_ids(collection: Collection, chosen: Plan) -> Plan:
    """The plan for a clustered collection, whose documents lie in the order of `_id`: a scan is a walk over that index."""
    if chosen.kind == "scan":
        hint = {"_id": 1}
        walk = plan({}, None, hint, collection.usable_specs, Env(0), collection.multikey, collection.namespace)
        return msgspec.structs.replace(walk, descending=chosen.descending, sorted=chosen.sorted)
    if chosen.kind == "seek" and chosen.index == collection.clustered:
        return msgspec.structs.replace(chosen, kind="walk")
    if chosen.kind == "ids":
        return msgspec.structs.replace(chosen, ids=tuple(sorted(chosen.ids, key=id_key)))
    return chosen


def count_accesses(collection: Collection, plan: Plan) -> None:
    """Count the use of the indexes of a plan that is carried out, or its scan."""
    if plan.kind == "scan":
        collection.usage.scans += 1
    for name in _used_indexes(collection, plan):
        collection.usage.accesses[name] += 1


def _used_indexes(collection: Collection, plan: Plan) -> set[str]:
    names = set() if plan.index is None else {plan.index.name}
    if plan.kind == "ids":
        names.add(collection.id_index.name)
    return names.union(*(_used_indexes(collection, each) for each in plan.branches))


def would_use_id_index(collection: Collection, selection: Selection) -> bool:
    """Return True if an ordered index of `_id` would spare a scan."""
    if collection.has_id_index or selection.hint is not None:
        return False
    order = selection.order or None
    return plan(selection.query, order, None, [ID], selection.env, None, collection.namespace).kind != "scan"


def index_of(collection: Collection, plan: Plan) -> Index:
    """The engine's index that a plan uses."""
    assert plan.index is not None
    number = collection.number_of(plan.index)
    return next(index for index in collection.node.definition.indexes if index.number == number)


def matching_rows(records: Iterable[Record], filter: Filter | None) -> list[DocumentRow]:
    """The records that match, as rows."""
    rows = [DocumentRow(record) for record in records]
    return rows if filter is None else [row for row in rows if filter.matches(row.document)]


def _is_decided(collection: Collection, plan: Plan, selection: Selection) -> bool:
    """Return True if the keys that a walk meets are those of the matches exactly. Each key is read together with its record."""
    shaped = None if selection.filter is None or not selection.env.collation.is_simple else shape_of(selection.query)
    exact = None if shaped is None else find_exact_plan(plan, shaped[0], collection.usable_specs)
    return exact is not None and shaped is not None and plan.ranges == (exact_range(exact, shaped[1]),)


async def match_rows(
    records: Sequence[Record], selection: Selection, evaluation: Evaluation, is_exact: bool = False
) -> list[DocumentRow]:
    """The records that match, as rows; `is_exact`: all of them do. Errors: those of `Evaluation.compute`."""
    filter = None if is_exact else selection.filter
    if filter is None:
        await evaluation.take_turn()
        return matching_rows(records, None)
    cheap = evaluation.cheap and selection.is_cheap
    return await evaluation.compute(cheap, bytes_of(records), matching_rows, records, filter)


def bytes_of(records: Iterable[Record]) -> int:
    """The bytes of the documents of records."""
    return sum([len(record.value) for record in records])


async def read_rows(
    view: ReadView, collection: Collection, selection: Selection, read_time: ReadTime
) -> AsyncIterator[list[DocumentRow]]:
    """Read rows in order, with skip and limit applied."""
    if collection.clustered is not None and selection.sort is None and not view.keeps_clusters:
        selection = _with_order_of_ids(collection, selection)
    source = view.rows(collection, selection, read_time)
    if selection.sort is not None and not view.is_ordered(collection, selection):
        source = _sort_rows(source, selection, read_time.evaluation)
    skip, left = selection.skip, selection.limit or None
    try:
        async for batch in source:
            if skip:
                skip, batch = max(0, skip - len(batch)), batch[skip:]
            if left is not None:
                batch = batch[:left]
                left -= len(batch)
            if batch:
                yield batch
            if left == 0:
                return
    finally:
        await close_batches(source)


def _with_order_of_ids(collection: Collection, selection: Selection) -> Selection:
    """A query whose answer comes in the order of the index on `_id`, if it is read by this index."""
    if plan_query(collection, selection).index not in (None, collection.clustered):
        return selection
    return msgspec.structs.replace(selection, sort=compile_sort({"_id": 1}, Env(0)))


class _SortedRecords:
    """The records of a sort, with their keys. Without the documents: decoded, they take many times the memory."""

    def __init__(self, sort: Sort, most: int) -> None:
        """`most`: as many records are wanted; 0: all."""
        self._sort = sort
        self._most = most
        self._kept: list[tuple[Any, Record]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, rows: Sequence[DocumentRow]) -> None:
        """Add rows. Raise MqlError 292 for more bytes than a sort may keep."""
        key_of = self._sort.key
        self._kept += [(key_of(row.document), row.record) for row in rows]
        self._bytes += bytes_of(row.record for row in rows)
        # With a limit, only the best so far are kept: memory stays in proportion to the limit, not to the result.
        if self._most and len(self._kept) > max(4 * self._most, 1_000):
            self._kept = sort_in_runs(self._kept, _sort_key)[: self._most]
            self._bytes = bytes_of(record for _, record in self._kept)
        if self._bytes > MEMORY_LIMIT:
            raise memory_error("$sort", MEMORY_LIMIT)

    def order(self) -> list[Record]:
        return [record for _, record in sort_in_runs(self._kept, _sort_key)]


async def _sort_rows(
    source: AsyncIterator[list[DocumentRow]], selection: Selection, evaluation: Evaluation
) -> AsyncIterator[list[DocumentRow]]:
    sort = selection.sort
    assert sort is not None
    records = _SortedRecords(sort, selection.skip + selection.limit if selection.limit else 0)
    cheap = selection.score is None and selection.env.collation.is_simple
    try:
        async for batch in source:
            size = bytes_of(row.record for row in batch)
            if size > SMALL_ANSWER:
                await evaluation.admit(size)
            await evaluation.compute(cheap, size, records.add, batch)
    finally:
        await close_batches(source)
    ordered = await evaluation.compute(len(records) <= CHEAP_SORT, 0, records.order)
    for first in range(0, len(ordered), BATCH_SIZE):
        yield [DocumentRow(record) for record in ordered[first : first + BATCH_SIZE]]


def _sort_key(pair: tuple[Any, Record]) -> Any:
    return pair[0]
