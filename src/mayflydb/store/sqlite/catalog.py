"""The catalogue in memory: the committed rows, and the changes of the transaction under way.

The catalogue is small and read by every write; a SQL statement for each look would cost more than the write itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from mayflydb.store.interface import CatalogRow
from mayflydb.store.rows import SEQ_MASK
from mayflydb.store.sqlite.schema import row_id

AHEAD: Final = 4096
"""The lsns, and the seqs, that the stored row of a container reserves ahead, so that most writes do not update it.

After a crash the numbers go on behind those that were reserved; a clean stop gives the rest back.
"""


class Catalog:
    """Rows by id and by (parent, name). `put` and `drop` write through to the transaction; `commit` or `rollback` ends it."""

    def __init__(self, rows: list[CatalogRow]) -> None:
        self._rows = {row.id: row for row in rows}
        self._names = {(row.parent, row.name): row.id for row in rows}
        self._pending: dict[int, CatalogRow | None] = {}
        # By container: the numbers up to which its stored row reserves, where these are not those of the row in memory.
        self._reserved: dict[int, tuple[int, int]] = {}
        self._reserving: dict[int, tuple[int, int]] = {}
        self._redefined = False
        self.version = 0

    @classmethod
    def load(cls, connection: apsw.Connection) -> Catalog:
        """Read all committed rows."""
        return cls(cls.read_rows(connection))

    @staticmethod
    def read_rows(connection: apsw.Connection) -> list[CatalogRow]:
        """Read all rows as this connection sees them."""
        statement = "SELECT id, parent, name, data, lsn, seq FROM catalog"
        return [CatalogRow(*row) for row in connection.execute(statement)]

    def replace(self, rows: Sequence[CatalogRow]) -> None:
        """Take other committed rows, after those of the tables were replaced."""
        self.rollback()
        self._reserved.clear()
        self._rows = {row.id: row for row in rows}
        self._names = {(row.parent, row.name): row.id for row in rows}
        self.version += 1

    def row(self, id: int) -> CatalogRow | None:
        """A committed row."""
        return self._rows.get(id)

    def find(self, parent: int, name: str) -> CatalogRow | None:
        """A committed row by name."""
        id = self._names.get((parent, name))
        return None if id is None else self._rows[id]

    def children(self, parent: int) -> list[CatalogRow]:
        """Committed rows below a parent, by id."""
        return [row for id, row in sorted(self._rows.items()) if row.parent == parent]

    def row_now(self, id: int) -> CatalogRow | None:
        """A row as the transaction under way sees it."""
        return self._pending[id] if id in self._pending else self._rows.get(id)

    def find_now(self, parent: int, name: str) -> CatalogRow | None:
        """A row by name as the transaction under way sees it."""
        for row in self._pending.values():
            if row is not None and (row.parent, row.name) == (parent, name):
                return row
        found = self.find(parent, name)
        return None if found is None or found.id in self._pending else found

    def children_now(self, parent: int) -> list[CatalogRow]:
        """Rows below a parent as the transaction under way sees them, by id."""
        rows = {row.id: row for row in self.children(parent)}
        for id, row in self._pending.items():
            rows.pop(id, None)
            if row is not None and row.parent == parent:
                rows[id] = row
        return [rows[id] for id in sorted(rows)]

    def put(self, connection: apsw.Connection, row: CatalogRow) -> None:
        """Insert or replace a row; the counters of an existing row stay."""
        before = self.row_now(row.id)
        if before is not None:
            row = msgspec.structs.replace(row, lsn=before.lsn, seq=before.seq)
        connection.execute(
            "INSERT INTO catalog(id, parent, name, data, lsn, seq) VALUES(?,?,?,?,?,?)"
            " ON CONFLICT(id) DO UPDATE SET parent = excluded.parent, name = excluded.name, data = excluded.data",
            (row.id, row.parent, row.name, row.data, row.lsn, row.seq),
        )
        self._pending[row.id] = row
        if before is None:
            self._reserving[row.id] = (row.lsn, row.seq)
        self._redefined = True

    def drop(self, connection: apsw.Connection, id: int) -> None:
        """Remove a row. If the container has records or versions, its id is noted in `dropped`, so that they are cleared
        later.
        """
        if self.row_now(id) is None:
            return
        connection.execute("DELETE FROM catalog WHERE id = ?", (id,))
        connection.execute(
            "INSERT OR IGNORE INTO dropped(container)"
            " SELECT ?1 WHERE EXISTS (SELECT 1 FROM record NOT INDEXED WHERE id > ?2 AND id <= ?3)"
            " OR EXISTS (SELECT 1 FROM history WHERE container = ?1)",
            (id, row_id(id, 0), row_id(id, SEQ_MASK)),
        )
        self._pending[id] = None
        self._redefined = True

    def count(self, connection: apsw.Connection, id: int, lsn: int, seq: int, ahead: int = AHEAD) -> None:
        """Note the last numbers that were allocated in a container. Those that are not reserved yet are, with `ahead` more."""
        row = self.row_now(id)
        if row is None:
            return
        reserved = self._reserving.get(id) or self._reserved.get(id) or (row.lsn, row.seq)
        if lsn > reserved[0] or seq > reserved[1]:
            self._reserve(connection, id, lsn + ahead, min(seq + ahead, SEQ_MASK))
        self._pending[id] = CatalogRow(id, row.parent, row.name, row.data, lsn, seq)

    def _reserve(self, connection: apsw.Connection, id: int, lsn: int, seq: int) -> None:
        connection.execute("UPDATE catalog SET lsn = ?, seq = ? WHERE id = ?", (lsn, seq, id))
        self._reserving[id] = (lsn, seq)

    @property
    def has_reserved(self) -> bool:
        """True if a stored row may reserve numbers."""
        return bool(self._reserved)

    def give_back(self, connection: apsw.Connection) -> None:
        """Store the last numbers that were allocated, and reserve none."""
        for id in [*self._reserved, *self._reserving]:
            row = self.row_now(id)
            if row is not None:
                self._reserve(connection, id, row.lsn, row.seq)

    def clear(self) -> None:
        """Remove all rows in the transaction under way."""
        self._pending = dict.fromkeys(self._rows)
        self._reserving.clear()
        self._redefined = True

    def commit(self) -> None:
        """Make the changes of the transaction the committed state."""
        # All old names are removed before a new one is added: two rows may have swapped their names.
        for id in self._pending:
            before = self._rows.pop(id, None)
            if before is not None:
                del self._names[before.parent, before.name]
        self._reserved.update(self._reserving)
        for id, row in self._pending.items():
            if row is not None:
                self._rows[id] = row
                self._names[row.parent, row.name] = id
            else:
                self._reserved.pop(id, None)
        self.version += self._redefined
        self.rollback()

    def rollback(self) -> None:
        """Discard the changes of the transaction."""
        self._pending.clear()
        self._reserving.clear()
        self._redefined = False
