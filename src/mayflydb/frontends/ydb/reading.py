"""Reads of tables: key ranges become ranges of index entries, and their records become rows, in key order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import Index
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.crossing import BYTES_OF_ROW, ON_LOOP, Crossing
from mayflydb.frontends.ydb.rows import PREFIX_BYTES, RowLayout, Values, is_ordered_exactly, partition_of
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.order import HASH_BYTES
from mayflydb.model.order import KeyRange as EntryRange
from mayflydb.model.record import Record
from mayflydb.query.yql.faults import Fault, Issue, fault
from mayflydb.query.yql.keys import encode_key
from mayflydb.query.yql.schemas import PRIMARY, Access, KeyRange, Row

READ_CHANGED: Final = "A concurrent transaction changed a row that was read."

READ_BATCH: Final = 256
"""Rows in one batch of a read."""

POINTS_PER_TURN: Final = 32
"""Points that are read before other tasks of the event loop run."""

# For the prefix (1) of a key (Int64, Utf8), in hex:
#     an entry's key:   20 <8 bytes of 1> 20 61 00 00 | 8 bytes of the partition
#     upper bound:      20 <8 bytes of 1> FF FF FF FF FF FF FF FF FF
PREFIX_END: Final = b"\xff" * (HASH_BYTES + 1)
"""The suffix that makes a key an upper bound of all entries that begin with the key.

No encoded value begins with FF, and the partition behind an entry's key is one byte shorter than this suffix.
"""

END_OF_KEYS: Final = b"\xff" * 16
"""A bound above every key."""


class KeyBounds(msgspec.Struct, frozen=True):
    """All keys with lower <= key < upper. Both bounds are full keys, and may end in PREFIX_END."""

    lower: bytes
    upper: bytes

    def contains(self, key: bytes) -> bool:
        """True if a full key lies within the bounds."""
        return self.lower <= key < self.upper

    @property
    def entry_range(self) -> EntryRange | None:
        """The range of entries that contains all keys within the bounds; None if there is none.

        Entries hold only a prefix of a long key, so the range may contain other keys too.
        """
        upper = self.upper
        # Entries have only the prefix of a long bound. So the range ends behind the last entry with the prefix, or
        # begins at the first one, and `contains` sorts out the rest.
        if not is_ordered_exactly(upper.removesuffix(PREFIX_END)):
            upper = upper[:PREFIX_BYTES] + PREFIX_END
        lower = self.lower if is_ordered_exactly(self.lower.removesuffix(PREFIX_END)) else self.lower[:PREFIX_BYTES]
        return EntryRange(lower, upper) if lower < upper else None


def key_bounds(encode: Callable[[Sequence[object]], bytes], within: KeyRange) -> KeyBounds:
    """Return the bounds of a key range. `encode` encodes the first columns of a key."""
    lower = encode(within.lower) if within.lower else b""
    upper = encode(within.upper) if within.upper else END_OF_KEYS
    # lower < key begins behind all keys with the prefix `lower`; key <= upper ends behind all keys with the prefix
    # `upper`.
    if within.lower and within.lower_open:
        lower += PREFIX_END
    if within.upper and not within.upper_open:
        upper += PREFIX_END
    return KeyBounds(lower, upper)


KeyedRecord: TypeAlias = tuple[bytes, Record]


def point_key(view: TableView, access: Access) -> Row | None:
    """Return the key if an access asks for a single row by its whole primary key; otherwise None."""
    if access.index not in (None, PRIMARY) or access.ranges is None or len(access.ranges) != 1:
        return None
    (only,) = access.ranges
    return only.lower if only.is_prefix and len(only.lower) == len(view.table.key) else None


class TableReader:
    """Reads of one table in one transaction. `crossing`: leads from where the rows are decoded to the event loop."""

    def __init__(self, snapshot: Snapshot, layout: RowLayout, crossing: Crossing = ON_LOOP) -> None:
        self._snapshot = snapshot
        self._layout = layout
        self._crossing = crossing

    async def read(self, access: Access) -> AsyncIterator[list[Row]]:
        """Yield the rows of an access in batches. Errors: WriteConflict, OwnerNotFound."""
        decode = self._layout.rows_decoder(access.columns)
        remaining = access.limit
        if remaining is not None and remaining <= 0:
            return
        async for records in self._read_records(access):
            rows = decode([record.value for record in records])
            if remaining is not None and len(rows) >= remaining:
                yield rows[:remaining]
                return
            if rows:
                yield rows
                remaining = None if remaining is None else remaining - len(rows)

    def _read_records(self, access: Access) -> AsyncIterator[list[Record]]:
        index = get_index(self._layout.view, access.index)
        if access.ranges is None:
            return self._walk_range(index, KeyRange(), access.descending, access.limit)
        if index is self._layout.view.primary and all(map(self._is_point, access.ranges)):
            keys = dict.fromkeys(self._layout.key_from(each.lower) for each in access.ranges)
            return self._crossing.batches(self._read_points(keys), _size_of_records)
        return self._read_ranges(index, access.ranges, access.descending, access.limit)

    def _is_point(self, within: KeyRange) -> bool:
        return within.is_prefix and len(within.lower) == self._layout.key_width

    async def _read_points(self, keys: Iterable[bytes]) -> AsyncIterator[list[Record]]:
        found: list[Record] = []
        for number, key in enumerate(keys, 1):
            record = await self.get(key)
            if record is not None:
                found.append(record)
                if len(found) >= READ_BATCH:
                    yield found
                    found = []
            # A get waits for nothing if the record is in a cache.
            if not number % POINTS_PER_TURN:
                await asyncio.sleep(0)
        if found:
            yield found

    async def get(self, key: bytes) -> Record | None:
        """Return the record with this key. Errors: WriteConflict, OwnerNotFound."""
        return await self._snapshot.get(self._layout.view.node.id, partition_of(key), key)

    async def _read_ranges(
        self, index: Index, ranges: Sequence[KeyRange], descending: bool, limit: int | None
    ) -> AsyncIterator[list[Record]]:
        distinct = list(dict.fromkeys(ranges))
        seen: set[bytes] = set()
        for within in distinct:
            async for records in self._walk_range(index, within, descending, limit):
                # One range gives each row once. Ranges may overlap, and then the keys of all rows are kept in memory.
                if len(distinct) == 1:
                    yield records
                    continue
                fresh = [record for record in records if record.key not in seen]
                seen.update(record.key for record in fresh)
                yield fresh

    async def _walk_range(
        self, index: Index, within: KeyRange, descending: bool, limit: int | None
    ) -> AsyncIterator[list[Record]]:
        types = self._layout.index_types(index)
        bounds = key_bounds(lambda values: encode_key(types[: len(values)], values), within)
        entry_range = bounds.entry_range
        if entry_range is None:
            return
        batch = READ_BATCH if limit is None else max(1, min(limit, READ_BATCH))
        container = self._layout.view.node.id
        walk = self._crossing.batches(
            self._snapshot.walk(container, index, entry_range, descending, self._layout.keys, batch), _size_of_pairs
        )
        async for records in self._sort_long_keys(walk, index, bounds, descending):
            yield records

    async def _sort_long_keys(
        self, walk: AsyncIterator[list[KeyedRecord]], index: Index, within: KeyBounds, descending: bool
    ) -> AsyncIterator[list[Record]]:
        """Yield records in the order of their full keys.

        Entries hold only a prefix of a long key, so records with the same prefix are collected and sorted here.
        """
        same_prefix: list[KeyedRecord] = []
        prefix = b""

        def sort_same_prefix() -> list[Record]:
            same_prefix.sort(key=lambda each: each[0], reverse=descending)
            return [record for key, record in same_prefix if within.contains(key)]

        async for batch in walk:
            if not same_prefix and max([len(key) for key, _ in batch], default=0) < PREFIX_BYTES:
                # No key is long, as in nearly every batch.
                yield [record for _, record in batch]
                continue
            done: list[Record] = []
            for key, record in batch:
                # Another prefix: all records of the group are there, and can be put in order.
                if same_prefix and key[:PREFIX_BYTES] != prefix:
                    done += sort_same_prefix()
                    same_prefix.clear()
                if is_ordered_exactly(key):
                    done.append(record)
                else:
                    prefix = key[:PREFIX_BYTES]
                    same_prefix.append(
                        (self._layout.full_key(index, record.key, self._layout.decode(record.value)), record)
                    )
            yield done
        if same_prefix:
            yield sort_same_prefix()


def _size_of_records(records: Sequence[Record]) -> int:
    return sum([len(record.value) for record in records]) + BYTES_OF_ROW * len(records)


def _size_of_pairs(records: Sequence[KeyedRecord]) -> int:
    return sum([len(record.value) for _, record in records]) + BYTES_OF_ROW * len(records)


def get_index(view: TableView, name: str | None) -> Index:
    """Return the engine's index by its name in the table.

    SCHEME_ERROR if the index does not exist or is not complete.
    """
    if name is None or name == PRIMARY:
        return view.primary
    index = view.indexes.get(name)
    if index is None or index.state != "ready":
        raise missing_index(name)
    return index


def missing_index(name: str) -> Fault:
    """The fault of an index that does not exist or is not complete."""
    return fault(f"Required global index not found, index name: {name}", status="SCHEME_ERROR", code=2003)


def constraint_violation(path: str, cause: str) -> Fault:
    """The fault of a violated key or unique index: PRECONDITION_FAILED."""
    table = Issue(f"Constraint violated. Table: `{path}`.", 2012, issues=(Issue(cause, 2012),))
    return Fault("PRECONDITION_FAILED", table)


def pick_columns(layout: RowLayout, columns: Sequence[str], found: Iterable[Values]) -> list[Row]:
    """Return these columns of rows."""
    pick = layout.column_getter(columns)
    return [pick(values) for values in found]
