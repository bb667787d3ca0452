"""The basic relations: scans, lists, filters, projections, sorting, limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from mayflydb.model.releasing import release
from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.scopes import Slot
from mayflydb.query.yql.schemas import Access, KeyRange, Row, Run, Tables
from mayflydb.query.yql.types import Value

BATCH_ROWS = 1000
"""Rows in a batch from a list."""


def reserve_rows(run: Run, count: int) -> None:
    """Reserve `count` rows of the run's budget. Faults: the budget has fewer."""
    run.budget -= count
    if run.budget < 0:
        raise fault("Memory limit exceeded: the query holds too many rows at once")


async def collect_rows(relation: Relation, run: Run, tables: Tables) -> list[Row]:
    """Collect all rows of a relation."""
    rows: list[Row] = []
    try:
        async for batch in relation.batches(run, tables):
            # The caller returns the rows to the budget when it has dropped them.
            reserve_rows(run, len(batch))
            rows.extend(batch)
    except BaseException:
        release(rows)
        raise
    return rows


class Ranges(Protocol):
    """The key ranges of a read, ascending and disjoint."""

    def of(self, run: Run) -> tuple[KeyRange, ...]: ...


class OneRow(msgspec.Struct, frozen=True):
    """One row without columns: the source of a SELECT without FROM."""

    def inputs(self) -> tuple[Relation, ...]:
        return ()

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        yield [()]


class Scan(msgspec.Struct, frozen=True):
    """A read of a table. `ranges` None: the whole table. `limit`: the number of rows that are enough."""

    table: str
    columns: tuple[str, ...]
    index: str | None = None
    ranges: Ranges | None = None
    descending: bool = False
    limit: Evaluate | None = None

    def inputs(self) -> tuple[Relation, ...]:
        return ()

    def access(self, run: Run) -> Access | None:
        """The read for this execution; None if the ranges are empty."""
        ranges = None if self.ranges is None else self.ranges.of(run)
        if ranges is not None and not ranges:
            return None
        limit = None if self.limit is None else self.limit((), run)
        # Ranges are ascending; a descending read begins with the last.
        if ranges is not None and self.descending:
            ranges = ranges[::-1]
        return Access(self.table, self.columns, self.index, ranges, self.descending, limit)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        access = self.access(run)
        if access is None or access.limit == 0:
            return
        async for batch in tables.read(access):
            yield batch


class ListRows(msgspec.Struct, frozen=True):
    """The items of a list as rows. `pick`: the index in an item of each column; None: the items are rows already."""

    value: Evaluate
    pick: tuple[int, ...] | None = None

    def inputs(self) -> tuple[Relation, ...]:
        return ()

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        items = self.value((), run) or []
        if self.pick is not None and items:
            chosen = picker(self.pick)
            items = [chosen(each) for each in items]
        for start in range(0, len(items), BATCH_ROWS):
            yield items[start : start + BATCH_ROWS]


class ValueRows(msgspec.Struct, frozen=True):
    """The rows of VALUES."""

    rows: tuple[tuple[Evaluate, ...], ...]

    def inputs(self) -> tuple[Relation, ...]:
        return ()

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        for start in range(0, len(self.rows), BATCH_ROWS):
            yield [tuple([each((), run) for each in row]) for row in self.rows[start : start + BATCH_ROWS]]


class FilterRows(msgspec.Struct, frozen=True):
    """The rows of which `condition` is true."""

    source: Relation
    condition: Evaluate

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        condition = self.condition
        async for batch in self.source.batches(run, tables):
            # NULL is no match: Python counts None as false.
            yield [row for row in batch if condition(row, run)]


def picker(indexes: Sequence[int]) -> Callable[[Row], Row]:
    """Return the function that picks the values at these indexes, as a tuple."""
    if len(indexes) == 1:
        only = indexes[0]
        return lambda row: (row[only],)
    return itemgetter(*indexes) if indexes else lambda row: ()


class ProjectRows(msgspec.Struct, frozen=True):
    """Expressions over the rows of `source`. `pick`: the indexes of the values, if all expressions are columns."""

    source: Relation
    values: tuple[Evaluate, ...]
    pick: tuple[int, ...] | None = None

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        values = self.values
        if self.pick is not None:
            chosen = picker(self.pick)
            async for batch in self.source.batches(run, tables):
                yield [chosen(row) for row in batch]
            return
        async for batch in self.source.batches(run, tables):
            yield [tuple([each(row, run) for each in values]) for row in batch]


def project(source: Relation, expressions: Sequence[Expression], width: int) -> Relation:
    """Compute expressions over rows of `width` values. The result is `source` itself if they are exactly its columns."""
    if all(isinstance(each, Slot) for each in expressions):
        pick = tuple(each.index for each in expressions if isinstance(each, Slot))
        if pick == tuple(range(width)):
            return source
        return ProjectRows(source, tuple(each.evaluate for each in expressions), pick)
    return ProjectRows(source, tuple(each.evaluate for each in expressions))


class LimitRows(msgspec.Struct, frozen=True):
    """LIMIT and OFFSET. The read stops as soon as there are enough rows. A limit of NULL is no limit."""

    source: Relation
    limit: Evaluate | None
    offset: Evaluate | None

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        left: int | None = None if self.limit is None else self.limit((), run)
        skip: int = 0 if self.offset is None else self.offset((), run) or 0
        if left == 0:
            return
        rows = self.source.batches(run, tables)
        try:
            async for batch in rows:
                if skip:
                    dropped = min(skip, len(batch))
                    skip -= dropped
                    batch = batch[dropped:]
                if left is None:
                    yield batch
                    continue
                batch = batch[:left]
                left -= len(batch)
                yield batch
                if not left:
                    return
        finally:
            await close(rows)


async def close(rows: AsyncIterator[Batch]) -> None:
    """Close a read whose remaining rows are not needed."""
    stop = getattr(rows, "aclose", None)
    if stop is not None:
        await stop()


class SortKey(msgspec.Struct, frozen=True):
    """A key of ORDER BY: the value at `index`, through `key`, which gives a total order."""

    index: int
    key: Callable[[Value], Any]
    descending: bool = False


class SortRows(msgspec.Struct, frozen=True):
    """ORDER BY. Rows with equal keys keep their order. `keep`: only this many values of each row leave.

    `limit`: how many rows are needed; then only a few times as many are held in memory.
    """

    source: Relation
    keys: tuple[SortKey, ...]
    keep: int
    limit: Evaluate | None = None

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        wanted = None if self.limit is None else self.limit((), run)
        rows: list[Row] = []
        held = 0
        try:
            async for batch in self.source.batches(run, tables):
                rows.extend(batch)
                # Rows beyond LIMIT are dropped when several times as many are held: sorting at each batch would cost
                # more. The sort is stable, so rows with equal keys that came first stay.
                if wanted is not None and len(rows) > 4 * wanted + BATCH_ROWS:
                    rows = self.sort_rows(rows)[:wanted]
                # `held` is the largest number so far: rows that are dropped are replaced by the next batch.
                if len(rows) > held:
                    reserve_rows(run, len(rows) - held)
                    held = len(rows)
            rows[:] = self.sort_rows(rows)[:wanted]
            keep = self.keep
            for start in range(0, len(rows), BATCH_ROWS):
                part = rows[start : start + BATCH_ROWS]
                yield [row[:keep] for row in part] if part and len(part[0]) != keep else part
        finally:
            release(rows)
        run.budget += held

    def sort_rows(self, rows: list[Row]) -> list[Row]:
        if len({each.descending for each in self.keys}) == 1:
            return sort_in_runs(rows, _key_of_row(self.keys), self.keys[0].descending)
        # Stable sorts from the last key to the first, since each key has a direction of its own.
        for each in reversed(self.keys):
            rows = sort_in_runs(rows, _key_of_row((each,)), each.descending)
        return rows


def _key_of_row(keys: Sequence[SortKey]) -> Callable[[Row], Any]:
    if all(comparison.is_identity(each.key) for each in keys):
        return itemgetter(*[each.index for each in keys])
    if len(keys) == 1:
        (only,) = keys
        index, key = only.index, only.key
        return lambda row: key(row[index])
    parts = [(each.index, each.key) for each in keys]
    return lambda row: [key(row[index]) for index, key in parts]


class DistinctRows(msgspec.Struct, frozen=True):
    """DISTINCT: the first of equal rows."""

    source: Relation
    keys: tuple[Callable[[Value], object], ...]

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        seen: set[object] = set()
        keys = self.keys
        try:
            async for batch in self.source.batches(run, tables):
                fresh = []
                for row in batch:
                    key = tuple([of(value) for of, value in zip(keys, row, strict=True)])
                    if key not in seen:
                        seen.add(key)
                        fresh.append(row)
                # A read that is closed early, by a LIMIT, keeps its rows reserved until the execution ends.
                reserve_rows(run, len(fresh))
                yield fresh
            run.budget += len(seen)
        finally:
            release(seen)
