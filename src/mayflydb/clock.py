"""The only reader of time. All other modules are given a `now`.

Two clocks give instants: `SystemClock` follows the host, `VirtualClock` stands still or ticks from an instant that a person set.
`HighWater` over either of them ensures that `now` never falls, not even across a power cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from mayflydb.model.instant import HOUR, SECOND, Instant, Span, floor_to_second

Stopwatch: TypeAlias = Callable[[], int]
"""Monotonic microseconds, for measuring how long work takes; never for expiry."""

ClockMode = Literal["real", "virtual"]

JUMP: Span = 5 * SECOND
"""The largest forward step of the wall clock against the boot-time clock that is believed at once."""

STEADY: Span = HOUR
"""The time for which a stepped clock must tick evenly before purging trusts it."""

RESTART_GAP: Span = 24 * HOUR
"""The longest gap between the stored mark and the clock at a start that is believed at once."""

RESTART_STEADY: Span = 15 * 60 * SECOND
"""The time for which the clock must tick evenly after a start behind a longer gap."""


def monotonic_us() -> int:
    """Return microseconds since a fixed point; never falls, never follows a moved clock."""
    return time.monotonic_ns() // 1000


def wall_us() -> Instant:
    """Return the host's UTC time. For transports alone (ages of signed dates): expiry asks its clock."""
    return time.time_ns() // 1000


def boot_us() -> int:
    """Return microseconds since boot, suspended time included, so that a laptop's sleep is no jump."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() // 1000 if boottime is None else time.clock_gettime_ns(boottime) // 1000


class Clock(Protocol):
    """A source of instants."""

    @property
    def mode(self) -> ClockMode: ...

    def now(self) -> Instant:
        """Return the present of this clock. May fall when the host's clock is set back."""

    def horizon(self) -> Instant:
        """Return the latest instant that purging may trust; never beyond `now`."""

    def until(self, instant: Instant) -> Span | None:
        """Return the host time until `instant` can be reached; None: the clock does not tick."""


class SystemClock:
    """The host's clock, with a fence: after a forward step records hide at once, but purging waits until the step is
    confirmed by time.

    `wall` and `boot` are the two sources that are compared; `mark` is the high-water mark of earlier processes on this store.
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
        # A long stop and a wrong clock look alike here: the boot-time clock of the earlier process may be gone with its boot.
        if mark is not None and self._trusted_wall - mark > RESTART_GAP:
            self._trusted_wall = mark
            self._fenced_at, self._steady = self._trusted_boot, RESTART_STEADY

    def now(self) -> Instant:
        return self._wall()

    @property
    def fenced(self) -> bool:
        """True while purging is held back because the wall clock stepped."""
        self._observe()
        return self._fenced_at is not None

    def horizon(self) -> Instant:
        wall, boot = self._observe()
        if self._fenced_at is None:
            return wall
        # Behind the fence time goes on at the pace of the boot-time clock. A wall clock that was set back counts at once.
        return min(wall, self._trusted_wall + boot - self._trusted_boot)

    def confirm(self) -> None:
        """Trust the wall clock as it is now, on a person's word."""
        self._trust(self._wall(), self._boot())

    def _trust(self, wall: Instant, boot: int) -> None:
        self._trusted_wall, self._trusted_boot, self._fenced_at, self._steady = wall, boot, None, STEADY

    def _observe(self) -> tuple[Instant, int]:
        wall, boot = self._wall(), self._boot()
        ahead = wall - (self._trusted_wall + boot - self._trusted_boot)
        stepped = abs((wall - self._last_wall) - (boot - self._last_boot)) > JUMP
        self._last_wall, self._last_boot = wall, boot
        if ahead <= JUMP:
            # In step, or set back: follow the drift, and open the fence.
            self._trust(wall, boot)
        # A further step behind the fence starts the wait again: STEADY counts even ticks only.
        elif self._fenced_at is None or stepped:
            self._fenced_at, self._steady = boot, STEADY
        elif boot - self._fenced_at >= self._steady:
            self._trust(wall, boot)
        return wall, boot

    def until(self, instant: Instant) -> Span | None:
        return max(0, instant - self._wall())


class VirtualClock:
    """A clock that people move. Frozen it stands still; ticking it runs on from its instant. Never fenced."""

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
        """Set the instant; the clock stays frozen or ticking."""
        self._instant = instant
        if self._ticking_from is not None:
            self._ticking_from = self._tick()

    def freeze(self) -> None:
        """Stop at the present instant."""
        self._instant, self._ticking_from = self.now(), None

    def resume(self) -> None:
        """Tick at the pace of real time."""
        if self._ticking_from is None:
            self._ticking_from = self._tick()

    def until(self, instant: Instant) -> Span | None:
        return None if self._ticking_from is None else max(0, instant - self.now())


class HighWater:
    """now = max(clock, highest instant given out), with the mark durably reserved ahead of use.

    A mark that is only saved with commits would let a read find a record expired, the power fail, the clock step back, and
    the record return. `now()` gives None when the reservation must be extended first: commit `next_reservation()`, then call
    `mark_reserved`.
    """

    def __init__(self, clock: Clock, mark: Instant, lead: Span = SECOND) -> None:
        self._clock = clock
        self._highest = mark
        self._reserved = mark
        self._seen = mark
        self._lead = lead

    def now(self) -> Instant | None:
        """Return the present, or None if it lies beyond the reservation."""
        now = self._seen = self._clock.now()
        # A clock that was set back stands still at the highest instant until it has caught up.
        if now <= self._highest:
            return self._highest
        # Inclusive: the mark itself is durable, so it may be used.
        if now > self._reserved:
            return None
        self._highest = now
        return now

    def next_reservation(self) -> Instant:
        """Return the mark to commit so that the present and a little more may be used."""
        lead = 0 if isinstance(self._clock, VirtualClock) and self._clock.frozen else self._lead
        # A clock that falls between two looks must not lower the reservation.
        # And a start from a mark ahead of the clock must not move it on, or quick restarts would drive time into the future.
        return max(self._clock.now() + lead, self._highest, self._reserved)

    def stand_still(self) -> Instant:
        """Return the end of the reservation, while it cannot be extended."""
        self._highest = self._reserved
        return self._highest

    def mark_reserved(self, mark: Instant) -> None:
        """Take note that a mark is durable."""
        self._reserved = max(self._reserved, mark)

    @property
    def room(self) -> Span:
        """The span for which the clock may go on before the reservation runs out."""
        return self._reserved - self._seen

    @property
    def highest(self) -> Instant:
        """The latest instant given out; right after a start, the mark."""
        return self._highest

    @property
    def mark(self) -> Instant:
        """The latest instant that may have been given out."""
        return self._reserved

    def follow(self, clock: Clock) -> None:
        """Use another clock from now on; the mark stays."""
        self._clock = clock

    def roll_back(self, instant: Instant) -> None:
        """Lower the mark after a person set the clock back."""
        self._highest = self._reserved = instant
