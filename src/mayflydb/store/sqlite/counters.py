"""The lsn and seq counters of containers during one write transaction."""

from __future__ import annotations

import apsw

from mayflydb.model.errors import OwnerNotFound, Unavailable
from mayflydb.store.interface import CatalogRow
from mayflydb.store.rows import SEQ_MASK
from mayflydb.store.sqlite.catalog import Catalog


class Counters:
    """The numbers that were allocated since the transaction began. One catalogue update per container saves them at its end."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._numbers: dict[int, list[int]] = {}

    def _of(self, container: int) -> list[int]:
        row = self._catalog.row_now(container)
        if row is None:
            raise OwnerNotFound(f"container {container} does not exist")
        numbers = self._numbers.get(container)
        if numbers is None:
            numbers = self._numbers[container] = [row.lsn, row.seq]
        return numbers

    def with_counters(self, row: CatalogRow | None) -> CatalogRow | None:
        """A row with the numbers as they are in the transaction."""
        numbers = None if row is None else self._numbers.get(row.id)
        if row is None or numbers is None:
            return row
        return CatalogRow(row.id, row.parent, row.name, row.data, numbers[0], numbers[1])

    def allocate(self, container: int, seq: bool) -> tuple[int, int]:
        """The next lsn and, if wanted, the next seq (else 0)."""
        numbers = self._of(container)
        numbers[0] += 1
        if not seq:
            return numbers[0], 0
        numbers[1] += 1
        if numbers[1] > SEQ_MASK:
            raise Unavailable(f"container {container} has given out all its record numbers")
        return numbers[0], numbers[1]

    def lsn(self, container: int) -> int:
        """The last lsn that was allocated."""
        return self._of(container)[0]

    def advance(self, container: int, by: int) -> None:
        """Allocate `by` lsns at once."""
        self._of(container)[0] += by

    def save(self, connection: apsw.Connection) -> None:
        """Write the counters that moved."""
        for container, (lsn, seq) in self._numbers.items():
            self._catalog.count(connection, container, lsn, seq)
        self._numbers.clear()

    def forget(self) -> None:
        """Discard the numbers of a transaction that was rolled back."""
        self._numbers.clear()
