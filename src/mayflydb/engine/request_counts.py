"""Counts requests by protocol, operation and status, with the time that they took."""

from __future__ import annotations

from typing import Final

from mayflydb.clock import Stopwatch
from mayflydb.model.histogram import Histogram
from mayflydb.model.instant import MILLISECOND, SECOND

BOUNDS: Final = (
    *(n * MILLISECOND // 10 for n in (2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)),
    *(SECOND, 5 * SECOND, 30 * SECOND),
)
"""Upper bounds of the buckets, in microseconds."""

MAX_SERIES: Final = 1000
"""The most series. Names of operations come from tables, so that clients cannot make any; this is the bound if one could."""

Operation = str | tuple[str, str]
"""The name of an operation: one text, or service and method."""


class RequestCounts:
    """The requests of a server since its start. Counting one takes half a microsecond."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.stopwatch = stopwatch
        self.series: dict[tuple[str, Operation, str | int], Histogram] = {}

    def count(self, protocol: str, operation: Operation, status: str | int, began: int) -> None:
        """Count a request that ends now and began at `began`, by the stopwatch."""
        micros = self.stopwatch() - began
        series = self.series.get((protocol, operation, status)) or self._open(protocol, operation, status)
        series.add(micros)

    def _open(self, protocol: str, operation: Operation, status: str | int) -> Histogram:
        if len(self.series) >= MAX_SERIES:
            operation, status = "_other", "_other"
        return self.series.setdefault((protocol, operation, status), Histogram(BOUNDS))
