"""The values at dotted paths."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mayflydb.query.mongo.paths import array_index, fields_of, find_values, locate_values, split_path
from mayflydb.query.mongo.values import MISSING, order_key


@pytest.mark.parametrize(
    ("path", "document", "whole", "spread"),
    [
        ("a", {"a": 1}, [1], [1]),
        ("a", {}, [MISSING], [MISSING]),
        ("a", {"a": [1, [2]]}, [[1, [2]]], [1, [2], [1, [2]]]),
        ("a", {"a": []}, [[]], [[]]),
        ("a.b", {"a": 1}, [MISSING], [MISSING]),
        ("a.b", {"a": []}, [], []),
        ("a.b", {"a": [1, {"b": 2}, {}]}, [2, MISSING], [2, MISSING]),
        ("a.b", {"a": [{"b": [1]}]}, [[1]], [1, [1]]),
        ("a.0", {"a": [[7], 8]}, [[7]], [[7]]),
        ("a.0", {"a": [{"0": 7}]}, [7, {"0": 7}], [7, {"0": 7}]),
        ("a.0.b", {"a": [{"b": 1}]}, [MISSING, 1], [MISSING, 1]),
        ("a.0.0.b", {"a": [[{"b": 1}]]}, [MISSING, 1], [MISSING, 1]),
        ("a.$id", {"a": {"$ref": "c", "$id": 5}}, [5], [5]),
    ],
)
def test_the_values_that_a_query_finds(
    path: str, document: dict[str, Any], whole: list[Any], spread: list[Any]
) -> None:
    found = sorted(find_values(document, split_path(path), spread=False), key=order_key)
    assert found == sorted(whole, key=order_key)
    assert sorted(find_values(document, split_path(path)), key=order_key) == sorted(spread, key=order_key)


def test_locate_values_finds_the_values_of_find_values(chance: Random) -> None:
    def value(depth: int) -> Any:
        kind = chance.randrange(4 if depth else 2)
        if kind == 2:
            return {name: value(depth - 1) for name in ("a", "b", "0") if chance.random() < 0.7}
        return [value(depth - 1) for _ in range(chance.randrange(3))] if kind == 3 else kind

    for _ in range(500):
        document = {"a": value(4)}
        parts = ("a", *(chance.choice(("a", "b", "0", "1")) for _ in range(chance.randrange(4))))
        for spread in (True, False):
            expected = sorted(map(order_key, find_values(document, parts, spread)))
            assert sorted(order_key(found) for found, _ in locate_values(document, parts, spread)) == expected


@pytest.mark.parametrize(
    ("part", "index"),
    [("0", 0), ("10", 10), ("01", None), ("-1", None), ("", None), ("a", None), ("²", None), ("9" * 5000, None)],
)
def test_parts_that_are_indexes(part: str, index: int | None) -> None:
    assert array_index(part) == index


def test_references_have_fields() -> None:
    assert fields_of({"$ref": "c", "$id": 1}) == {"$ref": "c", "$id": 1}
    assert fields_of([]) is None
