"""Records as last committed, kept as objects: what is read again and again is not taken out of its page each time."""

from __future__ import annotations

from collections import OrderedDict

from mayflydb.model.record import Record

BYTES = 16 * 1024 * 1024
LARGEST = 64 * 1024
OVERHEAD = 400
"""About what a record costs besides its bytes."""


class Recent:
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
        self.forget(container, record.partition, record.key)
        size = len(record.value)
        if size > LARGEST:
            return
        number = self._numbers.get(container)
        if number is None:
            number = self._last = self._numbers[container] = self._last + 1
        self._records[number, record.partition, record.key] = record
        self._size += size + OVERHEAD
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
