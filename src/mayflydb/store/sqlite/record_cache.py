"""Records as last committed, kept as objects: what is read again and again is not taken out of its page each time."""

from __future__ import annotations

from collections import OrderedDict

from mayflydb.model.record import Record

BYTES = 16 * 1024 * 1024
LARGEST = 64 * 1024
OVERHEAD = 400
"""About what a record costs besides its bytes."""


class RecordCache:
    """The records used last, up to about `limit` bytes of them. Never an opinion on what is not there."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._records: OrderedDict[tuple[int, bytes, bytes], Record] = OrderedDict()
        # A container is forgotten by giving it another number; what has the old one ages away.
        self._numbers: dict[int, int] = {}
        self._last = 0

    def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """The record, or None if it is not known."""
        identity = (self._numbers.get(container, 0), partition, key)
        record = self._records.get(identity)
        if record is not None:
            self._records.move_to_end(identity)
        return record

    def keep(self, container: int, record: Record) -> None:
        """This is what was committed."""
        number = self._numbers.get(container)
        if number is None:
            number = self._last = self._numbers[container] = self._last + 1
        identity = (number, record.partition, record.key)
        before = self._records.get(identity)
        size = len(record.value)
        if before is not None:
            self._size += size - len(before.value)
            self._records.move_to_end(identity)
        else:
            self._size += size + OVERHEAD
        self._records[identity] = record
        if size > LARGEST:
            self.forget(container, record.partition, record.key)
        while self._size > self._limit:
            self._size -= len(self._records.popitem(last=False)[1].value) + OVERHEAD

    def forget(self, container: int, partition: bytes, key: bytes) -> None:
        """It is gone, or another one by now."""
        old = self._records.pop((self._numbers.get(container, 0), partition, key), None)
        if old is not None:
            self._size -= len(old.value) + OVERHEAD

    def forget_container(self, container: int) -> None:
        """Some of its records are gone."""
        self._numbers.pop(container, None)

    def clear(self) -> None:
        """Whatever is known may be wrong."""
        self._records.clear()
        self._numbers.clear()
        self._size = 0


class PendingRecords:
    """What the transaction under way has made of records; `commit` lets everybody know, `rollback` nobody."""

    def __init__(self, recent: RecordCache) -> None:
        self._recent = recent
        self._records: dict[tuple[int, bytes, bytes], Record | None] = {}
        self._swept: set[int] = set()
        self._all_gone = False

    def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """A record as the transaction sees it, if that is known. LookupError when it has been removed."""
        record = self._records.get((container, partition, key))
        if record is not None:
            return record
        if (container, partition, key) in self._records:
            raise LookupError
        if self._all_gone or container in self._swept:
            return None
        return self._recent.get(container, partition, key)

    def put(self, container: int, record: Record) -> None:
        """It is written."""
        self._records[container, record.partition, record.key] = record

    def delete(self, container: int, record: Record) -> None:
        """It is removed."""
        self._records[container, record.partition, record.key] = None

    def sweep(self, container: int) -> None:
        """Some records of a container are removed, and only the tables know which."""
        self._swept.add(container)
        for identity in [identity for identity in self._records if identity[0] == container]:
            del self._records[identity]

    def empty(self) -> None:
        """All records are removed."""
        self._records.clear()
        self._all_gone = True

    def commit(self) -> None:
        """It has happened."""
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
        """It has not. After a failed COMMIT only the file knows what is."""
        self._recent.clear()
        self._reset()

    def _reset(self) -> None:
        self._records.clear()
        self._swept.clear()
        self._all_gone = False
