"""A histogram: the number of values by upper bound, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Values of one unit by ascending upper bounds. `buckets`: their numbers, the last for all above; `total`: their sum."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0

    def add(self, value: int) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        """Count the values of another histogram with the same bounds."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.buckets)
