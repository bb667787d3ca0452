"""Window functions: each computes a value for every row of a window partition, whose rows are in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import msgspec

from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Aggregation, Expression, pair_with_run
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.frames import BoundFrame
from mayflydb.query.yql.plans.values import NO_RUN
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import FunctionCall
from mayflydb.query.yql.types import DOUBLE, INTEGERS, UINT64, Type, Value, optional


class WindowPartition(msgspec.Struct, frozen=True):
    """A window partition: the indexes of its rows in order. `peer_groups`: for each row the number of its peer group."""

    places: list[int]
    peer_groups: list[int]


ComputeWindow: TypeAlias = Callable[[Sequence[Row], Sequence[int], Run], list[Value]]
"""Computes the values for the rows of a partition, from the rows in order, the numbers of their peer groups, and the
run."""

WindowFunction: TypeAlias = tuple[Type, ComputeWindow]


def bind_aggregate(aggregation: Aggregation, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    """An aggregate over the frame of each row. While frames only grow, each row is aggregated once."""
    values = [each.evaluate for each in operands] + [pair_with_run] * aggregation.contextual
    step, end_state = aggregation.step, aggregation.end

    def aggregate_each_frame(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        given = [tuple([each(row, run) for each in values]) for row in rows]
        found: list[Value] = []
        start, end, state = 0, 0, aggregation.start()
        find = frame.of(rows, peer_groups, run)
        for place in range(len(rows)):
            first, last = find(place)
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
    if frame.may_be_empty and (aggregation.type != UINT64 or aggregation.is_null_without_rows):
        return optional(aggregation.type), aggregate_each_frame
    return aggregation.type, aggregate_each_frame


def _row_number(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    return UINT64, lambda rows, peer_groups, run: list(range(1, len(rows) + 1))


def _rank(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    regroup = _bind_peers(operands)
    return UINT64, lambda rows, peer_groups, run: _ranks(regroup(rows, peer_groups, run))


def _bind_peers(operands: Sequence[Expression]) -> Callable[[Sequence[Row], Sequence[int], Run], Sequence[int]]:
    """The peer groups that a rank counts: neighbours with equal values of the operand, or the peers in the window's order."""
    if not operands:
        return lambda rows, peer_groups, run: peer_groups
    evaluate, key = operands[0].evaluate, comparison.group_key(operands[0].type)
    return lambda rows, peer_groups, run: number_peers([key(evaluate(row, run)) for row in rows])


def number_peers(keys: Sequence[Hashable]) -> list[int]:
    """The number of the peer group of each row, from 0."""
    found: list[int] = []
    for place, key in enumerate(keys):
        found.append(found[-1] + (key != keys[place - 1]) if place else 0)
    return found


def _ranks(peer_groups: Sequence[int]) -> list[Value]:
    found: list[Value] = []
    for place, group in enumerate(peer_groups):
        found.append(found[-1] if place and peer_groups[place - 1] == group else place + 1)
    return found


def _dense_rank(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    regroup = _bind_peers(operands)
    return UINT64, lambda rows, peer_groups, run: [group + 1 for group in regroup(rows, peer_groups, run)]


def _percent_rank(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    regroup = _bind_peers(operands)

    def percent_ranks(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        others = len(rows) - 1
        return [(rank - 1) / others if others else 0.0 for rank in _ranks(regroup(rows, peer_groups, run))]

    return DOUBLE, percent_ranks


def _cume_dist(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    def distribution(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        # The last row of each peer group wins.
        ends: dict[int, int] = {group: place + 1 for place, group in enumerate(peer_groups)}
        return [ends[group] / len(rows) for group in peer_groups]

    return DOUBLE, distribution


def _ntile(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
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


def _offset_function(sign: int) -> Callable[[FunctionCall, Sequence[Expression], BoundFrame], WindowFunction]:
    def make(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
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
) -> Callable[[FunctionCall, Sequence[Expression], BoundFrame], WindowFunction]:
    """A function that picks one value of the frame."""

    def make(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
        return _pick_from_frame(call, operands, frame, pick)

    return make


def _nth_value(call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame) -> WindowFunction:
    number = _literal_operand(call, operands, 1)
    if number < 1:
        raise fault("NTH_VALUE expects a positive number", call.at)
    return _pick_from_frame(call, operands, frame, lambda values: values[number - 1] if number <= len(values) else None)


def _pick_from_frame(
    call: FunctionCall, operands: Sequence[Expression], frame: BoundFrame, pick: Callable[[Sequence[Value]], Value]
) -> WindowFunction:
    value, skip_nulls = _value_operand(call, operands), bool(call.ignore_nulls)

    def pick_from_each_frame(rows: Sequence[Row], peer_groups: Sequence[int], run: Run) -> list[Value]:
        given = [value.evaluate(row, run) for row in rows]
        found: list[Value] = []
        find = frame.of(rows, peer_groups, run)
        for place in range(len(rows)):
            first, last = find(place)
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


WINDOW_FUNCTIONS: dict[str, Callable[[FunctionCall, Sequence[Expression], BoundFrame], WindowFunction]] = {
    "ROW_NUMBER": _row_number,
    "ROWNUMBER": _row_number,
    "RANK": _rank,
    "DENSE_RANK": _dense_rank,
    "DENSERANK": _dense_rank,
    "PERCENT_RANK": _percent_rank,
    "PERCENTRANK": _percent_rank,
    "CUME_DIST": _cume_dist,
    "CUMEDIST": _cume_dist,
    "NTILE": _ntile,
    "LAG": _offset_function(-1),
    "LEAD": _offset_function(1),
    "FIRSTVALUE": _frame_function(lambda values: values[0] if values else None),
    "LASTVALUE": _frame_function(lambda values: values[-1] if values else None),
    "NTHVALUE": _nth_value,
    "FIRST_VALUE": _frame_function(lambda values: values[0] if values else None),
    "LAST_VALUE": _frame_function(lambda values: values[-1] if values else None),
    "NTH_VALUE": _nth_value,
}
