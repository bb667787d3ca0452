"""Functions that `String::` and `Unicode::` share: each works on bytes and on text."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from mayflydb.query.yql.faults import fault

Text = TypeVar("Text", str, bytes)

MAX_DISTANCE_CELLS = 10_000_000
"""The greatest product of two lengths for which a distance is computed."""


def split_to_list(
    value: Any,
    separator: Any,
    whole_separator: bool | None = None,
    skip_empty: bool | None = None,
    limit: int | None = None,
) -> list[Any]:
    """Split at the separator; with `whole_separator` False at each of its characters.

    `limit`: the most splits; None or 0: any number. The last part keeps the rest. Empty parts count towards the limit and
    are left out afterwards, as YDB does (`TestSplitLimitedWithEmptySkip` in util/string/split_ut.cpp).
    """
    if value is None:
        return []
    if not separator:
        parts = [value]
    elif whole_separator is False:
        escaped = re.escape(separator)
        pattern: Any = b"[" + escaped + b"]" if isinstance(escaped, bytes) else f"[{escaped}]"
        parts = re.split(pattern, value, maxsplit=limit or 0)
    else:
        parts = value.split(separator, limit or -1)
    return [part for part in parts if part] if skip_empty else parts


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


# --- addresses of pages --------------------------------------------------------------------------------------------------

_CGI_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*()/@$,:;'")


def percent_encode(value: bytes, safe: frozenset[int]) -> bytes:
    """Write the bytes that are not safe as `%XX`."""
    return b"".join(bytes((each,)) if each in safe else b"%%%02X" % each for each in value)


def percent_decode(value: bytes) -> bytes:
    """Read `%XX`; other signs of percent stay."""
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes((int(found[1], 16),)), value)


def cgi_escape(value: bytes) -> bytes:
    """Encode for a query string, where a blank is a plus."""
    return percent_encode(value, _CGI_SAFE | {32}).replace(b" ", b"+")


def cgi_unescape(value: bytes) -> bytes:
    return percent_decode(value.replace(b"+", b" "))
