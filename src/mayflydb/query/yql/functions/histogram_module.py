"""The module Histogram: what the bins of a histogram tell.

Between two bins lies half of each, spread evenly.
Source: https://ydb.tech/docs/en/yql/reference/udf/list/histogram, and `library/cpp/histogram/adaptive` and
`yql/essentials/udfs/common/histogram` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mayflydb.query.yql.expression import Builder, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.histograms import HISTOGRAM
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    coerce,
    constant,
    count_operands,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.types import BOOL, DOUBLE, STRING, UINT8, Type, Value, bare, is_optional, optional


class _Histogram(NamedTuple):
    """A value of the type HISTOGRAM; a bin is a pair of frequency and position."""

    bins: list[tuple[float, float]]
    kind: bytes
    greatest: float
    least: float
    total: float


def _sum_below(histogram: _Histogram, bound: float) -> float:
    bins, total = histogram.bins, _weight(histogram)
    if not bins or bound < histogram.least:
        return 0.0
    if bound > histogram.greatest:
        return total
    at, left, right = _around(histogram, bound)
    half = (left[0] + right[0]) / 2
    share = 1.0 if right[1] == left[1] else (bound - left[1]) / (right[1] - left[1])
    found = left[0] / 2 + half * share
    return found + sum(weight for weight, _ in bins[: at - 1]) if at else found


def _sum_above(histogram: _Histogram, bound: float) -> float:
    bins, total = histogram.bins, _weight(histogram)
    if not bins or bound > histogram.greatest:
        return 0.0
    if bound < histogram.least:
        return total
    at, left, right = _around(histogram, bound)
    half = (left[0] + right[0]) / 2
    share = 1.0 if right[1] == left[1] else (right[1] - bound) / (right[1] - left[1])
    return right[0] / 2 + half * share + sum(weight for weight, _ in bins[at + 1 :])


def _weight(histogram: _Histogram) -> float:
    return sum(weight for weight, _ in histogram.bins)


def _around(histogram: _Histogram, bound: float) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """The index of the first bin from the bound on, the bin before it, and that bin; empty ones at both ends."""
    bins = histogram.bins
    at = bisect_left([position for _, position in bins], bound)
    left = bins[at - 1] if at else (0.0, histogram.least)
    return at, left, bins[at] if at < len(bins) else (0.0, histogram.greatest)


def _sum_between(histogram: _Histogram, low: float, high: float) -> float:
    if low > high:
        return 0.0
    return _sum_above(histogram, low) + _sum_below(histogram, high) - _weight(histogram)


def _find_upper(histogram: _Histogram, wanted: float) -> float:
    """The position below which this sum of weights lies."""
    if wanted < 0:
        raise fault("Sum must be >= 0")
    bins = histogram.bins
    if wanted == 0 or not bins:
        return histogram.greatest if wanted else histogram.least
    gathered = 0.0
    for at, (weight, position) in enumerate(bins):
        gathered += weight
        if gathered >= wanted:
            before = bins[at - 1] if at else (0.0, histogram.least)
            behind = bins[at + 1] if at + 1 < len(bins) else (0.0, histogram.greatest)
            missing = wanted - (gathered - weight - before[0] / 2)
            near = (weight + before[0]) / 2
            if missing <= near:
                return before[1] + missing * (position - before[1]) / near
            return position + 2 * (missing - near) * (behind[1] - position) / (behind[0] + weight)
    return histogram.greatest


def _find_lower(histogram: _Histogram, wanted: float) -> float:
    """The position above which this sum of weights lies: the upper bound of the mirrored histogram."""
    mirrored = [(weight, -position) for weight, position in reversed(histogram.bins)]
    return -_find_upper(
        _Histogram(mirrored, histogram.kind, -histogram.least, -histogram.greatest, histogram.total), wanted
    )


def _find_upper_safely(histogram: _Histogram, wanted: float) -> float:
    return _find_upper(histogram, max(wanted, histogram.bins[0][0]) if histogram.bins else wanted)


def _find_lower_safely(histogram: _Histogram, wanted: float) -> float:
    return _find_lower(histogram, max(wanted, histogram.bins[-1][0]) if histogram.bins else wanted)


def _normalize(histogram: _Histogram, area: float | None, cumulative: bool | None) -> Value:
    area = 100.0 if area is None else area
    whole = histogram.bins[-1][0] if cumulative and histogram.bins else _weight(histogram)
    bins = [(_divide(area * weight, whole), position) for weight, position in histogram.bins]
    kind = histogram.kind + b"Cdf" * bool(cumulative)
    return bins, kind, histogram.greatest, histogram.least, sum(weight for weight, _ in bins)


def _divide(value: float, by: float) -> float:
    return value / by if by else float("nan")


def _accumulate(histogram: _Histogram) -> Value:
    total, bins = 0.0, []
    for weight, position in histogram.bins:
        total += weight
        bins.append((total, position))
    return bins, histogram.kind + b"Cdf", histogram.greatest, histogram.least, sum(weight for weight, _ in bins)


def _print(histogram: _Histogram, width: int | None) -> bytes:
    width = 25 if width is None else width
    head = f"Kind: {histogram.kind.decode()} Bins: {len(histogram.bins)} WeightsSum: {histogram.total:.3f}"
    lines = [f"{head} Min: {histogram.least:.3f} Max: {histogram.greatest:.3f}"]
    texts = [(f"{position:.3f}", f"{weight:.3f}") for weight, position in histogram.bins]
    long = [max((len(each[place]) for each in texts), default=0) for place in (0, 1)]
    most = max((weight for weight, _ in histogram.bins), default=0.0)
    for (weight, _), (position, frequency) in zip(histogram.bins, texts, strict=True):
        filled = int(width * weight / most) if most > 0 else 0
        bar = "\u2588" * filled + "\u2591" * (width - filled) if most > 0 else ""
        lines.append(f"{bar} P: {position.rjust(long[0])} F: {frequency.rjust(long[1])}")
    return "\n".join(lines).encode()


def _function(kind: Type, further: tuple[Type, ...], change: Callable[..., Any], needed: int) -> Builder:
    """Build a function of a histogram and of `needed` or more further values."""

    def build(call: Invocation) -> Operand:
        given_count = count_operands(call, 1 + needed, 1 + len(further))
        given = value_at(call, 0)
        if bare(given.type) != HISTOGRAM:
            raise mismatch_fault(call, 0, given.type, HISTOGRAM)
        operands = [given]
        for index, each in enumerate(further, 1):
            wanted = each if index <= needed else optional(each)
            found = coerce(value_at(call, index), wanted) if index < given_count else constant(wanted, None)
            if found is None:
                raise mismatch_fault(call, index, value_at(call, index).type, wanted)
            operands.append(found)
        return apply_with_nulls(
            operands,
            optional(kind) if is_optional(given.type) else kind,
            lambda value, *rest: None if value is None else change(_Histogram(*value), *rest),
        )

    return build


BUILDERS: Final[dict[str, Builder]] = {
    "Print": _function(STRING, (UINT8,), _print, 0),
    "Normalize": _function(HISTOGRAM, (DOUBLE, BOOL), _normalize, 0),
    "ToCumulativeDistributionFunction": _function(HISTOGRAM, (), _accumulate, 0),
    "GetSumAboveBound": _function(DOUBLE, (DOUBLE,), _sum_above, 1),
    "GetSumBelowBound": _function(DOUBLE, (DOUBLE,), _sum_below, 1),
    "GetSumInRange": _function(DOUBLE, (DOUBLE, DOUBLE), _sum_between, 2),
    "CalcUpperBound": _function(DOUBLE, (DOUBLE,), _find_upper, 1),
    "CalcLowerBound": _function(DOUBLE, (DOUBLE,), _find_lower, 1),
    "CalcUpperBoundSafe": _function(DOUBLE, (DOUBLE,), _find_upper_safely, 1),
    "CalcLowerBoundSafe": _function(DOUBLE, (DOUBLE,), _find_lower_safely, 1),
}
