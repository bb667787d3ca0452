"""Random conditions and joins: reads by keys and indexes find the same rows as a loop over all rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mayflydb.query.yql.schemas import Index
from query.yql.memory_tables import MemoryTables, answer, table

COLUMNS = {"a": "Int32?", "b": "Utf8?", "c": "Uint64?", "d": "Bool?"}
TEXTS = ("", "a", "ab", "b", "ba")


def value(chance: Random, name: str) -> Any:
    if chance.random() < 0.2:
        return None
    if name == "a":
        return chance.randint(-2, 3)
    if name == "b":
        return chance.choice(TEXTS)
    return chance.randint(0, 4) if name == "c" else chance.random() < 0.5


def tables(chance: Random) -> MemoryTables:
    made = MemoryTables(
        table("/local/t", ",".join(f"{name} {type}" for name, type in COLUMNS.items()), "a b", Index("by_c", ("c",))),
        table("/local/u", "k Int32?,l Utf8?,m Uint64?", "k l", Index("by_m", ("m",))),
        batch=chance.randint(1, 5),
    )
    rows = {}
    for _ in range(chance.randint(0, 25)):
        row = {name: value(chance, name) for name in COLUMNS}
        rows[row["a"], row["b"]] = row
    made.rows["/local/t"] = list(rows.values())
    others = {}
    for _ in range(chance.randint(0, 15)):
        row = {"k": value(chance, "a"), "l": value(chance, "b"), "m": value(chance, "c")}
        others[row["k"], row["l"]] = row
    made.rows["/local/u"] = list(others.values())
    return made


def literal(chance: Random, name: str) -> str:
    if chance.random() < 0.05:
        return "NULL"
    if name == "b":
        return f"'{chance.choice(TEXTS)}'{chance.choice(('', 'u'))}"
    if name == "d":
        return chance.choice(("true", "false"))
    return str(
        chance.choice((-5_000_000_000, -1, 0, 1, 2, 3, 2**40)) if chance.random() < 0.3 else chance.randint(0, 3)
    )


def condition(chance: Random, depth: int = 0) -> str:
    if depth < 2 and chance.random() < 0.5:
        word = chance.choice(("AND", "AND", "OR"))
        return f"({condition(chance, depth + 1)} {word} {condition(chance, depth + 1)})"
    name = chance.choice("aaabbbcd")
    kind = chance.randrange(8)
    if kind < 3:
        word = chance.choice(("=", "=", "<", "<=", ">", ">=", "!=")) if name != "d" else "="
        pair = (name, literal(chance, name))
        left, right = pair if chance.random() < 0.8 else pair[::-1]
        return f"{left} {word} {right}"
    if kind == 3:
        return f"{name} IN ({', '.join(literal(chance, name) for _ in range(chance.randint(1, 3)))})"
    if kind == 4 and name != "d":
        return f"{name} BETWEEN {literal(chance, name)} AND {literal(chance, name)}"
    if kind == 5:
        return f"{name} IS {chance.choice(('', 'NOT '))}NULL"
    if kind == 6 and name == "b":
        return f"b LIKE '{chance.choice(TEXTS)}%'"
    if kind == 7:
        items = ", ".join(f"({chance.randint(-1, 3)}, '{chance.choice(TEXTS)}'u)" for _ in range(2))
        return f"(a, b) IN ({items})"
    return f"NOT ({name} = {literal(chance, name)})"


def ask(text: str, made: MemoryTables) -> list[Any]:
    return asyncio.run(answer(text, made))[0]


@pytest.mark.parametrize("run", range(150))
def test_conditions(run: int, chance: Random) -> None:
    made, where = tables(chance), condition(chance)
    direction = chance.choice(("", " DESC"))
    order = chance.choice((f"a{direction}, b{direction}", f"c, a{direction}, b", f"b, a{direction}"))
    tail = f"WHERE {where} ORDER BY {order}" + chance.choice(("", " LIMIT 3", " LIMIT 2 OFFSET 1"))
    expected = ask(f"SELECT a, b, c, d FROM (SELECT * FROM t) {tail}", made)
    assert ask(f"SELECT a, b, c, d FROM t {tail}", made) == expected, tail
    assert ask(f"SELECT a, b, c, d FROM t VIEW by_c {tail}", made) == expected, tail


KINDS = ("", "LEFT ", "RIGHT ", "FULL ", "EXCLUSION ", "LEFT SEMI ", "LEFT ONLY ")


@pytest.mark.parametrize("run", range(100))
def test_joins(run: int, chance: Random) -> None:
    made = tables(chance)
    kind = chance.choice(KINDS)
    on = chance.choice(("t.a = u.k", "t.b = u.l AND t.a = u.k", "u.k = t.c", "t.c = u.m", "t.c = u.k AND t.b = u.l"))
    columns = "t.a AS a, t.b AS b, t.c AS c" + ("" if "SEMI" in kind or "ONLY" in kind else ", u.k AS k, u.l AS l")
    order = columns.replace(" AS ", ",").replace(" ", "").split(",")[1::2]
    where = (
        chance.choice(("", "WHERE t.a > 0", "WHERE t.b = 'a'"))
        if chance.random() < 0.7 or "k" not in order
        else "WHERE u.k = 1"
    )
    tail = f"{where} ORDER BY {', '.join(order)}"
    first, second = "(SELECT * FROM t) AS t", "(SELECT * FROM u) AS u"
    expected = ask(f"SELECT {columns} FROM {first} {kind}JOIN {second} ON {on} {tail}", made)
    assert ask(f"SELECT {columns} FROM t AS t {kind}JOIN u AS u ON {on} {tail}", made) == expected, (kind, on, tail)
    indexed = f"SELECT {columns} FROM t AS t {kind}JOIN u VIEW by_m AS u ON {on} {tail}"
    assert ask(indexed, made) == expected, (kind, on, tail)
    assert expected == naive(made, kind.strip() or "INNER", on, where, order), (kind, on, tail)


def naive(made: MemoryTables, kind: str, on: str, where: str, order: list[str]) -> list[Any]:
    """A join as two loops."""
    left, right = made.rows["/local/t"], made.rows["/local/u"]
    pairs = [[side.strip().split(".") for side in each.split("=")] for each in on.split(" AND ")]

    def meets(row: dict[str, Any], other: dict[str, Any]) -> bool:
        sides = {"t": row, "u": other}
        values = [[sides[source][name] for source, name in pair] for pair in pairs]
        return all(a is not None and a == b for a, b in values)

    met = [(row, other) for row in left for other in right if meets(row, other)]
    no_left, no_right = dict.fromkeys(COLUMNS), dict.fromkeys("klm")
    lone_left = [(row, no_right) for row in left if not any(meets(row, other) for other in right)]
    lone_right = [(no_left, other) for other in right if not any(meets(row, other) for row in left)]
    rows = {
        "INNER": met,
        "LEFT": met + lone_left,
        "RIGHT": met + lone_right,
        "FULL": met + lone_left + lone_right,
        "EXCLUSION": lone_left + lone_right,
        "LEFT ONLY": lone_left,
        "LEFT SEMI": [(row, no_right) for row in left if any(meets(row, other) for other in right)],
    }[kind]
    tests: dict[str, Callable[[dict[str, Any]], bool]] = {
        "": lambda row: True,
        "WHERE t.a > 0": lambda row: row["a"] is not None and row["a"] > 0,
        "WHERE t.b = 'a'": lambda row: row["b"] == "a",
        "WHERE u.k = 1": lambda row: row["k"] == 1,
    }
    joined = [row | other for row, other in rows]
    found = [tuple([each[name] for name in order]) for each in joined if tests[where](each)]
    return sorted(found, key=lambda row: [(each is not None, each if each is not None else 0) for each in row])
