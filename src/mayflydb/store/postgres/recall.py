"""What this node's last commits have left in the catalogue: good guesses, which save asking before locking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mayflydb.store.interface import Row

LIMIT = 1000
"""Containers that are remembered."""


class Recall:
    """Rows of containers that nobody else was seen to write to. A guess is only used where the lock confirms it."""

    def __init__(self) -> None:
        self._left: dict[int, Row] = {}
        self._steady: dict[int, Row] = {}

    @property
    def rows(self) -> Mapping[int, Row]:
        """The guesses, by id."""
        return self._steady

    def locked(self, row: Row) -> None:
        """This is what the lock found. If it is not what was left, another node writes there, too."""
        if self._left.get(row.id) == row:
            self._steady[row.id] = row
        else:
            self._steady.pop(row.id, None)

    def wrong(self, ids: Iterable[int]) -> None:
        """Some of these guesses were."""
        for id in ids:
            self._steady.pop(id, None)

    def left(self, rows: Iterable[Row]) -> None:
        """A transaction was committed that has locked these rows, and left them so."""
        if len(self._left) > LIMIT:
            self.forget()
        for row in rows:
            self._left[row.id] = row
            if row.id in self._steady:
                self._steady[row.id] = row

    def forget(self) -> None:
        """What became of the last transaction is not known."""
        self._left.clear()
        self._steady.clear()
