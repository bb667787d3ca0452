"""Tables of older formats are brought to this one in place; those of newer ones, or in use, are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.errors import Unavailable
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Entries, Expiries, Holders, Order, Purge, Put, Read, Scan
from mayflydb.store.postgres import PostgresStore, schema
from postgres_cluster import Cluster
from store_suite.subject import Subject

# What format 1 had been before format 2 put the hash of the partition into every key, and format 3 kept entries in order.
TO_FORMAT_1 = """
DROP INDEX mayfly.entry_range;
ALTER TABLE mayfly.record DROP CONSTRAINT record_pkey, ADD PRIMARY KEY(container, seq);
ALTER TABLE mayfly.entry DROP COLUMN hash;
ALTER TABLE mayfly.expiry DROP CONSTRAINT expiry_pkey, ADD PRIMARY KEY(id);
ALTER TABLE mayfly.expiry DROP CONSTRAINT expiry_container_version_hash_key, ADD UNIQUE(container, version);
ALTER TABLE mayfly.expiry DROP COLUMN hash;
UPDATE mayfly.meta SET value = 1 WHERE name = 'format';
"""
PARTITIONS = (b"", b"\0", b"p", b"\x7f" + b"\xff" * 7, b"\x80", b"\xff" * 20)


@pytest.fixture
def url(postgres: Cluster) -> Iterator[str]:
    url = postgres.fresh()
    yield url
    postgres.drop(url)


def opened(url: str, runner: asyncio.Runner) -> Subject:
    return Subject(runner.run(PostgresStore.open(url)), runner)


def filled(url: str, runner: asyncio.Runner) -> tuple[list[Read[Any]], list[Any]]:
    """Reads of a new store, closed again, and their answers."""
    store = opened(url, runner)
    container = store.container()
    records = [Record(p, b"k", b"v" * n, n, n, None, n, n) for n, p in enumerate(PARTITIONS, 1)]
    store.change(*(Put(container, record, True, (Entry(1, record.partition),)) for record in records))
    store.change(Purge(container, DuePath.ANCHOR, 2, 9, 1, None, "default", 1, 9, "sweep"))
    reads: list[Read[Any]] = [
        *(Scan(container, b"", None, order, None, 99) for order in Order),
        *(Holders(container, (Entry(1, partition),)) for partition in PARTITIONS),
        Entries(container, 0, 99),
        Expiries(None, 0, 99),
    ]
    answers = [store.read(read) for read in reads]
    assert [len(answer) for answer in answers[-2:]] == [4, 2]
    runner.run(store.store.close())
    return reads, answers


def sql(url: str, runner: asyncio.Runner, statement: str) -> list[tuple[object, ...]]:
    async def asked() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url)
        try:
            if statement.lstrip().startswith("SELECT"):
                return [tuple(row) for row in await connection.fetch(statement)]
            await connection.execute(statement)
            return []
        finally:
            await connection.close()

    return runner.run(asked())


def shape(url: str, runner: asyncio.Runner) -> set[tuple[object, ...]]:
    """Columns and indexes."""
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_schema = 'mayfly'"
    )
    indexes = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'mayfly'"
    return {*sql(url, runner, columns), *sql(url, runner, indexes)}


def test_from_format_1(url: str, runner: asyncio.Runner) -> None:
    reads, answers = filled(url, runner)
    new = shape(url, runner)
    sql(url, runner, TO_FORMAT_1)
    assert shape(url, runner) != new
    store = opened(url, runner)
    assert shape(url, runner) == new
    assert sql(url, runner, "SELECT value FROM mayfly.meta WHERE name = 'format'") == [(schema.FORMAT,)]
    assert [store.read(read) for read in reads] == answers
    runner.run(store.store.close())


def test_not_while_other_nodes_are_there(url: str, runner: asyncio.Runner) -> None:
    filled(url, runner)
    sql(url, runner, TO_FORMAT_1)
    old = shape(url, runner)
    sql(url, runner, "INSERT INTO mayfly.node(seen, catalog, alone) VALUES (clock_timestamp(), 0, false)")
    with pytest.raises(Unavailable, match="other nodes use it"):
        opened(url, runner)
    assert shape(url, runner) == old


def test_a_step_that_fails_changes_nothing(url: str, runner: asyncio.Runner) -> None:
    filled(url, runner)
    sql(url, runner, TO_FORMAT_1)
    # An entry without a record has no partition.
    sql(url, runner, "INSERT INTO mayfly.entry(container, record, number, digest, key) VALUES (99, 99, 1, 1, '')")
    old = shape(url, runner)
    with pytest.raises(Unavailable, match="null"):
        opened(url, runner)
    assert shape(url, runner) == old
    assert sql(url, runner, "SELECT value FROM mayfly.meta WHERE name = 'format'") == [(1,)]


def test_a_newer_format_is_refused(url: str, runner: asyncio.Runner) -> None:
    filled(url, runner)
    sql(url, runner, f"UPDATE mayfly.meta SET value = {schema.FORMAT + 1} WHERE name = 'format'")
    with pytest.raises(Unavailable, match=f"format {schema.FORMAT + 1}"):
        opened(url, runner)
