"""Tables of a query that is a transaction of its own.

A query that reads a single row, or writes without reading, runs without a snapshot. A snapshot would double the cost of
such a query.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb import bulk
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.reading import READ_CHANGED, point_key
from mayflydb.frontends.ydb.rows import RowLayout, RowLayouts, partition_of
from mayflydb.frontends.ydb.sequences import Sequences
from mayflydb.frontends.ydb.store_tables import RowCounts, StoreTables, Views
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.schemas import Access, Effect, Row


class DirectTables:
    """Implements `Tables` for one run of a plan.

    `open_tables` opens the tables of a snapshot; the run does so when it needs more than a point read or blind writes.
    `crossing`: see `TableReader`.
    """

    def __init__(
        self,
        engine: Engine,
        now: Instant,
        plan: Plan,
        views: Views,
        layouts: RowLayouts,
        accessed: dict[str, RowCounts],
        open_tables: Callable[[], Awaitable[StoreTables]],
        sequences: Sequences,
        crossing: Crossing = ON_LOOP,
        author: str = "",
    ) -> None:
        self._crossing = crossing
        self._author = author
        self._sequences = sequences
        self._engine = engine
        self._now = now
        self._plan = plan
        self._views = views
        self._layouts = layouts
        self._accessed = accessed
        self._open_tables = open_tables
        self._tables: StoreTables | None = None
        self._point_read: tuple[RowLayout, bytes, int | None] | None = None
        self._effects: list[Effect] = []

    async def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        """Yield the rows of an access in batches. Errors as of `StoreTables.read`."""
        view = self._views[access.table]
        # Only the first read may go without a snapshot. Two of them could see two different states.
        if self._tables is None and self._point_read is None and self._plan.read_only and isinstance(view, TableView):
            key = point_key(view, access)
            if key is not None and access.limit != 0:
                for row in await self._crossing.wait(self._read_point, view, access, key):
                    yield [row]
                return
        tables = await self._crossing.wait(self._switch_to_snapshot)
        async for rows in tables.read(access):
            yield rows

    async def _read_point(self, view: TableView, access: Access, key: Row) -> list[Row]:
        layout = self._layouts.of(view)
        record_key = layout.key_from(key)
        record = await self._engine.get(view.node, partition_of(record_key), record_key, self._now)
        self._point_read = layout, record_key, None if record is None else record.lsn
        if record is None:
            return []
        self._accessed[access.table] = RowCounts(reads=1)
        return [layout.column_getter(access.columns)(layout.decode(record.value))]

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Apply an effect at once, or keep it for `finish`. Errors as of `StoreTables.write`."""
        # RETURNING and UPDATE need the stored rows, and a plan that also reads has to see its own writes. All other
        # effects wait for `finish`, which writes them in one decision.
        if self._tables is None and effect.returning is None and effect.verb != "UPDATE" and not self._plan.reads:
            view = self._views[effect.table]
            assert isinstance(view, TableView)
            self._effects.append(await self._crossing.wait(self._sequences.fill_serials, view, effect, self._now))
            return ()
        tables = await self._crossing.wait(self._switch_to_snapshot)
        return await tables.write(effect)

    async def _switch_to_snapshot(self) -> StoreTables:
        if self._tables is None:
            self._tables = await self._open_tables()
            # The point read was made before the snapshot was taken. The same row with another lsn shows that both see
            # different states.
            if self._point_read is not None:
                layout, key, lsn = self._point_read
                record = await self._tables.get_record(layout.view.node.id, key)
                if (None if record is None else record.lsn) != lsn:
                    raise WriteConflict(READ_CHANGED, container=layout.view.node.id)
            # Statements see the snapshot from now on, so the effects that were kept before are written into it.
            effects, self._effects = self._effects, []
            for effect in effects:
                await self._tables.write_here(effect)
        return self._tables

    async def finish(self) -> None:
        """Write the effects that were kept. Errors as of `bulk.write_effects`."""
        planned: list[tuple[RowLayout, Effect]] = []
        for effect in self._effects:
            view = self._views[effect.table]
            assert isinstance(view, TableView)
            planned.append((self._layouts.of(view), effect))
            self._accessed.setdefault(effect.table, RowCounts()).count(effect)
        if planned:
            await bulk.write_effects(self._engine, planned, self._now, self._crossing, self._author)
