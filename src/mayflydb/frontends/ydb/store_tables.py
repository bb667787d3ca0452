"""Tables as a query's transaction sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.reading import TableReader
from mayflydb.frontends.ydb.rows import RowLayouts, partition_of
from mayflydb.frontends.ydb.schemes.entries import IndexEntry, SystemEntry
from mayflydb.frontends.ydb.sequences import Sequences
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.transactions import TransactionMode
from mayflydb.frontends.ydb.writing import TableWriter
from mayflydb.model.record import Record
from mayflydb.query.yql.comparison import sort_key
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.schemas import Access, Effect, KeyRange, Row, Table

Readable: TypeAlias = TableView | IndexEntry | SystemEntry
"""The entries with rows, which may stand in FROM."""

Views: TypeAlias = Mapping[str, Readable]
"""The entries of a plan, by absolute path."""

SystemRows: TypeAlias = Callable[[SystemEntry], Awaitable[Sequence[Row]]]
"""Returns the current rows of a system table, with all columns."""


class RowCounts(msgspec.Struct):
    """The numbers of rows of a table that a query has read, written and deleted."""

    reads: int = 0
    updates: int = 0
    deletes: int = 0

    def count(self, effect: Effect) -> None:
        """Count the rows of a write."""
        if effect.verb == "DELETE":
            self.deletes += len(effect.rows)
        else:
            self.updates += len(effect.rows)


class StoreTables:
    """Implements `Tables` over a snapshot. `accessed` collects the numbers of rows by table. `crossing`: see `TableReader`."""

    def __init__(
        self,
        snapshot: Snapshot,
        views: Views,
        layouts: RowLayouts,
        mode: TransactionMode,
        accessed: dict[str, RowCounts],
        system_rows: SystemRows,
        sequences: Sequences,
        crossing: Crossing = ON_LOOP,
    ) -> None:
        self._crossing = crossing
        self._sequences = sequences
        self._accessed = accessed
        self._snapshot = snapshot
        self._views = views
        self._layouts = layouts
        self._mode = mode
        self._system_rows = system_rows

    async def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        """Yield the rows of an access in batches. Errors: faults of the access, WriteConflict, OwnerNotFound."""
        view = self._views[access.table]
        counts = self._row_counts(access.table)
        if isinstance(view, SystemEntry):
            rows = select_rows(access, view.table, await self._crossing.wait(_rows_of, self._system_rows, view))
            counts.reads += len(rows)
            yield rows
            return
        if isinstance(view, IndexEntry):
            access = msgspec.structs.replace(access, table=view.view.table.path, index=view.index)
            view = view.view
        self._check_index(view, access.index)
        async for rows in TableReader(self._snapshot, self._layouts.of(view), self._crossing).read(access):
            counts.reads += len(rows)
            yield rows

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Apply an effect. Return the rows of `returning`. Errors: constraints, WriteConflict, OwnerNotFound."""
        return await self._crossing.wait(self.write_here, effect)

    async def write_here(self, effect: Effect) -> Sequence[Row]:
        """Apply an effect as `write` does, for callers on the event loop."""
        self._row_counts(effect.table).count(effect)
        view = self._views[effect.table]
        assert isinstance(view, TableView)
        effect = await self._sequences.fill_serials(view, effect, self._snapshot.now)
        # In snapshot modes, two transactions that write the same row conflict; no read is validated.
        blind = self._mode == "serializable_read_write"
        return await TableWriter(self._snapshot, self._layouts.of(view), blind, self._crossing).write(effect)

    async def finish(self) -> None:
        """Do nothing: the snapshot has all writes, and its commit makes them durable."""

    async def get_record(self, container: int, key: bytes) -> Record | None:
        """Return the record with this key. Errors: WriteConflict, OwnerNotFound."""
        return await self._snapshot.get(container, partition_of(key), key)

    def _row_counts(self, path: str) -> RowCounts:
        return self._accessed.setdefault(path, RowCounts())

    def _check_index(self, view: TableView, name: str | None) -> None:
        """Check the index of a read. Asynchronous indexes are refused except in stale read only mode, as YDB does."""
        if name is None or self._mode == "stale_read_only":
            return
        if any(index.name == name and index.kind == "async" for index in view.table.indexes):
            text = (
                f"Read from async index '{name}' of table '{view.table.path}' is possible only in stale read only mode"
            )
            raise fault(f"{text}, and the transaction's is {self._mode}", status="BAD_REQUEST")


async def _rows_of(system_rows: SystemRows, view: SystemEntry) -> Sequence[Row]:
    return await system_rows(view)


def select_rows(access: Access, table: Table, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of an access, selected from rows in memory with all columns of the table."""
    names = [column.name for column in table.columns]
    key = [names.index(name) for name in table.key]
    order = [sort_key(table.columns[place].type) for place in key]
    places = [names.index(name) for name in access.columns]

    def sort_place(row: Row) -> list[object]:
        return [by(row[place]) for by, place in zip(order, key, strict=True)]

    def lies_in(place: list[object], part: KeyRange) -> bool:
        lower = [by(value) for by, value in zip(order, part.lower, strict=False)]
        upper = [by(value) for by, value in zip(order, part.upper, strict=False)]
        # A bound may have fewer values than the key. Only these are compared, so the bound covers all keys that begin
        # with them.
        low, high = place[: len(lower)], place[: len(upper)]
        return (low > lower or (low == lower and not part.lower_open) or not lower) and (
            high < upper or (high == upper and not part.upper_open) or not upper
        )

    placed = sorted(((sort_place(row), row) for row in rows), key=lambda each: each[0], reverse=access.descending)
    found: dict[int, Row] = {}
    for part in access.ranges or (KeyRange(),):
        # Ranges may overlap, and each row counts once: rows are told apart by identity.
        found.update({id(row): row for place, row in placed if lies_in(place, part)})
    return [tuple(row[place] for place in places) for row in found.values()][: access.limit]
