"""The one reader of time. Everybody else is handed a `now`.

Three clocks give instants: `SystemClock` follows the host, `VirtualClock` stands still or ticks from wherever a person put it,
`BorrowedClock` asks `time.time_ns()` at each look so that a test's time machine moves it. `HighWater` on top of any of them
keeps the promise that an answer's time never falls, not even across a power cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from mayflydb.model.instant import HOUR, SECOND, Instant, Span, floor_to_second

Stopwatch: TypeAlias = Callable[[], int]
"""Monotonic microseconds, for measuring how long work takes; never for expiry."""

ClockMode = Literal["real", "virtual", "system"]

JUMP: Span = 5 * SECOND
"""A forward step of the wall clock against the boot-time clock that is too large to be believed."""

STEADY: Span = HOUR
"""How long a stepped clock must tick evenly before purging believes it."""

RESTART_GAP: Span = 24 * HOUR
RESTART_STEADY: Span = 15 * 60 * SECOND


def monotonic_us() -> int:
    """Microseconds since some fixed point; never goes back, never follows a moved clock."""
    return time.monotonic_ns() // 1000


def wall_us() -> Instant:
    """The host's UTC time. For transports alone (ages of signed dates): expiry asks its clock."""
    return time.time_ns() // 1000


def boot_us() -> int:
    """Microseconds since boot, suspended time included, so that a laptop's sleep is no jump."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() // 1000 if boottime is None else time.clock_gettime_ns(boottime) // 1000


class Clock(Protocol):
    """Where instants come from."""

    @property
    def mode(self) -> ClockMode: ...

    def now(self) -> Instant:
        """The present, as this clock sees it. May fall when the host's clock is set back."""

    def horizon(self) -> Instant:
        """The latest instant that purging may trust; never beyond `now`."""

    def until(self, instant: Instant) -> Span | None:
        """How long to wait, in host time, before `instant` can be reached; None: it does not come by itself."""


class SystemClock:
    """The host's clock, with a fence: a forward step hides at once but purges nothing until time has proved itself.

    `wall` and `boot` are the two sources compared; `mark` is the latest instant a former life of this store has used.
    """

    mode: ClockMode = "real"

    def __init__(
        self, mark: Instant | None = None, wall: Callable[[], Instant] = wall_us, boot: Callable[[], int] = boot_us
    ) -> None:
        self._wall, self._boot = wall, boot
        self._trusted_wall, self._trusted_boot = wall(), boot()
        self._fenced_at: int | None = None
        self._steady: Span = STEADY
        self._last_wall, self._last_boot = self._trusted_wall, self._trusted_boot
        if mark is not None and self._trusted_wall - mark > RESTART_GAP:
            self._trusted_wall = mark
            self._fenced_at, self._steady = self._trusted_boot, RESTART_STEADY

    def now(self) -> Instant:
        return self._wall()

    @property
    def fenced(self) -> bool:
        """Whether purging is held back because the wall clock stepped."""
        self._observe()
        return self._fenced_at is not None

    def horizon(self) -> Instant:
        wall, boot = self._observe()
        if self._fenced_at is None:
            return wall
        return min(wall, self._trusted_wall + boot - self._trusted_boot)

    def confirm(self) -> None:
        """A person vouches for the wall clock as it is now."""
        self._trust(self._wall(), self._boot())

    def _trust(self, wall: Instant, boot: int) -> None:
        self._trusted_wall, self._trusted_boot, self._fenced_at, self._steady = wall, boot, None, STEADY

    def _observe(self) -> tuple[Instant, int]:
        wall, boot = self._wall(), self._boot()
        ahead = wall - (self._trusted_wall + boot - self._trusted_boot)
        stepped = abs((wall - self._last_wall) - (boot - self._last_boot)) > JUMP
        self._last_wall, self._last_boot = wall, boot
        if ahead <= JUMP:
            # In step, or set back: drift is followed, and a fence opens.
            self._trust(wall, boot)
        elif self._fenced_at is None or stepped:
            self._fenced_at, self._steady = boot, STEADY
        elif boot - self._fenced_at >= self._steady:
            self._trust(wall, boot)
        return wall, boot

    def until(self, instant: Instant) -> Span | None:
        return max(0, instant - self._wall())


class VirtualClock:
    """A clock that people move. Frozen it stands still; ticking it runs on from where it was put. Never fenced."""

    mode: ClockMode = "virtual"

    def __init__(self, start: Instant | None = None, tick: Callable[[], int] = monotonic_us) -> None:
        self._instant = floor_to_second(wall_us()) if start is None else start
        self.start = self._instant
        self._tick = tick
        self._ticking_from: int | None = None

    @property
    def frozen(self) -> bool:
        return self._ticking_from is None

    def now(self) -> Instant:
        if self._ticking_from is None:
            return self._instant
        return self._instant + self._tick() - self._ticking_from

    def horizon(self) -> Instant:
        return self.now()

    def set(self, instant: Instant) -> None:
        """Put the clock there; it keeps standing or ticking as it did."""
        self._instant = instant
        if self._ticking_from is not None:
            self._ticking_from = self._tick()

    def freeze(self) -> None:
        """Stand still where it is."""
        self._instant, self._ticking_from = self.now(), None

    def resume(self) -> None:
        """Tick on at the pace of real time."""
        if self._ticking_from is None:
            self._ticking_from = self._tick()

    def until(self, instant: Instant) -> Span | None:
        return None if self._ticking_from is None else max(0, instant - self.now())


class BorrowedClock:
    """Whatever `time.time_ns()` says at each call: a test's time machine moves application and database together."""

    mode: ClockMode = "system"

    def now(self) -> Instant:
        return time.time_ns() // 1000

    def horizon(self) -> Instant:
        return self.now()

    def until(self, instant: Instant) -> Span | None:
        return max(0, instant - self.now())


class HighWater:
    """now = max(clock, highest ever answered), with the mark durably reserved ahead of use.

    A mark that is only saved with commits would let a read answer "gone", the power fail, the clock step back, and the record
    return. `now()` gives None when the reservation must be extended first: commit `wanted()`, then call `mark_reserved`.
    """

    def __init__(self, clock: Clock, mark: Instant, lead: Span = SECOND) -> None:
        self._clock = clock
        self._highest = mark
        self._reserved = mark
        self._seen = mark
        self._lead = lead

    def now(self) -> Instant | None:
        """The present, or None when it lies beyond what is reserved."""
        now = self._seen = self._clock.now()
        if now <= self._highest:
            return self._highest
        if now > self._reserved:
            return None
        self._highest = now
        return now

    def wanted(self) -> Instant:
        """The mark to commit so that the present and a little more may be used."""
        lead = 0 if isinstance(self._clock, VirtualClock) and self._clock.frozen else self._lead
        # A clock that falls between two looks must not lower what is reserved already.
        # And a start from a mark ahead of the clock must not move it on, or quick restarts would drive time into the future.
        return max(self._clock.now() + lead, self._highest, self._reserved)

    def stand_still(self) -> Instant:
        """The end of the reservation, for as long as it cannot be extended."""
        self._highest = self._reserved
        return self._highest

    def mark_reserved(self, mark: Instant) -> None:
        """That mark is durable."""
        self._reserved = max(self._reserved, mark)

    @property
    def room(self) -> Span:
        """How far the clock may go on before the reservation has run out."""
        return self._reserved - self._seen

    @property
    def highest(self) -> Instant:
        """The latest instant that was answered; right after a start, the mark."""
        return self._highest

    @property
    def mark(self) -> Instant:
        """The latest instant that may have been answered."""
        return self._reserved

    def follow(self, clock: Clock) -> None:
        """Another clock from now on; the mark stays."""
        self._clock = clock

    def roll_back(self, instant: Instant) -> None:
        """A person set the clock back, knowing what it means."""
        self._highest = self._reserved = instant
