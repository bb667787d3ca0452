"""The lsn and seq counters of containers during one write transaction."""

from __future__ import annotations

import apsw

from mayflydb.model.errors import OwnerNotFound, Unavailable
from mayflydb.store.interface import Allocate, CatalogRow, LoadRow
from mayflydb.store.rows import SEQ_MASK
from mayflydb.store.sqlite.catalog import AHEAD, Catalog


class Counters:
    """The numbers that were allocated since the transaction began. At its end the catalogue notes them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._numbers: dict[int, list[int]] = {}
        self._ahead = AHEAD

    def _of(self, container: int) -> list[int]:
        numbers = self._numbers.get(container)
        if numbers is None:
            row = self._catalog.row_now(container)
            if row is None:
                raise OwnerNotFound(f"container {container} does not exist")
            numbers = self._numbers[container] = [row.lsn, row.seq]
        return numbers

    def row(self, request: LoadRow) -> CatalogRow | None:
        """The row of a container with the numbers as they are in the transaction."""
        return self.with_counters(self._catalog.row_now(request.id))

    def with_counters(self, row: CatalogRow | None) -> CatalogRow | None:
        """A row with the numbers as they are in the transaction."""
        numbers = None if row is None else self._numbers.get(row.id)
        if row is None or numbers is None:
            return row
        return CatalogRow(row.id, row.parent, row.name, row.data, numbers[0], numbers[1])

    def allocate(self, request: Allocate) -> tuple[int, int]:
        """The next lsn and, if wanted, the next seq (else 0)."""
        numbers = self._numbers.get(request.container) or self._of(request.container)
        numbers[0] += 1
        if not request.seq:
            return numbers[0], 0
        numbers[1] += 1
        if numbers[1] > SEQ_MASK:
            raise Unavailable(f"container {request.container} has given out all its record numbers")
        return numbers[0], numbers[1]

    def lsn(self, container: int) -> int:
        """The last lsn that was allocated."""
        return self._of(container)[0]

    def advance(self, container: int, by: int) -> None:
        """Allocate `by` lsns at once."""
        self._of(container)[0] += by

    def give_back(self) -> None:
        """Reserve no numbers from now on: the stored rows are to tell the last ones."""
        self._ahead = 0

    def save(self, connection: apsw.Connection) -> None:
        """Note the counters that moved."""
        for container, (lsn, seq) in self._numbers.items():
            self._catalog.count(connection, container, lsn, seq, self._ahead)
        self._numbers.clear()
        if not self._ahead:
            self._catalog.give_back(connection)

    def drop(self, container: int) -> None:
        """Forget a container that the transaction removes."""
        self._numbers.pop(container, None)

    def forget(self) -> None:
        """Discard the numbers of a transaction that was rolled back."""
        self._numbers.clear()
