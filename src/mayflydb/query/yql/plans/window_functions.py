"""Window functions: each computes a value for every row of a window partition, whose rows are in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from mayflydb.query.yql.expression import Aggregation, Expression, pair_with_run
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.plans.values import NO_RUN
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Frame, FunctionCall, Window
from mayflydb.query.yql.types import DOUBLE, INTEGERS, UINT64, Type, Value, optional


class WindowPartition(msgspec.Struct, frozen=True):
    """A window partition: the indexes of its rows in order. `peer_groups`: for each row the number of its peer group."""

    places: list[int]
    peer_groups: list[int]


ComputeWindow: TypeAlias = Callable[[Sequence[Row], Sequence[int], Run], list[Value]]
"""Computes the values for the rows of a partition, from the rows in order, the numbers of their peer groups, and the
run."""

WindowFunction: TypeAlias = tuple[Type, ComputeWindow]


def frame_bounds(frame: Frame | None, over: Window) -> Callable[[int, Sequence[int]], tuple[int, int]]:
    """Return the function from a row's index to the first row of its frame and the row behind the last.

    Without a frame: up to the last peer of the row, or all rows if the window has no ORDER BY.
    """
    if frame is None:
        frame = Frame(over.at, "RANGE" if over.order else "ROWS", None, 0 if over.order else None)
    lower, upper = frame.lower, frame.upper
    if frame.kind == "ROWS":

        def by_rows(place: int, peer_groups: Sequence[int]) -> tuple[int, int]:
            # The frame is half open. Both bounds are relative to the row: -1 is the row before.
            first = 0 if lower is None else max(0, place + lower)
            last = len(peer_groups) if upper is None else min(len(peer_groups), place + upper + 1)
            # A frame that lies outside of the partition is empty.
            return first, max(first, last)

        return by_rows
    if frame.kind != "RANGE" or lower not in (None, 0) or upper not in (None, 0):
        raise unsupported(f"{frame.kind} with distances in a window", frame.at)

    def by_peers(place: int, peer_groups: Sequence[int]) -> tuple[int, int]:
        # CURRENT ROW in RANGE means all peers of the row: rows with equal keys of ORDER BY.
        first = last = place
        while first and (lower is None or peer_groups[first - 1] == peer_groups[place]):
            first = 0 if lower is None else first - 1
        while last < len(peer_groups) and (upper is None or peer_groups[last] == peer_groups[place]):
            last = len(peer_groups) if upper is None else last + 1
        return first, last

    return by_peers


def bind_aggregate(aggregation: Aggregation, operands: Sequence[Expression], over: Window) -> WindowFunction:
    """An aggregate over the frame of each row. While frames only grow, each row is aggregated once."""
    frame = frame_bounds(over.frame, over)
    values = [each.evaluate for each in operands] + [pair_with_run] * aggregation.contextual
    step, end_state = aggregation.step, aggregation.end

    def aggregate_each_frame(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        given = [tuple([each(row, run) for each in values]) for row in rows]
        found: list[Value] = []
        start, end, state = 0, 0, aggregation.start()
        for place in range(len(rows)):
            first, last = frame(place, peer_groups)
            # A frame that only grows continues with the state of the row before; any other frame begins anew.
            if first != start or last < end:
                start, end, state = first, first, aggregation.start()
            for each in given[end:last]:
                state = step(state, each)
            end = last
            value = end_state(state, run)
            # A later step may change a list that is the state itself, so the result is a copy.
            found.append(list(value) if isinstance(value, list) else value)
        return found

    # A frame without its own row may be empty; an aggregate of no row is NULL.
    narrow = over.frame is not None and over.frame.kind == "ROWS" and not _has_itself(over.frame)
    if narrow and (aggregation.type != UINT64 or aggregation.is_null_without_rows):
        return optional(aggregation.type), aggregate_each_frame
    return aggregation.type, aggregate_each_frame


def _has_itself(frame: Frame) -> bool:
    """True if the frame includes its own row, and is thus never empty."""
    return (frame.lower is None or frame.lower <= 0) and (frame.upper is None or frame.upper >= 0)


def _row_number(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    return UINT64, lambda rows, peer_groups, run: list(range(1, len(rows) + 1))


def _rank(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    return UINT64, lambda rows, peer_groups, run: _ranks(peer_groups)


def _ranks(peer_groups: Sequence[int]) -> list[Value]:
    found: list[Value] = []
    for place, group in enumerate(peer_groups):
        found.append(found[-1] if place and peer_groups[place - 1] == group else place + 1)
    return found


def _dense_rank(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    return UINT64, lambda rows, peer_groups, run: [group + 1 for group in peer_groups]


def _percent_rank(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    def percent_ranks(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        others = len(rows) - 1
        return [(rank - 1) / others if others else 0.0 for rank in _ranks(peer_groups)]

    return DOUBLE, percent_ranks


def _cume_dist(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    def distribution(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        # The last row of each peer group wins.
        ends: dict[int, int] = {group: place + 1 for place, group in enumerate(peer_groups)}
        return [ends[group] / len(rows) for group in peer_groups]

    return DOUBLE, distribution


def _ntile(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    count = _literal_operand(call, operands, 0)
    if count < 1:
        raise fault("NTILE expects a positive number", call.at)

    def bucket_numbers(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        # The first `larger` buckets have one row more.
        size, larger = divmod(len(rows), count)
        edge = larger * (size + 1)
        return [
            place // (size + 1) + 1 if place < edge else larger + (place - edge) // max(size, 1) + 1
            for place in range(len(rows))
        ]

    return UINT64, bucket_numbers


def _offset_function(sign: int) -> Callable[[FunctionCall, Sequence[Expression], Window], WindowFunction]:
    def make(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
        value = _value_operand(call, operands)
        distance = sign * (_literal_operand(call, operands, 1) if len(operands) > 1 else 1)

        def values_at_distance(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
            given = [value.evaluate(row, run) for row in rows]
            places = range(distance, len(rows) + distance)
            return [given[place] if 0 <= place < len(rows) else None for place in places]

        return optional(value.type), values_at_distance

    return make


def _frame_function(
    pick: Callable[[Sequence[Value]], Value],
) -> Callable[[FunctionCall, Sequence[Expression], Window], WindowFunction]:
    """A function that picks one value of the frame."""

    def make(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
        return _pick_from_frame(call, operands, over, pick)

    return make


def _nth_value(call: FunctionCall, operands: Sequence[Expression], over: Window) -> WindowFunction:
    number = _literal_operand(call, operands, 1)
    if number < 1:
        raise fault("NTH_VALUE expects a positive number", call.at)
    return _pick_from_frame(call, operands, over, lambda values: values[number - 1] if number <= len(values) else None)


def _pick_from_frame(
    call: FunctionCall, operands: Sequence[Expression], over: Window, pick: Callable[[Sequence[Value]], Value]
) -> WindowFunction:
    value, frame, skip_nulls = _value_operand(call, operands), frame_bounds(over.frame, over), bool(call.ignore_nulls)

    def pick_from_each_frame(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        given = [value.evaluate(row, run) for row in rows]
        found: list[Value] = []
        for place in range(len(rows)):
            first, last = frame(place, peer_groups)
            in_frame = given[first:last]
            found.append(pick([each for each in in_frame if each is not None] if skip_nulls else in_frame))
        return found

    return optional(value.type), pick_from_each_frame


def _value_operand(call: FunctionCall, operands: Sequence[Expression]) -> Expression:
    if not operands:
        raise fault(f"{call.name} expects an argument", call.at)
    return operands[0]


def _literal_operand(call: FunctionCall, operands: Sequence[Expression], place: int) -> int:
    """The value of an integer literal among the operands."""
    if place >= len(operands) or not operands[place].constant or operands[place].type not in INTEGERS:
        raise fault(f"{call.name} expects an integer literal", call.at)
    found = operands[place].evaluate((), NO_RUN)
    assert isinstance(found, int)
    return found


WINDOW_FUNCTIONS: dict[str, Callable[[FunctionCall, Sequence[Expression], Window], WindowFunction]] = {
    "ROW_NUMBER": _row_number,
    "ROWNUMBER": _row_number,
    "RANK": _rank,
    "DENSE_RANK": _dense_rank,
    "DENSERANK": _dense_rank,
    "PERCENT_RANK": _percent_rank,
    "CUME_DIST": _cume_dist,
    "NTILE": _ntile,
    "LAG": _offset_function(-1),
    "LEAD": _offset_function(1),
    "FIRST_VALUE": _frame_function(lambda values: values[0] if values else None),
    "LAST_VALUE": _frame_function(lambda values: values[-1] if values else None),
    "NTH_VALUE": _nth_value,
}
