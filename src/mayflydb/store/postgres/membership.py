"""The nodes that share a database: who is alive, what the catalogue's version is, what time it is there, who does what.

A change of the catalogue is answered when every live node knows of it. A node is alive while its row has been seen within LEASE
of the database's time; one that could not renew its row in time stops answering before others take it for dead. So nobody is
answered by rules whose change had been acknowledged before he asked; until then some nodes may go by the new ones already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import asyncpg

from mayflydb.clock import boot_us
from mayflydb.model.errors import MayflyError, Unavailable
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.store.postgres.connection import DEADLINE, FAILED, connect, pause

log = logging.getLogger(__name__)

LEASE: Span = 5 * SECOND
"""After so long without a beat a node is dead to the others."""

TRUSTED: Span = 4 * SECOND
"""For so long after a beat was sent a node trusts that it is not; host time may run a little slower than the database's."""

BEAT = 1.0
RETRY = 0.25
FORGOTTEN: Span = 3600 * SECOND
SAMPLES = 16
"""Beats among which the quickest says best what time it is."""

LIVE = "seen > clock_timestamp() - {} * interval '1 microsecond'"
"""The condition of a node's row, whose parameter is LEASE."""

_JOIN = (
    "INSERT INTO mayfly.node(seen, catalog, alone) SELECT clock_timestamp(), $1, $2"
    f" WHERE NOT EXISTS (SELECT 1 FROM mayfly.node WHERE {LIVE.format('$3')} AND (alone OR $2)) RETURNING id"
)
_BEAT = (
    "UPDATE mayfly.node SET seen = clock_timestamp(), catalog = $2 WHERE id = $1 RETURNING"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
    " (SELECT value FROM mayfly.meta WHERE name = 'catalog')"
)
_BEHIND = f"SELECT EXISTS (SELECT 1 FROM mayfly.node WHERE catalog < $1 AND id <> $2 AND {LIVE.format('$3')})"
_FORGET = "DELETE FROM mayfly.node WHERE seen < clock_timestamp() - $1 * interval '1 microsecond'"
_TAKE = (
    "INSERT INTO mayfly.lease AS l(name, node, until)"
    " VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')"
    " ON CONFLICT(name) DO UPDATE SET node = excluded.node, until = excluded.until"
    " WHERE l.node = excluded.node OR l.until < clock_timestamp()"
    f" OR NOT EXISTS (SELECT 1 FROM mayfly.node n WHERE n.id = l.node AND n.{LIVE.format('$4')}) RETURNING true"
)


class InUse(Unavailable):
    """Another node is there, and one of the two wants to be alone."""


class Membership:
    """This node among the others. `redefined` is called when the catalogue is known to have changed."""

    def __init__(self, url: str, redefined: Callable[[], None], alone: bool = False) -> None:
        """`alone`: no other node may have the database at the same time."""
        self._url = url
        self._alone = alone
        self._redefined = redefined
        self._connection: asyncpg.Connection | None = None
        self._node: int | None = None
        self._catalog = 0
        self._trusted_until = 0
        self._offsets: list[tuple[Span, Span]] = []
        self._offset: Span = 0
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- alive -----------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """From now on others wait for this node.

        Unavailable when the database does not answer, or when this node or one of the others wants to be alone.
        """
        ends = boot_us() + LEASE + SECOND
        while not self._trusted_until:
            try:
                await self._beat()
            except InUse:
                # It may be this node itself, before it was killed.
                if boot_us() > ends:
                    raise
                await pause(RETRY)
        self._task = asyncio.create_task(self._run(), name="membership")

    async def leave(self) -> None:
        """Nobody waits for this node any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(*FAILED):
                await connection.execute("DELETE FROM mayfly.lease WHERE node = $1", self._node)
                await connection.execute("DELETE FROM mayfly.node WHERE id = $1", self._node)
            connection.terminate()

    def check(self) -> None:
        """Unavailable when others may take this node for dead by now."""
        if boot_us() > self._trusted_until:
            raise Unavailable("this node has lost touch with the database")

    async def _run(self) -> None:
        while True:
            wait = BEAT
            try:
                await self._beat()
            except MayflyError as error:
                log.warning("this node cannot reach the database: %s", error)
                wait = RETRY
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._soon.wait()
            self._soon.clear()

    async def _beat(self) -> None:
        try:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await connect(self._url)
                await connection.add_listener("mayfly_catalog", self._heard)
            if self._node is None:
                self._node = await self._enter(connection)
            sent = boot_us()
            answer = await connection.fetchrow(_BEAT, self._node, self._catalog)
            received = boot_us()
        except FAILED as error:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            raise Unavailable(f"the database does not answer: {error}") from error
        if answer is None:
            # Others have forgotten this node.
            self._node = None
            self._soon.set()
            return
        there, version = answer
        self._trusted_until = sent + TRUSTED
        self._compare(sent, received, there)
        if version > self._catalog:
            self.learn(version)
            self._soon.set()

    async def _enter(self, connection: asyncpg.Connection) -> int:
        async with connection.transaction():
            await connection.execute("LOCK TABLE mayfly.node IN SHARE ROW EXCLUSIVE MODE")
            await connection.execute(_FORGET, FORGOTTEN)
            node: int | None = await connection.fetchval(_JOIN, self._catalog, self._alone, LEASE)
        if node is None:
            raise InUse("the database is in use by another node, and one of the two wants it to itself")
        return node

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self.learn(int(str(payload)))
        self._soon.set()

    # --- the catalogue ---------------------------------------------------------------------------------------------------

    def learn(self, version: int) -> None:
        """The catalogue has come to this version."""
        if version > self._catalog:
            self._catalog = version
            self._redefined()

    async def everybody_knows(self, pool: asyncpg.Pool, version: int) -> None:
        """Wait until no live node is behind this version of the catalogue."""
        wait = 0.001
        ends = boot_us() + LEASE + SECOND
        while boot_us() < ends:
            try:
                async with pool.acquire(timeout=DEADLINE) as connection:
                    if not await connection.fetchval(_BEHIND, version, self._node, LEASE):
                        return
            except FAILED as error:
                log.info("nobody says whether all nodes know of a change: %s", error)
            await pause(wait)
            wait = min(0.05, wait * 2)

    # --- time ------------------------------------------------------------------------------------------------------------

    def wall(self) -> Instant:
        """The database's time, as far as this host can tell."""
        return boot_us() + self._offset

    def _compare(self, sent: int, received: int, there: Instant) -> None:
        self._offsets = [*self._offsets[1 - SAMPLES :], (received - sent, there - (sent + received) // 2)]
        # The quicker the answer, the less can lie between.
        self._offset = min(self._offsets)[1]

    # --- leases ----------------------------------------------------------------------------------------------------------

    async def lease(self, pool: asyncpg.Pool, name: str, span: Span) -> bool:
        """Have a name to oneself for so long, again or for the first time; False: another node has it."""
        self.check()
        async with pool.acquire(timeout=DEADLINE) as connection:
            return bool(await connection.fetchval(_TAKE, name, self._node, span, LEASE))
