"""The interface between queries and stored tables: schemas, reads, writes and the state of one execution.

The front end that runs a plan implements `Tables`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from mayflydb.query.yql.types import Type, Value

Row: TypeAlias = tuple[Value, ...]
"""Values in the order of the requested columns."""

PRIMARY = "PRIMARY KEY"
"""The name in VIEW that stands for the table itself."""


class Column(msgspec.Struct, frozen=True):
    """A column. `type` is an Optional unless the column is NOT NULL.

    `default`: the value for new rows that do not name the column; `has_default` tells a NULL default from none.
    `serial`: new rows that do not name the column get the next number of a sequence.
    """

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
    """A secondary index. `kind`: "sync", "async" or "unique". `ready`: the index is complete and may be read."""

    name: str
    columns: tuple[str, ...]
    cover: tuple[str, ...] = ()
    kind: Literal["sync", "async", "unique"] = "sync"
    ready: bool = True


class Table(msgspec.Struct, frozen=True):
    """The schema of a table. `path` is absolute, `columns` are in the declared order, `version` changes with the
    scheme."""

    path: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    version: tuple[int, ...] = ()
    writable: bool = True


class View(msgspec.Struct, frozen=True):
    """A view: its query as text."""

    path: str
    text: str


Schemas: TypeAlias = Mapping[str, Table | View]
"""Tables and views by absolute path."""


class KeyRange(msgspec.Struct, frozen=True):
    """A range of the key of a table, or of an index's key: the index's columns, then the rest of the table's key.

    `lower` and `upper` are values of the first columns, in order, perhaps fewer than the key has: a prefix includes
    every key that begins with it. `lower_open` and `upper_open` exclude the keys that begin with the bound. () is no
    bound. NULL is the least value.
    """

    lower: tuple[Value, ...] = ()
    upper: tuple[Value, ...] = ()
    lower_open: bool = False
    upper_open: bool = False

    @property
    def is_prefix(self) -> bool:
        """True if the range is all keys that begin with `lower`; for a whole key, one row."""
        return self.lower == self.upper and not (self.lower_open or self.upper_open)


class Access(msgspec.Struct, frozen=True):
    """A read of one table: `columns` of the rows in any of the ranges (None: all rows), each row once.

    `index`: the index whose key has the ranges and the order; None: the primary key. Rows come range by range in the
    given order, within a range in the order of the key (`descending`: reversed), so ascending ranges give one order.
    `limit`: the number of rows that are enough.
    """

    table: str
    columns: tuple[str, ...]
    index: str | None = None
    ranges: tuple[KeyRange, ...] | None = None
    descending: bool = False
    limit: int | None = None


Verb = Literal["UPSERT", "REPLACE", "INSERT", "UPDATE", "DELETE"]


class Effect(msgspec.Struct, frozen=True):
    """A write of rows, each given by the values of `columns`, which include the whole key.

    UPSERT keeps the columns that are not named, REPLACE resets them, INSERT requires that no row has the key, UPDATE
    and DELETE skip rows that do not exist. `returning`: columns to return with their values after the write (before it,
    for a DELETE); None: no rows. `generated`: those of `columns` whose values apply to new rows only.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    returning: tuple[str, ...] | None = None
    ignore_existing: bool = False
    generated: tuple[str, ...] = ()


class Tables(Protocol):
    """The tables that an execution reads and writes. Reads see the earlier writes of their transaction."""

    def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        """Yield rows in batches. Faults: those of a transaction that cannot continue."""

    async def write(self, effect: Effect) -> Sequence[Row]:
        """Write the rows, and return the `returning` columns of each. Faults: violated constraints, in YDB's words."""


class RandomSource(Protocol):
    """The source of Random(), RandomNumber() and RandomUuid(), such as `random.Random`."""

    def random(self) -> float: ...
    def getrandbits(self, k: int, /) -> int: ...


class Run(msgspec.Struct):
    """One execution of a plan: the state that expressions see besides their row.

    `now`: the instant of the transaction in microseconds. `parameters`: values by name without `$`. `computed`: results of
    the plan's named expressions and subqueries, by their numbers in the plan. `budget`: how many rows may still be held
    in memory. `cache`: what expressions keep for the whole execution, such as the hashed list of an IN.
    """

    now: int
    parameters: Mapping[str, Value]
    chance: RandomSource
    user: str = "root@builtin"
    database: str = "/local"
    # msgspec gives each instance empty dicts of its own.
    computed: dict[int, Value] = {}
    budget: int = 1_000_000
    cache: dict[Any, Any] = {}
