"""Catalogue rows as the last commits of this node left them, by which a group locks and reads in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mayflydb.store.interface import CatalogRow

MAX_CONTAINERS = 1000
"""Rows that are cached; with more the cache starts anew."""


class CatalogCache:
    """Rows of containers to which no other node was seen to write. A cached row is only used where the lock confirms it."""

    def __init__(self) -> None:
        self._committed: dict[int, CatalogRow] = {}
        self._confirmed: dict[int, CatalogRow] = {}

    @property
    def rows(self) -> Mapping[int, CatalogRow]:
        """The rows to try, by id: those that the lock has confirmed before."""
        return self._confirmed

    def note_lock(self, row: CatalogRow) -> None:
        """Compare a row that was locked with the cached one. If they differ, another node writes to the container, too."""
        if self._committed.get(row.id) == row:
            self._confirmed[row.id] = row
        else:
            self._confirmed.pop(row.id, None)

    def drop(self, ids: Iterable[int]) -> None:
        """Drop rows of which at least one was out of date."""
        for id in ids:
            self._confirmed.pop(id, None)

    def note_commit(self, rows: Iterable[CatalogRow]) -> None:
        """Cache rows as a committed transaction, which had locked them, has left them."""
        if len(self._committed) > MAX_CONTAINERS:
            self.forget()
        for row in rows:
            self._committed[row.id] = row
            if row.id in self._confirmed:
                self._confirmed[row.id] = row

    def forget(self) -> None:
        """Drop everything, when the outcome of the last transaction is unknown."""
        self._committed.clear()
        self._confirmed.clear()
