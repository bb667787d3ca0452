"""The log of requests that took long: the name, the time and the reads of each."""

from __future__ import annotations

import logging
from typing import Final

from mayflydb.clock import Stopwatch
from mayflydb.model.instant import MILLISECOND, SECOND, Span

log = logging.getLogger("mayflydb.slow")

MAX_LINES: Final = 100
"""The most lines within PERIOD. Further requests are only counted."""

PERIOD: Final = 10 * SECOND

MAX_NAME: Final = 300
"""The most characters of a name and of an id: clients choose both."""


class SlowLog:
    """Logs requests that take at least `threshold` (None: none is logged). `slow`: the number of those so far."""

    def __init__(self, stopwatch: Stopwatch, threshold: Span | None) -> None:
        self.stopwatch = stopwatch
        self.slow = 0
        self.threshold = threshold
        self._period_began = stopwatch()
        self._lines = 0

    def is_slow(self, began: int) -> bool:
        """Return True if a request that began at `began`, by the stopwatch, is to be logged when it ends now."""
        return self.threshold is not None and self.stopwatch() - began >= self.threshold

    def note(self, began: int, protocol: str, id: str, request: str, read: str) -> None:
        """Log a slow request.

        `id`: the request's id in its protocol. `request`: its name, without values. `read`: a description of its reads.
        """
        now = self.stopwatch()
        self.slow += 1
        if now - self._period_began >= PERIOD:
            if self._lines > MAX_LINES:
                log.warning("%d further slow requests were not logged", self._lines - MAX_LINES)
            self._period_began, self._lines = now, 0
        self._lines += 1
        if self._lines <= MAX_LINES:
            took = (now - began) // MILLISECOND
            shown = request if len(request) <= MAX_NAME else request[:MAX_NAME] + "…"
            log.warning("slow request: %s %s, id %s, took %d ms, read %s", protocol, shown, id[:MAX_NAME], took, read)
