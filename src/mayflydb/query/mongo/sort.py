"""The sort order of documents by several paths, each ascending or descending.

A missing field sorts as null. An array sorts by its smallest element when ascending, by its largest when descending, and before
null if it is empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.paths import Parts, array_index, field_path, fields_of
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, format_value, is_number
from mayflydb.query.sorting import sort_in_runs

_EMPTY: Final = MISSING
"""The value that an empty array sorts as: before null."""

KeyOf = Callable[[Document], Any]


class ReverseKey:
    """A key in reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: ReverseKey) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReverseKey) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Sort(msgspec.Struct, frozen=True):
    """A compiled sort. `keys`: the key function of each path, and whether it descends. The sort is stable."""

    keys: tuple[tuple[KeyOf, bool], ...]

    def key(self, document: Document) -> Any:
        """Return the key of a document in this order. Sorted lists of documents can be merged by it."""
        return tuple(ReverseKey(of(document)) if descending else of(document) for of, descending in self.keys)

    def order(self, documents: Iterable[Document]) -> list[Document]:
        """Return the documents in sorted order."""
        ordered = list(documents)
        for descending, keys in self._runs():
            ordered = sort_in_runs(ordered, _combine_keys(keys), descending)
        return ordered

    def first(self, documents: Iterable[Document], n: int) -> list[Document]:
        """Return the first `n` documents of `order`, holding no more than `n` in memory."""
        runs = self._runs()
        if len(runs) == 1:
            ((descending, keys),) = runs
            # Both keep equal documents in their order, as a stable sort does.
            return (heapq.nlargest if descending else heapq.nsmallest)(n, documents, key=_combine_keys(keys))
        return heapq.nsmallest(n, documents, key=self.key)

    def _runs(self) -> list[tuple[bool, list[KeyOf]]]:
        """Return runs of keys with one direction, the last run first: one stable sort for each run gives the order."""
        runs = [(descending, [of for of, _ in keys]) for descending, keys in groupby(self.keys, key=lambda key: key[1])]
        return runs[::-1]


def _combine_keys(keys: Sequence[KeyOf]) -> KeyOf:
    if len(keys) == 1:
        return keys[0]
    if len(keys) == 2:
        one, other = keys
        return lambda document: (one(document), other(document))
    return lambda document: tuple([of(document) for of in keys])


def compile_sort(spec: Document, env: Env, score: Callable[[Document], float] | None = None) -> Sort:
    """Compile `{path: 1, path: -1, path: {$meta: "textScore"}}`. `score`: the text score of a document.

    MqlError 15974 to 15976, 17312, 31138 and 40218, and those of `field_path`.
    """
    if not spec:
        raise MqlError(15976, "$sort stage must have at least one sort key")
    keys: list[tuple[KeyOf, bool]] = []
    paths: list[tuple[int, Parts, bool]] = []
    for place, (path, direction) in enumerate(spec.items()):
        parts = field_path(path)
        if type(direction) is dict:
            keys.append(_compile_meta_key(direction, env, score))
            continue
        descending = _is_descending(path, direction)
        keys.append((_compile_key(parts, descending, env), descending))
        paths.append((place, parts, descending))
    if len(paths) > 1:
        rows = _SharedArrayKeys(
            tuple(parts for _, parts, _ in paths), tuple(descending for _, _, descending in paths), env
        )
        for column, (place, _, descending) in enumerate(paths):
            keys[place] = rows.column(column, keys[place][0]), descending
    return Sort(tuple(keys))


def _is_descending(path: str, direction: Value) -> bool:
    if not is_number(direction):
        raise MqlError(15974, f"Illegal key in $sort specification: {path}: {format_value(direction)}")
    # Decimal128("1") does not equal 1; its text tells.
    if direction not in (1, -1) and str(direction) not in ("1", "-1", "1.0", "-1.0"):
        raise MqlError(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
    return str(direction).startswith("-")


def _compile_meta_key(operand: Document, env: Env, score: Callable[[Document], float] | None) -> tuple[KeyOf, bool]:
    if list(operand) != ["$meta"]:
        raise MqlError(17312, "$meta is the only expression supported by $sort right now")
    meta = operand["$meta"]
    if meta == "randVal":
        random = env.random
        # Sorting computes each key once, so a document keeps its random number.
        return lambda _: random(), True
    if meta not in ("textScore", "score"):
        raise MqlError(31138, f"Illegal $meta sort: $meta: {format_value(meta)}")
    if score is None:
        raise MqlError(40218, "query requires text score metadata, but it is not available")
    return score, True


def _compile_key(parts: Parts, descending: bool, env: Env) -> KeyOf:
    order_key = env.collation.order_key
    best = max if descending else min

    def best_element(document: Document) -> OrderKey:
        return best(order_key(value) for value in sort_values(document, parts))

    if len(parts) > 1:
        return best_element
    (name,) = parts

    def key(document: Document) -> OrderKey:
        value = document.get(name)
        return best_element(document) if type(value) is list else order_key(value)

    return key


def sort_values(document: Document, parts: Parts) -> list[Value]:
    """Return the values by which a document may sort at a path, as an index on the path has them: the elements of arrays, null
    if missing and for an element without the rest of the path, MISSING for an empty array.
    """
    return [value for (value,) in _rows_at_paths([(document, parts)])]


# --- several paths through arrays ------------------------------------------------------------------------------------


class _SharedArrayKeys(msgspec.Struct, frozen=True):
    """Sort keys of documents in which several paths lead through one array. Each element gives a row of keys, and the row
    that sorts first is the key of the document.
    """

    paths: tuple[Parts, ...]
    directions: tuple[bool, ...]
    env: Env

    def column(self, column: int, single: KeyOf) -> KeyOf:
        """Return the key function of one path. `single`: the key function for documents in which at most one path
        meets an array.
        """
        paths = self.paths

        def key(document: Document) -> Any:
            met = 0
            for parts in paths:
                met += _meets_array(document, parts)
            # With one array at most, each path finds its best element by itself.
            return single(document) if met < 2 else self._best_row(document)[column]

        return key

    def _best_row(self, document: Document) -> tuple[OrderKey, ...]:
        order_key = self.env.collation.order_key
        rows = _rows_at_paths([(document, parts) for parts in self.paths])
        keyed = [tuple([order_key(value) for value in row]) for row in rows]
        return min(keyed, key=self._directed_key)

    def _directed_key(self, row: Sequence[OrderKey]) -> tuple[Any, ...]:
        return tuple(
            ReverseKey(key) if descending else key for key, descending in zip(row, self.directions, strict=True)
        )


def _meets_array(document: Document, parts: Parts) -> bool:
    value: Value = document
    for part in parts:
        if type(value) is not dict:
            break
        value = value.get(part)
    return type(value) is list


def _rows_at_paths(places: list[tuple[Value, Parts]]) -> list[list[Value]]:
    """Return the values at the paths, one row for each element of the array they share. MqlError 2 for two different arrays."""
    reached = [_walk_to_array(value, parts) for value, parts in places]
    arrays = [value for value, _, meets in reached if meets]
    if not arrays:
        return [[value for value, _, _ in reached]]
    # Identity, not equality: paths share an array only if they lead to the same one.
    if any(array is not arrays[0] for array in arrays):
        raise bad_value("cannot sort with keys that are parallel arrays")
    rows: list[list[Value]] = []
    for element in arrays[0] or [_EMPTY]:
        inner = [(element if meets else value, parts) for value, parts, meets in reached]
        rows.extend(_rows_of_elements(inner, [meets for _, _, meets in reached]))
    return rows


def _rows_of_elements(places: list[tuple[Value, Parts]], fresh: list[bool]) -> list[list[Value]]:
    """Return the rows of one element. An array directly within an array is not entered."""
    if all(fields_of(value) is None or not parts for value, parts in places):
        return [[_value_at_end(value, parts) for value, parts in places]]
    settled = [
        (value, parts)
        if fields_of(value) is not None and parts
        else (_value_at_end(value, parts) if new else value, ())
        for (value, parts), new in zip(places, fresh, strict=True)
    ]
    return _rows_at_paths(settled)


def _value_at_end(value: Value, parts: Parts) -> Value:
    """Return the value at the end of a path; null if the path goes on below a value that is no document."""
    return None if parts else value


def _walk_to_array(value: Value, parts: Parts) -> tuple[Value, Parts, bool]:
    """Follow a path up to an array: return the value there, the rest of the path, and whether the value is an array
    to enter.
    """
    while parts:
        if type(value) is list:
            index = array_index(parts[0])
            if index is None or index >= len(value):
                return value, parts, True
            value, parts = value[index], parts[1:]
            continue
        fields = fields_of(value)
        if fields is None:
            return None, (), False
        value, parts = fields.get(parts[0]), parts[1:]
    return value, (), type(value) is list
