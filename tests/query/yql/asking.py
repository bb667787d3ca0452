"""Runs queries on three small tables, and returns the columns, the rows, or the innermost issue of a refusal."""

from __future__ import annotations

import asyncio
from typing import Any

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.schemas import Index
from query.yql.memory_tables import MemoryTables, answer, plan_of, table


def shop() -> MemoryTables:
    """Three tables. t: three rows, one with NULL as `v`; u: two of its ids are in t; p: a key of two columns."""
    tables = MemoryTables(
        table("/local/t", "id Uint64?,v Utf8?,n Int64?", "id", Index("by_n", ("n",))),
        table("/local/u", "id Uint64?,w Utf8?", "id"),
        table("/local/p", "a Uint64,b Utf8,c Int32?", "a b"),
    )
    tables.rows["/local/t"] = [{"id": i, "v": v, "n": n} for i, v, n in ((1, "a", 10), (2, "b", 20), (3, None, 30))]
    tables.rows["/local/u"] = [{"id": i, "w": w} for i, w in ((2, "two"), (3, "three"), (4, "four"))]
    tables.rows["/local/p"] = [{"a": a, "b": b, "c": a * 10} for a in (1, 2, 3) for b in ("x", "y")]
    return tables


def columns(text: str, tables: MemoryTables | None = None) -> str:
    """The columns of the last result set: "a Int32, b Utf8?"."""
    return ", ".join(f"{name} {type}" for name, type in plan_of(text, tables or shop()).results[-1])


def rows(text: str, tables: MemoryTables | None = None) -> list[tuple[Any, ...]]:
    """The rows of the last result set."""
    return asyncio.run(answer(text, tables or shop()))[-1]


def refusal(text: str, tables: MemoryTables | None = None) -> str:
    """`row:column message` of the innermost issue."""
    try:
        rows(text, tables)
    except Fault as caught:
        leaf = caught.issues[0]
        while leaf.issues:
            leaf = leaf.issues[0]
        place = leaf.position
        return f"{place.row}:{place.column} {leaf.message}" if place else leaf.message
    raise AssertionError(f"not refused: {text}")
