"""What a contract remembers of records: that each version comes back exactly as put, and not after it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from mayflydb.model.record import Record
from mayflydb.store import interface

T = TypeVar("T")

REMEMBERED = 100_000
"""Versions kept in mind; older ones are no longer checked."""


class Versions:
    """Record versions by (container, lsn), and since when a version has been replaced or deleted.

    `now` counts commits, so that a read under way while a version goes may still return it.
    """

    def __init__(self) -> None:
        self.now = 0
        self._versions: dict[tuple[int, int], Record] = {}
        self._current: dict[tuple[int, int], int] = {}
        self._gone: dict[tuple[int, int], int] = {}

    def commit(self, changes: Iterable[interface.Change]) -> None:
        """Take note of changes whose commit has been acknowledged."""
        self.now += 1
        for change in changes:
            if isinstance(change, interface.Put):
                self._put(change.container, change.record)
            elif isinstance(change, interface.Delete):
                self._leave(change.container, change.record.seq)

    def _put(self, container: int, record: Record) -> None:
        current = self._current.get((container, record.seq), 0)
        if record.lsn < current:
            return
        if record.lsn == current:
            # The same version with other dates: a read under way may have either.
            self._versions.pop((container, record.lsn), None)
            return
        self._leave(container, record.seq)
        _remember(self._versions, (container, record.lsn), record)
        _remember(self._current, (container, record.seq), record.lsn)

    def _leave(self, container: int, seq: int) -> None:
        lsn = self._current.pop((container, seq), None)
        if lsn is not None:
            _remember(self._gone, (container, lsn), self.now)

    def check(self, request: interface.Read[Any], answer: Any, since: int) -> None:
        """AssertionError if an answer to a read begun at `since` holds a version altered, or gone by then."""
        if isinstance(request, interface.Get):
            self._check(request.container, [answer] if answer else [], since)
        elif isinstance(request, (interface.Scan, interface.EntryOwners, interface.Fetch, interface.Due)):
            self._check(request.container, answer, since)
        elif isinstance(request, interface.FetchRange):
            self._check(request.container, answer or (), since)
        elif isinstance(request, interface.ScanIndex):
            self._check(request.container, (record for _, record in answer), since)

    def _check(self, container: int, records: Iterable[Record], since: int) -> None:
        for record in records:
            version = container, record.lsn
            known = self._versions.get(version)
            assert known is None or known == record, f"{known} came back as {record}"
            gone = self._gone.get(version)
            assert gone is None or gone > since, f"{record} was replaced or deleted before"

    def forget(self) -> None:
        """The store was reset."""
        self._versions.clear()
        self._current.clear()
        self._gone.clear()


def _remember(memory: dict[tuple[int, int], T], key: tuple[int, int], value: T) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
