"""Bounds of index scans: the intervals of `key_bytes` that contain every value of a field that satisfies a condition.

An interval may contain more values than satisfy the condition, never fewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from bson import MaxKey, MinKey, Regex

from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.indexes.key_bytes import (
    EMPTY_ARRAY,
    MAX_KEY,
    MIN_KEY,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    encode_descending,
    encode_prefix,
    encode_value,
    prefix_end,
)
from mayflydb.query.mongo.values import Document, Value, format_value


class Interval(NamedTuple):
    """The encodings with lower <= encoding < upper. `lower_text` and `upper_text` are the printed bounds; a `point` contains a
    single value.
    """

    lower: bytes
    upper: bytes
    lower_text: str
    upper_text: str
    point: bool = False

    def to_text(self, backwards: bool = False) -> str:
        """Return `["a", "b")` as explain prints it."""
        if not backwards:
            return f"{self.lower_text}, {self.upper_text}"
        opening = "[" if self.upper_text[-1] == "]" else "("
        closing = "]" if self.lower_text[0] == "[" else ")"
        return f"{opening}{self.upper_text[:-1]}, {self.lower_text[1:]}{closing}"


Intervals: TypeAlias = tuple[Interval, ...]
"""Ascending intervals that do not overlap."""

ALL_VALUES: Final = Interval(MIN_KEY, prefix_end(MAX_KEY), "[MinKey", "MaxKey]")
ALL: Final[Intervals] = (ALL_VALUES,)

NULLS: Final[Intervals] = (Interval(NULL, prefix_end(NULL), "[null", "null]", True),)
"""An index stores null for a missing field."""

_NAN: Final = encode_value(float("nan"))
_INFINITE: Final = encode_value(float("-inf"))
_LOWEST: Final = {NUMBER: "-inf", STRING: '""', OBJECT: "{}"}
_HIGHEST: Final = {NUMBER: "inf", STRING: "{}", OBJECT: "[]"}


class CollationMatch(NamedTuple):
    """The collation of an index. `is_same`: the query has the same collation; otherwise strings do not narrow the bounds."""

    collation: Collation
    is_same: bool


def equal_intervals(value: Value, by: CollationMatch) -> Intervals | None:
    """Return the intervals of values that equal `value`, and of arrays that contain or equal it; None for no bounds."""
    if type(value) is list:
        # An array is found by the key of its first element, or as an element of an outer array.
        first = (
            equal_intervals(value[0], by)
            if value
            else (Interval(EMPTY_ARRAY, prefix_end(EMPTY_ARRAY), "[[]", "[]]", True),)
        )
        return None if first is None else unite([*first, *_point_intervals(value, by)])
    return _point_intervals(value, by)


def _point_intervals(value: Value, by: CollationMatch) -> Intervals:
    encoded = encode_value(value, by.collation)
    if not by.is_same and has_text(value):
        return (type_interval(encoded[:1]),)
    shown = format_value(value)
    return (Interval(encoded, prefix_end(encoded), f"[{shown}", f"{shown}]", True),)


def type_interval(tag: bytes) -> Interval:
    """Return the interval of a class of types. NaN is left out, because no range comparison matches it."""
    return Interval(
        _INFINITE if tag == NUMBER else tag,
        prefix_end(tag),
        f"[{_LOWEST.get(tag, 'lowest')}",
        f"{_HIGHEST.get(tag, 'highest')})",
    )


def has_text(value: Value) -> bool:
    """Return whether a value contains a string, so that the collation matters."""
    if type(value) is dict:
        return any(has_text(each) for each in value.values())
    return type(value) is str or (type(value) is list and any(has_text(each) for each in value))


def comparison_intervals(operator: str, value: Value, by: CollationMatch) -> Intervals | None:
    """Return the intervals of values that satisfy `$gt`, `$gte`, `$lt` or `$lte`; None for no bounds."""
    # These compare with values of several types, so no interval of one type holds the matches.
    if type(value) in (list, MinKey, MaxKey):
        return None
    if value is None:
        return NULLS
    encoded = encode_value(value, by.collation)
    if encoded == _NAN:
        return _point_intervals(value, by) if operator in ("$gte", "$lte") else ()
    class_interval = type_interval(encoded[:1])
    if not by.is_same and has_text(value):
        return (class_interval,)
    shown = format_value(value)
    if operator == "$gt":
        return (Interval(prefix_end(encoded), class_interval.upper, f"({shown}", class_interval.upper_text),)
    if operator == "$gte":
        return (Interval(encoded, class_interval.upper, f"[{shown}", class_interval.upper_text),)
    if operator == "$lt":
        return (Interval(class_interval.lower, encoded, class_interval.lower_text, f"{shown})"),)
    return (Interval(class_interval.lower, prefix_end(encoded), class_interval.lower_text, f"{shown}]"),)


def regex_intervals(pattern: str, flags: int, by: CollationMatch) -> Intervals:
    """Return the intervals of strings that a regular expression may match, and of regular expressions equal to it."""
    start = anchored_prefix(pattern, flags) if by.collation.is_simple else ""
    strings = type_interval(STRING)
    if start:
        encoded = STRING + encode_prefix(start)
        strings = Interval(
            encoded, prefix_end(encoded), f"[{format_value(start)}", f"{format_value(_successor(start))})"
        )
    itself = encode_value(Regex(pattern, flags), by.collation)
    shown = format_value(Regex(pattern, flags))
    return strings, Interval(itself, prefix_end(itself), f"[{shown}", f"{shown}]", True)


def _successor(text: str) -> str:
    return text[:-1] + chr(ord(text[-1]) + 1) if ord(text[-1]) < 0x10FFFF else text + "\U0010ffff"


_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}#")


def anchored_prefix(pattern: str, flags: int) -> str:
    """Return the prefix of all strings that a regular expression matches; "" if none is certain."""
    if flags & (re.IGNORECASE | re.MULTILINE | re.VERBOSE):
        return ""
    start = 2 if pattern.startswith("\\A") else 1 if pattern.startswith("^") else 0
    # Another branch may begin with other text.
    if not start or "|" in pattern:
        return ""
    found, at = "", start
    while at < len(pattern):
        character = pattern[at]
        width = 1
        if character == "\\":
            # An escaped punctuation sign stands for itself; escaped letters and digits are classes, assertions or references.
            if at + 1 == len(pattern) or pattern[at + 1].isalnum() or ord(pattern[at + 1]) > 0x7E:
                break
            character, width = pattern[at + 1], 2
        elif character in _SPECIAL:
            break
        # The quantifier may make the character optional. A + cannot; the next step stops at it.
        if pattern[at + width : at + width + 1] in ("*", "?", "{"):
            break
        found, at = found + character, at + width
    return found


# --- sets of intervals ---------------------------------------------------------------------------------------------------


def unite(intervals: Iterable[Interval]) -> Intervals:
    """Return the union of intervals."""
    result: list[Interval] = []
    for each in sorted(intervals):
        if each.lower >= each.upper:
            continue
        # Intervals that only touch stay apart, so that points remain points.
        if result and each.lower < result[-1].upper:
            last = result[-1]
            if each.upper > last.upper:
                result[-1] = Interval(last.lower, each.upper, last.lower_text, each.upper_text)
        else:
            result.append(each)
    return tuple(result)


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection of two sets of intervals."""
    result = []
    for a in one:
        for b in other:
            low, high = max(a, b, key=lambda each: each.lower), min(a, b, key=lambda each: each.upper)
            if low.lower < high.upper:
                result.append(Interval(low.lower, high.upper, low.lower_text, high.upper_text, a.point or b.point))
    return tuple(sorted(result))


def contains(outer: Intervals, inner: Intervals) -> bool:
    """Return whether `outer` contains all values of `inner`."""
    return all(any(o.lower <= i.lower and i.upper <= o.upper for o in outer) for i in inner)


def are_points(intervals: Intervals) -> bool:
    """Return whether each interval contains a single value."""
    return all(each.point for each in intervals)


# --- ranges of keys ------------------------------------------------------------------------------------------------------

MAX_RANGES: Final = 1000
"""The maximum number of key ranges in one plan. Fields that would exceed it do not narrow the plan."""

Range: TypeAlias = tuple[bytes, bytes]


def ranges_of(
    fields: Sequence[tuple[Intervals, int | str]], max_ranges: int = MAX_RANGES, key_limit: int = 1 << 30
) -> tuple[Range, ...]:
    """Return the key ranges, ascending and disjoint, that contain the keys whose fields lie in the given intervals.

    `fields`: intervals and direction of each field of the index, in order. Fields after the first one with a range are not
    used. `key_limit`: the number of bytes up to which keys are stored whole.
    """
    starts: list[bytes] = [b""]
    ranges: list[Range] | None = None
    for intervals, direction in fields:
        if intervals == ALL or len(starts) * len(intervals) > max_ranges:
            break
        turned = [_directed_range(each, direction) for each in intervals]
        if not are_points(intervals):
            ranges = [(start + lower, start + upper) for start in starts for lower, upper in turned]
            break
        # The encoding of a point is its lower bound, complemented for a descending field.
        points = [encode_descending(each.lower) if direction == -1 else each.lower for each in intervals]
        starts = [start + point for start in starts for point in points]
    if ranges is None:
        # No key begins with FF.
        ranges = [(start, prefix_end(start) if start else b"\xff" * 9) for start in starts]
    # A longer key is stored as its first bytes and a digest. A bound is cut likewise, upwards at the upper end.
    return merge_ranges(
        [
            (lower[:key_limit], upper if len(upper) <= key_limit else prefix_end(upper[:key_limit]))
            for lower, upper in ranges
        ]
    )


def _directed_range(interval: Interval, direction: int | str) -> Range:
    if direction != -1:
        return interval.lower, interval.upper
    # Complements reverse the order, so the bounds change places. `prefix_end` keeps the range half open: it moves each bound
    # behind all keys that begin with its complement.
    return prefix_end(encode_descending(interval.upper)), prefix_end(encode_descending(interval.lower))


def merge_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the same keys as ascending ranges without overlaps."""
    result: list[Range] = []
    for lower, upper in sorted(each for each in ranges if each[0] < each[1]):
        if result and lower <= result[-1][1]:
            result[-1] = result[-1][0], max(upper, result[-1][1])
        else:
            result.append((lower, upper))
    return tuple(result)


def explain_bounds(fields: Sequence[tuple[str, Intervals, int | str]]) -> Document:
    """Return `indexBounds` of explain: the intervals of each path, in the direction of the index."""
    return {
        path: [each.to_text(direction == -1) for each in (reversed(intervals) if direction == -1 else intervals)]
        for path, intervals, direction in fields
    }
