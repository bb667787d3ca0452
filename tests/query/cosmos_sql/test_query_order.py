"""Order, equality and keys of values, and that bounded sorts agree with full ones."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from mayflydb.query.cosmos_sql import UNDEFINED, Context, compile_query
from mayflydb.query.cosmos_sql.values import descending_key, group_key, is_same, order_key

LADDER: list[Any] = [
    UNDEFINED, None, False, True,
    -1e300, -(2**70), -1.5, 0, 0.5, 1, 2**53, 2**53 + 1, 2**70, 1e300,
    "", "A", "B", "a", "ab", "é", "😀",
    [], [None], [1], [1, 2], ["a"], {}, {"a": 1}, {"a": 2}, {"b": 0},
]  # fmt: skip
"""Strictly ascending."""


def test_order_of_the_types() -> None:
    for place, low in enumerate(LADDER):
        for high in LADDER[place + 1 :]:
            assert order_key(low) < order_key(high), (low, high)
            assert descending_key(high) < descending_key(low), (low, high)
            assert group_key(low) != group_key(high), (low, high)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (0, False, False),
        (1.0, True, False),
        (None, False, False),
        ("1", 1, False),
        ([1, [True]], [1.0, [True]], True),
        ([1], [True], False),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {"b": None}, False),
        (2**53, float(2**53), True),
        (2**53 + 1, float(2**53), False),
        (10**400, 10**400, True),
        (10**400, 10**400 + 1, False),
        ("ab", ["a", "b"], False),
        (["a", "b"], ["ab"], False),
    ],
)
def test_equality_and_keys_agree(one: Any, other: Any, equal: bool) -> None:
    assert is_same(one, other) is equal
    assert is_same(other, one) is equal
    assert (group_key(one) == group_key(other)) is equal


def value(chance: random.Random) -> Any:
    number, letter = chance.choice([chance.randrange(4), chance.random()]), chance.choice("abc")
    return chance.choice([UNDEFINED, None, True, False, number, letter, [1], {"k": 1}])


def documents(chance: random.Random, count: int) -> list[dict[str, Any]]:
    found = []
    for number in range(count):
        fields = {"id": number, "v": value(chance), "w": chance.randrange(3), "s": chance.choice("xyz")}
        found.append({name: held for name, held in fields.items() if held is not UNDEFINED})
    return found


@pytest.mark.parametrize(
    "order", ["c.v", "c.v DESC", "c.w DESC, c.v", "c.s DESC, c.w, c.v DESC", "c.w", "c.s DESC", "c.s || c.v, c.w DESC"]
)
@pytest.mark.parametrize("distinct", ["", "DISTINCT"])
def test_a_bounded_sort_is_the_head_of_a_full_one(order: str, distinct: str, chance: random.Random) -> None:
    for count in (0, 1, 50, 2_000):
        held = documents(chance, count)
        select = "VALUE c.id" if not distinct else "VALUE [c.v, c.s]"
        full = run(f"SELECT {distinct} {select} FROM c ORDER BY {order}", held)
        for skip, take in ((0, 0), (0, 1), (0, 7), (3, 10), (5, 0), (1_990, 100)):
            text = f"SELECT {distinct} {select} FROM c ORDER BY {order} OFFSET {skip} LIMIT {take}"
            assert run(text, held) == full[skip : skip + take]
        assert run(f"SELECT {distinct} TOP 5 {select} FROM c ORDER BY {order}", held) == full[:5]


def run(text: str, held: list[dict[str, Any]]) -> list[Any]:
    accumulator = compile_query(text, {}, lenient=True).accumulator(Context(0))
    for document in held:
        accumulator.add(document)
    return accumulator.results()


def test_a_full_sort_is_ordered_and_complete(chance: random.Random) -> None:
    held = documents(chance, 500)
    found = run("SELECT VALUE c.id FROM c ORDER BY c.v DESC, c.w", held)
    assert sorted(found) == [document["id"] for document in held]
    by_id = {document["id"]: document for document in held}
    for one, other in pairwise(found):
        first, second = by_id[one], by_id[other]
        low, high = order_key(second.get("v", UNDEFINED)), order_key(first.get("v", UNDEFINED))
        assert (low < high) or (low == high and (first["w"], one) < (second["w"], other))


def test_a_bounded_sort_holds_few_rows() -> None:
    query = compile_query("SELECT TOP 10 VALUE c.n FROM c ORDER BY c.n DESC", {})
    accumulator = query.accumulator(Context(0))
    most = 0
    for number in range(20_000):
        accumulator.add({"n": number})
        most = max(most, len(accumulator._accumulation.entries))  # type: ignore[attr-defined]
    assert most < 300
    assert accumulator.results() == list(range(19_999, 19_989, -1))
