"""An implementation of `Tables` over rows in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from mayflydb.query.yql import comparison
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import Plan, bind, execute
from mayflydb.query.yql.schemas import Access, Column, Effect, Index, KeyRange, Row, Run, Table, View
from mayflydb.query.yql.types import PRIMITIVES, OptionalType, Type, Value

NOW = 1_893_456_000_000_000
"""2030-01-01T00:00:00Z"""


def table(path: str, columns: str, key: str, *indexes: Index) -> Table:
    """The schema of a table. `columns`: "id Uint64, v Utf8?"; `key`: names with blanks between them."""
    made = []
    for each in columns.split(","):
        name, type = each.split()
        primitive: Type = PRIMITIVES[type.removesuffix("?")]
        made.append(Column(name, OptionalType(primitive) if type.endswith("?") else primitive))
    return Table(path, tuple(made), tuple(key.split()), indexes)


class MemoryTables:
    """`accesses` and `effects`: the reads and writes of plans, in order. `batch`: rows that a read yields at once."""

    def __init__(self, *tables: Table, batch: int = 2) -> None:
        self.schemas: dict[str, Table | View] = {each.path: each for each in tables}
        self.rows: dict[str, list[dict[str, Value]]] = {each.path: [] for each in tables}
        self.accesses: list[Access] = []
        self.effects: list[Effect] = []
        self.batch = batch

    def _table(self, path: str) -> Table:
        found = self.schemas[path]
        assert isinstance(found, Table)
        return found

    def _key(self, table: Table, index: str | None) -> tuple[str, ...]:
        if index is None:
            return table.key
        columns = next(each.columns for each in table.indexes if each.name == index)
        return (*columns, *(each for each in table.key if each not in columns))

    async def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        self.accesses.append(access)
        table = self._table(access.table)
        key = self._key(table, access.index)
        types = {each.name: each.type for each in table.columns}
        sorts = [comparison.sort_key(types[name]) for name in key]

        def place(row: dict[str, Value]) -> list[Any]:
            return [sort(row[name]) for sort, name in zip(sorts, key, strict=True)]

        rows = sorted(self.rows[access.table], key=place, reverse=access.descending)
        found: list[Row] = []
        for within in access.ranges if access.ranges is not None else (KeyRange(),):
            lower = [sort(value) for sort, value in zip(sorts, within.lower, strict=False)]
            upper = [sort(value) for sort, value in zip(sorts, within.upper, strict=False)]
            for row in rows:
                at = place(row)
                first, last = at[: len(lower)], at[: len(upper)]
                if first < lower or last > upper:
                    continue
                if (within.lower_open and first == lower) or (within.upper_open and upper and last == upper):
                    continue
                found.append(tuple([row[name] for name in access.columns]))
        found = found[: access.limit]
        for start in range(0, len(found), self.batch):
            yield found[start : start + self.batch]

    async def write(self, effect: Effect) -> Sequence[Row]:
        self.effects.append(effect)
        table = self._table(effect.table)
        rows = self.rows[effect.table]
        back = []
        for values in effect.rows:
            given = dict(zip(effect.columns, values, strict=True))
            there = next((row for row in rows if all(row[name] == given[name] for name in table.key)), None)
            if effect.verb in ("UPDATE", "DELETE") and there is None:
                continue
            if effect.verb == "INSERT" and there is not None:
                if effect.ignore_existing:
                    continue
                raise fault("Conflict with existing key.", status="PRECONDITION_FAILED", code=2012)
            if there is None or effect.verb == "REPLACE":
                fresh = {each.name: each.default for each in table.columns}
            else:
                fresh = dict(there)
            if there is not None:
                rows.remove(there)
            if effect.verb != "DELETE":
                fresh |= given
                rows.append(fresh)
            back.append(tuple([fresh[name] for name in effect.returning or ()]))
        return back if effect.returning is not None else []


def plan_of(text: str, tables: MemoryTables, parameters: Mapping[str, tuple[Type, Value]] | None = None) -> Plan:
    types = {name: type for name, (type, _) in (parameters or {}).items()}
    return bind(parse(text), tables.schemas, "/local", types)


async def answer(
    text: str, tables: MemoryTables, parameters: Mapping[str, tuple[Type, Value]] | None = None
) -> list[list[Row]]:
    """The rows of each result set."""
    plan = plan_of(text, tables, parameters)
    run = Run(
        NOW, {name: value for name, (_, value) in (parameters or {}).items()}, random.Random(1), computed={}, cache={}
    )
    results: list[list[Row]] = [[] for _ in plan.results]
    met: set[int] = set()
    async for part in execute(plan, run, tables):
        met.add(part.index)
        results[part.index].extend(part.rows)
    assert met == set(range(len(results)))
    return results
