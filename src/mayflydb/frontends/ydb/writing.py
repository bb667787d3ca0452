"""Writes of rows over the snapshot of a transaction, row by row, with checks of unique indexes."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.reading import TableReader, pick_columns
from mayflydb.frontends.ydb.rows import RowLayout, Values, partition_of
from mayflydb.frontends.ydb.verbs import BATCH_ROWS, GivenRows, command_factory, key_conflict, keyed_rows, merges_rows
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.record import Record
from mayflydb.query.yql.schemas import Access, Effect, KeyRange, Row


class TableWriter:
    """Writes of one table in one transaction.

    `blind`: an UPSERT, REPLACE or DELETE conflicts with another transaction's write only if this transaction has read
    the row. `crossing`: gives turns between rows.
    """

    def __init__(self, snapshot: Snapshot, layout: RowLayout, blind: bool, crossing: Crossing = ON_LOOP) -> None:
        self._crossing = crossing
        self._snapshot = snapshot
        self._blind = blind
        self._layout = layout
        self._container = layout.view.node.id
        self._unique = [index for index in layout.view.table.indexes if index.kind == "unique"]

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Apply an effect. Errors: PRECONDITION_FAILED for taken keys, WriteConflict, OwnerNotFound."""
        written_rows: list[Values] = []
        rows = GivenRows(self._layout, effect.columns, effect.generated)
        keyed = await keyed_rows(effect, rows, self._crossing)
        if effect.verb == "INSERT":
            keyed = await self._new_rows(effect, keyed)
        command = None if effect.verb == "UPDATE" else command_factory(effect, rows)
        for number, (key, row) in enumerate(keyed, 1):
            # Writes into the snapshot do not wait for anything, so without this no other task would run.
            if not number % BATCH_ROWS:
                await self._crossing.take_turn()
            try:
                if command is None:
                    after = await self._update_row(effect, rows, key, row)
                else:
                    after = await self._write_row(effect, rows, row, command(key, row))
            except Conflict:
                raise key_conflict(effect) from None
            if after is not None:
                written_rows.append(after)
        return () if effect.returning is None else pick_columns(self._layout, effect.returning, written_rows)

    async def _new_rows(self, effect: Effect, keyed: list[tuple[bytes, Row]]) -> list[tuple[bytes, Row]]:
        """Return the rows of an INSERT whose keys have no row yet.

        All keys are looked up before the first row is written.
        """
        new_rows = [(key, row) for key, row in keyed if await self._get(key) is None]
        if len(new_rows) < len(keyed) and not effect.ignore_existing:
            raise key_conflict(effect)
        return new_rows

    async def _get(self, key: bytes) -> Record | None:
        return await self._snapshot.get(self._container, partition_of(key), key)

    async def _write_row(self, effect: Effect, rows: GivenRows, row: Row, command: Command) -> Values | None:
        """Write one row of INSERT, UPSERT, REPLACE or DELETE.

        Return the written or removed row if the effect returns rows.
        """
        if self._unique and effect.verb != "DELETE":
            await self._check_written_row(effect, rows, row, command.key)
        blind = self._blind and effect.returning is None
        try:
            written = await self._snapshot.run(self._container, command, blind=blind)
        # OwnerNotFound is a NotFound as well: a dropped table is an error.
        except OwnerNotFound:
            raise
        except NotFound:
            return None  # A DELETE of a missing row has nothing to do.
        return None if effect.returning is None else self._layout.decode(written.record.value)

    async def _check_written_row(self, effect: Effect, rows: GivenRows, row: Row, key: bytes) -> None:
        if merges_rows(effect, rows):
            # An UPSERT that names no column of a unique index changes none of its values.
            if any(name in index.columns for index in self._unique for name in effect.columns):
                await self._check_unique(effect, key, rows.merge_into(await self._get(key), row))
        else:
            await self._check_unique(effect, key, rows.new_row(row))

    async def _update_row(self, effect: Effect, rows: GivenRows, key: bytes, row: Row) -> Values | None:
        before = await self._get(key)
        if before is None:
            return None
        values = rows.overlay(self._layout.decode(before.value), row)
        await self._check_unique(effect, key, values)
        rows.note_verb(effect.verb)
        command = Command(Mode.REPLACE, partition_of(key), key, rows.draft_of(values, key))
        await self._snapshot.run(self._container, command)
        return values

    async def _check_unique(self, effect: Effect, key: bytes, values: Values) -> None:
        """Check that no other row has the unique values.

        The check reads the transaction's snapshot, not the latest state, and counts as read: a concurrent transaction
        with the same values is then a write conflict.
        """
        table = self._layout.view.table
        for index in self._unique:
            own = tuple(values[self._layout.numbers[name]] for name in index.columns)
            # NULLs equal nothing. An index that is still being built, or that an UPDATE does not touch, is not checked.
            if None in own or not (
                index.ready and (effect.verb != "UPDATE" or set(index.columns) & set(effect.columns))
            ):
                continue
            access = Access(table.path, table.key, index.name, (KeyRange(own, own),))
            async for found in TableReader(self._snapshot, self._layout).read(access):
                if any(self._layout.key_from(each) != key for each in found):
                    raise key_conflict(effect)
