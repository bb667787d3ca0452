"""Citus: records, entries, expiry events and histories lie on workers, by their partition; all other tables on the coordinator.

A group of writes is committed in two phases: prepared on the workers that it touches, decided by the coordinator's own commit,
then committed on each. By itself Citus commits at once on a single worker, before the coordinator, whose own tables it does not
count: the group's marker, the lsns and the numbers of events could be lost, while the records are changed. So the table of
markers, which each group changes, is one that Citus counts.

Between the last two phases, the coordinator's row locks are free already while a worker still shows the state before. Advisory
locks are not free yet: PostgreSQL releases them after Citus is done. So a writer takes those as well.

If a worker is cut off in that gap, its part is committed when it is back. Citus warns the writer, which waits for this commit
before it answers; so does a writer whose own connection ends in the gap. A later writer of the same records finds that they are
not as it has read them: it waits for the prepared transaction, then its condition on the lsn, or the unique index, fails,
and its group is run again. A worker that ends before it is told to undo its part comes back with the locks of that part, and
nothing warns of it: a group that takes longer than a second has them removed (`writer`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Order
from mayflydb.store import interface
from mayflydb.store.postgres import reads

log = logging.getLogger(__name__)

DISTRIBUTED = ("record", "entry", "expiry", "history")

COUNTED = "outcome"
"""A table on the coordinator in the metadata of Citus: a transaction that changes it has two phases.

https://docs.citusdata.com/en/stable/develop/api_udf.html#citus-add-local-table-to-metadata
"""

EVENTS = 0
"""The number of the lock for allocating ids of expiry events; containers count from one."""

_LOCKS = 0x6D61 << 48
"""The base of the advisory locks: a prefix of 16 bits (0x6D61), then the id of the container."""

# One record for an identity, also where two nodes insert it in the gap. Hashed, since a key may be longer than an index takes.
_UNIQUE = (
    "CREATE UNIQUE INDEX IF NOT EXISTS record_unique ON mayfly.record"
    "(container, hash, octet_length(partition), sha256(partition || key))"
)

_IS_COUNTED = f"SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'mayfly.{COUNTED}'::regclass)"
_HAS_COORDINATOR = "SELECT EXISTS (SELECT 1 FROM pg_dist_node WHERE groupid = 0)"
_MAY_RECOVER = "SELECT has_function_privilege('pg_catalog.recover_prepared_transactions()', 'execute')"


async def is_installed(connection: asyncpg.Connection) -> bool:
    """Return True if this database has the extension. Unavailable on a worker."""
    if not await connection.fetchval("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"):
        return False
    if await connection.fetchval("SELECT groupid <> 0 FROM pg_dist_local_group"):
        raise Unavailable(
            "this is a worker of Citus: nodes connect to the coordinator, whose locks keep their writes in order"
        )
    return True


async def distribute(connection: asyncpg.Connection) -> None:
    """Distribute empty tables over the present workers; workers that are added later get their share by rebalancing.

    Not in a transaction, in which Citus refuses to alter roles. A call that was interrupted can be repeated.
    """
    await connection.execute(_UNIQUE)
    done = await _spread(connection)
    for table in DISTRIBUTED:
        if table not in done:
            beside = "none" if table == DISTRIBUTED[0] else f"mayfly.{DISTRIBUTED[0]}"
            statement = "SELECT create_distributed_table($1::text::regclass, 'hash', colocate_with => $2)"
            await connection.execute(statement, f"mayfly.{table}", beside)
    if not await connection.fetchval(_IS_COUNTED):
        if not await connection.fetchval(_HAS_COORDINATOR):
            raise Unavailable(
                "Citus does not know its coordinator: SELECT citus_set_coordinator_host('host', port) there"
            )
        await connection.execute("SELECT citus_add_local_table_to_metadata($1::text::regclass)", f"mayfly.{COUNTED}")


async def is_distributed(connection: asyncpg.Connection) -> bool:
    """Return True if all tables are where Citus is to have them."""
    return await _spread(connection) == set(DISTRIBUTED) and await connection.fetchval(_IS_COUNTED)


async def has_distributed_records(connection: asyncpg.Connection) -> bool:
    """Return True if the table of records is distributed. It is not if it held records before the database had the extension."""
    return DISTRIBUTED[0] in await _spread(connection)


async def _spread(connection: asyncpg.Connection) -> set[str]:
    statement = (
        "SELECT c.relname FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
        " WHERE c.relnamespace = 'mayfly'::regnamespace AND p.partmethod = 'h'"
    )
    return {row[0] for row in await connection.fetch(statement)}


async def check_workers(connection: asyncpg.Connection, settings: Iterable[str]) -> None:
    """Raise Unavailable if a worker has one of these settings off, or does not answer."""
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


async def lock(connection: Any, numbers: Sequence[int], wait: bool = True) -> None:
    """Lock these containers (or EVENTS), in this order, until this transaction is committed on all workers.

    Without `wait`: LockNotAvailableError of the driver if another transaction has one of them.
    """
    keys = [_LOCKS + number for number in numbers]
    if wait:
        await connection.execute("SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key", keys)
    elif not await connection.fetchval(
        "SELECT bool_and(pg_try_advisory_xact_lock(key)) FROM unnest($1::bigint[]) AS key", keys
    ):
        raise asyncpg.LockNotAvailableError("another transaction has the advisory lock")


async def recover(connection: Any) -> None:
    """Finish on all workers the transactions that are prepared there and committed here, if this role may; else Citus does within
    a minute.
    """
    if await connection.fetchval(_MAY_RECOVER):
        await connection.execute("SELECT recover_prepared_transactions()")


async def has_finished(connection: Any, backend: int) -> bool:
    """Return True if all workers answer that no transaction is left which this process of the coordinator has prepared."""
    await recover(connection)
    # Citus names what it prepares after the coordinator's group (0), this process and two running numbers.
    left = f"SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_0_{backend}_%'"
    answers = await connection.fetch("SELECT success, result FROM run_command_on_workers($1)", left)
    return all(success and result == "0" for success, result in answers)


_LAST_LSN = "SELECT lsn, pg_advisory_xact_lock_shared($2) FROM mayfly.catalog WHERE id = $1"
_LAST_EVENT = "SELECT value, pg_advisory_xact_lock_shared($1) FROM mayfly.meta WHERE name = 'events'"


async def answer(connection: Any, request: interface.Read[Any]) -> Any:
    """Answer a read outside of decisions. Reads in the order of commits end before the first commit that is under way.

    Otherwise a reader could see a commit on the first worker, miss the one before it on the second, and never come back for it.
    """
    if isinstance(request, interface.Scan) and request.order is Order.CHANGED:
        # The row is read before the lock is granted, so all commits up to this lsn are finished. The lsn may be too low, never
        # too high.
        last = await connection.fetchval(_LAST_LSN, request.container, _LOCKS + request.container)
        return [record for record in await reads.answer(connection, request) if last is not None and record.lsn <= last]
    if isinstance(request, interface.History):
        last = await connection.fetchval(_LAST_LSN, request.container, _LOCKS + request.container)
        return [told for told in await reads.answer(connection, request) if last is not None and told.lsn <= last]
    if isinstance(request, interface.Expiries):
        last = await connection.fetchval(_LAST_EVENT, _LOCKS + EVENTS)
        return [event for event in await reads.answer(connection, request) if event.id <= last]
    return await reads.answer(connection, request)
