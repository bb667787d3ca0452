"""An index as an open transaction sees it: as it was at the beginning, with the transaction's own writes, in order of keys.

Stored entries are read batch by batch. Versions that were replaced since the beginning, and the transaction's own writes, are
kept in overlays, ordered by the same keys; each batch is merged with the part of the overlays that lies in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, TypeAlias

from mayflydb.engine.building import KeysOf, entry
from mayflydb.engine.catalog import Index
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record
from mayflydb.store.interface import Read, ScanIndex, ask

EntryPosition: TypeAlias = tuple[bytes, int]
"""(key of an entry, seq of its record): the order of a walk."""

Found: TypeAlias = tuple[bytes, Record]
"""(key of an entry, its record)"""

_BATCH_SIZE: Final = 512


def entry_keys(record: Record, index: Index, keys_of: KeysOf) -> tuple[bytes, ...]:
    """Return the keys of a record's entries, with their partition suffix."""
    return tuple(entry(index, key, record.partition).key for key in keys_of(record, index))


class IndexOverlay:
    """Records by their entries in one index."""

    def __init__(self, keys: Callable[[Record], tuple[bytes, ...]]) -> None:
        self._keys_of = keys
        self._places: list[EntryPosition] = []
        self._records: dict[int, Record] = {}
        self._keys: dict[int, tuple[bytes, ...]] = {}

    def put(self, seq: int, record: Record | None) -> None:
        """Set the record with this seq; None: remove it."""
        for key in self._keys.pop(seq, ()):
            del self._places[bisect_left(self._places, (key, seq))]
        self._records.pop(seq, None)
        if record is not None:
            self._records[seq] = record
            keys = self._keys[seq] = self._keys_of(record)
            for key in keys:
                insort(self._places, (key, seq))

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, seq: int) -> bool:
        return seq in self._records

    def between(
        self,
        within: KeyRange,
        after: EntryPosition | None,
        last: EntryPosition | None,
        descending: bool,
        limit: int | None = None,
    ) -> list[Found]:
        """Return the entries in a range after a place (None: from its start) and up to another (None: to its end), in order.

        `limit`: so many at most.
        """
        places = self._places
        if not places:
            return []
        if descending:
            # Seqs are positive, so -1 sorts before all entries of a key.
            start = bisect_left(places, (within.lower, -1) if last is None else last)
            end = bisect_left(places, (within.upper, -1) if after is None else after)
        else:
            start = bisect_left(places, (within.lower, -1)) if after is None else bisect_right(places, after)
            end = bisect_left(places, (within.upper, -1)) if last is None else bisect_right(places, last)
        if limit is not None and end - start > limit:
            start, end = (end - limit, end) if descending else (start, start + limit)
        found = [(key, self._records[seq]) for key, seq in places[start:end]]
        return found[::-1] if descending else found


def merge(first: list[Found], second: list[Found], descending: bool) -> list[Found]:
    """Merge two ordered lists."""
    if not first or not second:
        return first or second
    # Sorting two ordered runs is linear.
    return sorted(first + second, key=lambda found: (found[0], found[1].seq), reverse=descending)


def upto(found: Sequence[Found], last: EntryPosition, descending: bool) -> int:
    """Return the number of ordered entries up to a place."""

    def beyond(each: Found) -> bool:
        place = each[0], each[1].seq
        return place < last if descending else place > last

    return bisect_left(found, True, key=beyond)


class ReadRange:
    """A range of an index, as far as a transaction has read it: from its start up to a place.

    `digest` and `count` describe the visible versions there, in order.
    """

    __slots__ = ("_whole", "count", "descending", "digest", "index", "is_finished", "keys_of", "last", "within")

    def __init__(self, index: Index, within: KeyRange, descending: bool, keys_of: KeysOf) -> None:
        self.index = index
        self.within = within
        self.descending = descending
        self.keys_of = keys_of
        self.last: EntryPosition | None = None
        self.count = 0
        self.digest = 0
        self.is_finished = False
        self._whole = False

    @property
    def reach(self) -> tuple[bool, int]:
        """The extent of the read; of two reads with one start, the longer is greater."""
        return self._whole, self.count

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was read."""
        return self.last is None and not self._whole

    def read(self, found: Iterable[Found], last: EntryPosition | None) -> None:
        """Record visible entries up to a place; None: to the end of the range."""
        for _, record in found:
            self.count += 1
            # One number however long the range is. An lsn names a version, and the order of the walk is part of the digest.
            self.digest = hash((self.digest, record.lsn))
        self.last = self.last if last is None else last
        self._whole = last is None

    def covers(self, record: Record) -> bool:
        """Return whether a record has an entry in the part that was read."""
        return any(self._has((key, record.seq)) for key in entry_keys(record, self.index, self.keys_of))

    def _has(self, place: EntryPosition) -> bool:
        if not self.within.lower <= place[0] < self.within.upper:
            return False
        return self._whole or (self.last is not None and self._is_reached(place, self.last))

    def _is_reached(self, place: EntryPosition, last: EntryPosition) -> bool:
        return place >= last if self.descending else place <= last

    def is_unchanged(self, container: int, visible: Callable[[Record], bool]) -> Generator[Read[Any], Any, bool]:
        """Return whether the stored entries would be read the same again."""
        count, digest = 0, 0
        after: EntryPosition | None = None
        while True:
            walk = ScanIndex(container, self.index.number, self.within, self.descending, after, _BATCH_SIZE)
            found = yield from ask(walk)
            for key, record in found:
                after = key, record.seq
                if not self._has(after):
                    return (count, digest) == (self.count, self.digest)
                if visible(record):
                    count, digest = count + 1, hash((digest, record.lsn))
            if not found or count > self.count:
                return (count, digest) == (self.count, self.digest)
