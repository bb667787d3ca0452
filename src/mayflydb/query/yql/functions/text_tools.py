"""Functions that `String::` and `Unicode::` share: each works on bytes and on text."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from mayflydb.query.yql.faults import fault

Text = TypeVar("Text", str, bytes)

MAX_DISTANCE_CELLS = 10_000_000
"""The greatest product of two lengths for which a distance is computed."""


def split_to_list(
    value: Any, separator: Any, as_string: bool | None = None, skip: bool | None = None, limit: int | None = None
) -> list[Any]:
    """Split at the separator; with `as_string` False at each of its characters."""
    if value is None:
        return []
    if not separator:
        return [value] if value or not skip else []
    if as_string is False:
        if isinstance(separator, bytes):
            grammar: Any = b"[" + re.escape(separator) + b"]"
        else:
            grammar = "[" + re.escape(separator) + "]"
        parts = re.split(grammar, value, maxsplit=0 if skip or not limit else limit)
    else:
        parts = value.split(separator, -1 if skip or not limit else limit)
    if not skip:
        return list(parts)
    kept = [part for part in parts if part]
    if not limit or len(kept) <= limit:
        return kept
    # The text from the first part beyond the limit stays in one piece.
    at, rest = 0, value
    for part in kept[:limit]:
        at = value.index(part, at) + len(part)
    following = kept[limit]
    rest = value[value.index(following, at) :]
    return [*kept[:limit], rest]


def replace_last(value: Text, find: Text, replacement: Text) -> Text:
    at = value.rfind(find)
    return value if at < 0 or not find else value[:at] + replacement + value[at + len(find) :]


def _positions_of(value: Any, symbols: Any) -> list[int]:
    return [index for index in range(len(value)) if value[index : index + 1] in symbols]


def remove_all(value: Text, symbols: Text) -> Text:
    empty = value[:0]
    return empty.join(
        value[index : index + 1] for index in range(len(value)) if value[index : index + 1] not in symbols
    )


def remove_first(value: Text, symbols: Text) -> Text:
    found = _positions_of(value, symbols)
    return value[: found[0]] + value[found[0] + 1 :] if found else value


def remove_last(value: Text, symbols: Text) -> Text:
    found = _positions_of(value, symbols)
    return value[: found[-1]] + value[found[-1] + 1 :] if found else value


def levenshtein_distance(left: Any, right: Any) -> int:
    """Levenshtein's distance: the least number of insertions, deletions and replacements."""
    if len(left) * len(right) > MAX_DISTANCE_CELLS:
        raise fault("The texts are too long for a distance")
    row = list(range(len(right) + 1))
    for index, one in enumerate(left, 1):
        before, row[0] = row[0], index
        for column, other in enumerate(right, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (one != other)),
            )
    return row[-1]
