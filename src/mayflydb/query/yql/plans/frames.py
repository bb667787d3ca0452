"""Frames of windows: the rows of a partition that a window function sees from each row.

Source: https://ydb.tech/docs/en/yql/reference/syntax/window#frame; RANGE with distances as in SQL:2011.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, type_fault, unsupported
from mayflydb.query.yql.moments import INTERVALS, NARROW, SCALES, WIDE
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.values import NO_RUN
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Frame, Window
from mayflydb.query.yql.types import INTEGERS, NUMBERS, Type, Value, bare, format_long

FindFrame: TypeAlias = Callable[[int], tuple[int, int]]
"""Returns for the index of a row the first row of its frame and the row behind the last."""


class BoundFrame(msgspec.Struct, frozen=True):
    """`of(rows, peer_groups, run)` gives the frames of a partition's rows, which are in order. `may_be_empty`: a frame may
    lie outside of the partition."""

    of: Callable[[Sequence[Row], Sequence[int], Run], FindFrame]
    may_be_empty: bool = False


def bind_frame(binder: Binder, over: Window) -> BoundFrame:
    """Bind the frame of a window. Without one: up to the last peer of the row, or all rows if the window has no order."""
    frame = over.frame
    if frame is None:
        frame = Frame(over.at, "RANGE" if over.order else "ROWS", None, 0 if over.order else None)
    empty = not _has_itself(frame)
    if frame.kind == "ROWS":
        return BoundFrame(lambda rows, peer_groups, run: _by_rows(frame, len(rows)), empty)
    if frame.kind == "GROUPS":
        raise unsupported("GROUPS in a window", frame.at)
    if frame.lower in (None, 0) and frame.upper in (None, 0):
        return BoundFrame(lambda rows, peer_groups, run: _by_peers(frame, peer_groups))
    return BoundFrame(_bind_distances(binder, over, frame), empty)


def _has_itself(frame: Frame) -> bool:
    """True if the frame includes its own row, and is thus never empty."""
    return (frame.lower is None or frame.lower <= 0) and (frame.upper is None or frame.upper >= 0)


def _by_rows(frame: Frame, count: int) -> FindFrame:
    lower, upper = frame.lower, frame.upper

    def find(place: int) -> tuple[int, int]:
        # The frame is half open. Both bounds are relative to the row: -1 is the row before.
        first = 0 if lower is None else max(0, place + lower)
        last = count if upper is None else min(count, place + upper + 1)
        # A frame that lies outside of the partition is empty.
        return first, max(first, last)

    return find


def _by_peers(frame: Frame, peer_groups: Sequence[int]) -> FindFrame:
    """CURRENT ROW in RANGE means all peers of the row: rows with equal keys of ORDER BY."""
    lower, upper = frame.lower, frame.upper

    def find(place: int) -> tuple[int, int]:
        group = peer_groups[place]
        first = 0 if lower is None else bisect_left(peer_groups, group)
        return first, len(peer_groups) if upper is None else bisect_right(peer_groups, group)

    return find


# --- RANGE with distances --------------------------------------------------------------------------------------------


def _bind_distances(
    binder: Binder, over: Window, frame: Frame
) -> Callable[[Sequence[Row], Sequence[int], Run], FindFrame]:
    if len(over.order) != 1:
        raise fault("RANGE with distances requires exactly one key in ORDER BY", frame.at)
    order = binder.expression(over.order[0].value)
    sign = -1 if over.order[0].descending else 1
    kind = bare(order.type)
    scale = SCALES.get(kind, 1) if kind in (*NARROW, *WIDE, *INTERVALS) else 1
    if kind not in NUMBERS and kind not in SCALES:
        raise type_fault(
            "Range", f"Expected a number, a date or an interval, but got: {format_long(order.type)}", frame.at
        )
    lower = _bind_distance(binder, frame, frame.lower, frame.lower_by, kind)
    upper = _bind_distance(binder, frame, frame.upper, frame.upper_by, kind)
    evaluate = order.evaluate

    def of(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> FindFrame:
        values = [_measure(evaluate, row, run, sign * scale) for row in rows]
        return _by_distance(values, peer_groups, lower, upper)

    return of


def _measure(evaluate: Evaluate, row: Row, run: Run, factor: int) -> Any:
    """The key of a row, ascending; None for NULL and nan, which are at no distance from anything."""
    value = evaluate(row, run)
    return None if value is None or value != value else value * factor


def _by_distance(values: Sequence[Any], peer_groups: Sequence[int], lower: Any, upper: Any) -> FindFrame:
    # Rows without a measure stand at the ends, so the others are one part.
    measured = [place for place, value in enumerate(values) if value is not None]
    start, end = (measured[0], measured[-1] + 1) if measured else (0, 0)

    def find(place: int) -> tuple[int, int]:
        value, group = values[place], peer_groups[place]
        if value is None:
            first, last = bisect_left(peer_groups, group), bisect_right(peer_groups, group)
        else:
            first = start if lower is None else bisect_left(values, value + lower, start, end)
            last = end if upper is None else bisect_right(values, value + upper, start, end)
        first = 0 if lower is None else first
        return first, max(first, len(values) if upper is None else last)

    return find


def _bind_distance(binder: Binder, frame: Frame, bound: int | None, by: Tree | None, kind: Type) -> Any:
    """The distance of a bound to the row's key, negative before it; None for UNBOUNDED."""
    if bound is None or bound == 0:
        return bound
    length: Value = abs(bound)
    if by is not None:
        length = _constant_distance(binder.expression(by), by, kind)
    elif kind not in NUMBERS:
        raise type_fault("Range", f"Expected an Interval as distance for {format_long(kind)}", frame.at)
    return -length if bound < 0 else length


def _constant_distance(given: Expression, by: Tree, kind: Type) -> Value:
    wanted = INTERVALS if kind in SCALES else INTEGERS if kind in INTEGERS else NUMBERS
    if bare(given.type) not in wanted or not given.constant:
        expected = "Interval" if kind in SCALES else "number"
        raise type_fault(
            "Range", f"Expected a constant {expected} as distance, but got: {format_long(given.type)}", by.at
        )
    found = given.evaluate((), NO_RUN)
    if found is None or found != found or found < 0:
        raise fault("The distance of a frame must not be negative or NULL", by.at)
    return found
