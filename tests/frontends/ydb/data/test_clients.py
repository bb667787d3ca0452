"""The vendor's client over the network: queries, transactions, reads and bulk upserts as programs use them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

ydb: Any = pytest.importorskip("ydb")


@pytest.fixture(scope="module")
def carts(query_pool: Any) -> str:
    query_pool.execute_with_retries(
        "CREATE TABLE carts (id Uint64, owner Utf8, created_at Timestamp, PRIMARY KEY (id))"
    )
    return "carts"


def test_a_query_session_writes_and_reads(query_pool: Any, carts: str) -> None:
    query_pool.execute_with_retries(
        "UPSERT INTO carts (id, owner) VALUES ($id, $owner)",
        {"$id": (1, ydb.PrimitiveType.Uint64), "$owner": ("a", ydb.PrimitiveType.Utf8)},
    )
    (found,) = query_pool.execute_with_retries("SELECT id, owner, created_at FROM carts WHERE id = 1")
    assert [dict(row) for row in found.rows] == [{"id": 1, "owner": "a", "created_at": None}]


def test_a_table_session_prepares_and_reads(table_pool: Any, carts: str) -> None:
    def work(session: Any) -> Any:
        write = session.prepare("DECLARE $id AS Uint64; UPSERT INTO carts (id, owner) VALUES ($id, 'b');")
        session.transaction().execute(write, {"$id": 2}, commit_tx=True)
        return session.transaction(ydb.OnlineReadOnly()).execute("SELECT owner FROM carts WHERE id = 2", commit_tx=True)

    (found,) = table_pool.retry_operation_sync(work)
    assert [row.owner for row in found.rows] == ["b"]


def test_an_interactive_transaction(query_pool: Any, carts: str) -> None:
    def work(session: Any) -> list[int]:
        with session.transaction() as transaction:
            with transaction.execute("UPSERT INTO carts (id) VALUES (10), (11)"):
                pass
            with transaction.execute("SELECT id FROM carts WHERE id >= 10 AND id < 20 ORDER BY id") as results:
                inside = [row.id for part in results for row in part.rows]
            transaction.rollback()
        return inside

    assert query_pool.retry_operation_sync(work) == [10, 11]
    (found,) = query_pool.execute_with_retries("SELECT COUNT(*) AS n FROM carts WHERE id >= 10 AND id < 20")
    assert found.rows[0].n == 0


def test_bulk_upsert_read_rows_and_read_table(ydb_driver: Any, table_pool: Any, carts: str) -> None:
    types = ydb.BulkUpsertColumns()
    types.add_column("id", ydb.OptionalType(ydb.PrimitiveType.Uint64))
    types.add_column("owner", ydb.OptionalType(ydb.PrimitiveType.Utf8))
    rows = [{"id": 100 + number, "owner": f"o{number}"} for number in range(3000)]
    ydb_driver.table_client.bulk_upsert("/local/carts", rows, types)

    def work(session: Any) -> list[Any]:
        bounds = ydb.KeyRange(
            ydb.KeyBound.inclusive([100], ydb.TupleType().add_element(ydb.PrimitiveType.Uint64)), None
        )
        stream = session.read_table("/local/carts", bounds, columns=("id", "owner"), ordered=True)
        return [(row.id, row.owner) for part in stream for row in part.rows]

    assert table_pool.retry_operation_sync(work) == [(row["id"], row["owner"]) for row in rows]


@pytest.mark.filterwarnings("ignore:scan_query is deprecated")
def test_a_scan_query(ydb_driver: Any, carts: str) -> None:
    stream = ydb_driver.table_client.scan_query("SELECT COUNT(*) AS n FROM carts WHERE id >= 100")
    assert [row.n for part in stream for row in part.result_set.rows] == [3000]


def test_results_of_the_table_service_are_cut(table_pool: Any, carts: str) -> None:
    def work(session: Any) -> Any:
        return session.transaction().execute("SELECT id FROM carts", commit_tx=True)

    with pytest.raises(ydb.issues.TruncatedResponseError):
        table_pool.retry_operation_sync(work)


def test_scripting(ydb_driver: Any, carts: str) -> None:
    client = ydb.ScriptingClient(ydb_driver)
    (found,) = client.execute_yql("SELECT 1 AS a").result_sets
    assert found.rows[0].a == 1


def test_no_update_is_lost(query_pool: Any, carts: str) -> None:
    query_pool.execute_with_retries("CREATE TABLE counters (id Uint64, n Int64, PRIMARY KEY (id))")
    query_pool.execute_with_retries("UPSERT INTO counters (id, n) VALUES (1, 0)")

    def add(transaction: Any) -> None:
        with transaction.execute("SELECT n FROM counters WHERE id = 1") as results:
            (n,) = [row.n for part in results for row in part.rows]
        with transaction.execute(
            "UPSERT INTO counters (id, n) VALUES (1, $n)", {"$n": (n + 1, ydb.PrimitiveType.Int64)}, commit_tx=True
        ):
            pass

    settings = ydb.RetrySettings(max_retries=200)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: query_pool.retry_tx_sync(add, retry_settings=settings), range(24)))
    (found,) = query_pool.execute_with_retries("SELECT n FROM counters")
    assert found.rows[0].n == 24
