"""Transactions as the vendor's client drives them, through both services: modes, ends, conflicts, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

ydb: Any = pytest.importorskip("ydb")
issues = ydb.issues
INT64 = ydb.PrimitiveType.Int64


@pytest.fixture
def t(query_pool: Any) -> Iterator[str]:
    query_pool.execute_with_retries(
        "CREATE TABLE t (id Int64, a Int64, PRIMARY KEY (id), INDEX by_a GLOBAL ON (a));"
        "CREATE TABLE other (id Int64, PRIMARY KEY (id))"
    )
    query_pool.execute_with_retries("UPSERT INTO t (id, a) VALUES (1, 10), (2, 20)")
    yield "t"
    query_pool.execute_with_retries("DROP TABLE t; DROP TABLE other")


class Client:
    """A session and one transaction in it, of either service."""

    def __init__(self, session: Any, service: str) -> None:
        self.session = session
        self.service = service
        self.transaction: Any = None

    def begin(self, mode: Any) -> None:
        self.transaction = self.session.transaction(mode)

    def run(self, text: str, commit: bool = False) -> list[tuple[Any, ...]]:
        found = self.transaction.execute(text, commit_tx=commit)
        if self.service == "table":
            return [tuple(row.values()) for part in found for row in part.rows]
        with found as parts:
            return [tuple(row.values()) for part in parts for row in part.rows]

    def commit(self) -> None:
        self.transaction.commit()

    def roll_back(self) -> None:
        self.transaction.rollback()


@pytest.fixture(params=["table", "query"])
def clients(request: pytest.FixtureRequest, table_pool: Any, query_pool: Any) -> Iterator[tuple[Client, Client]]:
    service = str(request.param)
    pool = table_pool if service == "table" else query_pool
    with pool.checkout() as first, pool.checkout() as second:
        yield Client(first, service), Client(second, service)


def mode(client: Client, name: str) -> Any:
    return getattr(ydb, name if client.service == "table" else f"Query{name}")()


def rows(pool: Any, text: str = "SELECT id, a FROM t") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for part in pool.execute_with_retries(text) for row in part.rows]


BOTH = [(1, 10), (2, 20)]
WRITE = "UPSERT INTO t (id, a) VALUES (3, 30)"


@pytest.mark.parametrize("end", ["commit", "with the statement", "roll back", "COMMIT"])
def test_how_it_ends(t: str, query_pool: Any, clients: tuple[Client, Client], end: str) -> None:
    client, _ = clients
    client.begin(mode(client, "SerializableReadWrite"))
    client.run(WRITE, commit=end == "with the statement")
    if end == "commit":
        client.commit()
    elif end == "roll back":
        client.roll_back()
    elif end == "COMMIT":
        client.run("COMMIT; SELECT 1")
    assert rows(query_pool) == (BOTH if end == "roll back" else [*BOTH, (3, 30)])


@pytest.mark.parametrize("name", ["OnlineReadOnly", "StaleReadOnly", "SnapshotReadOnly"])
def test_modes_that_only_read(t: str, clients: tuple[Client, Client], name: str) -> None:
    client, _ = clients
    client.begin(mode(client, name))
    assert client.run("SELECT id, a FROM t ORDER BY id", commit=True) == BOTH
    client.begin(mode(client, name))
    with pytest.raises(issues.GenericError, match=r"Operation .*Upsert.* be performed in read only transaction"):
        client.run(WRITE, commit=True)


@pytest.mark.parametrize("name", ["OnlineReadOnly", "StaleReadOnly"])
def test_modes_in_which_none_stays_open(t: str, table_session: Any, name: str) -> None:
    with pytest.raises(issues.BadRequest, match=f"open transactions not supported for transaction mode:? {name}, "):
        table_session.transaction(getattr(ydb, name)()).execute("SELECT 1")


# What each of two transactions does before the first and then the second commits; whether the second one may.
ANOMALIES: dict[str, tuple[str, str, str, str, bool]] = {
    "write skew": (
        "SELECT SUM(a) FROM t",
        "UPSERT INTO t (id, a) VALUES (1, 0)",
        "SELECT SUM(a) FROM t",
        "UPSERT INTO t (id, a) VALUES (2, 0)",
        False,
    ),
    "phantom": (
        "SELECT id FROM t WHERE id > 5",
        "INSERT INTO t (id, a) VALUES (6, 0)",
        "SELECT COUNT(*) FROM t WHERE id > 5",
        "INSERT INTO other (id) VALUES (0)",
        False,
    ),
    "phantom by an index": (
        "SELECT 1",
        "UPSERT INTO t (id, a) VALUES (2, 11)",
        "SELECT id FROM t VIEW by_a WHERE a > 9 AND a < 15",
        "INSERT INTO other (id) VALUES (1)",
        False,
    ),
    "lost update": (
        "SELECT a FROM t WHERE id = 1",
        "UPSERT INTO t (id, a) VALUES (1, 11)",
        "SELECT a FROM t WHERE id = 1",
        "UPSERT INTO t (id, a) VALUES (1, 12)",
        False,
    ),
    "blind": (
        "SELECT 1",
        "UPSERT INTO t (id, a) VALUES (1, 11)",
        "SELECT 1",
        "UPSERT INTO t (id, a) VALUES (1, 12)",
        True,
    ),
    "both insert": ("SELECT 1", "INSERT INTO t (id) VALUES (9)", "SELECT 1", "INSERT INTO t (id) VALUES (9)", False),
    "ranges apart": (
        "SELECT a FROM t WHERE id < 2",
        "UPSERT INTO t (id, a) VALUES (1, 11)",
        "SELECT a FROM t WHERE id >= 2",
        "UPSERT INTO t (id, a) VALUES (2, 12)",
        True,
    ),
    "who wrote nothing": ("SELECT 1", "UPSERT INTO t (id, a) VALUES (1, 11)", "SELECT SUM(a) FROM t", "SELECT 1", True),
}


@pytest.mark.parametrize("name", ANOMALIES)
def test_anomalies(t: str, query_pool: Any, clients: tuple[Client, Client], name: str) -> None:
    first, second = clients
    reads, writes, then_reads, then_writes, holds = ANOMALIES[name]
    for client in clients:
        client.begin(mode(client, "SerializableReadWrite"))
    first.run(reads)
    second.run(then_reads)
    first.run(writes)
    second.run(then_writes)
    first.commit()
    if holds:
        second.commit()
        return
    before = rows(query_pool)
    with pytest.raises(issues.Aborted) as raised:
        second.commit()
    said = str(raised.value)
    assert "Transaction locks invalidated. Table: `/local/t`" in said
    assert "Operation is aborting because locks are not valid" in said
    assert rows(query_pool) == before
    assert rows(query_pool, "SELECT id FROM other") == []


def test_a_session_that_is_deleted_rolls_back(t: str, query_pool: Any, ydb_driver: Any) -> None:
    session = ydb_driver.table_client.session().create()
    transaction = session.transaction()
    transaction.execute(WRITE)
    session.delete()
    assert rows(query_pool) == BOTH
    query = ydb.QuerySession(ydb_driver)
    query.create()
    with query.transaction().execute(WRITE):
        pass
    query.delete()
    assert rows(query_pool) == BOTH


def test_a_transaction_is_that_of_its_session(t: str, table_pool: Any) -> None:
    with table_pool.checkout() as one, table_pool.checkout() as other:
        transaction = one.transaction()
        transaction.execute(WRITE)
        stranger = other.transaction()
        stranger.execute("SELECT 1")
        stranger._tx_state.tx_id = transaction.tx_id
        with pytest.raises(issues.NotFound, match=f"Transaction not found: {transaction.tx_id}"):
            stranger.commit()
        transaction.commit()


def test_ten_thousand_rows_in_one_transaction(t: str, query_pool: Any, clients: tuple[Client, Client]) -> None:
    first, _ = clients
    first.begin(mode(first, "SerializableReadWrite"))
    fill = "SELECT * FROM AS_TABLE(ListMap(ListFromRange(100l, 10100l), ($n) -> (<|id: $n, a: $n|>)))"
    first.run(f"UPSERT INTO t {fill}")
    assert first.run("SELECT COUNT(*), MAX(a) FROM t WHERE id >= 100") == [(10_000, 10_099)]
    assert first.run("SELECT id FROM t VIEW by_a WHERE a > 10097 ORDER BY a") == [(10_098,), (10_099,)]
    first.commit()
    counts = "SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t VIEW by_a"
    assert [rows(query_pool, text) for text in counts] == [[(10_002,)]] * 2


def test_a_bulk_upsert_is_whole(t: str, query_pool: Any, ydb_driver: Any) -> None:
    query_pool.execute_with_retries(
        "CREATE TABLE u (id Int64, b Int64, PRIMARY KEY (id), INDEX by_b GLOBAL UNIQUE ON (b))"
    )
    types = ydb.BulkUpsertColumns()
    types.add_column("id", ydb.OptionalType(INT64))
    types.add_column("b", ydb.OptionalType(INT64))
    given = [{"id": number, "b": number % 999} for number in range(1000)]
    with pytest.raises(issues.PreconditionFailed):
        ydb_driver.table_client.bulk_upsert("/local/u", given, types)
    assert rows(query_pool, "SELECT id FROM u LIMIT 1") == []
    query_pool.execute_with_retries("DROP TABLE u")


def test_transfers_keep_the_sum(t: str, query_pool: Any) -> None:
    """Clients move amounts between rows, some reads and both writes in one statement each; others look at the whole."""

    def move(number: int) -> None:
        source, target = (1, 2) if number % 2 else (2, 1)
        if number % 3:
            query_pool.execute_with_retries(
                f"UPDATE t SET a = a - 1 WHERE id = {source}; UPDATE t SET a = a + 1 WHERE id = {target}",
                retry_settings=ydb.RetrySettings(max_retries=200),
            )
            return
        text = "SELECT SUM(a) FROM t VIEW by_a" if number % 2 else "SELECT SUM(a) FROM t"
        assert rows(query_pool, text) == [(30,)]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(move, range(60)))
    assert sum(a for _, a in rows(query_pool)) == 30
