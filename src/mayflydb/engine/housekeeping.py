"""Housekeeping: removes records of dropped containers, and lines of histories, expiry events and retired versions that are no
longer kept.
"""

from __future__ import annotations

import msgspec

from mayflydb.engine.catalog import Nodes
from mayflydb.engine.expiry_events import EventLimits, ExpiryEvents
from mayflydb.engine.history import forget_old
from mayflydb.engine.lifecycle.retired_versions import forget_retired
from mayflydb.engine.ordered_histories import OrderedHistories, has_kept_history
from mayflydb.model.instant import MINUTE, Instant, Span
from mayflydb.store.interface import ClearDropped, Count, Decision, DroppedContainers, LoadRow, Outcome, Store

INTERVAL: Span = MINUTE
"""The interval of looks for old lines. Histories are kept for minutes at least, so a look at each turn would find nothing."""


class Retention(msgspec.Struct, frozen=True):
    """The limits of stored events and histories. `history`: the most versions in the history of one container."""

    events: EventLimits = EventLimits()
    history: int = 1_000_000


DEFAULT_RETENTION = Retention()


class Housekeeping:
    """The work of the reaper's loop that is not about expiry."""

    def __init__(self, store: Store, nodes: Nodes, batch: int, events: ExpiryEvents, history: int) -> None:
        """`batch`: the records of dropped containers that one transaction removes. `history`: as in Retention."""
        self.batch = batch
        self._events = events
        self._history = history
        self._store = store
        self._nodes = nodes
        self._ordered_histories = OrderedHistories(store, nodes)
        self._forgotten_at: Instant = -INTERVAL

    async def clear_dropped(self) -> None:
        """Remove all records of dropped containers, and their histories, except histories that outlive their containers."""
        kept = {node.definition.keeps for node in await self._ordered_histories.read_kept()}
        for container in await self._store.read(DroppedContainers()):
            if container in kept and await self._is_empty(container):
                continue
            while await self._clear(container):
                pass

    async def _is_empty(self, container: int) -> bool:
        return not (await self._store.read(Count(container))).records

    async def _clear(self, container: int) -> int:
        """Remove one batch; return the number of removed records or versions."""

        def decide() -> Decision[None]:
            # A restore may have brought the container back.
            if (yield LoadRow(container)) is not None:
                return Outcome((), None)
            # Decided in the transaction: a drop may be committed after `kept` was read.
            history = not (yield from has_kept_history(container))
            return Outcome((ClearDropped(container, self.batch, history),), None)

        # As a sweep, so that user writes go first.
        return sum(purged.records for purged in (await self._store.write(decide, "sweep")).purged)

    async def forget_old(self, now: Instant) -> bool:
        """Remove lines of histories, expiry events and retired versions that are no longer kept, at most once in an interval.

        True: a rest is left for the next turn.
        """
        # Also after the clock was set back, when the last look lies in the future.
        if 0 <= now - self._forgotten_at < INTERVAL:
            return False
        await self._ordered_histories.forget_old(now)
        left = await forget_old(self._store, self._nodes, now, self._history)
        left |= await forget_retired(self._store, self._nodes, now)
        if await self._events.trim(now) or left:
            return True
        self._forgotten_at = now
        return False
