"""Moving a virtual clock: a walk from one due instant to the next, never a jump, so that every run gives the same events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Reads
from mayflydb.engine.upcoming import next_deadline, next_step
from mayflydb.expiry.sweep import PassOverride, PurgeRequest
from mayflydb.model.errors import Forbidden
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import LoadRow, Scan

SweepMode = Literal["scheduled", "now", "none"]
"""Purge by each container's schedule; all due records at the end; or nothing."""


async def newest_write(reads: Reads, containers: Sequence[Node]) -> Instant | None:
    """Return the instant of the latest stored write, definitions of containers included; None: the store is empty."""
    newest = [container.definition.written for container in containers]
    for container in containers:
        record = await _last_record(reads, container.id)
        if record is not None:
            newest.append(record.written)
    return max(newest, default=None)


async def _last_record(reads: Reads, container: int) -> Record | None:
    """Return the record with the highest lsn, by bisection: the records of other lsns may be gone."""
    row = await reads.read(LoadRow(container))
    low, high = 0, 0 if row is None else row.lsn
    last: Record | None = None
    while low < high:
        middle = (low + high) // 2
        later = await reads.read(Scan(container, b"", None, Order.CHANGED, Position(b"", middle), 1))
        if later:
            last, low = later[0], later[0].lsn
        else:
            high = middle
    return last


class AdvanceResult(msgspec.Struct, frozen=True):
    """The result of a walk, by container id: deadlines inside the interval, and purged records. `exact` False: the deadlines are
    estimates.
    """

    now: Instant
    advanced: int
    expired: dict[int, int]
    purged: dict[int, int]
    exact: bool = True


class ClockMover:
    """Control of a virtual clock. One walk at a time; a second one waits."""

    def __init__(self, engine: Engine, clock: VirtualClock) -> None:
        self._engine = engine
        self._clock = clock
        self._expiry_counts = engine.expiry_counts
        self._walking = asyncio.Lock()

    async def advance(self, span: int, containers: Sequence[Node], sweep: SweepMode = "scheduled") -> AdvanceResult:
        """Advance by `span` microseconds and return when all purges due by then are committed."""
        return await self.walk(self._clock.now() + span, containers, sweep)

    async def walk(self, to: Instant, containers: Sequence[Node], sweep: SweepMode) -> AdvanceResult:
        """Advance to the instant `to`. Forbidden for an instant in the past: records would be younger than now."""
        async with self._walking:
            await self._engine.accesses.flush()
            start = await self._engine.now()
            if to < start:
                raise Forbidden("the clock does not go back: reset the store first, or use force on an empty one")
            expired, exact = await self._expired(containers, start, to)
            purged: Counter[int] = Counter()
            if sweep == "scheduled":
                purged += await self._purge_at(start)
                # Inclusive: what is due at the end of the interval is purged in it.
                while (step := await self._next_step(containers, self._clock.now())) is not None and step <= to:
                    self._clock.set(step)
                    purged += await self._purge_at(step)
            # A ticking clock may have passed `to` during the purges.
            self._clock.set(max(to, self._clock.now()))
            now = await self._engine.now()
            if sweep != "none":
                # A container with its own schedule waits for its pass, unless `sweep` is "now".
                purged += await self._purge_at(now, "all" if sweep == "now" else "monitor")
                self._engine.monitor.count_pass(now)
                await self._engine.reaper.shredding.run_at_times(now)
            self._engine.reaper.wake()
            return AdvanceResult(now, now - start, expired, dict(purged), exact)

    async def next_expiry(self, containers: Sequence[Node]) -> Instant | None:
        """Return the earliest deadline in the future."""
        store, nodes, now = self._engine.store, self._engine.nodes, await self._engine.now()
        found = [await next_deadline(store, nodes, container.id, now) for container in containers]
        return min((deadline for deadline in found if deadline is not None), default=None)

    async def _purge_at(self, instant: Instant, override: PassOverride = "none") -> Counter[int]:
        now = max(instant, await self._engine.now())
        return await self._engine.reaper.sweep_due(
            PurgeRequest(self._engine.time.horizon(), now, "sweep", override=override)
        )

    async def _next_step(self, containers: Sequence[Node], after: Instant) -> Instant | None:
        engine = self._engine
        schedule = engine.monitor.schedule
        found = [await next_step(engine.store, engine.nodes, each.id, after, schedule) for each in containers]
        # A record that was due when written, after the last pass of its container, waits for the next one.
        found += [await engine.reaper.next_pass(each.id) for each in containers]
        return min((step for step in found if step is not None and step > after), default=None)

    async def _expired(self, containers: Sequence[Node], start: Instant, to: Instant) -> tuple[dict[int, int], bool]:
        """Count the deadlines in (start, to], and return whether all counts are exact."""
        expired: dict[int, int] = {}
        exact, allowance = True, self._expiry_counts.allow()
        for container in containers:
            found = await self._expiry_counts.count_due(container, container.rules, [start, to], allowance)
            exact = exact and found.exact
            before, after = found.counts
            if after > before:
                expired[container.id] = after - before
        return expired, exact

    def roll_back(self, instant: Instant) -> None:
        """Set the clock back to an instant that no stored data is newer than; call `newest_write` first."""
        self._clock.set(instant)
        self._engine.roll_back(instant)

    def freeze(self) -> None:
        """Stop the clock."""
        self._clock.freeze()

    def resume(self) -> None:
        """Let the clock tick; the reaper loop works again."""
        self._clock.resume()
        self._engine.reaper.wake()
