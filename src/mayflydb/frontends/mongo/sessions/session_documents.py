"""Retention of the documents in `config.transactions`: until the session ends, or until no client can need them.

A session may also end without a command: by a crash, or on another server of the same store. A search in rounds over the
whole collection finds the documents of such sessions: they have kept their lsn for longer than sessions live without use.
The host's time counts, so that a virtual clock forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collection, Collections, identity_of
from mayflydb.frontends.mongo.decisions import DecisionTransaction, Steps
from mayflydb.frontends.mongo.sessions.registry import IDLE_LIMIT, LogicalSession
from mayflydb.frontends.mongo.sessions.retries import COLLECTION, DATABASE, record_id
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import Position

BATCH_SIZE: Final = 256
"""Documents that are examined, or removed, at once."""

SEARCH_INTERVAL: Final = 1 * SECOND
"""The least time between two batches of the search."""


class SessionDocuments:
    """The documents of `config.transactions`."""

    def __init__(self, engine: Engine, collections: Collections, monotonic: Callable[[], int]) -> None:
        self._engine = engine
        self._collections = collections
        self._monotonic = monotonic
        self._next_search = 0
        self._after: Position | None = None
        # Record number -> (lsn, monotonic time since which it is known to have this lsn). A round starts a new
        # dictionary, so that numbers of removed documents do not stay.
        self._this_round: dict[int, tuple[int, int]] = {}
        self._last_round: dict[int, tuple[int, int]] = {}

    async def remove_ended(self, sessions: Sequence[LogicalSession], now: Instant) -> None:
        """Remove the documents of sessions that have ended."""
        found = await self._collections.find(DATABASE, COLLECTION)
        if found is None:
            return
        identities = [identity_of(record_id(session)) for session in sessions]
        known = []
        for identity in identities:
            record = await self._engine.get(found.node, identity.partition, identity.key, now)
            if record is not None:
                known.append((identity.partition, identity.key, record.lsn))
        for first in range(0, len(known), BATCH_SIZE):
            await self._remove(found, known[first : first + BATCH_SIZE], now)

    @property
    def is_due(self) -> bool:
        """True if `remove_stale` would examine documents now."""
        return self._monotonic() >= self._next_search

    async def remove_stale(self, collection: Collection, now: Instant) -> None:
        """Examine some documents, and remove those that have not changed for IDLE_LIMIT.

        Commands that may add a document call this, so that the collection cannot grow unexamined.
        """
        if not self.is_due:
            return
        now_monotonic = self._monotonic()
        self._next_search = now_monotonic + SEARCH_INTERVAL
        found = await self._engine.read_stored(collection.id, self._after, BATCH_SIZE)
        stale = []
        for record in found:
            lsn, unchanged_since = self._last_round.get(record.seq, (0, 0))
            # Changed since the round before, or new.
            if lsn != record.lsn:
                unchanged_since = now_monotonic
            elif now_monotonic - unchanged_since > IDLE_LIMIT:
                stale.append((record.partition, record.key, lsn))
                continue
            self._this_round[record.seq] = record.lsn, unchanged_since
        if len(found) == BATCH_SIZE:
            self._after = Position(found[-1].partition, found[-1].seq)
        else:
            self._after, self._last_round, self._this_round = None, self._this_round, {}
        if stale:
            await self._remove(collection, stale, now)

    async def _remove(self, collection: Collection, stale: Sequence[tuple[bytes, bytes, int]], now: Instant) -> None:
        def decide(transaction: DecisionTransaction) -> Steps[None]:
            workspace = yield from transaction.on(collection.id)
            for partition, key, lsn in stale:
                record = yield from workspace.get(partition, key)
                # Decided again within the transaction: the session may have written meanwhile.
                if record is not None and record.lsn == lsn:
                    yield from workspace.run(Command(Mode.DELETE, partition, key))

        await self._engine.transact(decide, now)
