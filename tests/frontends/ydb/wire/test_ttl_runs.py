"""Rows that end, through the vendor's client: by runs of the table's own, at the instants they are due."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.embedded import RunningServer

ydb: Any = pytest.importorskip("ydb")

MINUTE = 60


@pytest.fixture
def table(ydb_server: RunningServer, query_pool: Any, request: pytest.FixtureRequest) -> str:
    name = f"ttl/{request.node.name.partition('[')[0]}"
    query_pool.execute_with_retries(
        f"""CREATE TABLE `{name}` (id Uint64, at Timestamp, n Uint64, s Utf8, PRIMARY KEY (id),
        INDEX by_s GLOBAL ON (s)) WITH (TTL = Interval("PT10S") ON at)"""
    )
    return name


def fill(pool: Any, table: str, rows: str) -> None:
    pool.execute_with_retries(f"UPSERT INTO `{table}` (id, at, n, s) VALUES {rows}")


def ids(pool: Any, table: str, view: str = "") -> list[int]:
    sets = pool.execute_with_retries(f"SELECT id FROM `{table}` {view} ORDER BY id")
    return [row.id for part in sets for row in part.rows]


def test_rows_show_until_a_run_erases_them(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    fill(
        query_pool,
        table,
        "(1, CurrentUtcTimestamp(), 1, 'a'), (2, NULL, 1, 'b'), (3, CurrentUtcTimestamp() + Interval('PT1H'), 1, 'c')",
    )
    ydb_server.clock.advance(seconds=11)
    assert ids(query_pool, table) == [1, 2, 3]
    ydb_server.clock.advance(seconds=MINUTE)
    assert ids(query_pool, table) == [2, 3]
    assert ids(query_pool, table, "VIEW by_s") == [2, 3]
    ydb_server.clock.advance(seconds=2 * 3600)
    assert ids(query_pool, table) == [2]


def test_a_run_is_an_interval_after_the_one_before(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    ydb_server.clock.advance(seconds=MINUTE)
    fill(query_pool, table, "(1, CurrentUtcTimestamp(), 1, 'a')")
    ydb_server.clock.advance(seconds=1800)
    assert ids(query_pool, table) == [1]
    query_pool.execute_with_retries(f"ALTER TABLE `{table}` RESET (TTL)")
    query_pool.execute_with_retries(f'ALTER TABLE `{table}` SET (TTL = Interval("PT0S") ON at)')
    ydb_server.clock.advance(seconds=MINUTE)
    assert ids(query_pool, table) == [1]
    ydb_server.clock.advance(seconds=1800)
    assert ids(query_pool, table) == []


def test_another_column_takes_over(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    fill(query_pool, table, "(1, NULL, 1, 'a'), (2, NULL, 4102444800, 'b')")
    query_pool.execute_with_retries(f'ALTER TABLE `{table}` SET (TTL = Interval("PT0S") ON n AS SECONDS)')
    ydb_server.clock.advance(seconds=2 * 3600)
    assert ids(query_pool, table) == [2]


def test_due_rows_vanish_where_the_table_says_so(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    fill(query_pool, table, "(1, CurrentUtcTimestamp(), 1, 'a')")
    with ydb_server.ydb.driver() as driver:
        session = driver.table_client.session().create()
        session.alter_table(f"/local/{table}", alter_attributes={"mayfly_hide_expired": "true"})
    ydb_server.clock.advance(seconds=9)
    assert ids(query_pool, table) == [1]
    ydb_server.clock.advance(seconds=1)
    assert ids(query_pool, table) == []
    query_pool.execute_with_retries(f"INSERT INTO `{table}` (id, s) VALUES (1, 'new')")
    assert ids(query_pool, table, "VIEW by_s") == [1]


def test_a_copy_has_rows_indexes_and_ttl(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    values = ", ".join(f"({number}, CurrentUtcTimestamp(), 1, '{number}')" for number in range(300))
    fill(query_pool, table, values)
    with ydb_server.ydb.driver() as driver:
        session = driver.table_client.session().create()
        session.copy_table(f"/local/{table}", f"/local/{table}_copy")
    assert ids(query_pool, f"{table}_copy") == list(range(300))
    sets = query_pool.execute_with_retries(f"SELECT id FROM `{table}_copy` VIEW by_s WHERE s = '77'")
    assert [row.id for row in sets[0].rows] == [77]
    ydb_server.clock.advance(seconds=2 * 3600)
    assert ids(query_pool, f"{table}_copy") == []


def test_an_index_is_built_over_what_is_there(query_pool: Any, table: str) -> None:
    fill(query_pool, table, ", ".join(f"({number}, NULL, {number % 3}, 'x')" for number in range(300)))
    query_pool.execute_with_retries(f"ALTER TABLE `{table}` ADD INDEX by_n GLOBAL ON (n)")
    sets = query_pool.execute_with_retries(f"SELECT COUNT(*) AS c FROM `{table}` VIEW by_n WHERE n = 1ul")
    assert sets[0].rows[0].c == 100


def test_the_system_tells_of_runs(ydb_server: RunningServer, query_pool: Any, table: str) -> None:
    fill(query_pool, table, "(1, CurrentUtcTimestamp(), 1, 'a'), (2, NULL, 1, 'b')")
    query = f"""SELECT LastTtlRunTime AS t, LastTtlRowsErased AS erased, RowCount AS c
        FROM `.sys/partition_stats` WHERE Path = '/local/{table}'"""
    (before,) = query_pool.execute_with_retries(query)[0].rows
    assert (before.t, before.erased, before.c) == (None, None, 2)
    ydb_server.clock.advance(seconds=2 * MINUTE)
    (after,) = query_pool.execute_with_retries(query)[0].rows
    assert after.t is not None
    assert (after.erased, after.c) == (1, 1)


def test_what_a_restart_would_show(query_pool: Any, table: str) -> None:
    (row,) = query_pool.execute_with_retries(f"SHOW CREATE TABLE `{table}`")[0].rows
    assert "TTL = INTERVAL('PT10S') DELETE ON at" in row.CreateQuery
