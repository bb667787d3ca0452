"""The TTL monitor: when passes are made, whether they are, and what they came to. Its parameters are numbers of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from mayflydb.engine.catalog import ROOT
from mayflydb.expiry.passes import Schedule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MINUTE, SECOND, Instant, Span
from mayflydb.store.interface import Decision, Load, Outcome, Set, Setting, Store

SLEEP = "ttl_monitor_sleep"
ENABLED = "ttl_monitor_enabled"


class Monitor:
    """One per store. `schedule` is for rules with `passes`; while it is not `enabled`, nothing is purged in its whole space.

    `deleted_documents`, their bytes, `batches` (sweeps that removed some) and for how long those `held` the writer are of that
    space, since the process began.
    """

    def __init__(self, store: Store, now: Instant, default: Span = MINUTE, space: str = "") -> None:
        """`space`: name of the space whose containers take part.

        `default`: microseconds between passes as long as nobody has set another number of them.
        """
        self._store = store
        self._space = space
        self._default = default
        self._changed: Callable[[], Awaitable[None]] | None = None
        self._members: dict[int, bool] = {}
        self._setting = asyncio.Lock()
        self._resets = 0
        self._counted = 0
        self._since = now
        self._more = 0
        self.schedule = Schedule(now, default)
        self.enabled = True
        self.deleted_documents = 0
        self.deleted_bytes = 0
        self.held: Span = 0
        self.batches = 0

    def listen(self, changed: Callable[[], Awaitable[None]]) -> None:
        """`changed` is called when purging is to look again at everything."""
        self._changed = changed

    # --- parameters ------------------------------------------------------------------------------------------------

    async def refresh(self, now: Instant) -> None:
        """Read the parameters: another node, or a process before this one, may have set them."""
        async with self._setting:
            resets = self._resets
            every = await self._store.read(Setting(SLEEP)) or self._default
            enabled = await self._store.read(Setting(ENABLED)) != 0
            # What was read before a reset is no longer so.
            if resets == self._resets:
                await self._apply(every, enabled, now)

    @property
    def sleep(self) -> int:
        """Seconds between passes."""
        return self.schedule.every // SECOND

    async def set_sleep(self, seconds: int, now: Instant) -> None:
        """The next pass is made so many seconds from now, and then one after as many each. BadRequest unless positive."""
        if seconds < 1:
            raise BadRequest("passes are at least a second apart")
        async with self._setting:
            await self._save(SLEEP, seconds * SECOND)
            self._count_until(now)
            self.schedule = Schedule(now, seconds * SECOND)
        await self._notify_change()

    async def set_enabled(self, enabled: bool, now: Instant) -> None:
        """Stop purging in the whole space, or go on with it; hiding goes on in any case."""
        async with self._setting:
            await self._save(ENABLED, int(enabled))
            await self._apply(self.schedule.every, enabled, now)

    async def _apply(self, every: Span, enabled: bool, now: Instant) -> None:
        if (every, enabled) == (self.schedule.every, self.enabled):
            return
        self._count_until(now)
        if every != self.schedule.every:
            self.schedule = Schedule(now, every)
        self.enabled = enabled
        await self._notify_change()

    async def _save(self, name: str, value: int) -> None:
        def decide() -> Decision[None]:
            return Outcome((Set(name, value),), None)
            yield

        await self._store.write(decide)

    async def _notify_change(self) -> None:
        if self._changed is not None:
            await self._changed()

    # --- time --------------------------------------------------------------------------------------------------------

    def roll_back(self, instant: Instant) -> None:
        """The clock was set back: passes are counted from there."""
        self._counted = self.passes(max(instant, self._since))
        self._since = instant
        self.schedule = Schedule(min(self.schedule.since, instant), self.schedule.every)

    def forget(self, now: Instant) -> None:
        """The store was reset."""
        self._resets += 1
        self._members.clear()
        self._count_until(now)
        self.schedule = Schedule(now, self._default)
        self.enabled = True

    # --- what takes part -----------------------------------------------------------------------------------------------

    async def learn_members(self, containers: Iterable[int]) -> None:
        """Learn which of these lie in the space."""
        for container in [each for each in containers if each not in self._members]:
            name, parent = "", container
            while parent != ROOT:
                row = await self._store.read(Load(parent))
                if row is None:
                    break
                name, parent = row.name, row.parent
            else:
                self._members[container] = name == self._space

    def has_member(self, container: int) -> bool:
        """Whether a container, which it has met, lies in the space."""
        return self._members.get(container, False)

    def is_stopped(self, container: int) -> bool:
        """Whether nothing is purged now in a container, which it has met."""
        return not self.enabled and self.has_member(container)

    # --- counters ------------------------------------------------------------------------------------------------------

    def passes(self, now: Instant) -> int:
        """Passes up to `now`, those that found nothing included."""
        if not self.enabled:
            return self._counted
        return self._counted + max(0, self.schedule.count(now) - self.schedule.count(self._since))

    def sub_passes(self, now: Instant) -> int:
        """Rounds over all indexes: one in each pass, and more while there is more than goes in one."""
        return self.passes(now) + self._more

    def _count_until(self, now: Instant) -> None:
        self._counted, self._since = self.passes(now), now

    def count_pass(self, now: Instant) -> None:
        """A pass was made at `now`, be it one of the schedule's or not."""
        if self.enabled and self.schedule.last(now) != now:
            self._counted += 1

    def count_sweep(self, container: int, removed: int, size: int = 0, held: Span = 0) -> None:
        """A sweep removed so many records of a container, of so many bytes, and kept the writer for so long."""
        if removed and self.has_member(container):
            self.deleted_documents += removed
            self.deleted_bytes += size
            self.held += held
            self.batches += 1

    def count_rounds(self, more: int) -> None:
        """What was due has taken so many rounds more than one."""
        self._more += more
