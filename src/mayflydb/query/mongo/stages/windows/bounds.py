"""Windows: the range of documents of a partition around each document."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from bson import DatetimeMS

from mayflydb.query.mongo.dates import UTC_ZONE, add_units, check_unit
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Constant, compile_expression
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.numbers import add, exact_int32, exact_integer
from mayflydb.query.mongo.values import Document, OrderKey, Value, format_value, is_number, order_key, type_name

Bound: TypeAlias = Any
"""The distance of a window's end from the document itself; None if the window is unbounded on this side."""


class WindowBounds(msgspec.Struct, frozen=True):
    """The bounds of a window.

    `documents`: the bounds count documents; otherwise they are distances of the sort value, in `unit` for dates.
    """

    lower: Bound = None
    upper: Bound = None
    documents: bool = True
    unit: str = ""

    @property
    def is_whole(self) -> bool:
        """True if the window is the whole partition."""
        return self.lower is None and self.upper is None

    def spans(self, values: Sequence[Value]) -> list[tuple[int, int]]:
        """Return (start, stop) for each document. `values`: the sort values of the partition. MqlError 5429413, 5429513."""
        count = len(values)
        if self.is_whole:
            return [(0, count)] * count
        if self.documents:
            return [self._document_span(place, count) for place in range(count)]
        for value in values:
            self._check_sort_value(value)
        keys = [order_key(value) for value in values]
        spans = []
        for value in values:
            # Both ends belong to the window, with all documents that tie with them.
            start = 0 if self.lower is None else bisect_left(keys, self._bound_key(value, self.lower))
            stop = count if self.upper is None else bisect_right(keys, self._bound_key(value, self.upper))
            # A window may lie outside of all documents; then it is empty.
            spans.append((start, max(start, stop)))
        return spans

    def _document_span(self, place: int, count: int) -> tuple[int, int]:
        start = 0 if self.lower is None else min(max(0, place + self.lower), count)
        stop = count if self.upper is None else min(max(0, place + self.upper + 1), count)
        return start, max(start, stop)

    def _check_sort_value(self, value: Value) -> None:
        if self.unit:
            if type(value) is not DatetimeMS:
                found = type_name(value)
                raise MqlError(5429513, f"Invalid range: Expected the sortBy field to be a Date, but it was {found}")
        elif not is_number(value):
            found = type_name(value)
            raise MqlError(5429413, f"Invalid range: Expected the sortBy field to be a number, but it was {found}")

    def _bound_key(self, value: Value, distance: Value) -> OrderKey:
        if self.unit:
            return order_key(DatetimeMS(add_units(int(value), self.unit, int(distance), UTC_ZONE)))
        return order_key(add(value, distance))


WHOLE = WindowBounds()


def compile_window(spec: Value, sort_by: Document | None, env: Env) -> WindowBounds:
    """Compile `window`. MqlError 9 for a malformed one, 5339900 for crossed bounds, 5339901 and 5339902 for a missing
    sort order.
    """
    if type(spec) is not dict:
        raise failed_to_parse("'window' field must be an object")
    if "documents" in spec and "range" in spec:
        raise failed_to_parse("Window bounds can specify either 'documents' or 'unit', not both.")
    if "unit" in spec and "range" not in spec:
        raise failed_to_parse("Window bounds can only specify 'unit' with range-based bounds.")
    if not spec:
        return WHOLE
    if "documents" not in spec and "range" not in spec:
        raise failed_to_parse(
            "'window' field can only contain 'documents' as the only argument or 'range' with an optional 'unit' field"
        )
    return (
        _compile_document_bounds(spec, sort_by, env)
        if "documents" in spec
        else _compile_range_bounds(spec, sort_by, env)
    )


def _compile_document_bounds(spec: Document, sort_by: Document | None, env: Env) -> WindowBounds:
    if len(spec) != 1:
        raise failed_to_parse("'window' field that specifies documents cannot have other fields")
    lower, upper = (_parse_bound(each, env) for each in _check_pair("documents", spec["documents"]))
    for each in (lower, upper):
        if each is not None and exact_int32(each) is None:
            raise failed_to_parse("Numeric document-based bounds must be an integer")
    _check_order(lower, upper)
    window = WindowBounds(None if lower is None else exact_int32(lower), None if upper is None else exact_int32(upper))
    if not window.is_whole and sort_by is None:
        raise MqlError(5339901, "Document-based bounds require a sortBy")
    return window


def _compile_range_bounds(spec: Document, sort_by: Document | None, env: Env) -> WindowBounds:
    if not spec.keys() <= {"range", "unit"}:
        raise failed_to_parse("'window' field that specifies range cannot have other fields besides 'unit'")
    unit = spec.get("unit", "")
    if type(unit) is not str:
        raise failed_to_parse("'unit' must be a string")
    if "unit" in spec:
        check_unit("$setWindowFields", unit)
    lower, upper = (_parse_bound(each, env) for each in _check_pair("range", spec["range"]))
    for each in (lower, upper):
        if each is not None and unit and exact_integer(each) is None:
            raise failed_to_parse("With 'unit', range-based bounds must be an integer")
    _check_order(lower, upper)
    if sort_by is None or len(sort_by) != 1:
        raise MqlError(5339902, "Range-based bounds require sortBy a single field")
    (direction,) = sort_by.values()
    if type(direction) is dict:
        raise MqlError(8947400, "Range-based bounds require a non-expression sortBy")
    if direction != 1:
        raise MqlError(8947401, "Range-based bounds require an ascending sortBy")
    return WindowBounds(lower, upper, False, unit)


def _check_pair(name: str, spec: Value) -> list[Value]:
    if type(spec) is not list or len(spec) != 2:
        raise failed_to_parse(f"Window bounds must be a 2-element array: {name}: {format_value(spec)}")
    return spec


def _parse_bound(spec: Value, env: Env) -> Bound:
    if spec == "unbounded":
        return None
    if spec == "current":
        return 0
    compiled = compile_expression(spec, env)
    if not isinstance(compiled, Constant):
        raise failed_to_parse("Window bounds expression must be a constant.")
    if not is_number(compiled.value):
        raise failed_to_parse("Window bounds must be 'unbounded', 'current', or a number.")
    return compiled.value


def _check_order(lower: Bound, upper: Bound) -> None:
    if lower is not None and upper is not None and order_key(lower) > order_key(upper):
        message = f"Lower bound must not exceed upper bound: [{format_value(lower)}, {format_value(upper)}]"
        raise MqlError(5339900, message)
