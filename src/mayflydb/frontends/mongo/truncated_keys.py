"""The order of records whose index keys were truncated."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.model.record import Record
from mayflydb.query.mongo.indexes.keys import truncated_prefix
from mayflydb.query.mongo.sort import Sort
from mayflydb.query.mongo.values import decode
from mayflydb.query.sorting import sort_in_runs


class TruncatedKeySorter:
    """Sorts records that a walk returns in key order, where long keys were truncated and therefore compare equal."""

    def __init__(self, sort: Sort | None) -> None:
        self._sort = sort
        self._prefix: bytes | None = None
        self._held: list[Record] = []

    @property
    def held_bytes(self) -> int:
        """The bytes of the documents whose order is not known yet."""
        return sum([len(record.value) for record in self._held])

    def add(self, pairs: Sequence[tuple[bytes, Record]]) -> list[Record]:
        """Add (key, record) pairs, and return the records whose position in the order is final."""
        if self._sort is None:
            return [record for _, record in pairs]
        out: list[Record] = []
        for key, record in pairs:
            prefix = truncated_prefix(key)
            # A new prefix: all records of the one before have arrived.
            if self._held and prefix != self._prefix:
                out += self.flush()
            if prefix is None:
                out.append(record)
            else:
                self._prefix = prefix
                self._held.append(record)
        return out

    def flush(self) -> list[Record]:
        """Return the records that were held back, in order."""
        held, self._held = self._held, []
        sort = self._sort
        return held if sort is None else sort_in_runs(held, lambda record: sort.key(decode(record.value)))
