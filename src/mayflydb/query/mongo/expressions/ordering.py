"""The order of values by fields, for `$sortArray`, `$top` and `$bottom`: `{a: 1, "b.c": -1}`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions.core import field_names
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.paths import array_index
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, format_value, type_name
from mayflydb.query.sorting import sort_in_runs

Order: TypeAlias = Callable[[list[Value]], list[Value]]


class _SortKey(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    descending: bool


class Ranking(msgspec.Struct, frozen=True):
    """A list of sort keys, the most significant first."""

    fields: tuple[_SortKey, ...]
    env: Env

    def keys(self, value: Value) -> tuple[OrderKey, ...]:
        """Return one key for each field. Keys are compared by `sort`, which knows the directions."""
        return tuple(self._key(value, field) for field in self.fields)

    def _key(self, value: Value, field: _SortKey) -> OrderKey:
        """Return the key of one field. An array sorts by its smallest element, or its largest if descending; an empty
        array before null.
        """
        key = self.env.collation.order_key
        found = [key(None if each is MISSING else each) for each in _sort_values(value, field.path)]
        if not found:
            # Below null.
            return key(MISSING)
        return max(found) if field.descending else min(found)

    def sort(self, items: list[tuple[tuple[OrderKey, ...], Value]]) -> list[tuple[tuple[OrderKey, ...], Value]]:
        """Sort pairs of keys and values. The sort is stable."""
        # Stable sorts, the least significant key first: each key may have its own direction.
        for index in reversed(range(len(self.fields))):
            items = _sort_by_key(items, index, self.fields[index].descending)
        return items


def _sort_by_key(
    items: list[tuple[tuple[OrderKey, ...], Value]], index: int, descending: bool
) -> list[tuple[tuple[OrderKey, ...], Value]]:
    return sort_in_runs(items, lambda item: item[0][index], descending)


def compile_ranking(spec: Value, env: Env) -> Ranking:
    """Compile a sort specification. MqlError 15973 to 15976 if it is invalid."""
    if type(spec) is not dict:
        raise MqlError(15973, f"the sort key specification must be an object, but was {type_name(spec)}")
    if not spec:
        raise MqlError(15976, "$sort stage must have at least one sort key")
    return Ranking(tuple(_parse_sort_key(path, direction) for path, direction in spec.items()), env)


def _parse_sort_key(path: str, direction: Value) -> _SortKey:
    if type(direction) is dict:
        raise bad_value(f"sorting by {format_value(direction)} is not supported here")
    step = exact_integer(direction)
    if step not in (1, -1):
        raise MqlError(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
    return _SortKey(field_names(path), step == -1)


def compile_order(spec: Document, env: Env) -> Order:
    """Return a function that sorts a list of values."""
    ranking = compile_ranking(spec, env)
    return lambda values: [value for _, value in ranking.sort([(ranking.keys(value), value) for value in values])]


def _sort_values(value: Value, path: Sequence[str]) -> list[Value]:
    """Return the values that a sort path reaches. Arrays are entered element by element, and by index where a part is
    a number.
    """
    if not path:
        return list(value) if type(value) is list else [value]
    if type(value) is dict:
        return _sort_values(value.get(path[0], MISSING), path[1:])
    if type(value) is list:
        index = array_index(path[0])
        if index is not None and index < len(value):
            return _sort_values(value[index], path[1:])
        # Any element but a document lacks the rest of the path, and counts as null.
        found = [end for each in value for end in (_sort_values(each, path) if type(each) is dict else [MISSING])]
        return found or [MISSING]
    return [MISSING]
