"""Tables of older formats are brought to this one in place; those of newer ones, or in use, are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.errors import Unavailable
from mayflydb.model.order import Order
from mayflydb.model.record import Entry, Kind, Record, Version
from mayflydb.store.interface import AddVersion, Entries, EntryOwners, Expiries, History, Purge, Put, Read, Scan
from mayflydb.store.postgres import PostgresStore, schema
from mayflydb.store.sqlite import page_checksums
from mayflydb.store.sqlite import schema as sqlite_schema
from mayflydb.store.sqlite.store import SqliteStore
from postgres_cluster import Cluster
from store_suite.subject import Subject
from store_suite.test_directory import TO_FORMAT_4 as FILE_TO_FORMAT_4

# Format 6 brought names for rows of entries, by which others may replicate them, and for the processes of nodes.
TO_FORMAT_5 = """
ALTER TABLE mayfly.entry REPLICA IDENTITY DEFAULT;
ALTER TABLE mayfly.node DROP COLUMN process, DROP COLUMN session;
UPDATE mayfly.meta SET value = 5 WHERE name = 'format';
"""

# Format 5 brought what open transactions hold.
TO_FORMAT_4 = f"""
{TO_FORMAT_5}
DROP TABLE mayfly.held;
ALTER TABLE mayfly.node DROP COLUMN knows;
UPDATE mayfly.meta SET value = 4 WHERE name = 'format';
"""

# Format 4 brought dates, in the same tables.
TO_FORMAT_3 = f"""
{TO_FORMAT_4}
UPDATE mayfly.meta SET value = 3 WHERE name = 'format';
"""

# Format 3 brought histories, and entries in order.
TO_FORMAT_2 = f"""
{TO_FORMAT_3}
DROP TABLE mayfly.history;
DROP INDEX mayfly.entry_range;
UPDATE mayfly.meta SET value = 2 WHERE name = 'format';
"""

# Format 2 put the hash of the partition into every key.
TO_FORMAT_1 = f"""
{TO_FORMAT_2}
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
        *(EntryOwners(container, (Entry(1, partition),)) for partition in PARTITIONS),
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
    identities = "SELECT relname, relreplident::text FROM pg_class WHERE relnamespace = 'mayfly'::regnamespace"
    return {*sql(url, runner, columns), *sql(url, runner, indexes), *sql(url, runner, identities)}


@pytest.mark.parametrize("back", [TO_FORMAT_1, TO_FORMAT_2, TO_FORMAT_3, TO_FORMAT_4, TO_FORMAT_5])
def test_from_older_formats(url: str, runner: asyncio.Runner, back: str) -> None:
    reads, answers = filled(url, runner)
    new = shape(url, runner)
    sql(url, runner, back)
    assert shape(url, runner) != new
    store = opened(url, runner)
    assert shape(url, runner) == new
    assert sql(url, runner, "SELECT value FROM mayfly.meta WHERE name = 'format'") == [(schema.FORMAT,)]
    assert [store.read(read) for read in reads] == answers
    runner.run(store.store.close())


def test_each_row_has_a_name_for_replication(url: str, runner: asyncio.Runner) -> None:
    """Citus moves shards, and PostgreSQL publishes changes, by a primary key or by the whole row."""
    filled(url, runner)
    nameless = (
        "SELECT relname FROM pg_class c WHERE relnamespace = 'mayfly'::regnamespace AND relkind = 'r' AND relreplident <> 'f'"
        " AND NOT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisprimary)"
    )
    assert sql(url, runner, nameless) == []


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


def test_a_file_of_format_1(tmp_path: Path, runner: asyncio.Runner) -> None:
    path = str(tmp_path / "store.db")

    def open_file() -> Subject:
        return Subject(runner.run(SqliteStore.open(path)), runner)

    store = open_file()
    container = store.container()
    record = store.put(container, b"k")
    runner.run(store.store.close())
    connection = apsw.Connection(path, vfs=page_checksums.VFS)
    new = connection.execute("SELECT * FROM sqlite_schema WHERE name LIKE '%history%' ORDER BY name").fetchall()
    connection.execute(f"{FILE_TO_FORMAT_4} DROP TABLE history; PRAGMA user_version = 1")
    connection.close()
    store = open_file()
    assert store.read(Scan(container, b"", None, Order.CREATED, None, 9)) == [record]
    version = Version(Kind.CREATE, 9, 9, value=b"v")
    store.change(AddVersion(container, version))
    assert store.read(History(container, 0, 9)) == [version]
    runner.run(store.store.close())
    connection = apsw.Connection(path, vfs=page_checksums.VFS)
    assert connection.pragma("user_version") == sqlite_schema.FORMAT
    made = connection.execute("SELECT * FROM sqlite_schema WHERE name LIKE '%history%' ORDER BY name").fetchall()
    assert [row[:3] for row in made] == [row[:3] for row in new]
    connection.pragma("user_version", sqlite_schema.FORMAT + 1)
    connection.close()
    with pytest.raises(Unavailable, match=f"format {sqlite_schema.FORMAT + 1}"):
        open_file()
