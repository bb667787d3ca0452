"""The engine's `now`: read once per request, never falling, durably reserved before use."""

from __future__ import annotations

import asyncio

from mayflydb.clock import Clock, HighWater
from mayflydb.model.errors import OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND, Instant
from mayflydb.store.interface import Decision, NamedNumber, Outcome, SetNumber, Store

MARK = "clock_mark"


class Timekeeper:
    """Hands out `now` and keeps the store's mark ahead of it."""

    def __init__(self, clock: Clock, store: Store, mark: Instant) -> None:
        self.clock = clock
        self._store = store
        self._high = HighWater(clock, mark)
        self._renewal: asyncio.Task[None] | None = None
        self._rolls = 0

    @classmethod
    async def start(cls, clock: Clock, store: Store) -> Timekeeper:
        """Continue from the stored mark."""
        mark = await store.read(NamedNumber(MARK))
        return cls(clock, store, mark or 0)

    async def now(self) -> Instant:
        """Return the present. Waits for a commit if the reservation has run out."""
        now = self._high.now()
        while now is None:
            try:
                # Shielded: all callers share one reservation, and one that is cancelled must not cancel it.
                await asyncio.shield(self._renew())
            except (Unavailable, OutcomeUnknown):
                # The disk takes no mark: time stands still at the last one, reads continue, and writes fail for the same reason.
                return self._high.stand_still()
            now = self._high.now()
        if self._high.room < SECOND // 2 and self.clock.mode == "real":
            # Renew while there is still room, so that no request waits for the disk under steady traffic.
            self._renew()
        return now

    @property
    def latest(self) -> Instant:
        """The latest instant that any caller was given."""
        return self._high.highest

    def horizon(self) -> Instant:
        """Return the latest instant that purging may trust."""
        return self.clock.horizon()

    def _renew(self) -> asyncio.Task[None]:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._reserve(self._high.next_reservation()), name="clock-mark")
            # A caller that waits sees the failure; without one, the next reservation tries again.
            self._renewal.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._renewal

    async def _reserve(self, mark: Instant) -> None:
        rolls = self._rolls
        if self._store.durable:

            def save() -> Decision[None]:
                # Rising: another node may have stored a later mark.
                return Outcome((SetNumber(MARK, mark, rising=True),), None)
                yield

            await self._store.write(save)
        if rolls == self._rolls:
            # Otherwise the clock was set back meanwhile, and the mark is too high.
            self._high.mark_reserved(mark)

    def follow(self, clock: Clock) -> None:
        """Use another clock from now on: a real one became virtual, or the reverse. `now` does not fall."""
        self.clock = clock
        self._high.follow(clock)

    def roll_back(self, instant: Instant) -> None:
        """Follow a virtual clock that a person set back over a store without newer data."""
        self._rolls += 1
        self._high.roll_back(instant)
