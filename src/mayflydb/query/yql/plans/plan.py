"""The results of binding: relations, statements and plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import Issue
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.types import Type

Batch: TypeAlias = Sequence[Row]

ResultColumns: TypeAlias = tuple[tuple[str, Type], ...]
"""Names and types of the columns of a result set, in order."""


class Relation(Protocol):
    """A source of rows."""

    def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Yield rows in batches, which may be empty. Faults: those of expressions, and those of the tables."""

    def inputs(self) -> tuple[Relation, ...]:
        """The relations that this one reads."""


class BoundSubquery(msgspec.Struct, frozen=True):
    """A subquery, evaluated once before its statement; `Run.computed[number]` gets its value.

    `mode`: "scalar", the first column of the first row, or NULL; "list", the first column of all rows; "exists", True
    if there is a row.
    """

    number: int
    relation: Relation
    mode: Literal["scalar", "list", "exists"]


class Action(Protocol):
    """A statement that writes."""

    def act(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Write, and yield the rows of RETURNING, with the result set's columns. Faults: violated constraints."""

    def inputs(self) -> tuple[Relation, ...]: ...


class Step(msgspec.Struct, frozen=True):
    """One statement: `relation` of a SELECT, or `action` of a write. `result`: the number of its result set; None
    without one."""

    subqueries: tuple[BoundSubquery, ...]
    relation: Relation | None = None
    action: Action | None = None
    result: int | None = None


class Plan(msgspec.Struct, frozen=True):
    """A bound script; it can run any number of times.

    `declared`: the types of DECLARE. `parameters`: names and types of all parameters. `used`: names of those that
    statements read. `given`: the types that the client sent, whose Struct members may have another order. `results`:
    the columns of each result set. `reads`, `writes`: absolute paths of tables. `stale`: (table, index) of the
    asynchronous indexes that it reads; transactions that must see the latest state refuse them. `as_of`: the instant whose
    rows it reads; None: the present ones.
    """

    steps: tuple[Step, ...]
    declared: Mapping[str, Type]
    parameters: Mapping[str, Type]
    results: tuple[ResultColumns, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    warnings: tuple[Issue, ...] = ()
    commit: bool = False
    rollback: bool = False
    stale: frozenset[tuple[str, str]] = frozenset()
    used: frozenset[str] = frozenset()
    given: Mapping[str, Type] = {}
    as_of: Instant | None = None

    @property
    def read_only(self) -> bool:
        return not self.writes

    @property
    def tables(self) -> frozenset[str]:
        return self.reads | self.writes


class ResultPart(msgspec.Struct, frozen=True):
    """Rows of one result set; the columns are `Plan.results[index]`."""

    index: int
    rows: Batch
