"""Statistical aggregates: variance and deviation, correlation, median and percentiles.

Source: https://ydb.tech/docs/en/yql/reference/builtins/aggregation
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql.expression import AggregateBuilder, Aggregation, Invocation
from mayflydb.query.yql.functions.aggregates import Values, nullable_like
from mayflydb.query.yql.functions.support import (
    argument_fault,
    coerce,
    count_operands,
    evaluate_constant,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.moments import INTERVALS, NARROW
from mayflydb.query.yql.types import (
    DOUBLE,
    NULL,
    NUMBERS,
    ListType,
    Type,
    Value,
    bare,
    format_type,
)


def _check_numeric(call: Invocation, index: int) -> None:
    given = value_at(call, index)
    if given.type != NULL and bare(given.type) not in NUMBERS:
        raise mismatch_fault(call, index, given.type, DOUBLE)


def _deviation(sample: bool, root: bool) -> AggregateBuilder:
    """Variance and deviation by Welford's method: its mean and sum of squares do not cancel out. A sample of one row gives
    nan.
    """

    def finish(state: Value) -> Value:
        if state is None:
            return None
        number, _, squares = state
        divisor = number - 1 if sample else number
        found = squares / divisor if divisor else math.nan
        return math.sqrt(found) if root and found == found else found

    def step(state: Value, values: Values) -> Value:
        if values[0] is None:
            return state
        value = float(values[0])
        number, mean, squares = state or (0, 0.0, 0.0)
        # Welford: the distances to the old and to the new mean are multiplied.
        apart = value - mean
        mean += apart / (number + 1)
        return (number + 1, mean, squares + apart * (value - mean))

    def build(call: Invocation) -> Aggregation:
        count_operands(call, 1)
        _check_numeric(call, 0)
        return Aggregation(nullable_like(value_at(call, 0), DOUBLE), lambda: None, step, finish)

    return build


def _pair_aggregate(finish: Callable[[int, float, float, float], float]) -> AggregateBuilder:
    """Aggregates of pairs: `finish` gets their number, and the sums of squares and products about the means. NULL counts as
    0."""

    def step(state: Value, values: Values) -> Value:
        x, y = float(values[0] or 0), float(values[1] or 0)
        number, mean_x, mean_y, xx, yy, xy = state or (0, 0.0, 0.0, 0.0, 0.0, 0.0)
        number += 1
        dx, dy = x - mean_x, y - mean_y
        mean_x, mean_y = mean_x + dx / number, mean_y + dy / number
        return (number, mean_x, mean_y, xx + dx * (x - mean_x), yy + dy * (y - mean_y), xy + dx * (y - mean_y))

    def build(call: Invocation) -> Aggregation:
        count_operands(call, 2)
        _check_numeric(call, 0)
        _check_numeric(call, 1)
        return Aggregation(
            DOUBLE,
            lambda: None,
            step,
            lambda state: None if state is None else finish(state[0], *state[3:]),
        )

    return build


def _correlation(number: int, xx: float, yy: float, xy: float) -> float:
    return xy / math.sqrt(xx * yy) if xx > 0 and yy > 0 else math.nan


def _percentile(call: Invocation) -> Aggregation:
    """`PERCENTILE(value, share)`; share may be a list of them."""
    count_operands(call, 2)
    given = coerce(value_at(call, 1), DOUBLE)
    if given is None:
        given = coerce(value_at(call, 1), ListType(DOUBLE))
    if given is None:
        raise mismatch_fault(call, 1, value_at(call, 1).type, DOUBLE)
    return _build_percentile(call, evaluate_constant(given, call))


def _median(call: Invocation) -> Aggregation:
    count_operands(call, 1)
    return _build_percentile(call, 0.5)


def _build_percentile(call: Invocation, share: float | list[float]) -> Aggregation:
    """Interpolate between the two nearest values in order."""
    source = value_at(call, 0)
    kind: Type = DOUBLE
    if bare(source.type) in (*NARROW, *INTERVALS):
        kind = bare(source.type)
    elif source.type != NULL and bare(source.type) not in NUMBERS:
        raise argument_fault(call, f"Expected numeric type, but got: {format_type(source.type)}")
    shares = share if isinstance(share, list) else [share]
    if not all(0 <= each <= 1 for each in shares):
        raise argument_fault(call, "Expected a share from 0 to 1")
    whole = kind != DOUBLE

    def step(state: Value, values: Values) -> Value:
        if values[0] is not None:
            state.append(values[0])
        return state

    def finish(state: list[Value]) -> Value:
        if not state:
            return None
        ordered = sort_in_runs(state, float if kind == DOUBLE else int)
        found = [_interpolate(ordered, each, whole) for each in shares]
        return found if isinstance(share, list) else found[0]

    result = ListType(kind) if isinstance(share, list) else kind
    return Aggregation(nullable_like(source, result), list, step, finish)


def _interpolate(ordered: list[Value], share: float, whole: bool) -> Value:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    if whole:
        return ordered[low] + int((ordered[high] - ordered[low]) * (place - low))
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


_POPULATION: Final = _pair_aggregate(lambda number, xx, yy, xy: xy / number)
_SAMPLE: Final = _pair_aggregate(lambda number, xx, yy, xy: xy / (number - 1) if number > 1 else math.nan)
_CORRELATION: Final = _pair_aggregate(_correlation)


def _under_names(names: tuple[str, ...], builder: AggregateBuilder) -> dict[str, AggregateBuilder]:
    return dict.fromkeys(names, builder)


AGGREGATES: Final[dict[str, AggregateBuilder]] = {
    **_under_names(("stddev", "stddevsample", "stddevsamp", "samplestddev"), _deviation(sample=True, root=True)),
    **_under_names(("stddevpopulation", "stddevpop", "populationstddev"), _deviation(sample=False, root=True)),
    **_under_names(
        ("variance", "variancesample", "varsamp", "varsample", "samplevariance"), _deviation(sample=True, root=False)
    ),
    **_under_names(
        ("variancepopulation", "varpop", "varpopulation", "populationvariance"), _deviation(sample=False, root=False)
    ),
    **_under_names(("correlation", "corr"), _CORRELATION),
    **_under_names(("covariance", "covar", "covariancesample", "covarsamp", "covarsample"), _SAMPLE),
    **_under_names(("covariancepopulation", "covarpop", "covarpopulation"), _POPULATION),
    "median": _median,
    "percentile": _percentile,
}
