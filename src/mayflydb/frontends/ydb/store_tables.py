"""The tables that a query reads and writes, as they are in its transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.reading import Reader
from mayflydb.frontends.ydb.rows import Layouts
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.transactions import Mode
from mayflydb.frontends.ydb.writing import Writer
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.schemas import Access, Effect, Row


class Accessed(msgspec.Struct):
    """How many rows of a table a query read, wrote and deleted."""

    reads: int = 0
    updates: int = 0
    deletes: int = 0


class StoreTables:
    """`Tables` over a snapshot, which may be None where a plan names no tables. `views`: the tables by absolute path, as the plan
    was bound to them. `accessed` gets what is done with each."""

    def __init__(
        self,
        snapshot: Snapshot | None,
        views: Mapping[str, TableView],
        layouts: Layouts,
        mode: Mode,
        accessed: dict[str, Accessed],
    ) -> None:
        self._accessed = accessed
        self._snapshot = snapshot
        self._views = views
        self._layouts = layouts
        self._mode = mode

    async def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        """The rows, batch by batch. Errors: faults of the access, WriteConflict, OwnerNotFound."""
        view = self._views[access.table]
        assert self._snapshot is not None
        self._check_index(view, access.index)
        counts = self._counts(access.table)
        async for rows in Reader(self._snapshot, self._layouts.of(view)).read(access):
            counts.reads += len(rows)
            yield rows

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Do it; what `returning` asks for. Errors: constraints, WriteConflict, OwnerNotFound."""
        assert self._snapshot is not None
        counts = self._counts(effect.table)
        if effect.verb == "DELETE":
            counts.deletes += len(effect.rows)
        else:
            counts.updates += len(effect.rows)
        return await Writer(self._snapshot, self._layouts.of(self._views[effect.table])).write(effect)

    def _counts(self, path: str) -> Accessed:
        return self._accessed.setdefault(path, Accessed())

    def _check_index(self, view: TableView, name: str | None) -> None:
        """An index that follows the table later may be read only by who takes what is stale."""
        if name is None or self._mode == "stale_read_only":
            return
        if any(index.name == name and index.kind == "async" for index in view.table.indexes):
            text = (
                f"Read from async index '{name}' of table '{view.table.path}' is possible only in stale read only mode"
            )
            raise fault(f"{text}, and the transaction's is {self._mode}", status="BAD_REQUEST")
