"""What binding gives, and running takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from mayflydb.query.yql.faults import Issue
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.types import Type

Batch: TypeAlias = Sequence[Row]

ResultColumns: TypeAlias = tuple[tuple[str, Type], ...]
"""Names and types of a result set, in order."""


class Relation(Protocol):
    """Something that gives rows."""

    def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Its rows, batch by batch; a batch may be empty. Faults: those of its expressions, and of the tables."""

    def parts(self) -> tuple[Relation, ...]:
        """What it takes rows from."""


class Prelude(msgspec.Struct, frozen=True):
    """A subquery that is evaluated once, before its statement: `Run.named[number]` gets what it comes to.

    `mode`: "scalar", the first column of the first row or NULL; "list", the first column of all rows; "exists", whether there is
    a row.
    """

    number: int
    relation: Relation
    mode: Literal["scalar", "list", "exists"]


class Action(Protocol):
    """A statement that writes. It gives what it returns, row by row in the order of `columns`."""

    def act(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        """Do it. Faults: constraints."""

    def parts(self) -> tuple[Relation, ...]: ...


class Step(msgspec.Struct, frozen=True):
    """One statement: `relation` of a SELECT, `action` of a write. `result`: the number of its result set, None: it has none."""

    preludes: tuple[Prelude, ...]
    relation: Relation | None = None
    action: Action | None = None
    result: int | None = None


class Plan(msgspec.Struct, frozen=True):
    """A script that is ready to run, any number of times.

    `declared`: types of its parameters as DECLARE gives them; `parameters`: names and types of all that it takes; `used`: names
    of those that statements read; `given`: types of those that were sent, which may order struct members otherwise. `results`:
    columns of each result set. `reads`, `writes`: absolute paths of tables. `stale`: (table, index) of
    asynchronous indexes that it reads, which not every transaction may.
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

    @property
    def read_only(self) -> bool:
        return not self.writes

    @property
    def tables(self) -> frozenset[str]:
        return self.reads | self.writes


class Part(msgspec.Struct, frozen=True):
    """Rows of the result set with this number; its columns are `Plan.results[index]`."""

    index: int
    rows: Batch
