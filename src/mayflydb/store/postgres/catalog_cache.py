"""What this node's last commits have left in the catalogue: good guesses, which save asking before locking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mayflydb.store.interface import CatalogRow

MAX_CONTAINERS = 1000
"""Containers that are remembered."""


class CatalogCache:
    """Rows of containers that nobody else was seen to write to. A guess is only used where the lock confirms it."""

    def __init__(self) -> None:
        self._committed: dict[int, CatalogRow] = {}
        self._confirmed: dict[int, CatalogRow] = {}

    @property
    def rows(self) -> Mapping[int, CatalogRow]:
        """The guesses, by id."""
        return self._confirmed

    def note_lock(self, row: CatalogRow) -> None:
        """This is what the lock found. If it is not what was left, another node writes there, too."""
        if self._committed.get(row.id) == row:
            self._confirmed[row.id] = row
        else:
            self._confirmed.pop(row.id, None)

    def drop(self, ids: Iterable[int]) -> None:
        """Some of these guesses were."""
        for id in ids:
            self._confirmed.pop(id, None)

    def note_commit(self, rows: Iterable[CatalogRow]) -> None:
        """A transaction was committed that has locked these rows, and left them so."""
        if len(self._committed) > MAX_CONTAINERS:
            self.forget()
        for row in rows:
            self._committed[row.id] = row
            if row.id in self._confirmed:
                self._confirmed[row.id] = row

    def forget(self) -> None:
        """What became of the last transaction is not known."""
        self._committed.clear()
        self._confirmed.clear()
