"""The tables of a database are created, or migrated from each format to the next: completely, in one transaction, or not
at all.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import asyncpg

from mayflydb.model.errors import Unavailable
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.store.postgres import citus
from mayflydb.store.postgres.connection import DATABASE_ERRORS
from mayflydb.store.postgres.membership import LEASE, LIVE
from mayflydb.store.postgres.schema import ENTRY_IDENTITY, FORMAT, HELD, HISTORY, NODE_PROCESS, TABLES

log = logging.getLogger(__name__)

# The first eight bytes of a partition, as `rows.hash_number` reads them.
_HASH = (
    "('x' || encode(substring(partition || decode('0000000000000000', 'hex') FROM 1 FOR 8), 'hex'))::bit(64)::bigint"
    " # (-9223372036854775808)::bigint"
)

MIGRATIONS = {
    1: f"""
ALTER TABLE mayfly.record DROP CONSTRAINT record_pkey, ADD PRIMARY KEY(container, seq, hash);
ALTER TABLE mayfly.entry ADD COLUMN hash bigint;
UPDATE mayfly.entry e SET hash = r.hash FROM mayfly.record r WHERE r.container = e.container AND r.seq = e.record;
ALTER TABLE mayfly.entry ALTER COLUMN hash SET NOT NULL;
ALTER TABLE mayfly.expiry ADD COLUMN hash bigint;
UPDATE mayfly.expiry SET hash = {_HASH};
ALTER TABLE mayfly.expiry ALTER COLUMN hash SET NOT NULL;
ALTER TABLE mayfly.expiry DROP CONSTRAINT expiry_pkey, ADD PRIMARY KEY(id, hash);
ALTER TABLE mayfly.expiry DROP CONSTRAINT expiry_container_version_key, ADD UNIQUE(container, version, hash);
""",
    2: f"{HISTORY}CREATE INDEX entry_range ON mayfly.entry(container, number, key, record)"
    f" WHERE number >= {FIRST_ORDERED}",
    # The format with dates in `exact_anchor`. The tables are the same; older versions must not use them.
    3: "SELECT 1",
    4: f"ALTER TABLE mayfly.node ADD COLUMN knows bigint NOT NULL DEFAULT 0; {HELD}",
    5: f"{ENTRY_IDENTITY} {NODE_PROCESS}",
}
"""Format -> the statements that make it the next format."""

_PREPARING = 0x6D61_7966_6C79
"""The advisory lock under which one node creates or migrates the tables while others wait."""

_STILL_THERE = f"SELECT EXISTS (SELECT 1 FROM mayfly.node WHERE {LIVE.format('$1')})"
_UNUSED = (
    "SELECT NOT EXISTS (SELECT 1 FROM mayfly.record) AND NOT EXISTS (SELECT 1 FROM mayfly.expiry)"
    " AND NOT EXISTS (SELECT 1 FROM mayfly.history)"
)

_LONGEST = 86_400.0
"""The most seconds that a step may take."""


async def prepare(connection: asyncpg.Connection) -> bool:
    """Create the tables of an empty database, or migrate those of an older format. Return True if they are distributed over
    workers.

    Errors: Unavailable for tables of a newer version, and for older ones that other nodes use.
    """
    await connection.execute("SELECT pg_advisory_lock($1)", _PREPARING)
    try:
        return await _prepare(connection)
    finally:
        # A pooler may keep the connection. Where it is lost, so is the lock.
        with suppress(*DATABASE_ERRORS):
            await connection.execute("SELECT pg_advisory_unlock($1)", _PREPARING)


async def _prepare(connection: asyncpg.Connection) -> bool:
    spread = await citus.is_installed(connection)
    async with connection.transaction():
        if await connection.fetchval("SELECT to_regclass('mayfly.meta')") is None:
            await connection.execute(TABLES)
        version = await connection.fetchval("SELECT value FROM mayfly.meta WHERE name = 'format'")
        if version is None or version > FORMAT:
            raise Unavailable(f"the database has format {version}; this version of Mayfly reads formats up to {FORMAT}")
        if version < FORMAT:
            await _migrate(connection, version)
    if spread and await _may_spread(connection):
        await citus.distribute(connection)
    if not spread or not await citus.has_distributed_records(connection):
        return False
    if not await citus.is_distributed(connection):
        raise Unavailable("the tables are not all distributed yet: stop every node, then start one, which finishes it")
    return True


async def _may_spread(connection: asyncpg.Connection) -> bool:
    """True if tables may be distributed: in an unused database, or where a step has added tables to distributed ones."""
    if not (await connection.fetchval(_UNUSED) or await citus.has_distributed_records(connection)):
        return False
    return not await connection.fetchval(_STILL_THERE, LEASE)


async def _migrate(connection: asyncpg.Connection, version: int) -> None:
    # Running nodes would go on with the tables as they know them.
    if await connection.fetchval(_STILL_THERE, LEASE):
        raise Unavailable(
            f"the database has format {version} and other nodes use it: stop them, so that it can be brought to {FORMAT}"
        )
    # A step rewrites whole tables; the limit of an ordinary statement would end it halfway, at each start again.
    await connection.execute("SET LOCAL statement_timeout = 0")
    for step in range(version, FORMAT):
        log.warning("the database is brought from format %d to %d", step, step + 1)
        # One by one: Citus sends the text of a call to its workers as one statement.
        for statement in filter(str.strip, MIGRATIONS[step].split(";")):
            await connection.execute(statement, timeout=_LONGEST)
    await connection.execute(f"UPDATE mayfly.meta SET value = {FORMAT} WHERE name = 'format'")
