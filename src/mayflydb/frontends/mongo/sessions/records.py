"""How long what is kept of a session's numbered writes stays: until the session ends, or nobody can want it any more.

A session that nobody ended, on this server or on another one of the same store, or before a crash, is recognized by its document,
which has not changed for as long as sessions live; the host's time counts, so that a clock that people move forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collection, Collections, identity_of
from mayflydb.frontends.mongo.decisions import DecisionTransaction, Steps
from mayflydb.frontends.mongo.sessions.registry import IDLE_LIMIT, LogicalSession
from mayflydb.frontends.mongo.sessions.retries import DATABASE, NAME, record_id
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import Position

BATCH_SIZE: Final = 256
"""Documents that are looked at, or removed, at once."""

SWEEP_INTERVAL: Final = 1 * SECOND
"""Between two stretches."""


class SessionRecords:
    """The documents of `config.transactions`."""

    def __init__(self, engine: Engine, collections: Collections, monotonic: Callable[[], int]) -> None:
        self._engine = engine
        self._collections = collections
        self._monotonic = monotonic
        self._due = 0
        self._after: Position | None = None
        self._seen: dict[int, tuple[int, int]] = {}
        self._before: dict[int, tuple[int, int]] = {}

    async def forget(self, sessions: Sequence[LogicalSession], now: Instant) -> None:
        """Remove what is kept of sessions that have ended."""
        found = await self._collections.find(DATABASE, NAME)
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

    async def sweep(self, kept: Collection, now: Instant) -> None:
        """Whoever may add one looks at some of the others, now and then, and removes those that have not changed for too long."""
        moment = self._monotonic()
        if moment < self._due:
            return
        self._due = moment + SWEEP_INTERVAL
        found = await self._engine.read_stored(kept.id, self._after, BATCH_SIZE)
        stale = []
        for record in found:
            lsn, since = self._before.get(record.seq, (0, 0))
            if lsn != record.lsn:
                since = moment
            elif moment - since > IDLE_LIMIT:
                stale.append((record.partition, record.key, lsn))
                continue
            self._seen[record.seq] = record.lsn, since
        if len(found) == BATCH_SIZE:
            self._after = Position(found[-1].partition, found[-1].seq)
        else:
            self._after, self._before, self._seen = None, self._seen, {}
        if stale:
            await self._remove(kept, stale, now)

    async def _remove(self, kept: Collection, stale: Sequence[tuple[bytes, bytes, int]], now: Instant) -> None:
        def decide(transaction: DecisionTransaction) -> Steps[None]:
            space = yield from transaction.on(kept.id)
            for partition, key, lsn in stale:
                record = yield from space.get(partition, key)
                if record is not None and record.lsn == lsn:
                    yield from space.run(Command(Mode.DELETE, partition, key))

        await self._engine.transact(decide, now)
