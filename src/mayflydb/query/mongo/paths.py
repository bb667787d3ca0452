"""Dotted paths and the values that a query finds at them.

A part is a field name. Where a path meets an array, the rest of the path is applied to each document of the array and, if the
part is a number, also to the element with that index.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import MISSING, Document, Value

Parts: TypeAlias = tuple[str, ...]

REFERENCE: Final = ("$ref", "$id", "$db")
"""The field names of a database reference. They begin with a dollar and are allowed in any path.

https://www.mongodb.com/docs/manual/reference/database-references/#dbrefs
"""


@lru_cache(maxsize=4096)
def split_path(path: str) -> Parts:
    """Split a path into its parts: `a.0.b` has three."""
    return tuple(path.split("."))


def field_path(path: str) -> Parts:
    """Split a path and check its parts. MqlError 40352, 40353, 15998, 16410 or 16411 for an invalid path."""
    if not path:
        raise MqlError(40352, "FieldPath cannot be constructed with empty string")
    if path.endswith("."):
        raise MqlError(40353, "FieldPath must not end with a '.'.")
    parts = split_path(path)
    for part in parts:
        if not part:
            raise MqlError(15998, "FieldPath field names may not be empty strings.")
        if part.startswith("$") and part not in REFERENCE:
            raise MqlError(
                16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."
            )
        if "\0" in part:
            raise MqlError(16411, "FieldPath field names may not contain '\0'.")
    return parts


@lru_cache(maxsize=4096)
def array_index(part: str) -> int | None:
    """Return the array index that a part denotes; None for a name or a number in another form (`01`)."""
    # No array has 10^9 elements, and Python refuses to convert thousands of digits.
    if len(part) > 9 or not (part.isascii() and part.isdecimal()) or (part[0] == "0" and part != "0"):
        return None
    return int(part)


def fields_of(value: Value) -> Document | None:
    """Return the fields of a document; None for another value."""
    return value if type(value) is dict else None


def find_values(document: Document, parts: Parts, spread: bool = True) -> list[Value]:
    """Return the values that a query finds at a path.

    MISSING stands for each document that lacks the path; a scalar in place of a document inside an array yields nothing.
    For an array at the end of the path, the array itself is found and, with `spread`, each of its elements before it.
    """
    found: list[Value] = []
    _find_in_document(document, parts, 0, spread, found)
    return found


def _find_in_document(document: Document, parts: Parts, at: int, spread: bool, found: list[Value]) -> None:
    # A loop and no recursion while the path leads through documents only.
    last = len(parts) - 1
    while True:
        value = document.get(parts[at], MISSING)
        if type(value) is list or at == last:
            break
        if type(value) is not dict:
            found.append(MISSING)
            return
        document, at = value, at + 1
    if at < last:
        _find_in_array(value, parts, at + 1, spread, found)
        return
    if spread and type(value) is list:
        found.extend(value)
    found.append(value)


def _find_in_array(array: list[Value], parts: Parts, at: int, spread: bool, found: list[Value]) -> None:
    for each in array:
        fields = fields_of(each)
        if fields is not None:
            _find_in_document(fields, parts, at, spread, found)
    # `a.0` means both: field `0` of each document in the array, and the first element of the array.
    index = array_index(parts[at])
    if index is None or index >= len(array):
        return
    each = array[index]
    if at == len(parts) - 1:
        found.append(each)
    elif type(each) is list:
        _find_in_array(each, parts, at + 1, spread, found)
    elif (fields := fields_of(each)) is not None:
        _find_in_document(fields, parts, at + 1, spread, found)


def locate_values(document: Document, parts: Parts, spread: bool = True) -> Iterator[tuple[Value, int | None]]:
    """Yield the values of `find_values`, each with its index in the outermost array that was entered implicitly; None if
    none was.
    """
    value: Any = document.get(parts[0], MISSING)
    rest = parts[1:]
    if type(value) is list:
        if rest:
            yield from _locate_in_array(value, rest, spread)
            return
        if spread:
            yield from ((each, index) for index, each in enumerate(value))
        yield value, None
    elif not rest:
        yield value, None
    elif (fields := fields_of(value)) is not None:
        yield from locate_values(fields, rest, spread)
    else:
        yield MISSING, None


def _locate_in_array(array: list[Value], parts: Parts, spread: bool) -> Iterator[tuple[Value, int | None]]:
    chosen, rest = array_index(parts[0]), parts[1:]
    for index, each in enumerate(array):
        fields = fields_of(each)
        if fields is not None:
            # The outer index wins: `$` denotes the first array on the path that no number entered.
            yield from ((value, index) for value, _ in locate_values(fields, parts, spread))
        if index != chosen:
            continue
        if not rest:
            yield each, None
        elif fields is not None:
            yield from locate_values(fields, rest, spread)
        elif type(each) is list:
            yield from _locate_in_array(each, rest, spread)
