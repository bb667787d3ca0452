"""String functions. Positions count code points from 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import to_whole
from mayflydb.query.cosmos_sql.sizes import check_size
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

MAX_RESULT_CHARACTERS: Final = 2 * 1024 * 1024
"""REPLICATE and REPLACE give undefined beyond the size of the largest item, so that no query can ask for unbounded memory."""

_MAX_JSON_DEPTH: Final = 128


def _fold(text: str, ignore_case: bool) -> str:
    return text.lower() if ignore_case else text


def _contains(text: str, part: str, ignore_case: bool = False) -> bool:
    return _fold(part, ignore_case) in _fold(text, ignore_case)


def _starts_with(text: str, part: str, ignore_case: bool = False) -> bool:
    return _fold(text, ignore_case).startswith(_fold(part, ignore_case))


def _ends_with(text: str, part: str, ignore_case: bool = False) -> bool:
    return _fold(text, ignore_case).endswith(_fold(part, ignore_case))


def _equals(one: str, other: str, ignore_case: bool = False) -> bool:
    return _fold(one, ignore_case) == _fold(other, ignore_case)


def _index_of(text: str, part: str, start: float = 0) -> Value:
    position = to_whole(start)
    return UNDEFINED if position is None else text.find(part, max(position, 0))


def _last_index_of(text: str, part: str, start: float | None = None) -> Value:
    """Search backwards from `start`, so that a match lies at or before it."""
    if start is None:
        return text.rfind(part)
    position = to_whole(start)
    if position is None:
        return UNDEFINED
    # `rfind` takes the end of the match, and `start` is the last place where it may begin.
    return text.rfind(part, 0, position + len(part)) if position >= 0 else -1


def _first_characters(text: str, count: float) -> Value:
    size = to_whole(count)
    return UNDEFINED if size is None else text[: max(size, 0)]


def _last_characters(text: str, count: float) -> Value:
    size = to_whole(count)
    return UNDEFINED if size is None else text[max(len(text) - max(size, 0), 0) :]


def _substring(text: str, start: float, count: float | None = None) -> Value:
    position = to_whole(start)
    size = len(text) if count is None else to_whole(count)
    if position is None or size is None:
        return UNDEFINED
    position = max(position, 0)
    return text[position : position + max(size, 0)]


def _after(text: str, part: str) -> str:
    return text.partition(part)[2] if part else text


def _before(text: str, part: str) -> str:
    head, found, _ = text.partition(part) if part else ("", "", "")
    return head if found else ""


def _last_after(text: str, part: str) -> str:
    _, found, tail = text.rpartition(part) if part else ("", "", "")
    return tail if found else ""


def _last_before(text: str, part: str) -> str:
    return text.rpartition(part)[0] if part else text


def _replace(text: str, part: str, substitute: str) -> Value:
    if not part:
        return text
    # The length is known before the text is built.
    growth = text.count(part) * (len(substitute) - len(part))
    return text.replace(part, substitute) if len(text) + growth <= MAX_RESULT_CHARACTERS else UNDEFINED


def _replicate(text: str, count: float) -> Value:
    times = to_whole(count)
    if times is None or times < 0 or times * len(text) > MAX_RESULT_CHARACTERS:
        return UNDEFINED
    return text * times


def _trim_start(text: str, part: str | None = None) -> str:
    if part is None:
        return text.lstrip()
    if not part:
        return text
    position = 0
    while text.startswith(part, position):
        position += len(part)
    return text[position:]


def _trim_end(text: str, part: str | None = None) -> str:
    if part is None:
        return text.rstrip()
    if not part:
        return text
    stop = len(text)
    while text.endswith(part, 0, stop):
        stop -= len(part)
    return text[:stop]


def _trim(text: str, part: str | None = None) -> str:
    return _trim_end(_trim_start(text, part), part)


def _concat(*texts: str) -> Value:
    return "".join(texts) if sum(map(len, texts)) <= MAX_RESULT_CHARACTERS else UNDEFINED


def _join(items: list[Any], separator: str) -> Value:
    if not all(type(item) is str for item in items):
        return UNDEFINED
    return (
        separator.join(items)
        if sum(map(len, items)) + len(items) * len(separator) <= MAX_RESULT_CHARACTERS
        else UNDEFINED
    )


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def _any_of(text: str, parts: tuple[Value, ...], ignore_case: bool) -> Value:
    """OR of CONTAINS, three-valued."""
    held = _fold(text, ignore_case)
    strings = [part for part in parts if type(part) is str]
    if any(_fold(part, ignore_case) in held for part in strings):
        return True
    return False if len(strings) == len(parts) else UNDEFINED


def _all_of(text: str, parts: tuple[Value, ...], ignore_case: bool) -> Value:
    """AND of CONTAINS, three-valued."""
    held = _fold(text, ignore_case)
    strings = [part for part in parts if type(part) is str]
    if not all(_fold(part, ignore_case) in held for part in strings):
        return False
    return True if len(strings) == len(parts) else UNDEFINED


# Conversions.


def _to_string(value: Value) -> Value:
    if value is UNDEFINED or type(value) is str:
        return value
    check_size(value)
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return UNDEFINED


def _parse_json(text: str, wanted: tuple[type, ...]) -> Value:
    """Parse JSON; undefined if the text is not JSON or its value is not of a wanted type."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return UNDEFINED
    # Other functions recurse over the value, so it must not be nested deeper than an item.
    return value if type(value) in wanted and not _is_too_deep(value) else UNDEFINED


def _is_too_deep(value: Value) -> bool:
    """True if `value` is nested deeper than an item may be."""
    level = [value]
    for _ in range(_MAX_JSON_DEPTH):
        level = [inner for held in level for inner in _inside(held)]
        if not level:
            return False
    return True


def _inside(value: Value) -> Iterable[Value]:
    if type(value) is list:
        return value
    return value.values() if type(value) is dict else ()


def _to_number(text: str) -> Value:
    value = _parse_json(text.strip(), (int, float))
    return value if value is UNDEFINED or math.isfinite(value) else UNDEFINED


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("CONCAT", "ss?s+", _concat),
    function("CONTAINS", "ss?b", _contains),
    function("ENDSWITH", "ss?b", _ends_with),
    function("INDEX_OF", "ss?n", _index_of),
    function("LEFT", "sn", _first_characters),
    function("LENGTH", "s", len),
    function("LOWER", "s", str.lower),
    function("LTRIM", "s?s", _trim_start),
    function("REPLACE", "sss", _replace),
    function("REPLICATE", "sn", _replicate),
    function("REVERSE", "s", lambda text: text[::-1]),
    function("RIGHT", "sn", _last_characters),
    function("RTRIM", "s?s", _trim_end),
    function("STARTSWITH", "ss?b", _starts_with),
    function("STRINGEQUALS", "ss?b", _equals),
    function("STRINGJOIN", "as", _join),
    function("STRINGSPLIT", "ss", _split),
    function("STRINGTOARRAY", "s", lambda text: _parse_json(text, (list,))),
    function("STRINGTOBOOLEAN", "s", lambda text: _parse_json(text, (bool,))),
    function("STRINGTONULL", "s", lambda text: _parse_json(text, (type(None),))),
    function("STRINGTONUMBER", "s", _to_number),
    function("STRINGTOOBJECT", "s", lambda text: _parse_json(text, (dict,))),
    function("SUBSTRING", "sn?n", _substring),
    function("SUBSTRINGAFTER", "ss", _after),
    function("SUBSTRINGBEFORE", "ss", _before),
    function("LASTINDEXOF", "ss?n", _last_index_of),
    function("LASTSUBSTRINGAFTER", "ss", _last_after),
    function("LASTSUBSTRINGBEFORE", "ss", _last_before),
    function("CONTAINSALLCI", "s*?*+", lambda text, *parts: _all_of(text, parts, True)),
    function("CONTAINSALLCS", "s*?*+", lambda text, *parts: _all_of(text, parts, False)),
    function("CONTAINSANYCI", "s*?*+", lambda text, *parts: _any_of(text, parts, True)),
    function("CONTAINSANYCS", "s*?*+", lambda text, *parts: _any_of(text, parts, False)),
    function("TOSTRING", "v", _to_string),
    function("TRIM", "s?s", _trim),
    function("UPPER", "s", str.upper),
)
