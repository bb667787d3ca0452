"""The PostgreSQL store: reads from committed state over a pool, writes through this node's one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from os import urandom
from typing import Any, TypeVar

import asyncpg

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import Instant, Span
from mayflydb.model.record import Record
from mayflydb.store import postgres_urls
from mayflydb.store.interface import Committed, Decision, Get, HeldRecords, KnownDamage, Read, Urgency
from mayflydb.store.postgres import citus, migrations
from mayflydb.store.postgres.connection import (
    CONNECTION_LOST,
    DATABASE_ERRORS,
    DEADLINE,
    DURABILITY_SETTINGS,
    OPTIONS,
    RETRYABLE,
    check,
    connect,
    name_sessions,
    pause,
    retry_delay,
    set_up,
    translate_error,
)
from mayflydb.store.postgres.holds import Holds
from mayflydb.store.postgres.membership import Membership
from mayflydb.store.postgres.pooling import check_sessions
from mayflydb.store.postgres.read_batch import ReadBatch
from mayflydb.store.postgres.reads import ANSWERS, answer
from mayflydb.store.postgres.writer import Writer

T = TypeVar("T")

_SIZES = (
    "SELECT tables, indexes, greatest(pg_database_size(current_database()) - tables - indexes, 0) FROM"
    " (SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint AS tables, coalesce(sum(pg_indexes_size(oid)), 0)::bigint AS indexes"
    " FROM pg_class WHERE relnamespace = 'mayfly'::regnamespace AND relkind = 'r') AS own"
)

READERS = 8
ATTEMPTS = 5


class PostgresStore:
    """One database, which other nodes may share. `open` builds it."""

    def __init__(
        self, url: str, session: str, pool: asyncpg.Pool, distributed: bool, alone: bool, stopwatch: Stopwatch
    ) -> None:
        """`open` adds the node to the others (`Membership.join`) before the store is used."""
        self._description = postgres_urls.parse(url).shown
        named = name_sessions(url, session)
        self._pool = pool
        self._distributed = distributed
        self._read_batch = ReadBatch(pool, distributed)
        self._catalog_version = 0
        self._closed = False
        self._membership = Membership(named, session, self._bump_catalog_version, alone)
        self.holds = Holds(pool, self._membership)
        """The records that open transactions have locked, of this node and of others."""

        self._writer = Writer(named, distributed, self._membership.learn, self._tell, self.holds, stopwatch)

    @classmethod
    async def open(cls, url: str, alone: bool = False, stopwatch: Stopwatch = monotonic_us) -> PostgresStore:
        """Open a database and create or migrate its tables. `alone`: as its only node.

        Errors: Unavailable when the server does not answer, is too old, may lose commits, or has tables of a newer format.
        """
        session = f"mayfly-{urandom(8).hex()}"
        named = name_sessions(url, session)
        await check_sessions(named)
        connection = await connect(named)
        try:
            await check(connection)
            distributed = await migrations.prepare(connection)
            if distributed:
                await citus.check_workers(connection, DURABILITY_SETTINGS)
        except DATABASE_ERRORS as error:
            raise translate_error(error) from error
        finally:
            connection.terminate()

        async def begin(connection: asyncpg.Connection) -> None:
            await set_up(connection)
            if distributed:
                # After a crash of the coordinator no lock tells readers of the commits that workers have still to finish.
                await citus.recover(connection)

        pool = await asyncpg.create_pool(named, min_size=1, max_size=READERS, init=begin, reset=_leave, **OPTIONS)
        store = cls(url, session, pool, distributed, alone, stopwatch)
        try:
            await store._membership.join()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def description(self) -> str:
        return self._description

    @property
    def durable(self) -> bool:
        return True

    @property
    def catalog_version(self) -> int:
        return self._catalog_version

    def wall(self) -> Instant:
        """The database's time, as far as this host can tell. All nodes go by it."""
        return self._membership.wall()

    async def lease(self, name: str, span: Span) -> bool:
        """Acquire or renew a lease of a name for this node; False if another node has it."""
        try:
            return await self._membership.lease(self._pool, name, span)
        except DATABASE_ERRORS as error:
            raise translate_error(error) from error

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of the store's tables, of their indexes, and of the rest of the database. Unavailable.

        Of Citus, those of the coordinator alone.
        """
        try:
            async with self._pool.acquire(timeout=DEADLINE) as connection:
                tables, indexes, other = await connection.fetchrow(_SIZES)
        except DATABASE_ERRORS as error:
            raise translate_error(error) from error
        return {"tables": tables, "indexes": indexes, "other": other}

    def _bump_catalog_version(self) -> None:
        self._catalog_version += 1

    async def _tell(self, version: int) -> None:
        await self._membership.wait_for_nodes(self._pool, version)

    async def read(self, request: Read[T]) -> T:
        if self._closed:
            raise Unavailable("the store is closing")
        # A node that others may take for dead could answer by rules that they have changed.
        self._membership.check()
        if type(request) is HeldRecords and not self._membership.has_others:
            return ()  # type: ignore[return-value]
        if type(request) is KnownDamage:
            # Its checks are the database's own, which it reports for each request.
            return None  # type: ignore[return-value]
        if not isinstance(request, Get | HeldRecords) and type(request) not in ANSWERS:
            raise TypeError(f"no store read outside decisions: {type(request).__name__}")
        if asyncio.current_task() is None:
            # A request runs without a task until it waits, and asyncio's time limits, which the driver uses, need a task.
            await asyncio.sleep(0)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if isinstance(request, Get):
                    record: Record | None = await self._read_batch.ask(request)
                    return record  # type: ignore[return-value]  # A Get is a Read[Record | None].
                async with self._pool.acquire(timeout=DEADLINE) as connection:
                    if isinstance(request, HeldRecords):
                        return await self.holds.read_held(connection, request)  # type: ignore[return-value]
                    ask = citus.answer if self._distributed else answer
                    found: T = await ask(connection, request)
                    return found
            except DATABASE_ERRORS as error:
                if attempt == ATTEMPTS or not isinstance(error, (*RETRYABLE, *CONNECTION_LOST)):
                    raise translate_error(error) from error
                if isinstance(error, CONNECTION_LOST):
                    await pause(retry_delay(attempt))
        raise AssertionError("unreachable")

    def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Coroutine[Any, Any, Committed[T]]:
        # A node that does not know of this one keeps its holds to itself: a purge would remove records that it has locked.
        if urgency == "sweep" and not self._membership.is_known:
            return self._sweep(decide)
        return self._writer.submit(decide, urgency)

    async def _sweep(self, decide: Callable[[], Decision[T]]) -> Committed[T]:
        await self._membership.wait_for_acknowledgements(self._pool)
        return await self._writer.submit(decide, "sweep")

    async def reset(self) -> None:
        await self._writer.reset()

    async def close(self) -> None:
        await self._writer.close()
        self._closed = True
        await self.holds.close()
        await self._membership.leave()
        await self._pool.close()


async def _leave(connection: asyncpg.Connection) -> None:
    """Leave a pooled connection as it is between two uses: readers change no setting."""
