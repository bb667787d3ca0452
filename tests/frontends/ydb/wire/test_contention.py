"""Contention that ends: clients that all read and then write the same, with the vendor's client's own retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

from mayflydb.embedded import RunningServer
from stores import STORES

pytestmark = [pytest.mark.everywhere, pytest.mark.parametrize("ydb_server", STORES, indirect=True)]

ydb: Any = pytest.importorskip("ydb")

CLIENTS = 4
INCREMENTS = 10

Execute: TypeAlias = Callable[..., list[Any]]
"""Runs a text in the transaction, and returns the rows."""


@pytest.fixture
def counters(query_pool: Any) -> Iterator[None]:
    query_pool.execute_with_retries("CREATE TABLE counters (id Int64, value Int64, PRIMARY KEY (id))")
    query_pool.execute_with_retries("UPSERT INTO counters (id, value) VALUES (0, 7), (1, 0), (2, 0)")
    yield
    query_pool.execute_with_retries("DROP TABLE counters")


def value(execute: Execute, id: int) -> int:
    (row,) = execute(f"SELECT value FROM counters WHERE id = {id}")
    return int(row.value)


def put(execute: Execute, id: int, value: int, **how: Any) -> None:
    execute(f"UPSERT INTO counters (id, value) VALUES ({id}, {value})", **how)


# --- what a transaction does ------------------------------------------------------------------------------------------------


def one_row(execute: Execute, client: int) -> None:
    put(execute, 1, value(execute, 1) + 1)


def behind_another_row(execute: Execute, client: int) -> None:
    """The view has begun with the row that all read, before the one that all write."""
    assert value(execute, 0) == 7
    one_row(execute, client)


def two_rows(execute: Execute, client: int) -> None:
    """Half of the clients take them in the one order, half in the other."""
    for id in (1, 2) if client % 2 else (2, 1):
        put(execute, id, value(execute, id) + 1)


def a_range(execute: Execute, client: int) -> None:
    (row,) = execute("SELECT MAX(id) AS last, COUNT(*) AS rows FROM counters WHERE id > 2")
    execute(f"INSERT INTO counters (id, value) VALUES ({(row.last or 2) + 1}, 1)")
    one_row(execute, client)


def one_statement(execute: Execute, client: int) -> None:
    execute("UPDATE counters SET value = value + 1 WHERE id = 1")


# --- how the clients do it --------------------------------------------------------------------------------------------------


def query_transactions(driver: Any, client: int, work: Callable[[Execute, int], None]) -> None:
    """`retry_tx_sync`: the pool begins the transaction and commits it."""

    def attempt(transaction: Any) -> None:
        # The client reports the error of a stream that is read to its end, and none of a stream that is left.
        def execute(text: str) -> list[Any]:
            with transaction.execute(text) as parts:
                return [row for part in parts for row in part.rows]

        work(execute, client)

    with ydb.QuerySessionPool(driver, size=1) as pool:
        for _ in range(INCREMENTS):
            pool.retry_tx_sync(attempt)


def query_operations(driver: Any, client: int, work: Callable[[Execute, int], None], mode: Any = None) -> None:
    """`retry_operation_sync`: the caller begins the transaction, and commits it."""

    def attempt(session: Any) -> None:
        with session.transaction(mode or ydb.QuerySerializableReadWrite()) as transaction:

            def execute(text: str) -> list[Any]:
                with transaction.execute(text) as parts:
                    return [row for part in parts for row in part.rows]

            work(execute, client)
            transaction.commit()

    with ydb.QuerySessionPool(driver, size=1) as pool:
        for _ in range(INCREMENTS):
            pool.retry_operation_sync(attempt)


def snapshots(driver: Any, client: int, work: Callable[[Execute, int], None]) -> None:
    """Transactions of which the commit checks the writes alone."""
    query_operations(driver, client, work, ydb.QuerySnapshotReadWrite())


def table_client(driver: Any, client: int, work: Callable[[Execute, int], None]) -> None:
    """The table service. All clients share a pool, so an attempt may be in another session than the one before."""

    def attempt(session: Any) -> None:
        transaction = session.transaction(ydb.SerializableReadWrite())
        work(lambda text: [row for part in transaction.execute(text) for row in part.rows], client)
        transaction.commit()

    with ydb.SessionPool(driver, size=2) as pool:
        for _ in range(INCREMENTS):
            pool.retry_operation_sync(attempt)


def statements(driver: Any, client: int, work: Callable[[Execute, int], None]) -> None:
    """Each statement is a transaction of its own."""
    with ydb.QuerySessionPool(driver, size=1) as pool:
        for _ in range(INCREMENTS):
            work(lambda text: list(pool.execute_with_retries(text)), client)


@pytest.mark.parametrize(
    ("how", "work"),
    [
        (query_transactions, one_row),
        (query_operations, one_row),
        (table_client, one_row),
        (snapshots, one_row),
        (query_transactions, behind_another_row),
        (table_client, behind_another_row),
        (query_transactions, two_rows),
        (query_transactions, a_range),
        (query_transactions, one_statement),
        (statements, one_statement),
    ],
)
def test_each_transaction_ends(
    counters: None, ydb_server: RunningServer, query_pool: Any, how: Callable[..., None], work: Callable[..., None]
) -> None:
    def run(client: int) -> None:
        with ydb_server.ydb.driver() as driver:
            how(driver, client, work)

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(run, range(CLIENTS)))
    (found,) = query_pool.execute_with_retries("SELECT value FROM counters WHERE id = 1")
    assert found.rows[0].value == CLIENTS * INCREMENTS
    (found,) = query_pool.execute_with_retries("SELECT COUNT(*) AS rows FROM counters WHERE id > 2")
    assert found.rows[0].rows == (CLIENTS * INCREMENTS if work is a_range else 0)


def run_in(transaction: Any) -> Execute:
    return lambda text, **how: [row for part in transaction.execute(text, **how) for row in part.rows]


def test_nobody_waits_for_a_transaction_that_stays_open(counters: None, table_pool: Any) -> None:
    """The one that has the turn keeps its right to commit, and the others theirs: who commits second is told."""
    with table_pool.checkout() as first, table_pool.checkout() as second:
        # The row becomes contended.
        ours, theirs = (each.transaction(ydb.SerializableReadWrite()) for each in (first, second))
        one_row(run_in(ours), 0)
        one_row(run_in(theirs), 1)
        ours.commit()
        with pytest.raises(ydb.issues.Aborted, match="Transaction locks invalidated"):
            theirs.commit()
        # `ours` has the turn and stays open; `theirs` reads in spite of it.
        ours, theirs = (each.transaction(ydb.SerializableReadWrite()) for each in (first, second))
        one_row(run_in(ours), 0)
        one_row(run_in(theirs), 1)
        theirs.commit()
        with pytest.raises(ydb.issues.Aborted, match="Transaction locks invalidated"):
            ours.commit()
        # A session that ends while it has the turn gives it on.
        ours = second.transaction(ydb.SerializableReadWrite())
        assert value(run_in(ours), 1) == 2
        ours.rollback()
        theirs = first.transaction(ydb.SerializableReadWrite())
        one_row(run_in(theirs), 1)
        theirs.commit()
        (found,) = first.transaction(ydb.SerializableReadWrite()).execute(
            "SELECT value FROM counters WHERE id = 1", commit_tx=True
        )
        assert found.rows[0].value == 3
