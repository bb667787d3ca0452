"""What an update changed, as change streams tell it; and that it is the whole change."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mayflydb.query.mongo.update import difference
from mayflydb.query.mongo.values import equal


def told(updated: Any = None, removed: Any = None, truncated: Any = None) -> dict[str, Any]:
    return {"updatedFields": updated or {}, "removedFields": removed or [], "truncatedArrays": truncated or []}


LONG = "x" * 100


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, told()),
        ({"a": 1}, {"a": 2}, told({"a": 2})),
        ({"a": 1}, {"a": 1.0}, told({"a": 1.0})),
        ({"a": 1}, {"a": 1, "b": 2}, told({"b": 2})),
        ({"a": 1, "b": 2}, {"a": 1}, told(removed=["b"])),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, told({"a.c": 3})),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, told(removed=["a.b"])),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1, "d": 2}}}, told({"a.b.d": 2})),
        ({"a": {"b": 1}}, {"a": 1}, told({"a": 1})),
        ({"a": 1}, {"a": {"b": 1}}, told({"a": {"b": 1}})),
        ({"a": [LONG, 1]}, {"a": [LONG, 2]}, told({"a.1": 2})),
        ({"a": [LONG]}, {"a": [LONG, 2]}, told({"a.1": 2})),
        ({"a": [LONG, 1, 2]}, {"a": [LONG]}, told(truncated=[{"field": "a", "newSize": 1}])),
        ({"a": [LONG, 1, 2]}, {"a": [LONG, 5]}, told({"a.1": 5}, [], [{"field": "a", "newSize": 2}])),
        ({"a": [LONG, {"b": 1, "c": 2}]}, {"a": [LONG, {"b": 1}]}, told(removed=["a.1.c"])),
        ({"a": [LONG, {"b": 1}]}, {"a": [LONG, {"b": 2}]}, told({"a.1.b": 2})),
        ({"a": {"b": [LONG, 1]}}, {"a": {"b": [LONG, 2]}}, told({"a.b.1": 2})),
        ({"a": [1, 2, 3, 4]}, {"a": [5, 6, 7, 8]}, told({"a": [5, 6, 7, 8]})),
        ({"a": [1, 2]}, {"a": []}, told({"a": []})),
        ({"a": [1]}, {"a": {"0": 1}}, told({"a": {"0": 1}})),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, told({"a": 1})),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, told({"a.x": 1})),
    ],
    ids=lambda value: repr(value)[-60:],
)
def test_a_change_is_told_like_this(before: Any, after: Any, expected: Any) -> None:
    assert difference(before, after) == expected


def applied(before: Any, change: dict[str, Any]) -> Any:
    """A consumer of change streams: removals, truncations, then new values."""
    copy = rebuilt(before)
    for path in change["removedFields"]:
        holder, last = walked(copy, path)
        del holder[last]
    for cut in change["truncatedArrays"]:
        holder, last = walked(copy, cut["field"])
        del holder[last][cut["newSize"] :]
    for path, value in change["updatedFields"].items():
        holder, last = walked(copy, path)
        if isinstance(holder, list) and last == len(holder):
            holder.append(value)
        else:
            holder[last] = value
    return copy


def rebuilt(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rebuilt(each) for name, each in value.items()}
    return [rebuilt(each) for each in value] if isinstance(value, list) else value


def walked(value: Any, path: str) -> tuple[Any, Any]:
    *above, last = path.split(".")
    for part in above:
        value = value[int(part) if isinstance(value, list) else part]
    return value, int(last) if isinstance(value, list) else last


def some_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 3 and kind < 0.3:
        return {name: some_value(chance, depth + 1) for name in chance.sample("abcd", chance.randrange(4))}
    if depth < 3 and kind < 0.6:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return chance.choice([1, 2, "x", LONG, None, 1.5, True])


def altered(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.15:
        return some_value(chance, 1)
    if isinstance(value, dict):
        kept = {name: altered(each, chance) for name, each in value.items() if chance.random() < 0.85}
        return kept | ({chance.choice("abcde"): some_value(chance, 1)} if chance.random() < 0.3 else {})
    if isinstance(value, list):
        kept_ = [altered(each, chance) for each in value]
        return kept_[: chance.randrange(len(kept_) + 2)] + [1] * chance.randrange(2)
    return value


def sorted_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sorted_fields(value[name]) for name in sorted(value)}
    return [sorted_fields(each) for each in value] if isinstance(value, list) else value


def test_the_difference_applied_to_what_was_is_what_is(chance: random.Random) -> None:
    for _ in range(1500):
        before = {name: some_value(chance) for name in "abcd"}
        after = {name: altered(value, chance) for name, value in before.items() if chance.random() < 0.9}
        got = applied(before, difference(before, after))
        assert equal(sorted_fields(got), sorted_fields(after)), (before, after)
