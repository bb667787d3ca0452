"""The TTL monitor: the schedule of passes, its switch, and counts of results. Its parameters are stored settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from mayflydb.engine.catalog import ROOT
from mayflydb.expiry.passes import Schedule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MINUTE, SECOND, Instant, Span
from mayflydb.store.interface import Decision, LoadRow, NamedNumber, Outcome, SetNumber, Store

SLEEP = "ttl_monitor_sleep"
ENABLED = "ttl_monitor_enabled"


class Monitor:
    """One per store. `schedule` applies to rules with `passes`; while `enabled` is False, nothing is purged in its whole
    space.

    `deleted_documents`, `deleted_bytes`, `batches` (sweeps that removed records) and `held` (the time for which these held
    the writer) count that space since the process began.
    """

    def __init__(self, store: Store, now: Instant, default: Span = MINUTE, space: str = "") -> None:
        """`space`: the name of the space whose containers belong to the monitor.

        `default`: microseconds between passes until another number is set.
        """
        self._store = store
        self._space = space
        self._default = default
        self._changed: Callable[[], Awaitable[None]] | None = None
        self._members: dict[int, str] = {}
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
        """Register `changed`, called when purging must look at all containers again."""
        self._changed = changed

    # --- parameters ------------------------------------------------------------------------------------------------

    async def refresh(self, now: Instant) -> None:
        """Read the parameters: another node, or an earlier process, may have set them."""
        async with self._setting:
            # Read and applied under one lock, or an older read could undo a newer setting.
            resets = self._resets
            every = await self._store.read(NamedNumber(SLEEP)) or self._default
            enabled = await self._store.read(NamedNumber(ENABLED)) != 0
            # Parameters that were read before a reset are void.
            if resets == self._resets:
                await self._apply(every, enabled, now)

    @property
    def sleep(self) -> int:
        """Seconds between passes."""
        return self.schedule.every // SECOND

    async def set_sleep(self, seconds: int, now: Instant) -> None:
        """Schedule the next pass `seconds` from now, and further ones at that interval. BadRequest unless positive."""
        if seconds < 1:
            raise BadRequest("passes are at least a second apart")
        async with self._setting:
            await self._save(SLEEP, seconds * SECOND)
            self._count_until(now)
            self.schedule = Schedule(now, seconds * SECOND)
        await self._notify_change()

    async def set_enabled(self, enabled: bool, now: Instant) -> None:
        """Stop purging in the whole space, or resume it; expired records are hidden in either case."""
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
            return Outcome((SetNumber(name, value),), None)
            yield

        await self._store.write(decide)

    async def _notify_change(self) -> None:
        if self._changed is not None:
            await self._changed()

    # --- time --------------------------------------------------------------------------------------------------------

    def roll_back(self, instant: Instant) -> None:
        """Count passes from an instant to which the clock was set back."""
        self._counted = self.passes(max(instant, self._since))
        self._since = instant
        # `since` must not lie in the future, or no pass would be made before it.
        self.schedule = Schedule(min(self.schedule.since, instant), self.schedule.every)

    def forget(self, now: Instant) -> None:
        """Return to the default parameters after a reset."""
        self._resets += 1
        self._members.clear()
        self._count_until(now)
        self.schedule = Schedule(now, self._default)
        self.enabled = True

    def forget_members(self) -> None:
        """Forget which containers take part, after everything stored was replaced. `refresh` reads the parameters anew."""
        self._resets += 1
        self._members.clear()

    def forget_container(self, container: int) -> None:
        """Drop what was learned of a container that is gone."""
        self._members.pop(container, None)

    # --- what takes part -----------------------------------------------------------------------------------------------

    async def learn_members(self, containers: Iterable[int]) -> None:
        """Find out in which spaces containers lie."""
        # A list of its own: while this awaits, writes add containers to the agenda.
        for container in [each for each in containers if each not in self._members]:
            name, parent = "", container
            while parent != ROOT:
                row = await self._store.read(LoadRow(parent))
                if row is None:
                    break
                name, parent = row.name, row.parent
            else:
                self._members[container] = name

    def has_member(self, container: int) -> bool:
        """Return whether a container, known to `learn_members`, lies in the space."""
        return self._members.get(container) == self._space

    def space_of(self, container: int) -> str:
        """Return the name of the space of a container, known to `learn_members`."""
        return self._members.get(container, "unknown")

    def is_stopped(self, container: int) -> bool:
        """Return whether a container, known to `learn_members`, is not purged now."""
        return not self.enabled and self.has_member(container)

    # --- counters ------------------------------------------------------------------------------------------------------

    def passes(self, now: Instant) -> int:
        """Count the passes up to `now`, with those that found nothing."""
        if not self.enabled:
            return self._counted
        return self._counted + max(0, self.schedule.count(now) - self.schedule.count(self._since))

    def sub_passes(self, now: Instant) -> int:
        """Count the rounds over all indexes: one per pass, and more for a backlog that exceeds one round."""
        return self.passes(now) + self._more

    def _count_until(self, now: Instant) -> None:
        self._counted, self._since = self.passes(now), now

    def count_pass(self, now: Instant) -> None:
        """Count a pass that was made at `now`, unless the schedule counts it."""
        if self.enabled and self.schedule.last(now) != now:
            self._counted += 1

    def count_sweep(self, container: int, removed: int, size: int = 0, held: Span = 0) -> None:
        """Count a sweep that removed records of `size` bytes and held the writer for a span."""
        if removed and self.has_member(container):
            self.deleted_documents += removed
            self.deleted_bytes += size
            self.held += held
            self.batches += 1

    def count_rounds(self, more: int) -> None:
        """Count the rounds beyond one that a backlog took."""
        self._more += more
