"""Rows written and read at random, in transactions and outside, against a list of rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mayflydb.frontends.ydb.store_tables import RowCounts
from mayflydb.query.yql.comparison import sort_key
from mayflydb.query.yql.schemas import Access, Effect, KeyRange, Row
from mayflydb.query.yql.types import Value

TABLE = """CREATE TABLE r (a Int64, b Utf8, v Int64, w Utf8 DEFAULT 'w'u,
    INDEX by_v GLOBAL ON (v), INDEX by_wb GLOBAL ON (w, b), PRIMARY KEY (a, b))"""
NAMES = ("a", "b", "v", "w")
KEYS: dict[str | None, tuple[str, ...]] = {None: ("a", "b"), "by_v": ("v", "a", "b"), "by_wb": ("w", "b", "a")}
STEM = "s" * 475


class Model:
    """The rows by key, and what is asked of them."""

    def __init__(self, types: dict[str, Any]) -> None:
        self.rows: dict[tuple[Value, Value], dict[str, Value]] = {}
        self._sorts = {name: sort_key(type) for name, type in types.items()}

    def write(self, effect: Effect) -> None:
        for values in effect.rows:
            given = dict(zip(effect.columns, values, strict=True))
            key = given["a"], given["b"]
            there = self.rows.get(key)
            fresh: dict[str, Value] = {"v": None, "w": "w"}
            if effect.verb == "DELETE":
                self.rows.pop(key, None)
            elif effect.verb != "UPDATE" or there is not None:
                self.rows[key] = {**(there or {} if effect.verb != "REPLACE" else {}), **given}
                self.rows[key] = {**fresh, **self.rows[key]}

    def read(self, access: Access) -> list[Row]:
        key = KEYS[access.index]

        def place(row: dict[str, Value]) -> list[Any]:
            return [self._sorts[name](row[name]) for name in key]

        found: list[dict[str, Value]] = []
        for within in access.ranges if access.ranges is not None else (KeyRange(),):
            lower = [self._sorts[name](value) for name, value in zip(key, within.lower, strict=False)]
            upper = [self._sorts[name](value) for name, value in zip(key, within.upper, strict=False)]
            for row in sorted(self.rows.values(), key=place, reverse=access.descending):
                first, last = place(row)[: len(lower)], place(row)[: len(upper)]
                below = lower and (first < lower or (within.lower_open and first == lower))
                above = upper and (last > upper or (within.upper_open and last == upper))
                if not (below or above or row in found):
                    found.append(row)
        return [tuple(row[name] for name in access.columns) for row in found][: access.limit]


def value_of(chance: Random, name: str) -> Value:
    if chance.random() < 0.15:
        return None
    if name in ("a", "v"):
        return chance.randrange(-2, 3)
    return chance.choice(["", "a", "b\0", STEM, STEM + "x", STEM + "y" * 40, STEM + "y" * 40 + "z"])


def effect_of(chance: Random) -> Effect:
    verb: Any = chance.choice(["UPSERT", "UPSERT", "REPLACE", "UPDATE", "DELETE"])
    others = chance.sample(["v", "w"], chance.randrange(3)) if verb != "DELETE" else []
    columns = ("a", "b", *others)
    rows = [tuple(value_of(chance, name) for name in columns) for _ in range(chance.randrange(1, 6))]
    return Effect(verb, "/local/r", columns, rows)


def access_of(chance: Random) -> Access:
    index = chance.choice([None, None, "by_v", "by_wb"])
    ranges = (
        None if chance.random() < 0.2 else tuple(range_of(chance, KEYS[index]) for _ in range(chance.randrange(1, 4)))
    )
    limit = chance.choice([None, None, 1, 3])
    return Access("/local/r", NAMES, index, ranges, chance.random() < 0.5, limit)


def range_of(chance: Random, key: tuple[str, ...]) -> KeyRange:
    def bound() -> Row:
        return tuple(value_of(chance, name) for name in key[: chance.randrange(len(key) + 1)])

    lower = bound()
    if chance.random() < 0.4:
        return KeyRange(lower, lower)
    return KeyRange(lower, bound(), chance.random() < 0.5, chance.random() < 0.5)


@pytest.mark.parametrize("repetition", range(12))
def test_tables_are_as_a_list_of_rows(place: Any, chance: Random, repetition: int) -> None:
    place.parts(TABLE)
    view = place.run(place.schemes.find("/local/r"))
    model = Model({column.name: column.type for column in view.table.columns})

    async def transaction() -> None:
        accessed: dict[str, RowCounts] = {}
        environment = place.executor.environment
        snapshot = await environment.snapshot(place.call, "serializable_read_write", chance.random() < 0.5)
        mode: Any = chance.choice(["serializable_read_write", "snapshot_read_write"])
        tables = environment.tables(snapshot, {"/local/r": view}, mode, accessed)
        kept = dict(model.rows)
        for _ in range(8):
            if chance.random() < 0.4:
                effect = effect_of(chance)
                await tables.write(effect)
                model.write(effect)
            else:
                access = access_of(chance)
                found = [row async for rows in tables.read(access) for row in rows]
                assert found == model.read(access), access
        if chance.random() < 0.7:
            await snapshot.commit(place.now)
        else:
            model.rows = kept
        snapshot.close()

    for _ in range(6):
        place.run(transaction())
    everything = Access("/local/r", NAMES)
    assert place.rows("SELECT a, b, v, w FROM r") == model.read(everything)
