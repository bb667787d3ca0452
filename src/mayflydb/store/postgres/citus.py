"""Citus: records, entries, expiry events and histories lie on workers, by their partition; all else stays on the coordinator.

A group of writes that meets several workers is committed in two phases: prepared on all of them, decided by the coordinator's own
commit, then committed on each. Between the last two the coordinator's row locks are free already while a worker still shows what
was there before. Advisory locks are not: PostgreSQL releases them after Citus is done. So whoever decides takes those as well.

Where a worker is cut off in that gap, its part is committed when it is back. The writer is told so, sees to it, and answers when
it is done. Whoever writes the same records meanwhile finds that they are not what he has read: he waits for the prepared
transaction, then his condition on the record's lsn, or the unique index, fails, and his group is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import asyncpg

from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Order
from mayflydb.store import interface
from mayflydb.store.postgres import reads

log = logging.getLogger(__name__)

DISTRIBUTED = ("record", "entry", "expiry", "history")

EVENTS = 0
"""The lock of those who number expiry events; containers count from one."""

_LOCKS = 0x6D61 << 48
"""Advisory locks of Mayfly begin here."""

# One record for an identity, whoever inserts it. A key may be longer than an index takes.
_UNIQUE = (
    "CREATE UNIQUE INDEX IF NOT EXISTS record_unique ON mayfly.record"
    "(container, hash, octet_length(partition), sha256(partition || key))"
)

_MAY_RECOVER = "SELECT has_function_privilege('pg_catalog.recover_prepared_transactions()', 'execute')"


async def is_installed(connection: asyncpg.Connection) -> bool:
    """Whether this database has the extension. Unavailable on a worker."""
    if not await connection.fetchval("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"):
        return False
    if await connection.fetchval("SELECT groupid <> 0 FROM pg_dist_local_group"):
        raise Unavailable(
            "this is a worker of Citus: nodes connect to the coordinator, whose locks keep their writes in order"
        )
    return True


async def distribute(connection: asyncpg.Connection) -> None:
    """Spread empty tables over the workers there are; those that come later get their share by rebalancing.

    Not in a transaction, where Citus wants to alter roles. What was interrupted goes on.
    """
    await connection.execute(_UNIQUE)
    done = await _spread(connection)
    for table in DISTRIBUTED:
        if table not in done:
            beside = "none" if table == DISTRIBUTED[0] else f"mayfly.{DISTRIBUTED[0]}"
            statement = "SELECT create_distributed_table($1::text::regclass, 'hash', colocate_with => $2)"
            await connection.execute(statement, f"mayfly.{table}", beside)


async def is_distributed(connection: asyncpg.Connection) -> bool:
    """Whether the tables are spread. They are not if they held records before the database had the extension."""
    return await _spread(connection) == set(DISTRIBUTED)


async def has_distributed_records(connection: asyncpg.Connection) -> bool:
    """Whether the records are spread, whatever else is."""
    return DISTRIBUTED[0] in await _spread(connection)


async def _spread(connection: asyncpg.Connection) -> set[str]:
    statement = (
        "SELECT c.relname FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
        " WHERE c.relnamespace = 'mayfly'::regnamespace AND p.partmethod = 'h'"
    )
    return {row[0] for row in await connection.fetch(statement)}


async def check_workers(connection: asyncpg.Connection, settings: Iterable[str]) -> None:
    """Unavailable if a worker has one of these settings off, or does not answer."""
    if not await connection.fetchval(_MAY_RECOVER):
        log.warning(
            "a worker that is cut off while it commits can keep writes waiting for a minute: to make it shorter,"
            " GRANT EXECUTE ON FUNCTION recover_prepared_transactions() TO this role"
        )
    for name in settings:
        answers = await connection.fetch(
            "SELECT nodename, nodeport, success, result FROM run_command_on_workers($1)", f"SHOW {name}"
        )
        for host, port, success, value in answers:
            if not success:
                raise Unavailable(f"the worker {host}:{port} does not answer: {value}")
            if value in ("off", "local"):
                raise Unavailable(f"the worker {host}:{port} has {name} = {value}: it would lose what it has committed")


async def lock(connection: Any, numbers: Iterable[int]) -> None:
    """Until this transaction is done on all workers nobody else has these containers (or EVENTS). In one order, always."""
    statement = "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key"
    await connection.execute(statement, [_LOCKS + number for number in sorted(numbers)])


async def recover(connection: Any) -> None:
    """Finish on all workers what was prepared there and committed here, if this role may. Else Citus does within a minute."""
    if await connection.fetchval(_MAY_RECOVER):
        await connection.execute("SELECT recover_prepared_transactions()")


async def has_finished(connection: Any, backend: int) -> bool:
    """Whether nothing that this process of the coordinator has prepared is left on any worker, as far as all of them can say."""
    await recover(connection)
    # Citus names what it prepares after the coordinator's group (0), this process and two running numbers.
    left = f"SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_0_{backend}_%'"
    answers = await connection.fetch("SELECT success, result FROM run_command_on_workers($1)", left)
    return all(success and result == "0" for success, result in answers)


_LAST_LSN = "SELECT lsn, pg_advisory_xact_lock_shared($2) FROM mayfly.catalog WHERE id = $1"
_LAST_EVENT = "SELECT value, pg_advisory_xact_lock_shared($1) FROM mayfly.meta WHERE name = 'events'"


async def answer(connection: Any, request: interface.Read[Any]) -> Any:
    """A read outside of decisions. What is read in the order of commits ends before the first that is under way.

    Else a reader could be shown one commit by the first worker, miss the one before on the second, and never come back for it.
    """
    if isinstance(request, interface.Scan) and request.order is Order.CHANGED:
        # The lock comes after the row was read: the lsn may be too low for the moment, but never too high.
        last = await connection.fetchval(_LAST_LSN, request.container, _LOCKS + request.container)
        return [record for record in await reads.answer(connection, request) if last is not None and record.lsn <= last]
    if isinstance(request, interface.History):
        last = await connection.fetchval(_LAST_LSN, request.container, _LOCKS + request.container)
        return [told for told in await reads.answer(connection, request) if last is not None and told.lsn <= last]
    if isinstance(request, interface.Expiries):
        last = await connection.fetchval(_LAST_EVENT, _LOCKS + EVENTS)
        return [event for event in await reads.answer(connection, request) if event.id <= last]
    return await reads.answer(connection, request)
