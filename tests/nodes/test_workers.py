"""On Citus: what belongs together lies together, one partition is one worker's, and workers that are cut off lose nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import Any
from unittest.mock import patch

import asyncpg
import pytest

from citus import Citus
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Get, Outcome, Put, Scan
from mayflydb.store.postgres import PostgresStore, writer
from mayflydb.store.postgres.citus import DISTRIBUTED
from nodes.crew import container, crew, since
from nodes.test_cuts import Load, loaded, more
from store_suite.test_migrations import TO_FORMAT_2

CUTS, PER_CUT = 25, 10
PATIENCE = 15
"""Seconds; less than a statement may take, after which the group would be run again on a new connection."""

MOVED = 120
"""Writes at least, while a shard moves; of three writes of a record the last deletes it."""

_MOVE = "SELECT citus_move_shard_placement($1, $2, $3, $4, $5, shard_transfer_mode => 'auto')"

# What the coordinator's processes have open on a worker, but for the one that asks.
_CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'citus_internal%' AND pid <> pg_backend_pid()"
)


@pytest.fixture(params=["citus"])
def databases(request: pytest.FixtureRequest, citus_cluster: Citus) -> Citus:
    """The parameter only says on which store these tests are."""
    return citus_cluster


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def test_what_belongs_together_lies_together(databases: Citus) -> None:
    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 1), connected(url) as connection:
            rows = await connection.fetch(
                "SELECT table_name::text, colocation_id, distribution_column, shard_count FROM citus_tables"
                " WHERE citus_table_type = 'distributed'"
            )
            assert {row[0].removeprefix("mayfly.") for row in rows} == set(DISTRIBUTED)
            assert len({tuple(row)[1:] for row in rows}) == 1 and rows[0][2] == "hash" and rows[0][3] > 1
            workers = "SELECT count(DISTINCT nodename || nodeport) FROM citus_shards"
            assert await connection.fetchval(workers) > 1

    asyncio.run(check())


def test_what_a_newer_format_adds_is_spread_too(databases: Citus) -> None:
    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 1) as (member,):
            id, now = await container(member), await member.engine.now()
            record = (await member.engine.write(id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), now)).record
        async with connected(url) as connection:
            for statement in filter(str.strip, TO_FORMAT_2.split(";\n")):
                await connection.execute(statement)
        async with crew(url, 1) as (member,), connected(url) as connection:
            spread = await connection.fetch(
                "SELECT table_name::text FROM citus_tables WHERE citus_table_type = 'distributed'"
            )
            assert {row[0].removeprefix("mayfly.") for row in spread} == set(DISTRIBUTED)
            assert await member.store.read(Get(id, b"p", b"k")) == record

    asyncio.run(check())


Asked = list[tuple[str, tuple[Any, ...]]]
"""Statements and their arguments."""


@contextmanager
def watched() -> Iterator[Asked]:
    """What is asked meanwhile."""
    asked: Asked = []

    async def fetch(self: Any, statement: str, *arguments: Any, **named: Any) -> Any:
        asked.append((statement, arguments))
        return await ordinary(self, statement, *arguments, **named)

    ordinary = asyncpg.Connection.fetch
    with patch.object(asyncpg.Connection, "fetch", fetch):
        yield asked


async def tasks(connection: asyncpg.Connection, asked: Asked) -> list[int]:
    """How many shards each of these statements asks."""
    counts = []
    for statement, arguments in asked:
        # EXPLAIN takes no array as a parameter of a plan that is to be cut down to the shards; a literal is the same to it.
        for n, argument in reversed(list(enumerate(arguments, 1))):
            statement = statement.replace(f"${n}", await literal(connection, argument))
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN {statement}")]
        counts += [int(line.rpartition(":")[2]) for line in plan if "Task Count" in line]
    return counts


async def literal(connection: asyncpg.Connection, value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{','.join([await literal(connection, each) for each in value])}]"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    return "NULL" if value is None else f"'{value}'"


def test_one_partition_asks_one_worker(databases: Citus) -> None:
    """Reads and writes of records by identity, and pages of one partition; many partitions ask many."""

    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 1) as (member,), connected(url) as connection:
            id = await container(member)
            with watched() as single:
                await member.store.read(Get(id, b"p", b"k"))
                await member.store.read(Scan(id, b"p", b"p\0", Order.HASHED, None, 10))
            with watched() as many:
                await asyncio.gather(*(member.store.read(Get(id, b"p%d" % n, b"k")) for n in range(32)))
                await member.store.read(Scan(id, b"", None, Order.HASHED, None, 10))
            assert set(await tasks(connection, single)) == {1}
            assert max(await tasks(connection, many)) > 1

    asyncio.run(check())


def test_entries_lie_with_their_record(databases: Citus) -> None:
    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 1) as (member,), connected(url) as connection:
            id = await container(member)
            partitions = [b"%08d" % n for n in range(40)]
            changes = [
                Put(id, Record(partition, b"k", b"v", 0, 0, None, n, n), True, (Entry(1, b"e%d" % n),))
                for n, partition in enumerate(partitions, 1)
            ]

            def decide() -> Any:
                yield from ()
                return Outcome(changes=tuple(changes), reply=None)

            await member.store.write(decide)
            joined = (
                "SELECT count(*) FROM mayfly.record r JOIN mayfly.entry e"
                " ON e.hash = r.hash AND e.container = r.container AND e.record = r.seq"
            )
            assert await connection.fetchval(joined) == len(partitions)

    asyncio.run(check())


def test_shards_move_while_records_come_and_go(databases: Citus) -> None:
    """As `citus_rebalance_start` moves them: with all tables, and in the background of reads and writes."""

    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 1) as (member,), connected(databases.watching(url)) as watch:
            id = await container(member)
            shard, *place = await watch.fetchrow(
                "SELECT shardid, nodename, nodeport FROM citus_shards WHERE table_name = 'mayfly.record'::regclass LIMIT 1"
            )
            other = await watch.fetchrow(
                "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 AND (nodename, nodeport) <> ($1, $2) LIMIT 1",
                *place,
            )
            moved = asyncio.create_task(watch.execute(_MOVE, shard, *place, *other))
            n = 0
            while not (n >= MOVED and moved.done()):
                mode = (Mode.UPSERT, Mode.DELETE)[n % 3 == 2]
                command = Command(mode, b"%08d" % (n // 3), b"k", Draft(b"v", entries=(Entry(1, b"e%d" % n),)))
                await member.engine.write(id, command, 0)
                n += 1
            await moved
            kept = await member.store.read(Scan(id, b"", None, Order.CREATED, None, n))
            assert kept == []
            for table in DISTRIBUTED[:2]:
                assert await watch.fetchval(f"SELECT count(*) FROM mayfly.{table}") == 0

    asyncio.run(check())


def test_a_worker_is_no_place_to_connect_to(databases: Citus) -> None:
    async def check() -> None:
        url = databases.fresh()
        async with connected(url) as connection:
            host, port = await connection.fetchrow(
                "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 LIMIT 1"
            )
        with pytest.raises(Unavailable, match="coordinator"):
            await PostgresStore.open(at_worker(url, host, port))

    asyncio.run(check())


def test_nothing_is_lost_with_the_workers_connections(
    seed: int, databases: Citus, figure: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """They are cut at any moment, between the two phases of a commit too: what was answered is there, what was read stays."""
    caplog.set_level(logging.WARNING, logger=writer.__name__)

    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 2) as members, connected(databases.watching(url)) as watch:
            id = await container(members[0])
            load = Load(members, id, seed)
            cut = 0

            async def trouble() -> None:
                nonlocal cut
                for _ in range(CUTS):
                    await more(load, PER_CUT)
                    answers = await watch.fetch("SELECT success, result FROM run_command_on_workers($1)", _CUT)
                    cut += sum(int(result) for success, result in answers if success)

            await loaded(load, trouble)
            assert load.tally["written"] >= CUTS * PER_CUT and cut >= CUTS
            after: Position | None = None
            changes = []
            while page := await members[1].store.read(Scan(id, b"", None, Order.CHANGED, after, 3)):
                changes += page
                after = Position(page[-1].partition, page[-1].lsn)
            assert len({record.lsn for record in changes}) == len(changes)
            unfinished = sum("not finished" in record.message for record in caplog.records)
            figure(f"{CUTS} times {cut} connections cut, {unfinished} commits unfinished for a while: {load.report()}")

    asyncio.run(check())


def test_what_an_undone_group_has_left_prepared_keeps_no_node_waiting(
    databases: Citus, figure: Callable[[str], None]
) -> None:
    """A worker that ends before it is told to undo a group comes back with its locks, of which no node is told."""

    async def check() -> None:
        url = databases.fresh()
        async with crew(url, 2) as members, connected(databases.watching(url)) as watch:
            id = await container(members[0])
            await members[0].engine.write(id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), 0)
            shards = await watch.fetch(
                "SELECT shardid, nodename, nodeport FROM citus_shards WHERE table_name = 'mayfly.record'::regclass"
            )
            async with AsyncExitStack() as stack:
                for shard, *place in shards:
                    await stack.enter_async_context(prepared(at_worker(url, *place), shard))
                began = monotonic()
                async with asyncio.timeout(PATIENCE):
                    for member in members:
                        await member.engine.write(id, Command(Mode.UPSERT, b"p", b"k", Draft(b"w")), 0)
                figure(f"writes waited {since(began):.1f} s")

    with patch.object(writer, "RECOVERY_SECONDS", 0.2):
        asyncio.run(check())


@asynccontextmanager
async def prepared(url: str, shard: int) -> AsyncIterator[None]:
    """A transaction on a worker that has locked the records of a shard; the coordinator has no process of its name."""
    name = f"citus_0_{2**22 + os.getpid()}_{shard}_0"
    async with connected(url) as worker:
        await worker.execute(f"BEGIN; SELECT * FROM mayfly.record_{shard} FOR UPDATE; PREPARE TRANSACTION '{name}'")
        try:
            yield
        finally:
            # Where the test fails: no database can be dropped that has one.
            with suppress(asyncpg.UndefinedObjectError):
                await worker.execute(f"ROLLBACK PREPARED '{name}'")


def at_worker(url: str, host: str, port: int) -> str:
    """The URL of the same database on a worker, for the same role."""
    place, _, database = url.rpartition("/")
    return f"{place.rpartition('@')[0]}@{host}:{port}/{database}"
