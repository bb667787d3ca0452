"""Keys of ordered indexes over documents: bytes in the order of ORDER BY. Different values may share a key.

All arrays share a key, all objects do, and so do strings with a long common prefix. A smaller key means a smaller value; equal
keys mean nothing. So a reader that looks documents up by key compares the values afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mayflydb.model import keys
from mayflydb.model.keys import SortKeys
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

MAX_KEY_BYTES: Final = 200
"""The length of a key in bytes; values that differ only behind it share a key."""

_ARRAY: Final = b"\x90"
_OBJECT: Final = b"\xa0"
# Tags of `model.keys`: 30 false, 40 true, 50 numbers, 60 strings, 70 the next type.
_TYPE_BOUNDS: Final = {
    bool: (b"\x30", b"\x50"),
    int: (b"\x50", b"\x60"),
    float: (b"\x50", b"\x60"),
    str: (b"\x60", b"\x70"),
}
"""The bounds of the keys of each type that `<` compares."""
_COMPLEMENT: Final = bytes(range(255, -1, -1))
_AFTER_SUFFIXES: Final = b"\xff" * 9
"""A key with this suffix is above the key with any suffix that an index entry appends to it."""


class Span(msgspec.Struct, frozen=True, order=True):
    """A span of index entries: lower <= key < upper. `is_point`: every entry in the span has the key `lower`."""

    lower: bytes
    upper: bytes
    is_point: bool = False


def encode_key(value: Value) -> bytes:
    """The key of one value, not truncated. All arrays share a key, and all objects do."""
    kind = type(value)
    if kind is list:
        return _ARRAY
    if kind is dict:
        return _OBJECT
    if value is UNDEFINED:
        return keys.encode((keys.UNDEFINED,))
    try:
        return keys.encode((value,))
    except ValueError:
        # A JSON integer may be beyond the range of a double.
        return keys.encode((math.inf if value > 0 else -math.inf,))


def index_key(document: Mapping[str, Any], by: SortKeys) -> bytes:
    """The key of a document in an index."""
    parts = []
    for path, descending in by:
        key = encode_key(value_at(document, path))
        parts.append(key.translate(_COMPLEMENT) if descending else key)
        if key in (_ARRAY, _OBJECT):
            # Arrays share a key, and so do objects: a later path must not order documents that only seem to be equal here.
            break
    return b"".join(parts)[:MAX_KEY_BYTES]


def cursor_key(values: tuple[Value, ...], by: SortKeys) -> bytes:
    """The key, in an index, of a document that has these values at its paths."""
    document = {str(n): value for n, value in enumerate(values) if value is not UNDEFINED}
    return index_key(document, tuple(((str(n),), descending) for n, (_, descending) in enumerate(by)))


def value_at(document: Mapping[str, Any], path: tuple[str, ...]) -> Value:
    """The value at a path of property names."""
    value: Any = document
    for name in path:
        if type(value) is not dict:
            return UNDEFINED
        value = value.get(name, UNDEFINED)
    return value


def point_span(value: Value) -> Span:
    """The span of the documents with this value."""
    key = encode_key(value)[:MAX_KEY_BYTES]
    return Span(key, key + _AFTER_SUFFIXES, is_point=True)


def span_beyond(value: Value, above: bool) -> Span | None:
    """The span of the values that are comparable with `value` and at or above it (or at or below it). None: there are none."""
    bounds = _TYPE_BOUNDS.get(type(value))
    if bounds is None:
        # null is comparable with null alone.
        return point_span(value) if value is None else None
    own = point_span(value)
    # Comparisons with values of other types are undefined, so the span ends with the type.
    return Span(own.lower, bounds[1]) if above else Span(bounds[0], own.upper)


def prefix_span(prefix: str) -> Span:
    """The span of the strings that begin with `prefix`."""
    # Without the last byte, which ends a string.
    key = encode_key(prefix)[:-1][:MAX_KEY_BYTES]
    return Span(key, key + _AFTER_SUFFIXES)


def intersect_spans(some: tuple[Span, ...], others: tuple[Span, ...]) -> tuple[Span, ...]:
    """The keys that lie in a span of both."""
    spans = (_overlap(a, b) for a in some for b in others)
    return merge_spans(span for span in spans if span.lower < span.upper)


def _overlap(one: Span, other: Span) -> Span:
    for point, around in ((one, other), (other, one)):
        # A point stays a point: lookups of points are the cheapest.
        if point.is_point and around.lower <= point.lower and point.upper <= around.upper:
            return point
    return Span(max(one.lower, other.lower), min(one.upper, other.upper))


def merge_spans(spans: Any) -> tuple[Span, ...]:
    """The same keys as ascending, disjoint spans."""
    ascending: list[Span] = []
    for span in sorted(spans):
        last = ascending[-1] if ascending else None
        if last is not None and span.lower <= last.upper:
            # Equal spans are one span, and a point that is given twice stays a point.
            if (span.lower, span.upper) != (last.lower, last.upper):
                ascending[-1] = Span(last.lower, max(last.upper, span.upper))
        else:
            ascending.append(span)
    return tuple(ascending)
