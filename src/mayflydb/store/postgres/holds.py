"""Holds: the locked records of open transactions, as the nodes that share a database announce them to each other.

A node writes the records that it locks into `held`, each in a transaction of its own that waits for purges of the container which
are under way. A purge reads that table after it has made such transactions wait, and leaves out the records of other nodes. So
either the purge sees the hold, or the transaction, which reads the record after that, sees the purge.

    locking node                                 purging node
    shared advisory lock of the container        exclusive advisory lock of the container
    INSERT INTO held; COMMIT                     SELECT FROM held
    read the record                              DELETE; COMMIT

The holds of a node go with its row in `node`.

While a node is alone it does not announce its holds. A node that joins does not purge before the first one has announced them
(`membership`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import asyncpg

from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Identity
from mayflydb.store.interface import MAX_HELD, CatalogRow, HeldRecords
from mayflydb.store.postgres.connection import (
    CONNECTION_LOST,
    DATABASE_ERRORS,
    DEADLINE,
    RETRYABLE,
    STATEMENT_TIMEOUT_MS,
    pause,
    retry_delay,
    translate_error,
)
from mayflydb.store.postgres.membership import Membership
from mayflydb.store.postgres.reads import LOCK_ROW, Connection, row_of

log = logging.getLogger(__name__)

MAX_HELD_BYTES: Final = 16 << 20
"""The most bytes of identities that a purge leaves out."""

ATTEMPTS: Final = 5
RETRY: Final = 1.0
SETTLE_SECONDS: Final = 2 * STATEMENT_TIMEOUT_MS / 1000
"""Seconds after which a statement whose answer was lost has been carried out, or never will be."""

ROWS_PER_STATEMENT: Final = 5_000
"""The most rows that a statement writes or removes."""

_LOCKS: Final = 0x6D62 << 48
"""The base of the advisory locks of purged containers: a prefix of 16 bits (0x6D62), then the id of the container."""

_ANNOUNCE = (
    "INSERT INTO mayfly.held(node, number, container, partition, key) SELECT $1, $2, $3, $4, $5"
    " FROM pg_advisory_xact_lock_shared($6) ON CONFLICT DO NOTHING"
)
_ANNOUNCE_SEVERAL = (
    "INSERT INTO mayfly.held(node, number, container, partition, key)"
    " SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[]) ON CONFLICT DO NOTHING"
)
_DELETE_HOLDS = "DELETE FROM mayfly.held WHERE node = $1 AND number = ANY($2::bigint[])"
_BLOCK_NEW_HOLDS = "SELECT pg_advisory_xact_lock($2) FROM mayfly.node WHERE id = $1 FOR KEY SHARE"
_LOCK_AND_BLOCK = (
    f"WITH locked AS MATERIALIZED ({LOCK_ROW.format('$3')}), blocked AS MATERIALIZED (SELECT pg_advisory_xact_lock($2)"
    " FROM locked, mayfly.node WHERE node.id = $1 FOR KEY SHARE OF node)"
    " SELECT locked.*, (SELECT count(*) FROM blocked) FROM locked"
)
_STAND = "SELECT 1 FROM mayfly.node WHERE id = $1 FOR KEY SHARE"
_HELD = (
    "WITH found AS (SELECT partition, key FROM mayfly.held WHERE container = $1 AND node <> $2 LIMIT $3 + 1),"
    " size AS (SELECT count(*) <= $3 AND coalesce(sum(octet_length(partition) + octet_length(key)), 0) <= $4 AS fits"
    " FROM found) SELECT {} fits, partition, key FROM size LEFT JOIN found ON fits"
)


class Hold(NamedTuple):
    """A locked record. `told`: the hold is announced, or about to be."""

    container: int
    identity: Identity
    told: bool


class Holds:
    """The records that this node holds, and those that other nodes hold."""

    def __init__(self, pool: asyncpg.Pool, membership: Membership) -> None:
        self._pool = pool
        self._membership = membership
        self._last = 0
        self._places: dict[int, Hold] = {}
        self._unannounced: dict[int, None] = {}
        self._released: set[int] = set()
        self._uncertain: set[int] = set()
        """Numbers whose row may still be written, although the statement failed here."""

        self._writing = asyncio.Lock()
        self._cleaning: asyncio.Task[None] | None = None
        membership.tell = self._announce_some
        membership.on_forgotten = self._forget_holds

    # --- of this node ------------------------------------------------------------------------------------------------

    async def hold(self, container: int, identity: Identity) -> int:
        """Hold a record, as `interface.Holds.hold`."""
        node = self._membership.node
        self._last = number = self._last + 1
        place = self._places[number] = Hold(container, identity, self._membership.has_others)
        if not place.told:
            self._unannounced[number] = None
            return number
        try:
            await self._write(node, number, place)
        except BaseException:
            # The row may have been written although its answer was lost; `_clean` removes it later.
            self._uncertain.add(number)
            self.release([number])
            raise
        return number

    async def _write(self, node: int, number: int, place: Hold) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._pool.acquire(timeout=DEADLINE) as connection:
                    await connection.execute(
                        _ANNOUNCE, node, number, place.container, *place.identity, _LOCKS + place.container
                    )
                return
            except DATABASE_ERRORS as error:
                if attempt == ATTEMPTS or not isinstance(error, (*RETRYABLE, *CONNECTION_LOST)):
                    raise translate_error(error) from error
                await pause(retry_delay(attempt))

    def release(self, numbers: Iterable[int]) -> None:
        """End these holds, as `interface.Holds.release`."""
        for number in numbers:
            place = self._places.pop(number, None)
            self._unannounced.pop(number, None)
            if place is not None and place.told:
                self._released.add(number)
        if self._released and self._cleaning is None:
            self._cleaning = asyncio.create_task(self._clean(), name="holds")

    async def _clean(self) -> None:
        try:
            while self._released or self._uncertain:
                if not self._released:
                    # A lost INSERT may still be under way. A DELETE before it would remove nothing, and the row would stay.
                    await pause(SETTLE_SECONDS)
                await self._remove_some()
        finally:
            self._cleaning = None

    async def _remove_some(self) -> None:
        gone = list(islice(self._released, ROWS_PER_STATEMENT))
        doubtful = [] if gone else [number for number in self._uncertain if number not in self._places]
        try:
            async with self._writing, self._pool.acquire(timeout=DEADLINE) as connection:
                await connection.execute(_DELETE_HOLDS, self._membership.node, [*gone, *doubtful])
        except (Unavailable, *DATABASE_ERRORS) as error:
            log.info("locks that were released are still in the database: %s", error)
            await pause(RETRY)
            return
        self._released.difference_update(gone)
        self._uncertain.difference_update(doubtful)

    async def _announce_some(self) -> bool:
        """Announce some of the holds that other nodes do not know; True if none is left."""
        # One writer at a time: a release meanwhile must not delete a row before it is inserted.
        async with self._writing:
            told = {
                number: self._places[number]._replace(told=True)
                for number in islice(self._unannounced, ROWS_PER_STATEMENT)
            }
            self._places.update(told)
            for number in told:
                del self._unannounced[number]
            try:
                await self._write_all(told)
            except BaseException:
                self._uncertain.update(told)
                self._unannounced.update(dict.fromkeys(number for number in told if number in self._places))
                raise
        return not self._unannounced

    async def _write_all(self, places: Mapping[int, Hold]) -> None:
        containers = [place.container for place in places.values()]
        partitions = [place.identity[0] for place in places.values()]
        keys = [place.identity[1] for place in places.values()]
        if places:
            async with self._pool.acquire(timeout=DEADLINE) as connection:
                node = self._membership.node
                await connection.execute(_ANNOUNCE_SEVERAL, node, list(places), containers, partitions, keys)

    def _forget_holds(self) -> None:
        self._places.clear()
        self._unannounced.clear()
        self._released.clear()
        self._uncertain.clear()

    async def close(self) -> None:
        """Stop. The holds that are left go with the node's row."""
        if self._cleaning is not None:
            self._cleaning.cancel()
            await asyncio.wait([self._cleaning])

    # --- in write transactions ---------------------------------------------------------------------------------------

    async def stand(self, connection: Connection, numbers: Iterable[int]) -> bool:
        """True if this node has held these records all the time, and holds them until the transaction of the connection ends."""
        # FOR KEY SHARE keeps the node's row, and the holds that go with it, until this transaction has committed.
        if not await connection.fetchval(_STAND, self._membership.node):
            return False
        return all(number in self._places for number in numbers)

    async def block_new_holds(self, connection: Connection, container: int) -> None:
        """Keep all nodes from holding records of the container until the transaction of the connection ends.

        Unavailable if other nodes may have holds that are not announced.
        """
        node = self._membership.node
        if not self._membership.is_known or not await connection.fetch(_BLOCK_NEW_HOLDS, node, _LOCKS + container):
            raise Unavailable("another node does not know of this one yet")

    async def lock_and_block(self, connection: Connection, container: int) -> CatalogRow | None:
        """Lock a container, then do as `block_new_holds`. Return its row; None, and nothing is locked, if it is gone."""
        node = self._membership.node
        row = await connection.fetchrow(_LOCK_AND_BLOCK, node, _LOCKS + container, container)
        if row is not None and not (self._membership.is_known and row[-1]):
            raise Unavailable("another node does not know of this one yet")
        return None if row is None else row_of(row[:-1])

    @property
    def has_others(self) -> bool:
        """True if there may be other nodes."""
        return self._membership.has_others

    # --- of other nodes ----------------------------------------------------------------------------------------------

    async def read_held(self, connection: Connection, request: HeldRecords) -> tuple[Identity, ...] | None:
        """Answer `HeldRecords`."""
        return (await self.read_held_with(connection, request, ()))[0]

    async def read_held_with(
        self, connection: Connection, request: HeldRecords, more: Sequence[str]
    ) -> tuple[tuple[Identity, ...] | None, tuple[Any, ...]]:
        """Answer `HeldRecords`, and further queries for one value each about the same container ($1)."""
        statement = _HELD.format("".join(f"({query})," for query in more))
        rows = await connection.fetch(statement, request.container, self._membership.node, MAX_HELD, MAX_HELD_BYTES)
        *values, fits, _, _ = rows[0]
        held = tuple((row[-2], row[-1]) for row in rows if row[-1] is not None)
        return (held if fits else None), tuple(values)
