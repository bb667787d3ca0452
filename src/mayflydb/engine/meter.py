"""Counts of spent request units and of refused requests: since the start, and by minute of the last hour."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.instant import MINUTE, SECOND

MINUTES: Final = 60
"""Minutes that are kept of each container."""

MOST_KEPT: Final = 1000
"""Containers of which minutes are kept: those that were used last. Each takes a kilobyte."""


class MinuteUse(msgspec.Struct, frozen=True):
    """The request units spent and the requests refused within a minute. `seconds`: of it that have passed."""

    units: float
    refused: int
    seconds: float

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.units / self.seconds if self.seconds else 0.0


class RecentUse:
    """The last MINUTES of one container, as rings by the number of the minute. `last`: the latest that is counted."""

    __slots__ = ("_refused", "_units", "last")

    def __init__(self, minute: int) -> None:
        self.last = minute
        self._units = array("d", bytes(8 * MINUTES))
        self._refused = array("q", bytes(8 * MINUTES))

    def add(self, minute: int, units: float, refused: int) -> None:
        """Count within a minute."""
        if minute != self.last:
            self._turn(minute)
        place = minute % MINUTES
        self._units[place] += units
        if refused:
            self._refused[place] += refused

    def read(self, minute: int) -> list[tuple[float, int]]:
        """Return (units, refused) of each minute up to this one, the oldest first."""
        self._turn(minute)
        places = [(minute + 1 + n) % MINUTES for n in range(MINUTES)]
        return [(self._units[place], self._refused[place]) for place in places]

    def _turn(self, minute: int) -> None:
        for each in range(max(self.last + 1, minute - MINUTES + 1), minute + 1):
            self._units[each % MINUTES] = 0.0
            self._refused[each % MINUTES] = 0
        self.last = max(self.last, minute)


class Meter:
    """Counts since the start: request units by container and operation, and requests refused by container.

    Minutes are those of the stopwatch, by which budgets are refilled: a virtual clock does not move them.
    """

    def __init__(self, stopwatch: Stopwatch = monotonic_us) -> None:
        self.units: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.throttled: Counter[int] = Counter()
        self._stopwatch = stopwatch
        self._recent: dict[int, RecentUse] = {}

    def charge(self, container: int, operation: str, units: float) -> None:
        """Count spent units."""
        self.units[container][operation] += units
        self._add_recent(container, units, 0)

    def refuse(self, container: int) -> None:
        """Count a request that the budget refused."""
        self.throttled[container] += 1
        self._add_recent(container, 0.0, 1)

    def _add_recent(self, container: int, units: float, refused: int) -> None:
        minute = self._stopwatch() // MINUTE
        use = self._recent.get(container)
        if use is None or use.last != minute:
            use = self._begin_minute(container, minute)
        use.add(minute, units, refused)

    def _begin_minute(self, container: int, minute: int) -> RecentUse:
        # Taken out and put back, so that the container that was used longest ago comes first.
        use = self._recent.pop(container, None) or RecentUse(minute)
        self._recent[container] = use
        if len(self._recent) > MOST_KEPT:
            del self._recent[next(iter(self._recent))]
        return use

    def recent(self, containers: Iterable[int]) -> Sequence[MinuteUse]:
        """Return the last MINUTES of containers together, the oldest first. The last one is not over yet."""
        minute, rest = divmod(self._stopwatch(), MINUTE)
        found = [use.read(minute) for id in containers if (use := self._recent.get(id)) is not None]
        together = zip(*found, strict=True) if found else [()] * MINUTES
        return [
            MinuteUse(
                sum(units for units, _ in uses),
                sum(refused for _, refused in uses),
                60.0 if n < MINUTES - 1 else max(1.0, rest / SECOND),
            )
            for n, uses in enumerate(together)
        ]

    def forget_container(self, container: int) -> None:
        """Drop the counts of a container that is gone."""
        self.units.pop(container, None)
        self.throttled.pop(container, None)
        self._recent.pop(container, None)

    def forget(self) -> None:
        """Clear the counts after a reset."""
        self.units.clear()
        self.throttled.clear()
        self._recent.clear()
