"""The only reader of time. All other modules are given a `now`.

Three clocks give instants: `SystemClock` follows the host, `VirtualClock` stands still or ticks from an instant that a person
set, `ProcessClock` is a virtual one that goes where tests move the clock of this process. `HighWater` over any of them ensures
that `now` never falls, not even across a power cut.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias
from uuid import UUID

import msgspec

from mayflydb.model.instant import HOUR, MILLISECOND, MINUTE, SECOND, Instant, Span, floor_to_second

Stopwatch: TypeAlias = Callable[[], int]
"""Monotonic microseconds, for measuring how long work takes; never for expiry."""

ClockMode = Literal["real", "virtual", "system"]

FRAMES: Final = 6

LOOK: Span = 250 * MILLISECOND
"""The host time between two looks at the clock of the process, while no request looks."""

RESTART_GAP: Span = 24 * HOUR
"""The longest gap between the stored mark and the clock at a start that is believed at once, after another boot."""

RESTART_STEADY: Span = 15 * MINUTE
"""The time for which the clock must tick evenly after a start behind a longer gap, before purging trusts it."""


class Belief(msgspec.Struct, frozen=True):
    """When a step of the host's clock is believed.

    `jump`: the largest step against the boot-time clock that is believed at once. `hold`: the time for which a larger step
    forward must hold before reads follow it; `steady`: before purging trusts it.
    """

    jump: Span = 5 * SECOND
    hold: Span = MINUTE
    steady: Span = HOUR


class Pace(msgspec.Struct, frozen=True):
    """Believed times, that which reads follow and that which purging trusts, less a clock that later processes have, too: the
    boot-time clock of one boot, or (`boot_id` 0) the wall clock.
    """

    boot_id: int
    reads: Span
    proven: Span


class Jump(msgspec.Struct, frozen=True):
    """A step of the host's clock that is neither accepted nor rejected.

    `host`: what the host's clock says. `time`: Mayfly's time at the pace of the boot-time clock, or the instant at which it
    stands still. `size`: the span from `time` to the host's time; negative after a step back. `followed`: reads follow the host.
    `wait`: the span after which purging trusts a step forward by itself; None after a step back.
    """

    host: Instant
    time: Instant
    size: Span
    followed: bool
    wait: Span | None


def monotonic_us() -> int:
    """Return microseconds since a fixed point; never falls, never follows a moved clock."""
    # Not time.monotonic_ns where it can be helped: freezegun replaces that.
    monotonic = getattr(time, "CLOCK_MONOTONIC", None)
    return (time.monotonic_ns() if monotonic is None else time.clock_gettime_ns(monotonic)) // 1000


def wall_us(_host: Callable[[], int] = time.time_ns) -> Instant:
    """Return the host's UTC time, or that which tests have set. For transports (ages of signed dates): expiry asks its clock."""
    if time.time_ns is _host:
        return _host() // 1000
    # Rounded: freezegun counts in floating point.
    return (_read_from_below(FRAMES) + 500) // 1000


def _read_from_below(frames: int) -> int:
    # freezegun gives real time to callers with a frame of `threading` among the nearest five, as a server's thread may have.
    return _read_from_below(frames - 1) if frames else time.time_ns()


def host_us() -> Instant:
    """Return the host's UTC time even where tests have set another. For what programs compare with the host's time."""
    import tempfile

    try:
        # The time of a new file comes from the system itself.
        with tempfile.TemporaryFile() as file:
            return os.fstat(file.fileno()).st_mtime_ns // 1000
    except OSError:
        # No place for a file: no place for tests, either.
        return wall_us()


def boot_us() -> int:
    """Return microseconds since boot, suspended time included, so that a laptop's sleep is no jump."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() // 1000 if boottime is None else time.clock_gettime_ns(boottime) // 1000


def boot_id() -> int:
    """Return a number of this boot of the machine, below 2^63; 0 where the system does not tell. From Linux' random(4)."""
    try:
        return UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).int >> 65
    except (OSError, ValueError):
        return 0


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

    def observe(self) -> Jump | None:
        """Compare the sources of time. Return the step forward that is not yet trusted, if there is one."""


class Trust:
    """Follows the wall clock, and goes on at the pace of the boot-time clock after a step, until that has held for a time."""

    def __init__(self, pace: Span, belief: Belief, wait: Span) -> None:
        """`pace`: the believed time less the boot-time clock. `wait`: the time for which a step forward must hold."""
        self.pace = pace
        self.since: int | None = None
        self.wait = self._wait_forward = wait
        self._belief = belief

    def look(self, wall: Instant, boot: int, stepped: bool) -> None:
        """Compare the clocks. `stepped`: the wall clock has stepped since the last look."""
        ahead = wall - boot - self.pace
        if abs(ahead) <= self._belief.jump:
            # The drift is followed. A step that was taken back leaves no trace.
            self.follow(wall, boot)
        elif self.since is None or stepped:
            # A clock that went back and is set right later has not jumped.
            self.doubt(boot, self._wait_forward if ahead > 0 else self._belief.steady)
        elif boot - self.since >= self.wait:
            self.follow(wall, boot)

    def doubt(self, boot: int, wait: Span) -> None:
        """Keep the pace until the clock has ticked evenly for so long."""
        self.since, self.wait = boot, wait

    def follow(self, wall: Instant, boot: int) -> None:
        """Believe the wall clock."""
        self.pace, self.since = wall - boot, None


class SystemClock:
    """The host's clock, with a fence: a step forward is hidden from reads until it has held for a while, and from purging for
    longer.

    `now` reads one source, which `observe` chooses. A step is larger than what is reserved ahead, so `observe` is called before
    the first instant behind a step is given out.
    """

    mode: ClockMode = "real"

    def __init__(
        self,
        mark: Instant | None = None,
        wall: Callable[[], Instant] = wall_us,
        boot: Callable[[], int] = boot_us,
        belief: Belief = Belief(),  # noqa: B008 -- frozen
        shift: Span = 0,
        pace: Pace | None = None,
        boot_id: int = 0,
    ) -> None:
        """`mark`: the high-water mark of earlier processes on this store, `shift`: what they added to the wall clock by a
        person's decision, `pace`: theirs, by a clock that still goes on. `boot_id`: of this boot; 0: unknown, or of
        no use to processes on other machines.
        """
        self._boot_id = boot_id
        self._wall, self._boot, self._belief = wall, boot, belief
        self.shift = shift
        self._source, self._base = wall, shift
        self._horizon: Instant = 0
        trusted, ran = wall() + shift, boot()
        self._reads = Trust(trusted - ran, belief, belief.hold)
        self._proven = Trust(trusted - ran, belief, belief.steady)
        self._offset = trusted - ran
        if pace is not None:
            base = 0 if pace.boot_id else trusted - ran
            self._reads.pace, self._proven.pace = base + pace.reads, base + pace.proven
        elif mark is not None and trusted - mark > RESTART_GAP:
            # A long stop and a wrong clock look alike here. A stop is more common, and writes at an old time would die early,
            # so reads follow.
            self._proven.pace = mark - ran
            self._proven.doubt(ran, RESTART_STEADY)
        self.observe()

    def now(self) -> Instant:
        return self._source() + self._base

    def horizon(self) -> Instant:
        self.observe()
        return self._horizon

    def until(self, instant: Instant) -> Span | None:
        return max(0, instant - self.now())

    @property
    def pace(self) -> Pace:
        """The believed times, for a later process."""
        base = 0 if self._boot_id else self._offset
        return Pace(self._boot_id, self._reads.pace - base, self._proven.pace - base)

    def keep_up(self, mark: Instant) -> None:
        """Have reads follow the wall clock if it has reached an instant that other nodes have used."""
        wall, boot = self._wall() + self.shift, self._boot()
        if wall + SECOND >= mark:
            self._reads.follow(wall, boot)
            self.observe()

    @property
    def belief(self) -> Belief:
        """When steps are believed."""
        return self._belief

    def observe(self) -> Jump | None:
        host, boot = self._wall(), self._boot()
        if self.shift and abs(host - boot - self._proven.pace) <= self._belief.jump:
            # The host's clock was set right.
            self.shift = 0
        wall = host + self.shift
        stepped = abs(wall - boot - self._offset) > self._belief.jump
        self._offset = wall - boot
        self._reads.look(wall, boot, stepped)
        self._proven.look(wall, boot, stepped)
        holds = self._reads.since is not None and wall - boot > self._reads.pace
        self._source, self._base = (self._boot, self._reads.pace) if holds else (self._wall, self.shift)
        # A wall clock that was set back counts at once.
        self._horizon = min(boot + self._proven.pace, boot + self._reads.pace if holds else wall)
        size = wall - boot - self._proven.pace
        if self._proven.since is None or size <= 0:
            return None
        return Jump(host, wall - size, size, not holds, self._proven.since + self._proven.wait - boot)

    def settle(self, shift: Span) -> Instant:
        """Believe the wall clock plus a shift, on a person's word. Return that time."""
        self.shift = shift
        wall, boot = self._wall() + shift, self._boot()
        self._reads.follow(wall, boot)
        self._proven.follow(wall, boot)
        self._offset = wall - boot
        self.observe()
        return wall


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

    def observe(self) -> Jump | None:
        """Return None: what people move has not jumped."""
        return None

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


class ProcessClock(VirtualClock):
    """A virtual clock in tests that follows the clock of this process, which they move (time-machine, freezegun).

    It is moved to `aim` before a request reads it, as other virtual clocks are by people. Between two moves it stands still.
    """

    mode: ClockMode = "system"

    def aim(self) -> Instant:
        """Return the present of the process."""
        return wall_us()

    def until(self, instant: Instant) -> Span | None:
        # It may be moved at any moment.
        return LOOK


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

    def steady_now(self, least: Span, most: Span) -> Instant | None:
        """Return the present if the reservation goes on for at least and at most so long, as it nearly always does."""
        now = self._clock.now()
        if not least <= self._reserved - now <= most:
            return None
        self._seen = now
        if now > self._highest:
            self._highest = now
        return self._highest

    def next_reservation(self, lead: Span | None = None) -> Instant:
        """Return the mark to commit so that the present and a little more may be used. `lead`: how much more."""
        # The clock may have stepped beyond the reservation: behind the fence the present is earlier.
        self._clock.observe()
        is_frozen = isinstance(self._clock, VirtualClock) and self._clock.frozen
        lead = 0 if is_frozen else self._lead if lead is None else lead
        # A clock that falls between two looks must not lower the reservation.
        # And a start from a mark ahead of the clock must not move it on, or quick restarts would drive time into the future.
        return max(self._clock.now() + lead, self._highest, self._reserved)

    def stand_still(self) -> Instant:
        """Return the end of the reservation, while it is not extended."""
        self._highest = self._reserved
        return self._highest

    def standstill(self, longer_than: Span) -> Jump | None:
        """Return the step back after which the clock stands still, if it is longer than that."""
        host = self._clock.now()
        behind = self._highest - host
        return Jump(host, self._highest, -behind, False, None) if behind > longer_than else None

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
        """Go back to an instant by a person's decision. The stored mark, which is not lower, still holds."""
        self._highest = self._reserved = instant
