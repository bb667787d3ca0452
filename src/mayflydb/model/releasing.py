"""Release of large collections in slices: the interpreter frees a collection as a whole, and nothing else runs meanwhile.

A collection with one owner is emptied by it (`release`). One that goes through many hands is kept here (`keep`) until nothing
else refers to it, and then emptied on a thread that computes.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Final, TypeAlias, TypeVar

Large: TypeAlias = "list[Any] | dict[Any, Any] | set[Any]"

L = TypeVar("L", bound=Large)

SLICE: Final = 1_000
"""Rows that are freed in one step: a fraction of a millisecond, or two where each is a list of sixty."""

_AT_A_TIME: Final = 4
"""Kept collections that are looked at for each one that is added."""

_kept: Final[deque[Large]] = deque()
"""Of the whole process. Its methods are atomic, so that several threads may use it."""


def release(held: Large) -> None:
    """Empty a collection of rows, slice by slice."""
    while held:
        # A query that is stopped is stopped again and again until it has ended. It is ending here.
        try:
            _release_slice(held)
        except BaseException:  # noqa: BLE001, S112 -- see above
            continue


def _release_slice(held: Large) -> None:
    if isinstance(held, list):
        del held[-SLICE:]
        return
    pop = held.popitem if isinstance(held, dict) else held.pop
    for _ in range(min(SLICE, len(held))):
        pop()


def keep(held: L, size: int | None = None) -> L:
    """Return a collection, which is freed in slices if it is large, once nothing else refers to it.

    `size`: the members that it will have, if it is still to be filled.
    """
    if (len(held) if size is None else size) > SLICE:
        release_unused(_AT_A_TIME)
        _kept.append(held)
    return held


def release_unused(most: int | None = None) -> None:
    """Empty the kept collections that nothing else refers to; look at `most` of them (None: at all)."""
    for _ in range(len(_kept) if most is None else min(most, len(_kept))):
        try:
            held, references = _take(_kept)
        except IndexError:  # Another thread has taken it.
            return
        if references > _ALONE:
            _kept.append(held)
        else:
            release(held)


def _take(kept: deque[Large]) -> tuple[Large, int]:
    held = kept.popleft()
    return held, sys.getrefcount(held)


_ALONE: Final = _take(deque([[]]))[1]
"""The references to a collection that only `_take` has. Versions of Python count them differently."""
