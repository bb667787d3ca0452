"""Committed records as objects, so that a record that is read often is not decoded from its page each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from mayflydb.model.record import Record
from mayflydb.store.rows import SEQ_BITS

BYTES = 16 * 1024 * 1024
LARGEST = 64 * 1024
OVERHEAD = 500
"""Bytes that a record takes besides its value, about."""

LARGE_TRANSACTION = 4096
"""A transaction with more changes makes the cache forget its containers: to move each change would take milliseconds."""


class RecordCache:
    """The records that were used last, up to about `limit` bytes. After a miss, the record may exist in the tables."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._records: OrderedDict[tuple[int, bytes, bytes], Record] = OrderedDict()
        # By number of the container and seq, for reads along an index.
        self._places: dict[int, tuple[int, bytes, bytes]] = {}
        # A container is dropped in constant time: it gets another number, and the records under its old one age out.
        self._numbers: dict[int, int] = {}
        self._last = 0

    def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """The record, or None if it is not in the cache."""
        identity = (self._numbers.get(container, 0), partition, key)
        record = self._records.get(identity)
        if record is not None:
            self._records.move_to_end(identity)
        return record

    def get_all(self, container: int, seqs: Sequence[int]) -> list[Record | None]:
        """The records with these seqs; None for each that is not in the cache."""
        number = self._numbers.get(container)
        if number is None:
            return [None] * len(seqs)
        base, places, records = number << SEQ_BITS, self._places, self._records
        found: list[Record | None] = []
        for seq in seqs:
            identity = places.get(base | seq)
            if identity is None:
                found.append(None)
            else:
                records.move_to_end(identity)
                found.append(records[identity])
        return found

    def keep(self, container: int, record: Record) -> None:
        """Cache a record as it was committed."""
        number = self._numbers.get(container)
        if number is None:
            number = self._last = self._numbers[container] = self._last + 1
        identity = (number, record.partition, record.key)
        before = self._records.get(identity)
        size = len(record.value)
        place = number << SEQ_BITS | record.seq
        if before is not None:
            self._size += size - len(before.value)
            self._records.move_to_end(identity)
            if before.seq != record.seq:
                self._forget_place(identity, before)
        else:
            self._size += size + OVERHEAD
        self._records[identity] = record
        self._places[place] = identity
        # Added and removed again, so that an older version of the record is gone too.
        if size > LARGEST:
            self.forget(container, record.partition, record.key)
        while self._size > self._limit:
            oldest, dropped = self._records.popitem(last=False)
            self._size -= len(dropped.value) + OVERHEAD
            self._forget_place(oldest, dropped)

    def forget(self, container: int, partition: bytes, key: bytes) -> None:
        """Drop a record that was removed or replaced."""
        identity = (self._numbers.get(container, 0), partition, key)
        old = self._records.pop(identity, None)
        if old is not None:
            self._size -= len(old.value) + OVERHEAD
            self._forget_place(identity, old)

    def _forget_place(self, identity: tuple[int, bytes, bytes], record: Record) -> None:
        place = identity[0] << SEQ_BITS | record.seq
        # A record that was given another key has the same seq, and may be cached by now.
        if self._places.get(place) == identity:
            del self._places[place]

    def forget_container(self, container: int) -> None:
        """Drop all records of a container, of which some were removed."""
        self._numbers.pop(container, None)

    def clear(self) -> None:
        """Drop everything."""
        self._records.clear()
        self._places.clear()
        self._numbers.clear()
        self._size = 0


class PendingRecords:
    """The records that the transaction under way has changed. `commit` moves them into the cache; `rollback` discards them."""

    def __init__(self, recent: RecordCache) -> None:
        self._recent = recent
        self._records: dict[tuple[int, bytes, bytes], Record | None] = {}
        self._swept: set[int] = set()
        self._all_gone = False

    @property
    def is_empty(self) -> bool:
        """True if the transaction has changed no record so far."""
        return not (self._records or self._swept or self._all_gone)

    def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """A record as the transaction sees it; None: read the tables. LookupError if the transaction has removed the record."""
        if self._records:
            record = self._records.get((container, partition, key))
            if record is not None:
                return record
            if (container, partition, key) in self._records:
                raise LookupError
        if self._all_gone or container in self._swept:
            return None
        return self._recent.get(container, partition, key)

    def put(self, container: int, record: Record) -> None:
        """Note a record that the transaction wrote."""
        self._note(container, record.partition, record.key, record)

    def delete(self, container: int, record: Record) -> None:
        """Note a record that the transaction removed."""
        self._note(container, record.partition, record.key, None)

    def _note(self, container: int, partition: bytes, key: bytes, record: Record | None) -> None:
        if len(self._records) >= LARGE_TRANSACTION:
            self._swept.update({container for container, _, _ in self._records})
            self._records.clear()
        self._records[container, partition, key] = record

    def sweep(self, container: int) -> None:
        """Note that records of a container were removed in SQL, so that only the tables know which."""
        self._swept.add(container)
        for identity in [identity for identity in self._records if identity[0] == container]:
            del self._records[identity]

    def remove_all(self) -> None:
        """Note that all records were removed."""
        self._records.clear()
        self._all_gone = True

    def commit(self) -> None:
        """Move the changes into the cache, after COMMIT has returned."""
        recent = self._recent
        if self._all_gone:
            recent.clear()
        for container in self._swept:
            recent.forget_container(container)
        for (container, partition, key), record in self._records.items():
            if record is None:
                recent.forget(container, partition, key)
            else:
                recent.keep(container, record)
        self._reset()

    def rollback(self) -> None:
        """Discard the changes, and the whole cache: after a failed COMMIT only the file knows which state is committed."""
        self._recent.clear()
        self._reset()

    def _reset(self) -> None:
        self._records.clear()
        self._swept.clear()
        self._all_gone = False
