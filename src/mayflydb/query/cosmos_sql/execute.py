"""Compiled SELECTs and how their rows are made, grouped, ordered and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import msgspec

from mayflydb.query.cosmos_sql.aggregates import Aggregate
from mayflydb.query.cosmos_sql.operators import Evaluate, Frame
from mayflydb.query.cosmos_sql.scope import Grouping
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value, descending_key, group_key, order_key

_SORT_BATCH: Final = 256
"""Entries that a bounded sort collects beyond twice its bound before it sorts and cuts."""


class Input(msgspec.Struct, frozen=True):
    """One source of FROM beyond the document itself: the place of its alias and the values it takes."""

    slot: int
    values: Callable[[Frame], Iterable[Value]]


class BlockingSource(msgspec.Struct, frozen=True):
    """The first source of FROM where it is a SELECT that gives no row before it has seen every document.

    `unnest`: the alias, at `slot`, takes the elements of its rows.
    """

    slot: int
    program: Program
    unnest: bool


class Program(msgspec.Struct, frozen=True):
    """A compiled SELECT. `take` None: all rows after `skip`. `orders`: sort keys and whether each is descending.

    `nearest`: it is ordered by a distance, and rows that have none are left out. `whole`: what it selects from, if that is not
    one document after the other.
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
        """Whether each row of FROM gives its result row by itself; `skip` and `take` count result rows."""
        return not self.orders and self.grouping is None and not self.distinct and self.blocking_source is None

    @property
    def is_plain(self) -> bool:
        """Whether it streams, and all its rows count."""
        return self.streams and self.skip == 0 and self.take is None

    @property
    def stop(self) -> int | None:
        """How many result rows are enough."""
        return None if self.take is None else self.skip + self.take


def bind_rows(program: Program, frame: Frame) -> Iterator[None]:
    """Sets the aliases in `frame` to each row of FROM that WHERE keeps, one a step."""
    where = program.where
    for _ in _combinations(program.inputs, 0, frame):
        if where is None or where(frame) is True:
            yield


def _combinations(inputs: tuple[Input, ...], place: int, frame: Frame) -> Iterator[None]:
    if place == len(inputs):
        yield
        return
    source = inputs[place]
    for value in source.values(frame):
        frame[source.slot] = value
        if place + 1 == len(inputs):
            yield
        else:
            yield from _combinations(inputs, place + 1, frame)


def rows(program: Program, frame: Frame) -> Iterator[Value]:
    """The result rows of a streaming program, before `skip` and `take`."""
    project = program.project
    for _ in bind_rows(program, frame):
        value = project(frame)
        if value is not UNDEFINED:
            yield value


def collect(program: Program, frame: Frame) -> list[Value]:
    """All result rows of a SELECT over the one document in `frame`, as a subquery needs them."""
    if program.streams:
        return list(islice(rows(program, frame), program.skip, program.stop))
    accumulation = start_accumulation(program)
    accumulation.add_document(frame, 0)
    return accumulation.results(frame)


class Accumulation:
    """Takes rows one by one and gives the result; the form without order or groups, with or without DISTINCT."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stop = program.stop
        self.found: list[Value] = []
        self.seen: set[bytes] = set()

    @property
    def full(self) -> bool:
        """Whether further rows cannot change the result."""
        return self.stop is not None and len(self.found) >= self.stop

    def add_document(self, frame: Frame, tie: Any) -> int:
        """Take the rows of the document in `frame`; how many of them WHERE kept."""
        program = self.program
        if not program.inputs:
            # The usual case, a document that is its own only row, without the generators.
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
        """Take the row in `frame`; rows with the same sort keys come in the order of `tie` (document, row in it)."""
        if not self.full:
            self.add_result(self.program.project(frame))

    def add_result(self, value: Value) -> None:
        """Take a result row."""
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
        return self.found[self.program.skip : self.stop]


class GroupedAccumulation(Accumulation):
    """GROUP BY and aggregates."""

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
            group = self.groups[key] = grouping.start(frame)
        grouping.add_row(group[1], frame)

    def results(self, frame: Frame) -> list[Value]:
        """One row a group, in the order in which groups appeared."""
        groups = list(self.groups.values())
        if not groups and not self.grouping.keys:
            groups = [self.grouping.start(frame)]
        for group in groups:
            self.grouping.finish(group, frame)
            self.add_result(self.program.project(frame))
        return super().results(frame)


class RowPosition(msgspec.Struct, frozen=True):
    """The place of a row in a sorted result: its sort values, its document's tie, and its number within the document."""

    values: tuple[Value, ...]
    tie: int
    row: int


class SortedAccumulation(Accumulation):
    """ORDER BY. With TOP, LIMIT or a page size it keeps about twice as many rows as it may return, however many it is fed.

    `after`: only rows behind this place count, and those that OFFSET skips lie before it. `rows`: more are not asked for.
    """

    def __init__(self, program: Program, after: RowPosition | None = None, rows: int | None = None) -> None:
        super().__init__(program)
        self.entries: list[tuple[tuple[Any, ...], Value, tuple[Value, ...]]] = []
        self.worst: tuple[Any, ...] | None = None
        self.taken = 0
        self.first = None if after is None else (*self._keys(after.values), after.tie, after.row)
        self.skip = program.skip if after is None else 0
        wanted = [count for count in (program.take, rows) if count is not None]
        self.stop = self.skip + min(wanted) if wanted else None
        # A duplicate may precede the row it repeats, so that DISTINCT cannot be cut early.
        self.bound = None if program.distinct else self.stop

    @property
    def full(self) -> bool:
        """Only a result of no rows is known before all are seen."""
        return self.stop == 0

    @property
    def is_satisfied(self) -> bool:
        """Whether as many rows were taken as may be returned or skipped; others may still belong before them."""
        return self.stop is not None and self.taken >= self.stop

    def _keys(self, values: Iterable[Value]) -> list[Any]:
        orders = zip(values, self.program.orders, strict=True)
        return [descending_key(value) if descending else order_key(value) for value, (_, descending) in orders]

    def add_row(self, frame: Frame, tie: Any) -> None:
        """Take the row if it can still be among the first; `tie` is the document's tie and the row's number in it."""
        values = tuple([key(frame) for key, _ in self.program.orders])
        if self.program.nearest and values[0] is UNDEFINED:
            return
        entry = (*self._keys(values), *tie)
        if (self.worst is not None and not entry < self.worst) or (self.first is not None and not entry > self.first):
            return
        value = self.program.project(frame)
        if value is UNDEFINED:
            return
        self.entries.append((entry, value, values))
        self.taken += 1
        if self.bound is not None and len(self.entries) > 2 * self.bound + _SORT_BATCH:
            self._truncate(self.bound)

    def _truncate(self, bound: int) -> None:
        self.entries.sort(key=itemgetter(0))
        del self.entries[bound:]
        if self.entries:
            self.worst = self.entries[-1][0]

    def results(self, frame: Frame) -> list[Value]:
        """The rows in order."""
        self.entries.sort(key=itemgetter(0))
        for _, value, _ in self.entries:
            self.add_result(value)
        return self.found[self.skip : self.stop]

    def add_result(self, value: Value) -> None:
        """All rows stay until the result is cut."""
        if not self.program.distinct or (key := group_key(value)) not in self.seen:
            self.found.append(value)
            if self.program.distinct:
                self.seen.add(key)

    def positioned_rows(self) -> list[tuple[Value, RowPosition]]:
        """The rows in order, each with its place."""
        self.entries.sort(key=itemgetter(0))
        cut = self.entries[self.skip : self.stop]
        return [(value, RowPosition(values, entry[-2], entry[-1])) for entry, value, values in cut]


class NestedAccumulation(Accumulation):
    """A SELECT over the rows of another."""

    def __init__(self, program: Program, blocking_source: BlockingSource) -> None:
        super().__init__(program)
        self.blocking_source = blocking_source
        self.inner = start_accumulation(blocking_source.program)
        self.outer = _start_direct(program)

    @property
    def full(self) -> bool:
        """Whether the inner one needs no further documents."""
        return self.inner.full

    def add_document(self, frame: Frame, tie: Any) -> int:
        """Give the document to the inner one."""
        return self.inner.add_document(frame, tie)

    def results(self, frame: Frame) -> list[Value]:
        """The rows of the outer one."""
        place = 0
        for row in self.inner.results(frame):
            for value in _elements(row) if self.blocking_source.unnest else (row,):
                if self.outer.full:
                    break
                frame[self.blocking_source.slot] = value
                self.outer.add_document(frame, place)
                place += 1
        return self.outer.results(frame)


def _elements(row: Value) -> list[Value]:
    return row if type(row) is list else []


def start_accumulation(program: Program) -> Accumulation:
    """The accumulation that a program needs."""
    return (
        _start_direct(program)
        if program.blocking_source is None
        else NestedAccumulation(program, program.blocking_source)
    )


def _start_direct(program: Program) -> Accumulation:
    if program.grouping is not None:
        return GroupedAccumulation(program, program.grouping)
    return SortedAccumulation(program) if program.orders else Accumulation(program)
