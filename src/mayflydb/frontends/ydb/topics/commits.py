"""The commits of a consumer in one partition: ranges in any order, and the prefix that they complete. Pure."""

from __future__ import annotations

from bisect import bisect_left

from mayflydb.frontends.ydb.topics.faults import bad_request, double_commit

MAX_RANGES = 10_000
"""Ranges of one partition that wait for those before them."""


class Commits:
    """The commits of a consumer in a partition.

    `committed`: all messages before this offset are. Later ranges wait until what lies before them is committed.
    """

    __slots__ = ("_ends", "_starts", "committed")

    def __init__(self, committed: int) -> None:
        self.committed = committed
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> bool:
        """Add the range [start, end); return whether `committed` has moved. Faults: it is empty, or overlaps what is known."""
        if start < 0 or start >= end or start < self.committed:
            raise double_commit(start, end)
        place = bisect_left(self._starts, start)
        if (place < len(self._starts) and self._starts[place] < end) or (place and self._ends[place - 1] > start):
            raise double_commit(start, end)
        if start == self.committed:
            self.move(end)
            return True
        if len(self._starts) >= MAX_RANGES:
            raise bad_request(f"More than {MAX_RANGES} ranges of offsets wait for the commit of what lies before them")
        # Neighbours grow together, so that commits in order behind one hole stay one range.
        if place and self._ends[place - 1] == start:
            self._ends[place - 1] = end
        else:
            self._starts.insert(place, start)
            self._ends.insert(place, end)
        return False

    def move(self, offset: int) -> None:
        """Set `committed`, and take up the ranges that it reaches."""
        self.committed = offset
        reached = 0
        while reached < len(self._starts) and self._starts[reached] <= self.committed:
            self.committed = max(self.committed, self._ends[reached])
            reached += 1
        del self._starts[:reached], self._ends[:reached]
