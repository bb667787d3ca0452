"""Long sorts, in runs, against `sorted`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mayflydb.query.sorting import RUN_LENGTH, sort_in_runs


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "count", [0, 1, RUN_LENGTH - 1, RUN_LENGTH, RUN_LENGTH + 1, 2 * RUN_LENGTH, 2 * RUN_LENGTH + 1]
)
def test_same_order_as_sorted(count: int, reverse: bool) -> None:
    # Few keys, so that many are equal: these keep their order.
    drawn = Random(count)
    items = [(drawn.randrange(50), place) for place in range(count)]
    assert sort_in_runs(items, lambda item: item[0], reverse) == sorted(
        items, key=lambda item: item[0], reverse=reverse
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "keys", ["all differ", "all equal", "two", "one and others", "ascending", "descending", "texts"]
)
def test_long_lists_of_all_kinds_of_keys(keys: str, reverse: bool, chance: Random) -> None:
    count = 9 * RUN_LENGTH + chance.randrange(RUN_LENGTH)
    drawn: dict[str, Callable[[int], Any]] = {
        "all differ": lambda place: chance.random(),
        "all equal": lambda place: 5,
        "two": lambda place: chance.randrange(2),
        "one and others": lambda place: max(0, chance.randrange(-count, count)),
        "ascending": lambda place: place,
        "descending": lambda place: -place,
        "texts": lambda place: (place % 3 > 0, str(chance.randrange(1000))),
    }
    items = [(drawn[keys](place), place) for place in range(count)]
    found = sort_in_runs(items, lambda item: item[0], reverse)
    assert found == sorted(items, key=lambda item: item[0], reverse=reverse)


def test_each_key_is_computed_once() -> None:
    computed = []

    def key(item: int) -> int:
        computed.append(item)
        return -item

    sort_in_runs(range(2 * RUN_LENGTH + 7), key)
    assert sorted(computed) == list(range(2 * RUN_LENGTH + 7))
