"""The difference of two documents as change streams report it, and that the difference is complete."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mayflydb.query.mongo.update import difference
from mayflydb.query.mongo.values import equal


def describe_change(updated: Any = None, removed: Any = None, truncated: Any = None) -> dict[str, Any]:
    return {"updatedFields": updated or {}, "removedFields": removed or [], "truncatedArrays": truncated or []}


LONG = "x" * 100


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, describe_change()),
        ({"a": 1}, {"a": 2}, describe_change({"a": 2})),
        ({"a": 1}, {"a": 1.0}, describe_change({"a": 1.0})),
        ({"a": 1}, {"a": 1, "b": 2}, describe_change({"b": 2})),
        ({"a": 1, "b": 2}, {"a": 1}, describe_change(removed=["b"])),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, describe_change({"a.c": 3})),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, describe_change(removed=["a.b"])),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1, "d": 2}}}, describe_change({"a.b.d": 2})),
        ({"a": {"b": 1}}, {"a": 1}, describe_change({"a": 1})),
        ({"a": 1}, {"a": {"b": 1}}, describe_change({"a": {"b": 1}})),
        ({"a": [LONG, 1]}, {"a": [LONG, 2]}, describe_change({"a.1": 2})),
        ({"a": [LONG]}, {"a": [LONG, 2]}, describe_change({"a.1": 2})),
        ({"a": [LONG, 1, 2]}, {"a": [LONG]}, describe_change(truncated=[{"field": "a", "newSize": 1}])),
        ({"a": [LONG, 1, 2]}, {"a": [LONG, 5]}, describe_change({"a.1": 5}, [], [{"field": "a", "newSize": 2}])),
        ({"a": [LONG, {"b": 1, "c": 2}]}, {"a": [LONG, {"b": 1}]}, describe_change(removed=["a.1.c"])),
        ({"a": [LONG, {"b": 1}]}, {"a": [LONG, {"b": 2}]}, describe_change({"a.1.b": 2})),
        ({"a": {"b": [LONG, 1]}}, {"a": {"b": [LONG, 2]}}, describe_change({"a.b.1": 2})),
        ({"a": [1, 2, 3, 4]}, {"a": [5, 6, 7, 8]}, describe_change({"a": [5, 6, 7, 8]})),
        ({"a": [1, 2]}, {"a": []}, describe_change({"a": []})),
        ({"a": [1]}, {"a": {"0": 1}}, describe_change({"a": {"0": 1}})),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, describe_change({"a": 1})),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, describe_change({"a.x": 1})),
    ],
    ids=lambda value: repr(value)[-60:],
)
def test_the_difference_of_two_documents(before: Any, after: Any, expected: Any) -> None:
    assert difference(before, after) == expected


def apply_change(before: Any, change: dict[str, Any]) -> Any:
    """A consumer of change streams: removals, truncations, then new values."""
    copy = rebuild(before)
    for path in change["removedFields"]:
        holder, last = find_holder(copy, path)
        del holder[last]
    for cut in change["truncatedArrays"]:
        holder, last = find_holder(copy, cut["field"])
        del holder[last][cut["newSize"] :]
    for path, value in change["updatedFields"].items():
        holder, last = find_holder(copy, path)
        if isinstance(holder, list) and last == len(holder):
            holder.append(value)
        else:
            holder[last] = value
    return copy


def rebuild(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rebuild(each) for name, each in value.items()}
    return [rebuild(each) for each in value] if isinstance(value, list) else value


def find_holder(value: Any, path: str) -> tuple[Any, Any]:
    *above, last = path.split(".")
    for part in above:
        value = value[int(part) if isinstance(value, list) else part]
    return value, int(last) if isinstance(value, list) else last


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 3 and kind < 0.3:
        return {name: random_value(chance, depth + 1) for name in chance.sample("abcd", chance.randrange(4))}
    if depth < 3 and kind < 0.6:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return chance.choice([1, 2, "x", LONG, None, 1.5, True])


def alter(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.15:
        return random_value(chance, 1)
    if isinstance(value, dict):
        kept = {name: alter(each, chance) for name, each in value.items() if chance.random() < 0.85}
        return kept | ({chance.choice("abcde"): random_value(chance, 1)} if chance.random() < 0.3 else {})
    if isinstance(value, list):
        kept_ = [alter(each, chance) for each in value]
        return kept_[: chance.randrange(len(kept_) + 2)] + [1] * chance.randrange(2)
    return value


def sorted_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sorted_fields(value[name]) for name in sorted(value)}
    return [sorted_fields(each) for each in value] if isinstance(value, list) else value


def test_the_difference_applied_to_the_old_document_gives_the_new_one(chance: random.Random) -> None:
    for _ in range(1500):
        before = {name: random_value(chance) for name in "abcd"}
        after = {name: alter(value, chance) for name, value in before.items() if chance.random() < 0.9}
        got = apply_change(before, difference(before, after))
        assert equal(sorted_fields(got), sorted_fields(after)), (before, after)
