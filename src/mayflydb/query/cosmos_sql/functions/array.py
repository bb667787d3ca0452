"""Array functions, and conversions between objects and arrays."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from mayflydb.query.cosmos_sql.aggregates import Maximum, Minimum
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import normalize_number, to_double, to_whole
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key, is_same


def _within(wanted: Value, held: Value) -> bool:
    """Partial match: every property of `wanted` is in `held`; a value that is no object must be the same."""
    if type(wanted) is dict and type(held) is dict:
        return all(name in held and _within(value, held[name]) for name, value in wanted.items())
    return is_same(wanted, held)


def _contains(items: list[Any], wanted: Value, partial: bool = False) -> bool:
    if partial:
        return any(_within(wanted, item) for item in items)
    return any(is_same(wanted, item) for item in items)


def _contains_any(items: list[Any], *wanted: Value) -> bool:
    held = {group_key(item) for item in items}
    # Hashed elements: the time grows with the sum of both lengths, and not with their product.
    return any(group_key(value) in held for value in wanted if value is not UNDEFINED)


def _contains_all(items: list[Any], *wanted: Value) -> bool:
    held = {group_key(item) for item in items}
    return all(value is not UNDEFINED and group_key(value) in held for value in wanted)


def _slice(items: list[Any], start: float, count: float | None = None) -> Value:
    position = to_whole(start)
    size = len(items) if count is None else to_whole(count)
    if position is None or size is None:
        return UNDEFINED
    # A negative start counts from the end, and stops at the first element.
    position = max(position + len(items), 0) if position < 0 else position
    return items[position : position + max(size, 0)]


def _concat(*arrays: list[Any]) -> list[Any]:
    return [item for items in arrays for item in items]


def _numbers(items: Sequence[Any]) -> list[float] | None:
    return [to_double(item) for item in items] if all(type(item) in NUMBERS for item in items) else None


def _sum(items: list[Any]) -> Value:
    numbers = _numbers(items)
    return UNDEFINED if numbers is None else normalize_number(sum(numbers))


def _average(items: list[Any]) -> Value:
    numbers = _numbers(items)
    return normalize_number(sum(numbers) / len(numbers)) if numbers else UNDEFINED


def _median(items: list[Any]) -> Value:
    numbers = _numbers(items)
    return normalize_number(statistics.median(numbers)) if numbers else UNDEFINED


def _minimum(items: list[Any]) -> Value:
    state = Minimum()
    for item in items:
        state.add(item)
    return state.result()


def _maximum(items: list[Any]) -> Value:
    state = Maximum()
    for item in items:
        state.add(item)
    return state.result()


def _choose(index: float, *choices: Value) -> Value:
    position = to_whole(index)
    return choices[position - 1] if position is not None and 1 <= position <= len(choices) else UNDEFINED


def _object_to_array(held: dict[str, Any], key: str = "k", value: str = "v") -> list[dict[str, Any]]:
    return [{key: name, value: item} for name, item in held.items()]


def _distinct(items: Sequence[Any]) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for item in items:
        found.setdefault(group_key(item), item)
    return found


def _difference(left: list[Any], right: list[Any]) -> list[Any]:
    removed = _distinct(right)
    return [item for key, item in _distinct(left).items() if key not in removed]


def _intersection(left: list[Any], right: list[Any]) -> list[Any]:
    kept = _distinct(right)
    return [item for key, item in _distinct(left).items() if key in kept]


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("ARRAY_CONCAT", "aa?a+", _concat),
    function("ARRAY_CONTAINS", "av?b", _contains),
    function("ARRAY_CONTAINS_ALL", "a*?*+", _contains_all),
    function("ARRAY_CONTAINS_ANY", "a*?*+", _contains_any),
    function("ARRAY_LENGTH", "a", len),
    function("ARRAY_SLICE", "an?n", _slice),
    function("ARRAY_AVG", "a", _average),
    function("ARRAY_MAX", "a", _maximum),
    function("ARRAY_MEDIAN", "a", _median),
    function("ARRAY_MIN", "a", _minimum),
    function("ARRAY_SUM", "a", _sum),
    function("CHOOSE", "n*?*+", _choose),
    function("OBJECTTOARRAY", "o?ss", _object_to_array),
    function("SETDIFFERENCE", "aa", _difference),
    function("SETEQUAL", "aa", lambda left, right: _distinct(left).keys() == _distinct(right).keys()),
    function("SETINTERSECT", "aa", _intersection),
    function("SETUNION", "aa", lambda left, right: list(_distinct(left + right).values())),
)
