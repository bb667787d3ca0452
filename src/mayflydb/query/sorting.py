"""Sorts that can be stopped. A sort in C holds the interpreter until its end, so long lists are sorted in parts."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

from mayflydb.model.releasing import release

T = TypeVar("T")

RUN_LENGTH: Final = 4096
"""The maximum number of items that one sort in C orders: it takes a few milliseconds."""

_SAMPLE: Final = 16
"""Keys of each run from which the bounds of the parts are chosen."""

_KEY: Final = itemgetter(0)

_Run: TypeAlias = list[tuple[Any, T]]
"""Keys and their items, in order."""


def sort_in_runs(items: Sequence[T], key: Callable[[T], Any], reverse: bool = False) -> list[T]:
    """Return what `sorted` returns. It is stable, also in reverse order, and computes each key once.

    Runs of items are sorted. Then the range of the keys is cut into parts, and the items of all runs in one part are sorted:
    as they are ordered already, that is a merge in C.
    """
    if len(items) <= RUN_LENGTH:
        return sorted(items, key=key, reverse=reverse)
    runs: list[_Run[T]] = []
    # Backwards, the items are sorted from the last to the first, and the result is turned round: equal ones keep their order.
    forwards = items[::-1] if reverse else items
    ordered: list[T] = []
    try:
        for start in range(0, len(forwards), RUN_LENGTH):
            keyed = [(key(item), item) for item in forwards[start : start + RUN_LENGTH]]
            keyed.sort(key=_KEY)
            runs.append(keyed)
        for part in _merge(runs):
            ordered += part
    finally:
        for run in runs:
            release(run)
    if reverse:
        ordered.reverse()
    return ordered


def _merge(runs: list[_Run[T]]) -> Iterator[list[T]]:
    """Yield the items of all runs in order, part by part."""
    sample = sorted([run[place][0] for run in runs for place in range(0, len(run), RUN_LENGTH // _SAMPLE)])
    begins = [0] * len(runs)
    # A part of so many places of the sample has about a run's length.
    for bound in (*sample[_SAMPLE::_SAMPLE], None):
        ends = [
            len(run) if bound is None else bisect_left(run, bound, begin, key=_KEY)
            for run, begin in zip(runs, begins, strict=True)
        ]
        slices = [run[begin:end] for run, begin, end in zip(runs, begins, ends, strict=True) if begin < end]
        begins = ends
        if slices:
            yield from _merge_slices(slices)


def _merge_slices(slices: list[_Run[T]]) -> Iterator[list[T]]:
    size = sum(map(len, slices))
    if size <= 2 * RUN_LENGTH:
        part = [each for run in slices for each in run]
        part.sort(key=_KEY)
        yield [item for _, item in part]
    elif not min(run[0][0] for run in slices) < max(run[-1][0] for run in slices):
        # All keys are equal.
        for run in slices:
            yield [item for _, item in run]
    else:
        # A few keys that many items share. The merge is written in Python, so it can be stopped between two items.
        merged = heapq.merge(*slices, key=_KEY)
        yield [item for _, item in merged]
