"""Bounds: what a condition of a query leaves of the values of one field, as intervals of `key_bytes`, never too few."""

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
    after,
    descending,
    encode_value,
    prefix,
)
from mayflydb.query.mongo.values import Document, Value, shell


class Interval(NamedTuple):
    """Encodings with lower <= encoding < upper. `low` and `high` print it; a `point` holds one value only."""

    lower: bytes
    upper: bytes
    low: str
    high: str
    point: bool = False

    def to_text(self, backwards: bool = False) -> str:
        """`["a", "b")` as explain prints it."""
        if not backwards:
            return f"{self.low}, {self.high}"
        opening = "[" if self.high[-1] == "]" else "("
        closing = "]" if self.low[0] == "[" else ")"
        return f"{opening}{self.high[:-1]}, {self.low[1:]}{closing}"


Intervals: TypeAlias = tuple[Interval, ...]
"""Ascending, without overlaps."""

EVERYTHING: Final = Interval(MIN_KEY, after(MAX_KEY), "[MinKey", "MaxKey]")
ALL: Final[Intervals] = (EVERYTHING,)

NULLS: Final[Intervals] = (Interval(NULL, after(NULL), "[null", "null]", True),)
"""A missing field is null in an index."""

_NAN: Final = encode_value(float("nan"))
_INFINITE: Final = encode_value(float("-inf"))
_LOWEST: Final = {NUMBER: "-inf", STRING: '""', OBJECT: "{}"}
_HIGHEST: Final = {NUMBER: "inf", STRING: "{}", OBJECT: "[]"}


class CollationMatch(NamedTuple):
    """How an index and a query compare strings: strings bound what is read only where both do it alike."""

    collation: Collation
    alike: bool


def equal_intervals(value: Value, by: CollationMatch) -> Intervals | None:
    """Where values are that equal one, or arrays that hold one or are one; None: anywhere."""
    if type(value) is list:
        # An array is found by its first element, or as an element itself.
        first = (
            equal_intervals(value[0], by) if value else (Interval(EMPTY_ARRAY, after(EMPTY_ARRAY), "[[]", "[]]", True),)
        )
        return None if first is None else unite([*first, *_point(value, by)])
    return _point(value, by)


def _point(value: Value, by: CollationMatch) -> Intervals:
    encoded = encode_value(value, by.collation)
    if not by.alike and has_text(value):
        return (type_interval(encoded[:1]),)
    shown = shell(value)
    return (Interval(encoded, after(encoded), f"[{shown}", f"{shown}]", True),)


def type_interval(tag: bytes) -> Interval:
    """All values of a class of types, NaN excepted: no range holds it."""
    return Interval(
        _INFINITE if tag == NUMBER else tag,
        after(tag),
        f"[{_LOWEST.get(tag, 'lowest')}",
        f"{_HIGHEST.get(tag, 'highest')})",
    )


def has_text(value: Value) -> bool:
    """Whether a string is in a value, so that a collation matters."""
    if type(value) is dict:
        return any(has_text(each) for each in value.values())
    return type(value) is str or (type(value) is list and any(has_text(each) for each in value))


def comparison_intervals(operator: str, value: Value, by: CollationMatch) -> Intervals | None:
    """Where values are that `$gt`, `$gte`, `$lt` or `$lte` holds for; None: anywhere."""
    if type(value) in (list, MinKey, MaxKey):
        return None
    if value is None:
        return NULLS
    encoded = encode_value(value, by.collation)
    if encoded == _NAN:
        return _point(value, by) if operator in ("$gte", "$lte") else ()
    whole = type_interval(encoded[:1])
    if not by.alike and has_text(value):
        return (whole,)
    shown = shell(value)
    if operator == "$gt":
        return (Interval(after(encoded), whole.upper, f"({shown}", whole.high),)
    if operator == "$gte":
        return (Interval(encoded, whole.upper, f"[{shown}", whole.high),)
    if operator == "$lt":
        return (Interval(whole.lower, encoded, whole.low, f"{shown})"),)
    return (Interval(whole.lower, after(encoded), whole.low, f"{shown}]"),)


def regex_intervals(pattern: str, flags: int, by: CollationMatch) -> Intervals:
    """Where strings are that a regular expression may match, and expressions that equal it."""
    start = anchored_prefix(pattern, flags) if by.collation.is_simple else ""
    strings = type_interval(STRING)
    if start:
        encoded = STRING + prefix(start)
        strings = Interval(encoded, after(encoded), f"[{shell(start)}", f"{shell(_next(start))})")
    itself = encode_value(Regex(pattern, flags), by.collation)
    shown = shell(Regex(pattern, flags))
    return strings, Interval(itself, after(itself), f"[{shown}", f"{shown}]", True)


def _next(text: str) -> str:
    return text[:-1] + chr(ord(text[-1]) + 1) if ord(text[-1]) < 0x10FFFF else text + "\U0010ffff"


_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}#")


def anchored_prefix(pattern: str, flags: int) -> str:
    """What all strings begin with that an expression matches; "" if nothing is sure."""
    if flags & (re.IGNORECASE | re.MULTILINE | re.VERBOSE):
        return ""
    start = 2 if pattern.startswith("\\A") else 1 if pattern.startswith("^") else 0
    if not start or "|" in pattern:
        return ""
    found, at = "", start
    while at < len(pattern):
        character = pattern[at]
        width = 1
        if character == "\\":
            # An escaped sign stands for itself; letters and digits are classes, assertions and references.
            if at + 1 == len(pattern) or pattern[at + 1].isalnum() or ord(pattern[at + 1]) > 0x7E:
                break
            character, width = pattern[at + 1], 2
        elif character in _SPECIAL:
            break
        if pattern[at + width : at + width + 1] in ("*", "?", "{"):
            break
        found, at = found + character, at + width
    return found


# --- sets of intervals ---------------------------------------------------------------------------------------------------


def unite(intervals: Iterable[Interval]) -> Intervals:
    """Those values that are in any."""
    result: list[Interval] = []
    for each in sorted(intervals):
        if each.lower >= each.upper:
            continue
        if result and each.lower < result[-1].upper:
            last = result[-1]
            if each.upper > last.upper:
                result[-1] = Interval(last.lower, each.upper, last.low, each.high)
        else:
            result.append(each)
    return tuple(result)


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """Those values that are in both."""
    result = []
    for a in one:
        for b in other:
            low, high = max(a, b, key=lambda each: each.lower), min(a, b, key=lambda each: each.upper)
            if low.lower < high.upper:
                result.append(Interval(low.lower, high.upper, low.low, high.high, a.point or b.point))
    return tuple(sorted(result))


def contains(outer: Intervals, inner: Intervals) -> bool:
    """Whether all values of `inner` are in `outer`."""
    return all(any(o.lower <= i.lower and i.upper <= o.upper for o in outer) for i in inner)


def all_points(intervals: Intervals) -> bool:
    """Whether they hold single values only."""
    return all(each.point for each in intervals)


# --- ranges of keys ------------------------------------------------------------------------------------------------------

MAX_RANGES: Final = 1000
"""Ranges of keys of one plan: more fields are not taken into account where they would make more."""

Range: TypeAlias = tuple[bytes, bytes]


def ranges_of(
    fields: Sequence[tuple[Intervals, int | str]], most: int = MAX_RANGES, whole: int = 1 << 30
) -> tuple[Range, ...]:
    """The ranges of keys, ascending and disjoint, in which all fields are in their intervals; fields after a range are not seen.

    `fields`: the intervals of each field and its direction. `whole`: bytes up to which keys are not cut.
    """
    starts: list[bytes] = [b""]
    ranges: list[Range] | None = None
    for intervals, way in fields:
        if intervals == ALL or len(starts) * len(intervals) > most:
            break
        turned = [_orient(each, way) for each in intervals]
        if not all_points(intervals):
            ranges = [(start + lower, start + upper) for start in starts for lower, upper in turned]
            break
        # A point's lower bound, turned or not, is its encoding.
        points = [descending(each.lower) if way == -1 else each.lower for each in intervals]
        starts = [start + point for start in starts for point in points]
    if ranges is None:
        ranges = [(start, after(start) if start else b"\xff" * 9) for start in starts]
    return merge_ranges(
        [(lower[:whole], upper if len(upper) <= whole else after(upper[:whole])) for lower, upper in ranges]
    )


def _orient(interval: Interval, way: int | str) -> Range:
    if way != -1:
        return interval.lower, interval.upper
    return after(descending(interval.upper)), after(descending(interval.lower))


def merge_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same keys without overlaps, ascending."""
    result: list[Range] = []
    for lower, upper in sorted(each for each in ranges if each[0] < each[1]):
        if result and lower <= result[-1][1]:
            result[-1] = result[-1][0], max(upper, result[-1][1])
        else:
            result.append((lower, upper))
    return tuple(result)


def explain_bounds(fields: Sequence[tuple[str, Intervals, int | str]]) -> Document:
    """`indexBounds` of explain: the intervals of each path in the index's direction."""
    return {
        path: [each.to_text(way == -1) for each in (reversed(intervals) if way == -1 else intervals)]
        for path, intervals, way in fields
    }
