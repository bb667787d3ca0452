"""Temporary tables, as the vendor's client sees them: whose they are, what they hide, and when they are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stores
from mayflydb.embedded import RunningServer, serve

ydb: Any = pytest.importorskip("ydb")
issues = ydb.issues

CREATE = "CREATE TEMPORARY TABLE t (id Int64, b Utf8, PRIMARY KEY (id), INDEX by_b GLOBAL ON (b))"
FEED = "CHANGEFEED f WITH (MODE = 'KEYS_ONLY', FORMAT = 'JSON')"


class Client:
    """One session of the query service."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.session.execute(text) as parts:
            return [tuple(row.values()) for part in parts for row in part.rows]

    def run(self, *texts: str) -> None:
        for text in texts:
            self.rows(text)

    def refused(self, text: str, error: Any = issues.SchemeError) -> str:
        with pytest.raises(error) as caught:
            self.rows(text)
        return str(caught.value)


@pytest.fixture
def clients(query_pool: Any) -> Iterator[tuple[Client, Client]]:
    """Two sessions, with one table for both."""
    with query_pool.checkout() as first, query_pool.checkout() as second:
        ours, theirs = Client(first), Client(second)
        ours.run("CREATE TABLE t (id Int64, a Int64, PRIMARY KEY (id))", "UPSERT INTO t (id, a) VALUES (1, 10)")
        yield ours, theirs
        ours.run("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS alone")


def test_it_is_its_sessions_and_comes_first(clients: tuple[Client, Client]) -> None:
    ours, theirs = clients
    ours.run(CREATE, "UPSERT INTO t (id, b) VALUES (5, 'x'u)")
    assert ours.rows("SELECT * FROM t") == ours.rows("SELECT * FROM `/local/t`") == [("x", 5)]
    assert ours.rows("SELECT id FROM t VIEW by_b WHERE b = 'x'u") == [(5,)]
    assert theirs.rows("SELECT * FROM t") == [(10, 1)]
    # Another session has one of its own with the same name.
    theirs.run("CREATE TEMP TABLE t (id Int64, PRIMARY KEY (id))")
    assert (ours.rows("SELECT id FROM t"), theirs.rows("SELECT id FROM t")) == ([(5,)], [])
    theirs.run("UPSERT INTO t (id) VALUES (9)")
    # The same text has another plan in each.
    assert (ours.rows("SELECT id FROM t"), theirs.rows("SELECT id FROM t")) == ([(5,)], [(9,)])
    # DROP takes the temporary table, and then the one below it.
    theirs.run("DROP TABLE t")
    assert theirs.rows("SELECT * FROM t") == [(10, 1)]
    ours.run("DROP TABLE t")
    assert ours.rows("SELECT * FROM t") == [(10, 1)]
    ours.run("DROP TABLE t")
    assert "Cannot find table" in ours.refused("SELECT * FROM t")
    assert "Cannot find table" in ours.refused("DROP TABLE t")


def test_what_a_session_does_with_it(clients: tuple[Client, Client]) -> None:
    ours, theirs = clients
    ours.run(CREATE, "INSERT INTO t (id, b) VALUES (1, 'a'u), (2, 'b'u)")
    ours.run(
        "ALTER TABLE t ADD COLUMN c Int32",
        "ALTER TABLE t ADD INDEX by_c GLOBAL ON (c)",
        "UPDATE t SET c = 3 WHERE id = 2",
    )
    assert ours.rows("SELECT id FROM t VIEW by_c WHERE c = 3") == [(2,)]
    ((text, *_),) = ours.rows("SHOW CREATE TABLE t")
    assert text.startswith("CREATE TEMPORARY TABLE `t` (")
    # It takes part in transactions, beside other tables.
    ours.run("CREATE TABLE alone (id Int64, PRIMARY KEY (id))")
    with ours.session.transaction() as transaction:
        for text in ("DELETE FROM t WHERE id = 1", "UPSERT INTO alone SELECT id FROM t"):
            with transaction.execute(text):
                pass
        transaction.rollback()
    assert ours.rows("SELECT COUNT(*) FROM t") == [(2,)]
    list(ours.session.transaction().execute("UPSERT INTO alone SELECT id FROM t", commit_tx=True))
    assert theirs.rows("SELECT id FROM alone") == [(1,), (2,)]
    ours.run("DROP TABLE alone", "CREATE TABLE alone (PRIMARY KEY (id)) AS SELECT id, c FROM t")
    assert theirs.rows("SELECT * FROM alone") == [(None, 1), (3, 2)]


def test_refusals(clients: tuple[Client, Client], table_pool: Any) -> None:
    ours, _ = clients
    ours.run(CREATE)
    assert "path exist, request accepts it" in ours.refused(CREATE)
    ours.run(CREATE.replace("TABLE t", "TABLE IF NOT EXISTS t"))
    # The table that stays is there already, below the temporary one.
    assert "path exist, request accepts it" in ours.refused("CREATE TABLE t (id Int64, PRIMARY KEY (id))")
    for text, words in {
        "ALTER TABLE t RENAME TO u": "RENAME of a temporary table is not supported",
        "GRANT SELECT ON t TO ann": "Permissions of a temporary table",
        "CREATE TEMPORARY TABLE c (id Int64, PRIMARY KEY (id)) WITH (STORE = COLUMN)": "TEMPORARY of a column-oriented table",
        f"CREATE TEMPORARY TABLE c (id Int64, PRIMARY KEY (id), {FEED})": "CHANGEFEED of a temporary table",
        f"ALTER TABLE t ADD {FEED}": "CHANGEFEED of a temporary table",
        "CREATE OR REPLACE TEMPORARY TABLE t (id Int64, PRIMARY KEY (id))": "CREATE OR REPLACE TEMPORARY TABLE",
        "CREATE TEMPORARY TABLE n (id Int64, PRIMARY KEY (id)) AS SELECT 1 AS id": "Column types are not supported",
    }.items():
        assert words in ours.refused(text, issues.GenericError)
    with pytest.raises(issues.PreconditionFailed, match="cannot be executed inside transaction"):
        list(ours.session.transaction().execute("CREATE TEMPORARY TABLE n (id Int64, PRIMARY KEY (id))"))
    with table_pool.checkout() as session, pytest.raises(issues.GenericError, match="in a scheme query"):
        session.execute_scheme(CREATE)
    assert "Unknown column" in ours.refused("CREATE TEMPORARY TABLE n (id Int64, PRIMARY KEY (x))")


def test_nothing_lists_it(clients: tuple[Client, Client], ydb_driver: Any) -> None:
    ours, _ = clients
    ours.run("CREATE TEMPORARY TABLE alone (id Int64, PRIMARY KEY (id))")
    listed = ydb_driver.scheme_client.list_directory("/local").children
    assert "alone" not in [each.name for each in listed]
    assert [each.name for each in listed if each.name.startswith(".tmp")] == []


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", stores.STORES, indirect=True)
def test_it_is_gone_with_its_session(ydb_server: RunningServer, query_pool: Any) -> None:
    """Another session with the same table has its own, before and after."""
    with query_pool.checkout() as stays:
        theirs = Client(stays)
        theirs.run(CREATE, "UPSERT INTO t (id) VALUES (7)")
        session = ydb.QuerySession(query_pool._driver)
        session.create()
        ours = Client(session)
        ours.run(CREATE, "UPSERT INTO t (id) VALUES (8)")
        assert ours.rows("SELECT id FROM t") == [(8,)]
        session.delete()
        assert theirs.rows("SELECT id FROM t") == [(7,)]
        theirs.run("DROP TABLE t")
    with query_pool.checkout() as another:
        assert "Cannot find table" in Client(another).refused("SELECT id FROM t")


def test_a_reset_leaves_nothing_of_it(ydb_server: RunningServer, query_pool: Any) -> None:
    with query_pool.checkout() as session:
        ours = Client(session)
        ours.run(CREATE, "CREATE TEMPORARY TABLE other (id Int64, PRIMARY KEY (id))")
        ydb_server.reset()
        assert "Cannot find table" in ours.refused("SELECT id FROM t")
        ours.run("CREATE TABLE a (id Int64, PRIMARY KEY (id))", "CREATE TABLE b (id Int64, PRIMARY KEY (id))", CREATE)
        assert ours.rows("SELECT id FROM t") == []
        assert "Cannot find table" in ours.refused("SELECT id FROM other")
        ours.run("DROP TABLE a", "DROP TABLE b", "DROP TABLE t")


def test_it_is_gone_after_a_start(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    options: dict[str, Any] = {"port": 0, "mongo_port": -1, "clock": "virtual"}
    with serve(path, **options) as server, server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        Client(pool.acquire()).run(CREATE, "UPSERT INTO t (id) VALUES (1)")
    with serve(path, **options) as server, server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        ours = Client(pool.acquire())
        assert "Cannot find table" in ours.refused("SELECT id FROM t")
        ours.run(CREATE)
        assert ours.rows("SELECT id FROM t") == []
