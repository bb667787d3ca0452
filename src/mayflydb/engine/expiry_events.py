"""Expiry events: their retention, their reads, and the removal of old ones.

Only the age and the number of an event decide if it may be read. The moment of its removal from the store does not matter, so the
same history gives the same events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import takewhile

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.history import HistoryLost
from mayflydb.engine.lifecycle.retired_versions import find_version
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.model.instant import Instant, Span
from mayflydb.model.record import Expiry, Record
from mayflydb.store.interface import (
    Decision,
    Expiries,
    LastExpiry,
    NamedNumber,
    Outcome,
    SetNumber,
    Store,
    TrimEvents,
)

BATCH = 500
"""Events that are removed in one transaction."""

TRIMMED = "expiry_events_trimmed"
"""The name under which the store keeps the number of the last removed event."""


class EventLimits(msgspec.Struct, frozen=True):
    """Only the last `number` events are kept, and of those, only events younger than `age` (None: all).

    `age` counts from the purge, by Mayfly's clock. `virtual_age` takes its place while the clock is virtual.
    """

    number: int = 1_000_000
    age: Span | None = None
    virtual_age: Span | None = None


class ExpiryEvents:
    """Reads and trims the expiry events of one store."""

    def __init__(self, store: Store, time: Timekeeper, limits: EventLimits) -> None:
        self._store = store
        self._time = time
        self._limits = limits
        self.read_bound: Callable[[], Awaitable[int | None]] | None = None
        """Reads the number up to which events may be removed, for a reader that must not miss one; None: all of them."""

    async def read(self, after: int, limit: int, now: Instant) -> list[Expiry]:
        """Return up to `limit` events of all containers with a number above `after`, by number.

        HistoryLost if events above `after` are no longer kept.
        """
        found = await self._store.read(Expiries(None, after, limit))
        # Read after the events, so that a removal before their read is known here.
        trimmed = await self._store.read(NamedNumber(TRIMMED)) or 0
        lost = max(trimmed, await self._store.read(LastExpiry()) - self._limits.number)
        if after < lost or (found and self._is_old(found[0], now)):
            raise HistoryLost(f"Expiry events after number {after} are no longer kept.")
        return found

    async def last_image(self, container: Node, event: Expiry) -> Record | None:
        """Return the last version of the record of an event; None: it is not kept."""
        found = await find_version(self._store, container, (event.partition, event.key), event.lsn)
        return None if found is None else found.record

    async def last(self) -> int:
        """Return the number of the last event; 0: there was none."""
        return await self._store.read(LastExpiry())

    async def is_far_behind(self, place: int) -> bool:
        """Return whether half of the events that are kept at most have come since a place."""
        return await self.last() - place > self._limits.number // 2

    async def place(self, reader: str) -> int | None:
        """Return the number of the last event that a reader with this name is done with; None: it has no place yet."""
        return await self._store.read(NamedNumber(reader))

    async def set_place(self, reader: str, number: int) -> None:
        """Store the place of a reader."""

        def decide() -> Decision[None]:
            return Outcome((SetNumber(reader, number),), None)
            yield

        await self._store.write(decide)

    async def find_first_kept(self, now: Instant) -> int:
        """Return the number behind which all events are kept."""
        trimmed = await self._store.read(NamedNumber(TRIMMED)) or 0
        lost = max(trimmed, await self.last() - self._limits.number)
        while page := await self._store.read(Expiries(None, lost, BATCH)):
            for event in page:
                if not self._is_old(event, now):
                    return lost
                lost = event.id
        return lost

    def _is_old(self, event: Expiry, now: Instant) -> bool:
        age = self._limits.age if self._time.clock.mode == "real" else self._limits.virtual_age
        return age is not None and event.purged <= now - age

    async def trim(self, now: Instant) -> bool:
        """Remove one batch of events that are no longer kept; True: there may be more."""
        beyond = await self._store.read(LastExpiry()) - self._limits.number
        first = await self._store.read(Expiries(None, 0, 1))
        if not first or not (first[0].id <= beyond or self._is_old(first[0], now)):
            return False
        oldest = await self._store.read(Expiries(None, 0, BATCH))
        old = list(takewhile(lambda event: event.id <= beyond or self._is_old(event, now), oldest))
        bound = None if self.read_bound is None else await self.read_bound()
        if bound is not None:
            old = list(takewhile(lambda event: event.id <= bound, old))
        if not old:
            return False
        upto = old[-1].id

        def decide() -> Decision[None]:
            return Outcome((TrimEvents(upto, BATCH), SetNumber(TRIMMED, upto, rising=True)), None)
            yield

        await self._store.write(decide, "sweep")
        return len(old) == BATCH
