"""ydb-dbapi, synchronous and asynchronous: cursors, transactions, isolation levels, errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from mayflydb.embedded import RunningServer

dbapi: Any = pytest.importorskip("ydb_dbapi")
ydb: Any = pytest.importorskip("ydb")

Connect = Callable[..., Any]

TABLE = "CREATE TABLE t (id Int64 NOT NULL, v Utf8, n Int64, at Timestamp, PRIMARY KEY (id), INDEX by_n GLOBAL ON (n))"
LIFE = 'ALTER TABLE t SET (TTL = Interval("PT1M") ON at)'
ROWS = "UPSERT INTO t (id, v, n) VALUES (1, 'a'u, 10), (2, 'b'u, 20), (3, NULL, NULL)"


@pytest.fixture
def connection(connect: Connect) -> Any:
    """A connection, and a table with three rows."""
    found = connect()
    cursor = found.cursor()
    cursor.execute_scheme("DROP TABLE IF EXISTS t")
    cursor.execute_scheme(TABLE)
    cursor.execute_scheme(LIFE)
    cursor.execute(ROWS)
    return found


def ask(connection: Any, text: str, parameters: Any = None) -> list[Any]:
    cursor = connection.cursor()
    cursor.execute(text, parameters)
    found: list[Any] = cursor.fetchall()
    return found


# --- cursors ---------------------------------------------------------------------------------------------------------


def test_rows_are_fetched(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT id, v FROM t ORDER BY id")
    assert [each[:2] for each in cursor.description] == [("id", "Int64"), ("v", "Utf8?")]
    assert cursor.rowcount == 3
    assert cursor.fetchone() == (1, "a")
    assert cursor.fetchmany(5) == [(2, "b"), (3, None)]
    assert cursor.fetchone() is None
    cursor.execute("SELECT id FROM t WHERE id > 5")
    assert (cursor.rowcount, cursor.fetchall(), cursor.description[0][0]) == (-1, [], "id")


def test_several_statements_are_one_list_of_rows(connection: Any) -> None:
    assert ask(connection, "SELECT 1; SELECT id FROM t ORDER BY id DESC; SELECT 'x'u") == [
        (1,),
        (3,),
        (2,),
        (1,),
        ("x",),
    ]


def test_many_rows_at_once(connection: Any) -> None:
    cursor = connection.cursor()
    rows = [{"$id": (id, ydb.PrimitiveType.Int64), "$v": (f"v{id}", ydb.PrimitiveType.Utf8)} for id in range(10, 20)]
    cursor.executemany("INSERT INTO t (id, v) VALUES ($id, $v)", rows)
    assert ask(connection, "SELECT COUNT(*), MAX(v) FROM t") == [(13, "v19")]


def test_more_rows_than_a_part_holds(connection: Any) -> None:
    columns = ydb.BulkUpsertColumns().add_column("id", ydb.PrimitiveType.Int64)
    columns = columns.add_column("v", ydb.OptionalType(ydb.PrimitiveType.Utf8))
    connection.bulk_upsert("t", [{"id": id, "v": "x" * 1000} for id in range(100, 4100)], columns)
    cursor = connection.cursor()
    cursor.execute("SELECT id, v FROM t WHERE id >= 100 ORDER BY id")
    assert cursor.rowcount == 4000
    assert [row[0] for row in cursor.fetchall()] == list(range(100, 4100))


NOON = datetime.fromisoformat("2030-01-01T12:30:15.123456")

VALUES = [
    (True, "Bool"),
    (-(2**63), "Int64"),
    (1.5, "Double"),
    ("ж'\"%", "Utf8"),
    (b"\0\xff", "String"),
    (NOON, "Timestamp"),
    (date(2030, 1, 2), "Date"),
    (timedelta(days=-1, microseconds=7), "Interval"),
    (Decimal("-12.000000001"), "Decimal(22,9)"),
]


@pytest.mark.parametrize(("value", "type"), VALUES, ids=[type for _, type in VALUES])
def test_values_of_python_come_back(connect: Connect, value: Any, type: str) -> None:
    found = connect(pyformat=True)
    assert ask(found, "SELECT %(v)s, FormatType(TypeOf(%(v)s))", {"v": value}) == [(value, type.encode())]
    assert ask(found, "SELECT %s, '100%%'u", [value]) == [(value, "100%")]


TYPED = [
    (5, "Uint8"),
    (2**64 - 1, "Uint64"),
    ('{"a": 1}', "Json"),
    (NOON.replace(microsecond=0), "Datetime"),
    (".314e1", "DyNumber"),
]


@pytest.mark.parametrize(("value", "type"), TYPED, ids=[type for _, type in TYPED])
def test_values_with_their_types(connect: Connect, value: Any, type: str) -> None:
    of = getattr(ydb.PrimitiveType, type)
    given = int(value.replace(tzinfo=UTC).timestamp()) if isinstance(value, datetime) else value
    for kind in (of, ydb.OptionalType(of)):
        assert ask(connect(), "SELECT $v", {"$v": (given, kind)}) == [(value,)]
    assert ask(connect(), "SELECT $v", {"$v": (None, ydb.OptionalType(of))}) == [(None,)]


def test_lists_of_structs(connection: Any) -> None:
    row = ydb.StructType().add_member("id", ydb.PrimitiveType.Int64).add_member("v", ydb.PrimitiveType.Utf8)
    given = {"$rows": ([{"id": 1, "v": "new"}, {"id": 9, "v": "nine"}], ydb.ListType(row))}
    cursor = connection.cursor()
    cursor.execute("UPSERT INTO t SELECT id, v FROM AS_TABLE($rows)", given)
    ids = {"$ids": ([1, 9], ydb.ListType(ydb.PrimitiveType.Int64))}
    assert ask(connection, "SELECT v, n FROM t WHERE id IN $ids ORDER BY id", ids) == [("new", 10), ("nine", None)]


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_transactions(connection: Any, connect: Connect, ends: str) -> None:
    connection.set_isolation_level(dbapi.IsolationLevel.SERIALIZABLE)
    connection.begin()
    cursor = connection.cursor()
    cursor.execute("UPSERT INTO t (id, v) VALUES (1, 'mine'u)")
    assert ask(connection, "SELECT v FROM t WHERE id = 1") == [("mine",)]
    other = connect()
    assert ask(other, "SELECT v FROM t WHERE id = 1") == [("a",)]
    getattr(connection, ends)()
    assert ask(other, "SELECT v FROM t WHERE id = 1") == [("mine" if ends == "commit" else "a",)]


LEVELS = [
    ("SERIALIZABLE", True),
    ("AUTOCOMMIT", True),
    ("SNAPSHOT READWRITE", True),
    ("ONLINE READONLY", False),
    ("ONLINE READONLY INCONSISTENT", False),
    ("STALE READONLY", False),
    ("SNAPSHOT READONLY", False),
]


@pytest.mark.parametrize(("level", "writes"), LEVELS)
def test_isolation_levels(connection: Any, level: str, writes: bool) -> None:
    connection.set_isolation_level(dbapi.IsolationLevel(level))
    if level != "SNAPSHOT READWRITE":
        assert connection.get_isolation_level() == level
    connection.begin()
    assert ask(connection, "SELECT v FROM t WHERE id = 1") == [("a",)]
    cursor = connection.cursor()
    if writes:
        cursor.execute("DELETE FROM t WHERE id = 1")
        connection.commit()
        connection.begin()
        assert ask(connection, "SELECT COUNT(*) FROM t") == [(2,)]
        return
    with pytest.raises(dbapi.DataError, match=r"can\\'t be performed in read only transaction"):
        cursor.execute("DELETE FROM t WHERE id = 1")
    connection.rollback()
    connection.begin()
    assert ask(connection, "SELECT COUNT(*) FROM t") == [(3,)]


@pytest.mark.parametrize(
    ("level", "refused"), [("SERIALIZABLE", True), ("SNAPSHOT READWRITE", False)], ids=["serializable", "snapshot"]
)
def test_what_was_read_and_has_changed(connection: Any, connect: Connect, level: str, refused: bool) -> None:
    connection.set_isolation_level(dbapi.IsolationLevel(level))
    connection.begin()
    assert ask(connection, "SELECT COUNT(*) FROM t WHERE n >= 10") == [(2,)]
    ask(connect(), "UPSERT INTO t (id, n) VALUES (7, 70)")
    connection.cursor().execute("UPSERT INTO t (id, v) VALUES (8, 'mine'u)")
    if refused:
        with pytest.raises(dbapi.OperationalError, match="Transaction locks invalidated"):
            connection.commit()
        connection.rollback()
    else:
        connection.commit()
    assert ask(connect(), "SELECT COUNT(*) FROM t") == [(4 if refused else 5,)]


def test_a_transaction_ends_with_what_fails_in_it(connection: Any) -> None:
    connection.set_isolation_level(dbapi.IsolationLevel.SERIALIZABLE)
    connection.begin()
    connection.cursor().execute("UPSERT INTO t (id, v) VALUES (1, 'mine'u)")
    with pytest.raises(dbapi.IntegrityError):
        connection.cursor().execute("INSERT INTO t (id) VALUES (2)")
    connection.rollback()
    connection.begin()
    assert ask(connection, "SELECT v FROM t WHERE id = 1") == [("a",)]


ERRORS = [
    ("SELECT FROM", "DataError", "mismatched input"),
    ("SELECT id, x FROM t", "DataError", "Member not found: x"),
    ("SELECT * FROM nowhere", "ProgrammingError", "Cannot find table 'db.[/local/nowhere]'"),
    ("SELECT * FROM t VIEW nope", "ProgrammingError", "Required global index not found, index name: nope"),
    ("INSERT INTO t (id) VALUES (1)", "IntegrityError", "Conflict with existing key."),
    ("INSERT INTO t (v) VALUES ('x'u)", "IntegrityError", "Missing key column in input type: id"),
    ("UPSERT INTO t (id, n) VALUES (1, 'x')", "DataError", "Failed to convert 'n': String to Optional<Int64>"),
    (
        "CREATE TABLE u (id Int64, PRIMARY KEY (id))",
        "IntegrityError",
        "Scheme operations cannot be executed inside transaction",
    ),
    ("SELECT $x", "DataError", "Unknown name: $x"),
]


@pytest.mark.parametrize(("text", "kind", "message"), ERRORS)
def test_errors(connection: Any, text: str, kind: str, message: str) -> None:
    with pytest.raises(getattr(dbapi, kind)) as caught:
        ask(connection, text)
    assert type(caught.value).__name__ == kind
    assert message in str(caught.value).replace("\\'", "'")
    assert ask(connection, "SELECT 1") == [(1,)]


# --- what is there ---------------------------------------------------------------------------------------------------


def test_tables_are_listed_and_described(connection: Any, connect: Connect) -> None:
    below = connect(ydb_table_path_prefix="deep/er")
    cursor = below.cursor()
    cursor.execute_scheme("CREATE TABLE IF NOT EXISTS x (id Int64 NOT NULL, PRIMARY KEY (id))")
    cursor.execute("UPSERT INTO x (id) VALUES (1)")
    cursor.execute_scheme("CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT id FROM `/local/deep/er/x`")
    try:
        assert (below.get_table_names(), below.get_view_names()) == (["x"], ["v"])
        assert ask(below, "SELECT * FROM v") == [(1,)]
        assert "deep/er/x" in connection.get_table_names()
        assert (below.check_exists("x"), below.check_exists("y"), connection.check_exists("x")) == (True, False, False)
        found = connection.describe("t")
        assert [column.name for column in found.columns] == ["id", "v", "n", "at"]
        assert (found.primary_key, [index.name for index in found.indexes]) == (["id"], ["by_n"])
        assert found.ttl_settings.date_type_column.expire_after_seconds == 60
        assert (below.describe("v").columns, below.describe("v").primary_key) == ([], [])
    finally:
        cursor.execute_scheme("DROP VIEW v")
        cursor.execute_scheme("DROP TABLE x")
    with pytest.raises(dbapi.ProgrammingError):
        below.describe("x")


def test_rows_die(connection: Any, ydb_server: RunningServer) -> None:
    ask(connection, "UPDATE t SET at = CurrentUtcTimestamp() WHERE id IN (1, 2)")
    ydb_server.clock.advance(seconds=59)
    ask(connection, "UPDATE t SET at = CurrentUtcTimestamp() WHERE id = 2")
    assert ask(connection, "SELECT COUNT(*) FROM t") == [(3,)]
    ydb_server.clock.advance(hours=1)
    connection.set_isolation_level(dbapi.IsolationLevel.SNAPSHOT_READONLY)
    connection.begin()
    assert ask(connection, "SELECT id FROM t ORDER BY id")[-1] == (3,)
    connection.commit()
    ydb_server.clock.advance(hours=1)
    connection.begin()
    assert ask(connection, "SELECT id FROM t VIEW by_n ORDER BY id") == [(3,)]
