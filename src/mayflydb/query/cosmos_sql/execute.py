"""Execution of compiled SELECTs: rows, groups, order, DISTINCT, OFFSET and LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec

from mayflydb.model.releasing import keep
from mayflydb.query.cosmos_sql.aggregates import Aggregate, ValueCount
from mayflydb.query.cosmos_sql.operators import Evaluate, Frame
from mayflydb.query.cosmos_sql.scope import Grouping
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value, descending_key, group_key, order_key

_SORT_BATCH: Final = 256
"""A bounded sort collects twice its bound and this many rows more before it sorts and discards the rest."""


class Input(msgspec.Struct, frozen=True):
    """One source of FROM beyond the document itself: the slot of its alias and a function that gives its values."""

    slot: int
    values: Callable[[Frame], Iterable[Value]]


class BlockingSource(msgspec.Struct, frozen=True):
    """A SELECT as the first source of FROM that gives no row before it has read every document.

    `unnest`: the alias, at `slot`, takes the elements of its rows.
    """

    slot: int
    program: Program
    unnest: bool


class Program(msgspec.Struct, frozen=True):
    """A compiled SELECT. `take` None: all rows after `skip`. `orders`: pairs of a sort key and whether it is descending.

    `nearest`: the rows are ordered by a distance, and rows without a distance are left out. `blocking_source`: the SELECT
    that gives the rows, if FROM does not read one document after the other.
    """

    inputs: tuple[Input, ...]
    where: Evaluate | None
    project: Evaluate
    orders: tuple[tuple[Evaluate, bool], ...]
    grouping: Grouping | None
    distinct: bool
    skip: int
    take: int | None
    nearest: bool = False
    blocking_source: BlockingSource | None = None

    @property
    def streams(self) -> bool:
        """True if each row of FROM gives its result row by itself; `skip` and `take` then count result rows."""
        return not self.orders and self.grouping is None and not self.distinct and self.blocking_source is None

    @property
    def is_plain(self) -> bool:
        """True if the program streams and returns all its rows."""
        return self.streams and self.skip == 0 and self.take is None

    @property
    def stop(self) -> int | None:
        """The number of result rows after which the execution can stop; None: all."""
        return None if self.take is None else self.skip + self.take


def bind_rows(program: Program, frame: Frame) -> Iterator[None]:
    """Yield once for each row of FROM that WHERE keeps, with the aliases of that row set in `frame`."""
    where = program.where
    for _ in _combinations(program.inputs, 0, frame):
        if where is None or where(frame) is True:
            yield


def _combinations(inputs: tuple[Input, ...], position: int, frame: Frame) -> Iterator[None]:
    if position == len(inputs):
        yield
        return
    source = inputs[position]
    for value in source.values(frame):
        frame[source.slot] = value
        # The innermost source yields here, so that a row costs one generator step less.
        if position + 1 == len(inputs):
            yield
        else:
            yield from _combinations(inputs, position + 1, frame)


def rows(program: Program, frame: Frame) -> Iterator[Value]:
    """The result rows of a streaming program, before `skip` and `take`."""
    project = program.project
    for _ in bind_rows(program, frame):
        value = project(frame)
        if value is not UNDEFINED:
            yield value


def collect_rows(program: Program, frame: Frame) -> list[Value]:
    """Return all result rows of a SELECT over the one document in `frame`, as a subquery needs them."""
    if program.streams:
        return keep(list(islice(rows(program, frame), program.skip, program.stop)))
    accumulation = start_accumulation(program)
    accumulation.add_document(frame, 0)
    return accumulation.results(frame)


class Accumulation:
    """Accumulates the rows of a program and gives the result, for programs without order and groups.

    Subclasses serve the others. `query.Accumulator` wraps an accumulation for callers who have documents and no frames.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stop = program.stop
        self.found: list[Value] = []
        self.seen: set[bytes] = set()

    @property
    def full(self) -> bool:
        """True if further rows cannot change the result."""
        return self.stop is not None and len(self.found) >= self.stop

    def add_document(self, frame: Frame, tie: Any) -> int:
        """Add the rows of the document in `frame`; return how many of them WHERE kept."""
        program = self.program
        if not program.inputs:
            # The usual case is a document that is its own only row: it needs no generators.
            if program.where is not None and program.where(frame) is not True:
                return 0
            self.add_row(frame, (tie, 0))
            return 1
        count = 0
        for _ in bind_rows(program, frame):
            self.add_row(frame, (tie, count))
            count += 1
        return count

    def add_row(self, frame: Frame, tie: Any) -> None:
        """Add the row in `frame`. Rows with equal sort keys are ordered by `tie`: (tie of the document, number of the row in
        it).
        """
        if not self.full:
            self.add_result(self.program.project(frame))

    def add_result(self, value: Value) -> None:
        """Add a result row."""
        if value is UNDEFINED:
            return
        if self.program.distinct:
            key = group_key(value)
            if key in self.seen:
                return
            self.seen.add(key)
        self.found.append(value)

    def results(self, frame: Frame) -> list[Value]:
        """The result rows; `frame` is a scratch frame with the context."""
        return keep(self.found[self.program.skip : self.stop])


class GroupedAccumulation(Accumulation):
    """The accumulation of GROUP BY and aggregates."""

    def __init__(self, program: Program, grouping: Grouping) -> None:
        super().__init__(program)
        self.grouping = grouping
        self.groups: dict[bytes, tuple[list[Value], list[Aggregate]]] = {}

    def add_row(self, frame: Frame, tie: Any) -> None:
        """Add the row to its group."""
        grouping = self.grouping
        key = group_key(*[part(frame) for part in grouping.keys])
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = grouping.start_group(frame)
        grouping.add_row(group[1], frame)

    def count_rows(self, frame: Frame, count: int) -> None:
        """Add rows that count alike, to the only group. `frame`: any of them."""
        if not count:
            return
        group = self.groups.get(b"")
        if group is None:
            group = self.groups[b""] = self.grouping.start_group(frame)
        for state, (_, _, argument) in zip(group[1], self.grouping.aggregates, strict=True):
            assert isinstance(state, ValueCount), "the caller has checked it"
            state.add_many(argument(frame), count)

    def results(self, frame: Frame) -> list[Value]:
        """One row for each group, in the order in which groups appeared."""
        groups = list(self.groups.values())
        # Aggregates over no rows give one row (COUNT is 0). GROUP BY over no rows gives none.
        if not groups and not self.grouping.keys:
            groups = [self.grouping.start_group(frame)]
        for group in groups:
            self.grouping.write_group(group, frame)
            self.add_result(self.program.project(frame))
        return super().results(frame)


class RowPosition(msgspec.Struct, frozen=True):
    """The position of a row in a sorted result: its sort values, the tie of its document, its number within the document."""

    values: tuple[Value, ...]
    tie: int
    row: int


class SortedAccumulation(Accumulation):
    """The accumulation of ORDER BY.

    With TOP, LIMIT or a page size it keeps about twice as many rows as it can return, however many are added. `after`: rows up
    to this position are left out, and OFFSET with them. `rows`: the most rows that the caller needs.
    """

    def __init__(self, program: Program, after: RowPosition | None = None, rows: int | None = None) -> None:
        super().__init__(program)
        self.entries: list[tuple[tuple[Any, ...], Value, tuple[Value, ...]]] = []
        self.worst_kept: tuple[Any, ...] | None = None
        self.added_rows = 0
        self.after_key = None if after is None else (*self._keys(after.values), after.tie, after.row)
        # The rows that OFFSET skips lie before the position.
        self.skip = program.skip if after is None else 0
        wanted = [count for count in (program.take, rows) if count is not None]
        self.stop = self.skip + min(wanted) if wanted else None
        # A duplicate may precede the row it repeats, so a DISTINCT result cannot discard rows early.
        self.bound = None if program.distinct else self.stop

    @property
    def full(self) -> bool:
        """True if the result has no rows; any other result depends on every document."""
        return self.stop == 0

    @property
    def is_satisfied(self) -> bool:
        """True if as many rows were added as can be skipped and returned; later documents may still sort before them."""
        return self.stop is not None and self.added_rows >= self.stop

    def _keys(self, values: Iterable[Value]) -> list[Any]:
        orders = zip(values, self.program.orders, strict=True)
        return [descending_key(value) if descending else order_key(value) for value, (_, descending) in orders]

    def add_row(self, frame: Frame, tie: Any) -> None:
        """Add the row if it can still be among the first; `tie` is the document's tie and the number of the row in it."""
        values = tuple([key(frame) for key, _ in self.program.orders])
        if self.program.nearest and values[0] is UNDEFINED:
            return
        # The tie makes entries unique: equal sort keys never compare the values behind them.
        entry = (*self._keys(values), *tie)
        # A row at or behind the worst of the kept rows cannot be returned. A row at or before the position was returned
        # already.
        if (self.worst_kept is not None and not entry < self.worst_kept) or (
            self.after_key is not None and not entry > self.after_key
        ):
            return
        value = self.program.project(frame)
        if value is UNDEFINED:
            return
        self.entries.append((entry, value, values))
        self.added_rows += 1
        if self.bound is not None and len(self.entries) > 2 * self.bound + _SORT_BATCH:
            self._truncate(self.bound)

    def _truncate(self, bound: int) -> None:
        self.entries.sort(key=itemgetter(0))
        # `bound` rows sort before every row that is dropped here, so it cannot be in the result.
        del self.entries[bound:]
        if self.entries:
            self.worst_kept = self.entries[-1][0]

    def results(self, frame: Frame) -> list[Value]:
        """The result rows in order."""
        self.entries.sort(key=itemgetter(0))
        for _, value, _ in self.entries:
            self.add_result(value)
        return self.found[self.skip : self.stop]

    def add_result(self, value: Value) -> None:
        """Add a result row; `results` and `positioned_rows` apply `skip` and `stop`."""
        if not self.program.distinct or (key := group_key(value)) not in self.seen:
            self.found.append(value)
            if self.program.distinct:
                self.seen.add(key)

    def positioned_rows(self) -> list[tuple[Value, RowPosition]]:
        """The result rows in order, each with its position."""
        self.entries.sort(key=itemgetter(0))
        cut = self.entries[self.skip : self.stop]
        # An entry ends with the tie of its document and the number of the row in it.
        return [(value, RowPosition(values, entry[-2], entry[-1])) for entry, value, values in cut]


class NestedAccumulation(Accumulation):
    """The accumulation of a SELECT over the rows of a blocking SELECT."""

    def __init__(self, program: Program, blocking_source: BlockingSource) -> None:
        super().__init__(program)
        self.blocking_source = blocking_source
        self.inner = start_accumulation(blocking_source.program)
        self.outer = _start_direct(program)

    @property
    def full(self) -> bool:
        """True if the inner SELECT needs no further documents."""
        return self.inner.full

    def add_document(self, frame: Frame, tie: Any) -> int:
        """Add the document to the inner SELECT."""
        return self.inner.add_document(frame, tie)

    def results(self, frame: Frame) -> list[Value]:
        """Run the outer SELECT over the rows of the inner one and return its rows."""
        position = 0
        for row in self.inner.results(frame):
            for value in _elements(row) if self.blocking_source.unnest else (row,):
                if self.outer.full:
                    break
                frame[self.blocking_source.slot] = value
                self.outer.add_document(frame, position)
                position += 1
        return self.outer.results(frame)


def _elements(row: Value) -> list[Value]:
    return row if type(row) is list else []


def start_accumulation(program: Program) -> Accumulation:
    """Start an accumulation of the kind that the program needs."""
    return (
        _start_direct(program)
        if program.blocking_source is None
        else NestedAccumulation(program, program.blocking_source)
    )


def _start_direct(program: Program) -> Accumulation:
    if program.grouping is not None:
        return GroupedAccumulation(program, program.grouping)
    return SortedAccumulation(program) if program.orders else Accumulation(program)
