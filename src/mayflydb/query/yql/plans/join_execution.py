"""Execution of joins: by a hash table of the right side, or by lookups in the right side's table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence

import msgspec

from mayflydb.model.releasing import release
from mayflydb.query.yql.expression import Evaluate
from mayflydb.query.yql.plans.constraints import OUTSIDE
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS, Scan, collect_rows, reserve_rows
from mayflydb.query.yql.schemas import Access, KeyRange, Row, Run, Tables
from mayflydb.query.yql.types import Value


class JoinKey(msgspec.Struct, frozen=True):
    """One side of an equality: a value, and the function to its group key."""

    evaluate: Evaluate
    key: Callable[[Value], Hashable]


class JoinSide(msgspec.Struct, frozen=True):
    """One side of a join. `any_row`: at most one row of each key takes part, as behind ANY."""

    relation: Relation
    keys: tuple[JoinKey, ...]
    width: int
    any_row: bool = False

    def inputs(self) -> tuple[Relation, ...]:
        return (self.relation,)

    def key(self, row: Row, run: Run) -> tuple[Hashable, ...] | None:
        """The key of a row; None if a part is NULL, since NULL equals nothing."""
        found = []
        for each in self.keys:
            value = each.evaluate(row, run)
            if value is None:
                return None
            found.append(each.key(value))
        return tuple(found)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Yield the rows of the side. A row with a NULL in its key matches no row and is no duplicate."""
        met: set[tuple[Hashable, ...]] = set()
        async for batch in self.relation.batches(run, tables):
            if self.any_row:
                fresh = []
                for row in batch:
                    key = self.key(row, run)
                    if key is None or key not in met:
                        fresh.append(row)
                    if key is not None and key not in met:
                        reserve_rows(run, 1)
                        met.add(key)
                batch = fresh
            yield batch
        run.budget += len(met)


KeyIndex = dict[tuple[Hashable, ...], list[int]]


def _index_rows(side: JoinSide, rows: Sequence[Row], run: Run) -> KeyIndex:
    found: KeyIndex = {}
    for place, row in enumerate(rows):
        key = side.key(row, run)
        # A key with NULL equals nothing, so its row is not indexed; it stays in `rows` for RIGHT and FULL.
        if key is not None and not (side.any_row and key in found):
            found.setdefault(key, []).append(place)
    return found


def join_rows(
    kind: str,
    left: JoinSide,
    batch: Sequence[Row],
    rows: Sequence[Row],
    index: KeyIndex,
    run: Run,
    seen: set[int],
    right: int,
) -> Iterator[list[Row]]:
    """Join a batch of rows of the left side; yield the results in batches of less than twice BATCH_ROWS.

    `seen` collects the indexes of the matched rows of the right side.
    """
    result: list[Row] = []
    nothing = (None,) * right
    for row in batch:
        key = left.key(row, run)
        places = index.get(key, ()) if key is not None else ()
        if kind == "LEFT SEMI":
            if places:
                result.append(row)
        elif kind == "LEFT ONLY":
            if not places:
                result.append(row)
        elif places:
            if kind in ("RIGHT", "FULL", "EXCLUSION"):
                seen.update(places)
            if kind != "EXCLUSION":
                for start in range(0, len(places), BATCH_ROWS):
                    result.extend([row + rows[place] for place in places[start : start + BATCH_ROWS]])
                    if len(result) >= BATCH_ROWS:
                        yield result
                        result = []
        elif kind in ("LEFT", "FULL", "EXCLUSION"):
            result.append(row + nothing)
    yield result


class JoinRows(msgspec.Struct, frozen=True):
    """A hash join: holds all rows of the right side in memory, and streams the left side."""

    kind: str
    left: JoinSide
    right: JoinSide

    def inputs(self) -> tuple[Relation, ...]:
        return (self.left.relation, self.right.relation)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        rows = await collect_rows(self.right, run, tables)
        index: KeyIndex = {}
        seen: set[int] = set()
        try:
            index = _index_rows(self.right, rows, run)
            async for batch in self.left.batches(run, tables):
                for start in range(0, len(batch), BATCH_ROWS):
                    part = batch[start : start + BATCH_ROWS]
                    for found in join_rows(self.kind, self.left, part, rows, index, run, seen, self.right.width):
                        yield found
            # Only behind the last row of the left side it is known which right rows have no match.
            if self.kind in ("RIGHT", "FULL", "EXCLUSION"):
                nothing = (None,) * self.left.width
                yield [nothing + row for place, row in enumerate(rows) if place not in seen]
            run.budget += len(rows)
        finally:
            release(index)
            release(rows)


class LookupRows(msgspec.Struct, frozen=True):
    """A lookup join: for each batch of the left side, reads only the rows of the right table with the keys of the
    batch.

    `lookup` gives the values of `names`, the first columns of the right table's key.
    """

    kind: str
    left: JoinSide
    right: JoinSide
    lookup: tuple[Evaluate, ...]
    names: tuple[str, ...]

    def inputs(self) -> tuple[Relation, ...]:
        return (self.left.relation, self.right.relation)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        scan = self.right.relation
        assert isinstance(scan, Scan)
        async for batch in self.left.batches(run, tables):
            for start in range(0, len(batch), BATCH_ROWS):
                part = batch[start : start + BATCH_ROWS]
                rows: list[Row] = []
                ranges = self._ranges(part, run)
                if ranges:
                    async for found in tables.read(Access(scan.table, scan.columns, scan.index, ranges)):
                        reserve_rows(run, len(found))
                        rows.extend(found)
                index = _index_rows(self.right, rows, run)
                for joined in join_rows(self.kind, self.left, part, rows, index, run, set(), self.right.width):
                    yield joined
                run.budget += len(rows)

    def _ranges(self, batch: Sequence[Row], run: Run) -> tuple[KeyRange, ...]:
        """The key ranges to read for a batch, one for each distinct key."""
        found: dict[tuple[Value, ...], None] = {}
        for row in batch:
            values = tuple([each(row, run) for each in self.lookup])
            if None not in values and not any(each is OUTSIDE for each in values):
                found[values] = None
        # The ranges need no order: the rows go into a hash table.
        return tuple(KeyRange(each, each) for each in found)
