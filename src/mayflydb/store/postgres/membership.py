"""The nodes that share a database: which of them are alive, the version of the catalogue, the database's time, and leases.

A change of the catalogue is answered when every live node knows of it. A node is alive while its row was renewed within LEASE of
the database's time; a node that cannot renew its row in time stops answering before others take it for dead. So no client is
answered by old rules after their change was acknowledged. Before that, some nodes may go by the new rules already.

    0 s       beat sent, then stored as `seen`
    4 s       TRUSTED: the node itself stops answering
    5 s       LEASE: the others take it for dead and no longer wait for it

A node knows of all nodes with lower ids from its beginning, and writes into its row (`knows`) up to which id it knows of later
ones. Before it does so, it has announced its holds to them (`holds`). A node purges only while its row is there and after every
other node knows of it; rows of dead nodes are removed, and their connections ended.

A node whose process is seen to have ended on this host is dead at once. That its connections are gone proves nothing: it may be
about to open new ones. A node that is paused in a transaction has its locks for IDLE_TIMEOUT_MS (`connection`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import asyncpg

from mayflydb.clock import boot_us
from mayflydb.model.errors import InUse, MayflyError, Unavailable
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.store.postgres.connection import DATABASE_ERRORS, DEADLINE, connect, pause
from mayflydb.store.postgres.processes import has_ended, own_process

log = logging.getLogger(__name__)

LEASE: Span = 5 * SECOND
"""Without a beat for so long, a node counts as dead."""

TRUSTED: Span = 4 * SECOND
"""For so long after it sent a beat, a node trusts that it is alive. The margin covers a host whose clock runs a little slower."""

BEAT = 1.0
RETRY = 0.25
SAMPLES = 16
"""Beats among which the one with the quickest answer gives the database's time."""

DRIFT: Span = SECOND // 10
"""By more than this two clocks do not drift apart within SAMPLES beats."""

LIVE = "seen > clock_timestamp() - {} * interval '1 microsecond'"
"""The condition of the row of a live node; its parameter is LEASE."""

_JOIN = (
    "INSERT INTO mayfly.node(seen, catalog, alone, knows, process, session)"
    " SELECT clock_timestamp(), $1, $2, (SELECT coalesce(max(id), 0) FROM mayfly.node), $4, $5"
    f" WHERE NOT EXISTS (SELECT 1 FROM mayfly.node WHERE {LIVE.format('$3')} AND (alone OR $2)) RETURNING id"
)
_BEAT = (
    "UPDATE mayfly.node SET seen = clock_timestamp(), catalog = $2, knows = greatest(knows, $3) WHERE id = $1 RETURNING"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
    " (SELECT value FROM mayfly.meta WHERE name = 'catalog'),"
    " (SELECT max(id) FROM mayfly.node WHERE id <> $1)"
)
_BEHIND = f"SELECT EXISTS (SELECT 1 FROM mayfly.node WHERE catalog < $1 AND id <> $2 AND {LIVE.format('$3')})"
_UNKNOWN = "SELECT EXISTS (SELECT 1 FROM mayfly.node WHERE id <> $1 AND knows < $1)"
# A purge locks the row of its node (FOR KEY SHARE), which is skipped here: the node must not be forgotten while it purges.
_FORGET = (
    "DELETE FROM mayfly.node WHERE id IN"
    f" (SELECT id FROM mayfly.node WHERE NOT {LIVE.format('$1')} OR id = ANY($2::bigint[]) FOR UPDATE SKIP LOCKED)"
    " RETURNING session"
)
_PROCESSES = "SELECT id, process FROM mayfly.node WHERE process IS NOT NULL"
# What a forgotten node still runs: it may be paused, and others would wait for its locks.
_END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user"
    " AND application_name = ANY($1::text[]) AND pid <> pg_backend_pid()"
)
_CALL = "SELECT pg_notify('mayfly_catalog', value::text) FROM mayfly.meta WHERE name = 'catalog'"
_TAKE = (
    "INSERT INTO mayfly.lease AS l(name, node, until)"
    " VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')"
    " ON CONFLICT(name) DO UPDATE SET node = excluded.node, until = excluded.until"
    " WHERE l.node = excluded.node OR l.until < clock_timestamp()"
    f" OR NOT EXISTS (SELECT 1 FROM mayfly.node n WHERE n.id = l.node AND n.{LIVE.format('$4')}) RETURNING true"
)


async def _tell_nothing() -> bool:
    return True


class Membership:
    """This node among the others. `redefined` is called when the catalogue is known to have changed."""

    def __init__(self, url: str, session: str, redefined: Callable[[], None], alone: bool = False) -> None:
        """`session`: the name of this node's connections. `alone`: no other node may use the database at the same time."""
        self._url = url
        self._session = session
        self._alone = alone
        self._redefined = redefined
        self._connection: asyncpg.Connection | None = None
        self._node: int | None = None
        self._catalog = 0
        self._trusted_until = 0
        self._offsets: list[tuple[Span, Span]] = []
        self._offset: Span = 0
        self._knows = 0
        self._known: int | None = None
        self.tell: Callable[[], Awaitable[bool]] = _tell_nothing
        """Announces some of the holds that were kept back while there was no other node; True if none is left."""

        self.on_forgotten: Callable[[], None] = lambda: None
        """Called when the other nodes have removed the row of this node, and its announced holds with it."""

        self.has_others = True
        """True if there may be other nodes. Where it is wrongly False, the others wait until this node has learned of them."""

        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- alive -----------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Become a node for which the others wait.

        Unavailable when the database does not answer, or when this node or one of the others wants to be alone.
        """
        ends = boot_us() + LEASE + SECOND
        while not self._trusted_until:
            try:
                await self._beat()
            except InUse:
                # The other node may be this one itself before it was killed: its row expires after LEASE.
                if boot_us() > ends:
                    raise
                await pause(RETRY)
        self._task = asyncio.create_task(self._run(), name="membership")

    async def leave(self) -> None:
        """Remove this node, so that no other node waits for it any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                await connection.execute("DELETE FROM mayfly.lease WHERE node = $1", self._node)
                await connection.execute("DELETE FROM mayfly.node WHERE id = $1", self._node)
            connection.terminate()

    def check(self) -> None:
        """Raise Unavailable when others may take this node for dead."""
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
                await connection.add_listener("mayfly_catalog", self._on_catalog_change)
            if self._node is None:
                self._node = await self._insert_node(connection)
            sent = boot_us()
            answer = await connection.fetchrow(_BEAT, self._node, self._catalog, self._knows)
            received = boot_us()
        except DATABASE_ERRORS as error:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            raise Unavailable(f"the database does not answer: {error}") from error
        if answer is None:
            # The other nodes have removed this node's row: it joins anew, with another id.
            self._node = None
            self.has_others = True
            self.on_forgotten()
            self._soon.set()
            return
        there, version, latest = answer
        # Counted from when the beat was sent: the database stored `seen` later than that, so the others wait longer.
        self._trusted_until = sent + TRUSTED
        self._compare(sent, received, there)
        if version > self._catalog:
            self.learn(version)
            self._soon.set()
        await self._announce_to_others(latest)

    async def _insert_node(self, connection: asyncpg.Connection) -> int:
        async with connection.transaction():
            # Two nodes that join at once would each miss the other's row, and both could be alone.
            await connection.execute("LOCK TABLE mayfly.node IN SHARE ROW EXCLUSIVE MODE")
            await self._forget_dead(connection)
            node: int | None = await connection.fetchval(
                _JOIN, self._catalog, self._alone, LEASE, own_process(), self._session
            )
            await connection.execute(_CALL)
        if node is None:
            raise InUse("the database is in use by another node, and one of the two wants it to itself")
        return node

    async def _forget_dead(self, connection: asyncpg.Connection) -> None:
        """Remove the rows of nodes whose lease is over, or whose process has ended on this host, and end their connections."""
        ended = [id for id, process in await connection.fetch(_PROCESSES) if has_ended(process)]
        gone = [row[0] for row in await connection.fetch(_FORGET, LEASE, ended) if row[0] is not None]
        if gone:
            await connection.execute(_END_SESSIONS, gone)

    async def _announce_to_others(self, latest: int | None) -> None:
        """Announce holds to nodes that joined. `latest`: the highest id among the other nodes; None: there are none."""
        self.has_others = latest is not None
        connection = self._connection
        if latest is None or connection is None:
            return
        try:
            await self._forget_dead(connection)
            if latest > self._knows:
                if await self.tell():
                    self._knows = latest
                self._soon.set()
        except DATABASE_ERRORS as error:
            raise Unavailable(f"the other nodes cannot be told what this one holds: {error}") from error

    def _on_catalog_change(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self.learn(int(str(payload)))
        self._soon.set()

    # --- the other nodes ---------------------------------------------------------------------------------------------------

    @property
    def node(self) -> int:
        """The id of this node. Unavailable after the others have removed its row."""
        if self._node is None:
            raise Unavailable("this node has lost touch with the database")
        return self._node

    @property
    def is_known(self) -> bool:
        """True if every other node knows of this one, and has announced its holds."""
        return self._known is not None and self._known == self._node

    async def wait_for_acknowledgements(self, pool: asyncpg.Pool) -> None:
        """Wait until every other node knows of this one, or is dead. Unavailable if that takes too long."""
        wait = 0.001
        ends = boot_us() + LEASE + 2 * SECOND
        while not self.is_known:
            node = self.node
            try:
                async with pool.acquire(timeout=DEADLINE) as connection:
                    if not await connection.fetchval(_UNKNOWN, node):
                        self._known = node
                        return
            except DATABASE_ERRORS as error:
                log.info("the database does not say whether all nodes know of this one: %s", error)
            if boot_us() > ends:
                raise Unavailable("another node does not know of this one yet")
            await pause(wait)
            wait = min(0.05, wait * 2)

    # --- the catalogue ---------------------------------------------------------------------------------------------------

    def learn(self, version: int) -> None:
        """Take note of a version of the catalogue."""
        if version > self._catalog:
            self._catalog = version
            self._redefined()

    async def wait_for_nodes(self, pool: asyncpg.Pool, version: int) -> None:
        """Wait until no live node is behind this version of the catalogue."""
        wait = 0.001
        ends = boot_us() + LEASE + SECOND
        while boot_us() < ends:
            try:
                async with pool.acquire(timeout=DEADLINE) as connection:
                    if not await connection.fetchval(_BEHIND, version, self._node, LEASE):
                        return
            except DATABASE_ERRORS as error:
                log.info("cannot ask whether all nodes know of a change: %s", error)
            await pause(wait)
            wait = min(0.05, wait * 2)

    # --- time ------------------------------------------------------------------------------------------------------------

    def wall(self) -> Instant:
        """The database's time, as far as this host can tell."""
        return boot_us() + self._offset

    def _compare(self, sent: int, received: int, there: Instant) -> None:
        sample = (received - sent, there - (sent + received) // 2)
        if self._offsets and abs(sample[1] - self._offset) > (sample[0] + min(self._offsets)[0]) // 2 + DRIFT:
            # The database's clock was set: no sample from before tells its time any more.
            self._offsets = []
        self._offsets = [*self._offsets[1 - SAMPLES :], sample]
        # The database read its time between `sent` and `received`: the shorter the answer took, the smaller the error.
        self._offset = min(self._offsets)[1]

    # --- leases ----------------------------------------------------------------------------------------------------------

    async def lease(self, pool: asyncpg.Pool, name: str, span: Span) -> bool:
        """Acquire or renew a lease of a name for this node; False if another node has it."""
        self.check()
        async with pool.acquire(timeout=DEADLINE) as connection:
            return bool(await connection.fetchval(_TAKE, name, self._node, span, LEASE))
