"""Ids of aggregates: different groups have different ids, which clients can write into a path."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.frontends.cosmos.roll_ups import LONGEST_ID, _fit, _number, id_of
from mayflydb.model.errors import Conflict

IDS: list[tuple[tuple[object, ...], str]] = [
    ((), "all"),
    (("all",), "all"),
    (("a",), "a"),
    (("a", "2030-01-01"), "a|2030-01-01"),
    (("a|b",), "a%7Cb"),
    (("a", "b"), "a|b"),
    (("a/b?c#d\\e%",), "a%2Fb%3Fc%23d%5Ce%25"),
    ((5,), "5"),
    (("5",), '"5"'),
    ((-1.5,), "-1.5"),
    (("-1.5e3",), '"-1.5e3"'),
    ((None,), "null"),
    (("null",), '"null"'),
    ((True,), "true"),
    (("",), '""'),
    (('"x"',), '"%5C"x%5C""'),
    (("5x",), "5x"),
    (("ä",), "ä"),
]


@pytest.mark.parametrize(("group", "id"), IDS)
def test_the_id_of_a_group(group: tuple[object, ...], id: str) -> None:
    assert id_of({str(n): value for n, value in enumerate(group)}) == id


def test_ids_differ() -> None:
    # A roll-up has a group or none, so that `all` has one meaning in one container.
    ids = [id for group, id in IDS if group]
    assert len(set(ids)) == len(ids)


def test_a_long_id_ends_with_a_digest() -> None:
    ids = {id_of({"a": "ä" * 400, "b": n}) for n in range(50)}
    assert len(ids) == 50
    assert all(len(id.encode()) <= LONGEST_ID for id in ids)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        (-2.5, -2.5),
        (True, None),
        ("5", None),
        (None, None),
        ([1], None),
        (2**63 - 1, 2**63 - 1),
        (2**63, 2.0**63),
    ],
)
def test_numbers(value: Any, number: object) -> None:
    found = _number(value)
    assert (found, type(found)) == (number, type(number))


def test_a_sum_beyond_64_bits_is_a_double_and_beyond_those_refused() -> None:
    assert _fit("i", "n", 2**64) == 2.0**64
    assert type(_fit("i", "n", 2**63 - 1)) is int
    with pytest.raises(Conflict, match="n of the item i"):
        _fit("i", "n", 1e308 * 10)
