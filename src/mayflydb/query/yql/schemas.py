"""What a query needs to know of tables, and what it asks of them. Whoever runs a plan provides it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from mayflydb.query.yql.types import Type, Value

Row: TypeAlias = tuple[Value, ...]
"""Values in the order of whatever columns were asked for."""

PRIMARY = "PRIMARY KEY"
"""The view that is the table itself."""


class Column(msgspec.Struct, frozen=True):
    """`type` is an Optional unless the column is NOT NULL. `default`: a value of that type for rows that name
    none; `has_default` tells it from none. `serial`: rows that name no value get the next number of a sequence."""

    name: str
    type: Type
    default: Value = None
    has_default: bool = False
    family: str = ""
    serial: bool = False

    @property
    def not_null(self) -> bool:
        from mayflydb.query.yql.types import is_optional

        return not is_optional(self.type)


class Index(msgspec.Struct, frozen=True):
    """A secondary index. `kind` "sync", "async" or "unique"; `ready`: complete, so that it may be read."""

    name: str
    columns: tuple[str, ...]
    cover: tuple[str, ...] = ()
    kind: Literal["sync", "async", "unique"] = "sync"
    ready: bool = True


class Table(msgspec.Struct, frozen=True):
    """A table as queries see it. `path` is absolute; `columns` in declared order; `version` changes with the
    scheme."""

    path: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    version: tuple[int, ...] = ()
    writable: bool = True


class View(msgspec.Struct, frozen=True):
    """A view: the query it stands for, as text."""

    path: str
    text: str


Schemas: TypeAlias = Mapping[str, Table | View]
"""By absolute path."""


class KeyRange(msgspec.Struct, frozen=True):
    """A stretch of a table's key, or of an index's: its columns, then the rest of the key.

    `lower` and `upper` are values of the first columns, in order, maybe fewer than there are: a prefix stands for all that begin
    with it. Where `lower_open` (`upper_open`), those that begin with it are not in. () is no bound. NULL is a value, the least.
    """

    lower: tuple[Value, ...] = ()
    upper: tuple[Value, ...] = ()
    lower_open: bool = False
    upper_open: bool = False

    @property
    def is_prefix(self) -> bool:
        """Whether it is all that begins with `lower`: of a whole key, one row."""
        return self.lower == self.upper and not (self.lower_open or self.upper_open)


class Access(msgspec.Struct, frozen=True):
    """A read of one table: these columns of the rows in any of these ranges (None: all rows), each once.

    `index`: ranges and order are those of this index; None: of the primary key. Rows come range by range in the
    order given, each in
    order of the key (`descending`: the other way round), so ranges that ascend give one order. `limit`: no more are needed.
    """

    table: str
    columns: tuple[str, ...]
    index: str | None = None
    ranges: tuple[KeyRange, ...] | None = None
    descending: bool = False
    limit: int | None = None


Verb = Literal["UPSERT", "REPLACE", "INSERT", "UPDATE", "DELETE"]


class Effect(msgspec.Struct, frozen=True):
    """A write of rows, each given by values of `columns`, which hold the whole key.

    UPSERT keeps the columns that are not named, REPLACE resets them, INSERT meets no row, UPDATE and DELETE pass
    over rows that are
    not there. `returning`: columns whose values after the write (of a DELETE, before it) are wanted; None: nothing is.
    `generated`: those of `columns` whose values are for new rows alone.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    returning: tuple[str, ...] | None = None
    ignore_existing: bool = False
    generated: tuple[str, ...] = ()


class Tables(Protocol):
    """The tables that a run of a plan reads and writes. Each sees what was written before in its transaction."""

    def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        """The rows, batch by batch. Faults: those of a transaction that cannot go on."""

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Do it; what `returning` asks for, by row. Faults: constraints, by YDB's texts."""


class Chance(Protocol):
    """Where Random() and its kin take what they give; `random.Random` is one."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


class Run(msgspec.Struct):
    """One execution of a plan: what expressions see besides their row.

    `now`: the one instant of its transaction, in microseconds. `parameters`: values by name without `$`. `named`: what the plan's
    named expressions and subqueries came to, by their numbers in the plan. `budget`: rows that may still be held at once.
    """

    now: int
    parameters: Mapping[str, Value]
    chance: Chance
    user: str = "root@builtin"
    database: str = "/local"
    named: dict[int, Value] = {}
    budget: int = 1_000_000
    cache: dict[Any, Any] = {}
