"""Writes of rows: what the verbs of YQL do with rows that are there, and with those that are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.reading import Reader, conflict, rows_of
from mayflydb.frontends.ydb.rows import Layout, Values, partition_of
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.record import Record
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Access, Effect, KeyRange, Row
from mayflydb.query.yql.types import Value, bare

EXISTS = "Conflict with existing key."
TWICE = "Duplicated keys found."

AT_ONCE: Final = 64
"""Rows after which others have their turn."""


MOST_CELL: Final = 16 << 20
"""Bytes of one value, as data shards of YDB allow."""

MOST_KEY: Final = (1 << 20) + 1024
"""Bytes of all values of a key."""

SIZED: Final = frozenset(("String", "Utf8", "Yson", "Json", "JsonDocument"))
"""Types whose values may be large."""

SURELY_SMALL: Final = 32 << 10
"""Bytes or characters that a value of a key may have, whatever the others have, without coming near to a limit."""


class Writer:
    """Writes of one table in one transaction.

    `blind`: an UPSERT, REPLACE or DELETE is no conflict with another transaction's write, unless the row was read here, too.
    """

    def __init__(self, snapshot: Snapshot, layout: Layout, blind: bool) -> None:
        self._snapshot = snapshot
        self._blind = blind
        self._layout = layout
        self._container = layout.view.node.id
        self._unique = [index for index in layout.view.table.indexes if index.kind == "unique"]

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Do it. Errors: PRECONDITION_FAILED for keys that are taken, WriteConflict, OwnerNotFound."""
        done: list[Values] = []
        rows = Rows(self._layout, effect.columns, effect.generated)
        keyed = [(rows.key_of(row), row) for row in effect.rows]
        if effect.verb == "INSERT":
            keyed = await self._insertable(effect, keyed)
        do = {"INSERT": self._insert, "UPDATE": self._update, "DELETE": self._delete}.get(effect.verb, self._put)
        for number, (key, row) in enumerate(keyed, 1):
            if not number % AT_ONCE:
                await asyncio.sleep(0)
            try:
                after = await do(effect, rows, key, row)
            except Conflict:
                raise conflict(effect.table, EXISTS) from None
            if after is not None:
                done.append(after)
        return () if effect.returning is None else rows_of(self._layout, effect.returning, done)

    async def _insertable(self, effect: Effect, keyed: list[tuple[bytes, Row]]) -> list[tuple[bytes, Row]]:
        """Those that may be inserted. All are looked at before any is written."""
        if len({key for key, _ in keyed}) < len(keyed):
            if not effect.ignore_existing:
                raise conflict(effect.table, TWICE)
            keyed = list({key: (key, row) for key, row in reversed(keyed)}.values())[::-1]
        vacant = [(key, row) for key, row in keyed if await self._get(key) is None]
        if len(vacant) < len(keyed) and not effect.ignore_existing:
            raise conflict(effect.table, EXISTS)
        return vacant

    async def _get(self, key: bytes) -> Record | None:
        return await self._snapshot.get(self._container, partition_of(key), key)

    async def _insert(self, effect: Effect, rows: Rows, key: bytes, row: Row) -> Values:
        values = rows.new(row)
        await self._check_unique(effect, key, values)
        await self._run(Mode.CREATE, key, self._layout.draft(values, key))
        return values

    async def _put(self, effect: Effect, rows: Rows, key: bytes, row: Row) -> Values | None:
        blind = self._blind and effect.returning is None
        if effect.verb == "REPLACE" or rows.whole:
            values = rows.new(row)
            await self._check_unique(effect, key, values)
            await self._run(Mode.UPSERT, key, self._layout.draft(values, key), blind)
            return values
        merge = rows.merge(row, key)
        if any(name in index.columns for index in self._unique for name in effect.columns):
            before = await self._get(key)
            await self._check_unique(effect, key, rows.upon(before, row))
        written = await self._snapshot.run(
            self._container, Command(Mode.UPSERT, partition_of(key), key, merge), blind=blind
        )
        return None if blind else self._layout.decode(written.record.value)

    async def _update(self, effect: Effect, rows: Rows, key: bytes, row: Row) -> Values | None:
        before = await self._get(key)
        if before is None:
            return None
        values = rows.over(self._layout.decode(before.value), row)
        await self._check_unique(effect, key, values)
        await self._run(Mode.REPLACE, key, self._layout.draft(values, key))
        return values

    async def _delete(self, effect: Effect, rows: Rows, key: bytes, row: Row) -> Values | None:
        blind = self._blind and effect.returning is None
        try:
            command = Command(Mode.DELETE, partition_of(key), key)
            written = await self._snapshot.run(self._container, command, blind=blind)
        except OwnerNotFound:
            raise
        except NotFound:
            return None
        return None if blind else self._layout.decode(written.record.value)

    async def _check_unique(self, effect: Effect, key: bytes, values: Values) -> None:
        """In what the transaction sees, which is not what is stored by now, nobody else has what is unique. Counts as read."""
        table = self._layout.view.table
        for index in self._unique:
            own = tuple(values[self._layout.numbers[name]] for name in index.columns)
            if None in own or not (
                index.ready and (effect.verb != "UPDATE" or set(index.columns) & set(effect.columns))
            ):
                continue
            access = Access(table.path, table.key, index.name, (KeyRange(own, own),))
            async for found in Reader(self._snapshot, self._layout).read(access):
                if any(self._layout.key_from(each) != key for each in found):
                    raise conflict(effect.table, EXISTS)

    async def _run(self, mode: Mode, key: bytes, draft: Draft, blind: bool = False) -> None:
        await self._snapshot.run(self._container, Command(mode, partition_of(key), key, draft), blind=blind)


class Rows:
    """Rows given by values of some columns, as rows of their table. `generated`: those of them that are for new rows alone."""

    def __init__(self, layout: Layout, columns: Sequence[str], generated: Sequence[str] = ()) -> None:
        self._layout = layout
        self._given = [(place, layout.numbers[name]) for place, name in enumerate(columns) if name not in generated]
        self._numbers = [layout.numbers[name] for name in columns]
        places = [columns.index(name) for name in layout.view.table.key]
        self._key = itemgetter(*places) if len(places) > 1 else _only(places[0])
        self._keys = places
        types = {column.name: str(bare(column.type)) for column in layout.view.table.columns}
        self._sized = [place for place, name in enumerate(columns) if types[name] in SIZED]
        self.whole = len(set(columns)) == len(layout.numbers) and not generated

    def key_of(self, row: Row) -> bytes:
        """The key of the record of a row. BAD_REQUEST for a value, or a key, that is too large."""
        for place in self._sized:
            if row[place] is not None and len(row[place]) > SURELY_SMALL:
                self._measure(row)
                break
        return self._layout.key_from(self._key(row))

    def _measure(self, row: Row) -> None:
        sizes = {place: _size(row[place]) for place in self._sized}
        key = sum(sizes.get(place, 8) for place in self._keys)
        if key > MOST_KEY:
            raise _too_large("key", key, MOST_KEY)
        for size in sizes.values():
            if size > MOST_CELL:
                raise _too_large("cell", size, MOST_CELL)

    def new(self, row: Row) -> Values:
        """A row that has these values, and defaults where there are none."""
        return self.over(self._layout.blank(), row)

    def over(self, values: Values, row: Row) -> Values:
        """A row with these values in it; it is changed."""
        for number, value in zip(self._numbers, row, strict=True):
            values[number] = value
        return values

    def merge(self, row: Row, key: bytes) -> Callable[[Record | None], Draft]:
        """What an UPSERT makes of the record that is there, or is not."""

        return lambda before: self._layout.draft(self.upon(before, row), key)

    def upon(self, before: Record | None, row: Row) -> Values:
        """The record that is there with these values in it, or a new row."""
        if before is None:
            return self.new(row)
        values = self._layout.decode(before.value)
        for place, number in self._given:
            values[number] = row[place]
        return values


def _size(value: Value) -> int:
    if value is None:
        return 0
    return len(value.encode()) if isinstance(value, str) else len(value)


def _too_large(what: str, size: int, most: int) -> Fault:
    text = f"Row {what} size of {size} bytes is larger than the allowed threshold {most}"
    return fault(text, status="BAD_REQUEST", code=2017)


def _only(place: int) -> Callable[[Row], tuple[Value, ...]]:
    return lambda row: (row[place],)
