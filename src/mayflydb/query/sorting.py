"""Sorts that can be stopped. A sort in C holds the interpreter until its end, so long lists are sorted in runs and merged."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from mayflydb.model.releasing import release

T = TypeVar("T")

RUN_LENGTH: Final = 4096
"""The maximum number of items that one sort in C orders: it takes a few milliseconds."""

_KEY: Final = itemgetter(0)


def sort_in_runs(items: Sequence[T], key: Callable[[T], Any], reverse: bool = False) -> list[T]:
    """Return what `sorted` returns. It is stable, also in reverse order, and computes each key once."""
    if len(items) <= RUN_LENGTH:
        return sorted(items, key=key, reverse=reverse)
    runs = []
    for start in range(0, len(items), RUN_LENGTH):
        keyed = [(key(item), item) for item in items[start : start + RUN_LENGTH]]
        keyed.sort(key=_KEY, reverse=reverse)
        runs.append(keyed)
    # The merge is written in Python, so it can be stopped between two items. Equal keys keep the order of the runs.
    try:
        return [item for _, item in heapq.merge(*map(_drain, runs), key=_KEY, reverse=reverse)]
    finally:
        for run in runs:
            release(run)


def _drain(run: list[tuple[Any, T]]) -> Iterator[tuple[Any, T]]:
    """Yield the items of a list, which forgets them: the interpreter would free all of them at once."""
    run.reverse()
    while run:
        yield run.pop()
