"""The engine's `now`: read once per request, never falling, durably reserved before use.

A person's verdict about a jump of the clock is a shift that is added to the host's time from then on, and its own instant, by
which nodes tell that there is a new one. A node reads that in each transaction that moves the mark, so no node moves the mark by
a time that was rejected on another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal

from mayflydb.clock import Clock, HighWater, Jump, Pace, SystemClock
from mayflydb.engine.clock_moves import FORGET, ClockMove, forget_move, save_move
from mayflydb.model.durations import format_span
from mayflydb.model.errors import Conflict, OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND, Instant, Span, to_rfc3339
from mayflydb.store.interface import Decision, NamedNumber, Outcome, SetNumber, Store

log = logging.getLogger(__name__)

MARK = "clock_mark"
SHIFT = "clock_shift"
VERDICT = "clock_verdict"
"""The instant of the last verdict."""

BOOT, READS_PACE, PROVEN_PACE = "clock_boot", "clock_reads_pace", "clock_proven_pace"

OF_THE_HOST: Final = (SHIFT, VERDICT, BOOT, READS_PACE, PROVEN_PACE)
"""The numbers that tell of the host's clock, and stay when the rest of a store is replaced."""

FAR: Span = 5 * SECOND
"""More than this is not reserved ahead."""

FURTHER: Span = 4 * SECOND
"""So much is reserved ahead before a long write. A later process may begin with a mark so far ahead: that is no jump."""

PATIENCE: Final = 0.01
"""The seconds that a reservation may wait behind a long write, before requests are answered at the end of the last one."""

Verdict = Literal["accept", "reject"]
"""Which of two times is right: the later one, or the earlier."""


class Timekeeper:
    """Hands out `now` and keeps the store's mark ahead of it."""

    def __init__(self, clock: Clock, store: Store, mark: Instant, verdict: Instant = 0, shared: bool = False) -> None:
        """`verdict`: the instant of the last verdict that the clock knows of. `shared`: other nodes move the mark, too."""
        self.clock = clock
        self.mark_at_start = mark
        """The mark that an earlier process had stored; 0: none had."""
        self._store = store
        self._high = HighWater(clock, mark)
        self._renewal: asyncio.Task[None] | None = None
        self._renewed_at = 0.0
        self._is_behind = False
        self._long_writes = 0
        self._is_abandoned = False
        self.stands_still = False
        """True: a request was answered at the end of the reservation, and the next one is under way."""
        self._rolls = 0
        self._verdict = verdict
        self._shared = shared
        self._shift: Span | None = None
        self._pace: Pace | None = None
        self._alarm: tuple[bool, bool] | None = None
        self._before_now: Callable[[], Awaitable[None]] | None = None
        self.on_roll_back: Callable[[Instant], None] = lambda instant: None
        """Called with the instant to which time goes back by a person's decision."""

    @classmethod
    async def start(cls, clock: Clock, store: Store, shared: bool = False) -> Timekeeper:
        """Continue from the stored mark."""
        mark, verdict = await store.read(NamedNumber(MARK)), await store.read(NamedNumber(VERDICT))
        return cls(clock, store, mark or 0, verdict or 0, shared)

    def steady_now(self) -> Instant | None:
        """Return the present without a coroutine; None where the reservation needs a look, which `now` takes."""
        return self._high.steady_now(SECOND // 2, FAR) if self._before_now is None else None

    async def now(self) -> Instant:
        """Return the present. Waits for a commit if the reservation has run out, but not for that of a long write."""
        if self._before_now is not None:
            await self._before_now()
        now = self._high.now()
        while now is None:
            try:
                if not await self._wait_for_renewal():
                    self.stands_still = True
                    return self._high.stand_still()
            except (Unavailable, OutcomeUnknown):
                # The disk takes no mark: time stands still at the last one, reads continue, and writes fail for the same reason.
                return self._high.stand_still()
            now = self._high.now()
        if not SECOND // 2 <= (room := self._high.room) <= FAR and self.clock.mode == "real":
            if room > FAR:
                # The clock was set back: nothing to renew, but something to say.
                self.observe()
            else:
                # Renew while there is still room, so that no request waits for the disk under steady traffic.
                self._renew()
        return now

    @property
    def latest(self) -> Instant:
        """The latest instant that any caller was given."""
        return self._high.highest

    def horizon(self) -> Instant:
        """Return the latest instant that purging may trust."""
        horizon = self.clock.horizon()
        # Nothing is purged that requests still see.
        return min(horizon, self._high.mark) if self.stands_still else horizon

    # --- long writes -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def long_write(self) -> AsyncIterator[None]:
        """Span a write that holds the store's writer for long: time is reserved further ahead first, and stands still when that
        has run out, since the next mark waits behind the write.
        """
        with suppress(Unavailable, OutcomeUnknown):  # The write will say so itself.
            await self._reserve_further()
        self._long_writes += 1
        try:
            yield
        except asyncio.CancelledError:
            # The writer goes on with it, and then commits the mark behind it.
            self._is_abandoned = True
            raise
        finally:
            self._long_writes -= 1

    async def catch_up(self) -> None:
        """Wait until time goes on. A write needs this: it would live shorter by the span for which time has stood still."""
        with suppress(Unavailable, OutcomeUnknown):
            while self._high.now() is None:
                # Shielded: all callers share one reservation, and one that is cancelled must not cancel it.
                await asyncio.shield(self._renew())

    async def _reserve_further(self) -> None:
        if self.clock.mode != "real":
            return
        # Twice: a shorter reservation may be under way.
        for _ in range(2):
            if self._high.now() is None or self._high.room < FURTHER - SECOND:
                await asyncio.shield(self._renew(FURTHER))

    async def _wait_for_renewal(self) -> bool:
        """Wait for the next reservation; False: no longer, for it waits behind a long write."""
        renewal = self._renew()
        left = self._renewed_at + PATIENCE - asyncio.get_running_loop().time() if self._is_behind else None
        if left is None or left > 0:
            # Unlike an awaited task, it is not cancelled with one of its callers.
            await asyncio.wait((renewal,), timeout=left)
        if not renewal.done():
            return False
        renewal.result()
        return True

    def follow(self, clock: Clock, before_now: Callable[[], Awaitable[None]] | None = None) -> None:
        """Use another clock from now on: a real one became virtual, or the reverse. `now` does not fall.

        `before_now`: awaited before each reading; moves a clock that follows another.
        """
        self.clock, self._alarm, self._before_now = clock, None, before_now
        self._high.follow(clock)

    def roll_back(self, instant: Instant) -> None:
        """Follow a clock that a person set back."""
        self._rolls += 1
        # What is stored beside the mark may be gone, as after a reset of the store.
        self._shift, self._pace = None, None
        self._high.roll_back(instant)
        self.on_roll_back(instant)

    # --- jumps -----------------------------------------------------------------------------------------------------

    def observe(self) -> Jump | None:
        """Compare the sources of time, and raise the alarm. Return the jump that waits for a decision, if there is one."""
        clock = self.clock
        jump = clock.observe()
        if jump is None and isinstance(clock, SystemClock):
            jump = self._high.standstill(clock.belief.jump)
        alarm = None if jump is None else (jump.size > 0, jump.followed)
        if alarm != self._alarm:
            self._alarm = alarm
            if jump is None:
                log.warning("the host's clock and Mayfly's time agree again: %s", to_rfc3339(clock.now()))
            else:
                log.error("%s", _describe(jump, clock))
        return jump

    async def settle(self, verdict: Verdict) -> tuple[Jump, Instant]:
        """Take the later or the earlier time of a jump as right, which ends it. Return the jump, and the time that holds.

        Conflict if there is no jump; Unavailable, OutcomeUnknown: a restart may ask again.
        """
        jump, clock = self.observe(), self.clock
        if jump is None or not isinstance(clock, SystemClock):
            raise Conflict("the host's clock has not jumped: there is nothing to decide")
        goes_to_host = (verdict == "accept") == (jump.size > 0)
        # In memory first: from here on no mark is reserved at the rejected time.
        self._apply(clock.shift if goes_to_host else clock.shift - jump.size)
        self._verdict = clock.now()
        log.warning(
            "clock %s: a person decided that %s is right, and %s is not",
            verdict,
            to_rfc3339(jump.host if goes_to_host else jump.time),
            to_rfc3339(jump.time if goes_to_host else jump.host),
        )
        self._shift, self._pace, changes = self._changed_numbers()
        await self._lower_mark(SECOND, (*changes, SetNumber(VERDICT, self._verdict), FORGET))
        return jump, clock.now()

    def _apply(self, shift: Span) -> None:
        """Believe the host's clock plus a shift, even if time goes back."""
        assert isinstance(self.clock, SystemClock)
        now = self.clock.settle(shift)
        self._alarm = None
        if now < self._high.mark:
            self.roll_back(min(now, self._high.highest))

    async def keep_move(self, move: ClockMove) -> None:
        """Keep a person's move of the clock for a later start."""
        await save_move(self._store, move)

    async def forget_move(self) -> None:
        """Forget the last move: the clock follows the host's again."""
        await forget_move(self._store)

    async def lower_mark(self) -> None:
        """Store the mark after `roll_back`: a later process must not find time where it no longer is."""
        await self._lower_mark(SECOND if self.clock.mode == "real" else 0)

    async def _lower_mark(self, lead: Span, changes: tuple[SetNumber, ...] = ()) -> None:
        """Store the mark as it is after a decision, which may be lower. `lead`: how far it reserves time ahead."""
        rolls, mark = self._rolls, self.clock.now() + lead

        def save() -> Decision[None]:
            return Outcome((SetNumber(MARK, mark), *changes), None)
            yield

        if self._store.durable:
            await self._store.write(save)
        if rolls == self._rolls:
            self._high.mark_reserved(mark)

    # --- the mark --------------------------------------------------------------------------------------------------

    def _renew(self, lead: Span | None = None) -> asyncio.Task[None]:
        if self._renewal is None or self._renewal.done():
            self.observe()
            self._renewed_at = asyncio.get_running_loop().time()
            # Where other nodes go on meanwhile, what they no longer see must not be seen here.
            is_busy = self._long_writes > 0 or self._is_abandoned
            self._is_behind = is_busy and not self._shared and self.clock.mode == "real"
            self._renewal = asyncio.create_task(self._reserve(lead), name="clock-mark")
            # A caller that waits sees the failure; without one, the next reservation tries again.
            self._renewal.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._renewal

    async def _reserve(self, lead: Span | None) -> None:
        try:
            if self._store.durable:
                await self._commit_mark(lead)
            else:
                self._high.mark_reserved(self._high.next_reservation(lead))
        finally:
            self.stands_still = self._is_abandoned = False

    async def _commit_mark(self, lead: Span | None) -> None:
        rolls, mark = self._rolls, 0
        shift, pace = self._shift, self._pace

        def save() -> Decision[tuple[Instant | None, Instant]]:
            nonlocal rolls, mark, shift, pace
            # Here, since the present may be much later than when this was queued.
            rolls, mark = self._rolls, self._high.next_reservation(lead)
            shift, pace, changes = self._changed_numbers()
            stored: Instant | None = None
            verdict: Instant | None = None
            if self._shared:
                stored, verdict = (yield NamedNumber(MARK)), (yield NamedNumber(VERDICT))
                if verdict not in (None, self._verdict):
                    return Outcome((), (verdict, 0))
            # Rising: another node may have stored a later mark.
            return Outcome((SetNumber(MARK, mark, rising=True), *changes), (None, stored or 0))

        news, stored = (await self._store.write(save)).reply
        if news is not None:
            stored_shift = await self._store.read(NamedNumber(SHIFT))
            await self._learn(news, stored_shift or 0)
            return
        self._shift, self._pace = shift, pace
        if isinstance(self.clock, SystemClock) and stored - mark > self.clock.belief.jump:
            # Another node goes by the host's time already; what it has answered must not be taken back here.
            self.clock.keep_up(stored)
        if rolls == self._rolls:
            # Otherwise the clock was set back meanwhile, and the mark is too high.
            self._high.mark_reserved(mark)

    async def _learn(self, verdict: Instant, shift: Span) -> None:
        """Follow a verdict that was given on another node."""
        self._verdict = verdict
        if isinstance(self.clock, SystemClock):
            self._apply(shift)
            self._shift = shift
            log.warning(
                "a person decided about the clock's jump on another node: it is %s", to_rfc3339(self.clock.now())
            )
            # A second more than this node needs: the node that decided may have used some of it.
            await self._lower_mark(2 * SECOND)

    def _changed_numbers(self) -> tuple[Span | None, Pace | None, list[SetNumber]]:
        """Return shift and pace, and the numbers by which a later process knows of jumps, as far as they have changed."""
        clock = self.clock
        if not isinstance(clock, SystemClock):
            return self._shift, self._pace, []
        changes = [] if clock.shift == self._shift else [SetNumber(SHIFT, clock.shift)]
        pace = clock.pace
        if not _differ(pace, self._pace):
            return clock.shift, self._pace, changes
        numbers = ((BOOT, pace.boot_id), (READS_PACE, pace.reads), (PROVEN_PACE, pace.proven))
        return clock.shift, pace, changes + [SetNumber(name, value) for name, value in numbers]


def _differ(pace: Pace, stored: Pace | None) -> bool:
    """Return whether a pace is to be stored. Less than a second is drift."""
    return stored is None or max(abs(pace.reads - stored.reads), abs(pace.proven - stored.proven)) > SECOND


async def read_pace(store: Store) -> Pace | None:
    """Return the pace that was stored last; None: none was."""
    boot, reads, proven = [await store.read(NamedNumber(name)) for name in (BOOT, READS_PACE, PROVEN_PACE)]
    return None if boot is None or reads is None or proven is None else Pace(boot, reads, proven)


def _round_span(span: Span) -> str:
    """Format a span in whole seconds: two clocks are not read at one instant."""
    return format_span((span + SECOND // 2) // SECOND * SECOND)


def _describe(jump: Jump, clock: Clock) -> str:
    """Return the alarm: both times, what happens now, and both ways out."""
    host, time = to_rfc3339(jump.host), to_rfc3339(jump.time)
    ways = "`mayfly clock accept` takes the later time as right, `mayfly clock reject` the earlier"
    if jump.size < 0:
        return (
            f"the host's clock went back {_round_span(-jump.size)}: it says {host}, and Mayfly's time stands still at {time}"
            f" until the host's clock gets there; {ways}"
        )
    assert isinstance(clock, SystemClock)
    hold = format_span(clock.belief.hold)
    reads = "reads follow it" if jump.followed else f"reads follow it when it has held for {hold}"
    return (
        f"the host's clock jumped forward by {_round_span(jump.size)}: it says {host}, and by the boot-time clock it is {time};"
        f" {reads}, and nothing is purged on its word for {_round_span(jump.wait or 0)}; {ways}"
    )
