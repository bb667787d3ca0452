"""What the commands on data share: one for the whole server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251 - the type; what draws comes in from outside

from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.contracts import Contracts
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.frontends.mongo.documents import ObjectIds
from mayflydb.frontends.mongo.indexing import Indexing
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.sessions.records import SessionRecords
from mayflydb.frontends.mongo.sessions.registry import Session
from mayflydb.frontends.mongo.sessions.transactions import Transactions
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant


class Data:
    """Collections, their indexes, open cursors and transactions, and where ids come from."""

    def __init__(self, engine: Engine, options: Options, chance: Random, monotonic: Callable[[], int]) -> None:
        """`monotonic`: the host's microseconds, which no moved clock touches."""
        self.engine = engine
        self.contracts = Contracts(options)
        self.collections = Collections(engine, self.contracts, lambda: chance.randbytes(16), options.retention)
        self.indexing = Indexing(engine, self.collections)
        self.cursors = Cursors(lambda: chance.getrandbits(63), monotonic)
        self.transactions = Transactions(engine, self.collections, self.cursors, monotonic)
        self.records = SessionRecords(engine, self.collections, monotonic)
        self.ids = ObjectIds(chance.randbytes(5), chance.getrandbits(24))

    async def sessions_ended(self, sessions: Sequence[Session], now: Instant) -> None:
        """Close what was open in them, and forget what is kept of them."""
        for session in sessions:
            await self.transactions.ended(session)
            await self.cursors.end_session(session.id)
        # What the store does not remove now is found to be stale later.
        with contextlib.suppress(MayflyError):
            await self.records.forget(sessions, now)
