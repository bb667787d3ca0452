"""Access paths of a query: a scan of its scope, a lookup of sequence numbers in indexes, or a walk in the order of an index.

The query applies WHERE and its own order on every access path. Scans and lookups return records in the same order, so a
continuation token holds for both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from mayflydb.engine.building import partition_suffix
from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Batch, Scope
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.instant import Instant
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import Query, RowPosition, Span, cursor_key

MAX_SEEK_RECORDS = 10_000
"""A lookup that would give more records than this is answered by a scan, which soon meets the next match."""

MAX_BUILT_INDEXES = 8
"""The most indexes that are built for one container. Every write maintains each of them."""

MAX_INTERSECTED_INDEXES = 3
"""The most indexes whose sequence numbers are intersected for one query."""

ALL_KEYS = KeyRange(b"", b"\xff" * 10)


class Scanner(Protocol):
    """Reads the records of a container: the engine, or a transaction that also sees its own writes."""

    def scan(
        self, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int
    ) -> AsyncIterator[Batch]:
        """Yield the visible records in order, in batches."""
        ...


class RecordSource(Protocol):
    """The visible records that a query may need, in the order of HASHED or CREATED scans."""

    def batches(self, after: Position | None, batch: int) -> AsyncIterator[list[Record]]:
        """Yield the records after a position, in batches that may be empty."""


class ScopeScan:
    """All records of a scope."""

    def __init__(self, reads: Scanner, view: ContainerView, scope: Scope, now: Instant) -> None:
        self._reads, self._view, self._scope, self._now = reads, view, scope, now

    async def batches(self, after: Position | None, batch: int) -> AsyncIterator[list[Record]]:
        async for chunk in self._reads.scan(self._view.node, self._scope, after, self._now, batch):
            yield chunk.records


class IndexLookup:
    """The records of a scope with these sequence numbers. The scope is ordered by sequence number."""

    def __init__(self, engine: Engine, view: ContainerView, scope: Scope, now: Instant, seqs: Sequence[int]) -> None:
        self._engine, self._view, self._scope, self._now = engine, view, scope, now
        self._seqs = seqs

    async def batches(self, after: Position | None, batch: int) -> AsyncIterator[list[Record]]:
        wanted = self._seqs[bisect_right(self._seqs, after.number) :] if after else self._seqs
        async for records in self._engine.indexes.fetch(self._view.node, wanted, self._now, batch):
            yield [record for record in records if is_within(self._scope, record)]


def is_within(scope: Scope, record: Record) -> bool:
    """Return True if a record belongs to a scope."""
    return record.partition >= scope.lower and (scope.upper is None or record.partition < scope.upper)


async def choose_access(
    engine: Engine, view: ContainerView, query: Query, scope: Scope
) -> IndexOrder | Sequence[int] | None:
    """Return the index to walk, or the sequence numbers that indexes give; None where a scan is best."""
    index_order = find_index_order(view, query, scope)
    if index_order is not None:
        spans = query.bounds().get(index_order.index.keys[0][0])
        # WHERE bounds the first path of this order, so the walk reads little besides the result. Only a lookup of
        # single values can read less.
        if spans is not None and not any(_all_points(found) for _, found in _usable_indexes(view, query, scope)):
            return index_order
    seqs = await _intersect_indexes(engine, view, query, scope)
    return index_order if seqs is None else seqs


async def _intersect_indexes(engine: Engine, view: ContainerView, query: Query, scope: Scope) -> Sequence[int] | None:
    """Return the sequence numbers that all usable indexes contain; None where no index is usable."""
    common: set[int] | None = None
    used: list[Index] = []
    for index, spans in _usable_indexes(view, query, scope)[:MAX_INTERSECTED_INDEXES]:
        ranges = [_key_range(span, scope) for span in spans]
        seqs = await engine.indexes.seek(view.node, index, ranges, MAX_SEEK_RECORDS)
        if seqs is not None:
            common = set(seqs) if common is None else common.intersection(seqs)
            used.append(index)
    # Asked after the reads: an index that was dropped in between may have given too few numbers.
    if common is None or not await engine.indexes.has_all(view.id, used):
        return None
    return sorted(common)


def _usable_indexes(view: ContainerView, query: Query, scope: Scope) -> list[tuple[Index, tuple[Span, ...]]]:
    """Return the indexes over a path that WHERE bounds, with the bounds. Lookups of single values come first."""
    if not view.ready or not _is_in_seq_order(scope):
        return []
    bounds = query.bounds()
    found = []
    for keys, index in view.ready.items():
        spans = bounds.get(keys[0][0]) if len(keys) == 1 else None
        # Entries are ordered by key and then by partition. So the entries of one partition lie together for a single
        # value, and are scattered over a range of values.
        if spans is not None and (not scope.is_one_partition or _all_points(spans)):
            found.append((index, spans))
    return sorted(found, key=lambda each: not _all_points(each[1]))


def _all_points(spans: Sequence[Span]) -> bool:
    return all(span.is_point for span in spans)


def _is_in_seq_order(scope: Scope) -> bool:
    return scope.order is Order.CREATED or scope.is_one_partition


def _key_range(span: Span, scope: Scope) -> KeyRange:
    """Return the range of entry keys of a span. A single value is narrowed to the partitions of the scope."""
    if not span.is_point:
        return KeyRange(span.lower, span.upper)
    if scope.is_one_partition:
        # A range is lower <= key < upper, and a zero byte gives the next key after `key`.
        key = span.lower + partition_suffix(scope.lower)
        return KeyRange(key, key + b"\0")
    # An entry has 8 bytes of the partition only. Partitions that share them with the upper bound are read too, and
    # `is_within` drops them.
    upper = span.upper if scope.upper is None else span.lower + partition_suffix(scope.upper) + b"\0"
    return KeyRange(span.lower + partition_suffix(scope.lower), upper)


# --- in the order of an index ----------------------------------------------------------------------------------------


class IndexOrder(msgspec.Struct, frozen=True):
    """An index that has the order of a query's ORDER BY, forwards or backwards."""

    index: Index
    descending: bool


def sort_keys(query: Query) -> tuple[SortKeys, bool] | None:
    """Return the keys of an index for a query's ORDER BY, the first ascending, and True if the index is read backwards.

    None: no index can serve the query.
    """
    order = query.sort_paths()
    if not order or not query.can_resume:
        return None
    backwards = order[0][1]
    keys = []
    for path, descending in order:
        if path is None:
            return None
        keys.append((path, descending != backwards))
    return tuple(keys), backwards


def find_index_order(view: ContainerView, query: Query, scope: Scope) -> IndexOrder | None:
    """Return the index that has the rows of a query in order.

    None: there is none, or the scope is one partition, which may be small beside the container.
    """
    wanted = sort_keys(query) if view.ready and not scope.is_one_partition else None
    index = None if wanted is None else view.ready.get(wanted[0])
    return None if wanted is None or index is None else IndexOrder(index, wanted[1])


async def walk(
    engine: Engine,
    view: ContainerView,
    query: Query,
    index_order: IndexOrder,
    after: RowPosition | None,
    now: Instant,
    batch: int,
) -> AsyncIterator[list[tuple[bytes, Record]]]:
    """Yield chunks of (key, record) in the order of an index, from the key of `after` on.

    A record whose key changes during the walk is yielded once.
    """
    lower, upper = ALL_KEYS.lower, ALL_KEYS.upper
    spans = query.bounds().get(index_order.index.keys[0][0])
    if spans is not None:
        # Without a span WHERE admits no value: the empty range reads nothing.
        lower, upper = (spans[0].lower, spans[-1].upper) if spans else (b"", b"")
    if after is not None:
        # The walk begins at the key of `after` and not behind it: other records with this key may come later. An entry
        # appends 8 bytes to a key, so 9 bytes FF lie above all entries of the key.
        key = cursor_key(after.values, index_order.index.keys)
        lower, upper = (lower, min(upper, key + b"\xff" * 9)) if index_order.descending else (max(lower, key), upper)
    seen: set[int] = set()
    async for chunk in engine.indexes.walk(
        view.node, index_order.index, KeyRange(lower, upper), index_order.descending, now, batch
    ):
        fresh = [(key, record) for key, record in chunk if record.seq not in seen]
        seen.update(record.seq for _, record in fresh)
        yield fresh


# --- which indexes there should be -----------------------------------------------------------------------------------


class IndexDemand:
    """Counts the records that queries read in vain for want of an index, and has the index built above a limit."""

    def __init__(self, engine: Engine, threshold: int) -> None:
        """`threshold`: the number of records read in vain after which an index is built; 0: never."""
        self._engine = engine
        self._threshold = threshold
        self._wasted_reads: Counter[tuple[int, SortKeys]] = Counter()

    def record_scan(self, view: ContainerView, query: Query, scope: Scope, wasted: int) -> None:
        """Count the `wasted` records, which a query read and could not use, for each index that would have spared them."""
        if view.unfinished:
            self._engine.indexes.resume(view.id, view.index_keys)
        if not self._threshold or wasted <= 0:
            return
        if view.node.definition.lifecycle.shred != "off":
            # The keys of an index are not sealed.
            return
        for keys in missing_indexes(view, query, scope):
            self._wasted_reads[view.id, keys] += wasted
            if self._wasted_reads[view.id, keys] >= self._threshold:
                # The count begins anew: an index that cannot be built now is asked for again after as many reads.
                del self._wasted_reads[view.id, keys]
                self._engine.indexes.ensure(view.id, keys, view.index_keys, MAX_BUILT_INDEXES)
                return


def missing_indexes(view: ContainerView, query: Query, scope: Scope) -> list[SortKeys]:
    """Return the keys of indexes that do not exist and would help a query, the best first."""
    bounds = query.bounds()
    small = scope.is_one_partition
    point_paths = [path for path, spans in bounds.items() if _all_points(spans)]
    range_paths = [path for path in bounds if path not in point_paths and not small]
    found: list[SortKeys] = [((path, False),) for path in point_paths or range_paths]
    order = None if small else sort_keys(query)
    if order is not None:
        found.append(order[0])
    return [keys for keys in found if keys not in view.indexed_by and view.may_index(keys)]
