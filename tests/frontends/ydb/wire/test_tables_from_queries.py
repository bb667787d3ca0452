"""CREATE TABLE AS, as the vendor's client sees it: columns, rows, refusals, and when the table appears."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stores import STORES

ydb: Any = pytest.importorskip("ydb")
issues = ydb.issues


@pytest.fixture
def source(query_pool: Any) -> Iterator[None]:
    query_pool.execute_with_retries(
        "CREATE TABLE source (id Uint64 NOT NULL, v Int32, t Utf8, at Timestamp, PRIMARY KEY (id))"
    )
    query_pool.execute_with_retries("UPSERT INTO source (id, v, t) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c')")
    yield
    for name in ("made", "source"):
        query_pool.execute_with_retries(f"DROP TABLE IF EXISTS {name}")


def rows(pool: Any, text: str) -> list[tuple[Any, ...]]:
    (found,) = pool.execute_with_retries(text)
    return [tuple(row.values()) for row in found.rows]


def columns(pool: Any) -> list[str]:
    """The lines of SHOW CREATE that have columns and key."""
    ((text, *_),) = rows(pool, "SHOW CREATE TABLE made")
    return [line.strip(" ,") for line in text.partition("(")[2].partition("\n)")[0].splitlines() if line]


MADE: list[tuple[str, list[str], list[tuple[Any, ...]]]] = [
    # The types of the query; what is not Optional there is NOT NULL. Columns stand in the order of their names.
    (
        "CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, v FROM source",
        ["`id` Uint64 NOT NULL", "`v` Int32", "PRIMARY KEY (`id`)"],
        [(1, 10), (2, 20), (3, None)],
    ),
    (
        "CREATE TABLE made (PRIMARY KEY (v, id)) AS SELECT v, id, Unwrap(t) AS b, v > 15 AS a FROM source",
        ["`a` Bool", "`b` Utf8 NOT NULL", "`id` Uint64 NOT NULL", "`v` Int32", "PRIMARY KEY (`v`, `id`)"],
        [(None, "c", 3, None), (False, "a", 1, 10), (True, "b", 2, 20)],
    ),
    (
        "$d = SELECT v, COUNT(*) AS n FROM source GROUP BY v; CREATE TABLE made (PRIMARY KEY (v)) AS SELECT * FROM $d WHERE v>0",
        ["`n` Uint64 NOT NULL", "`v` Int32", "PRIMARY KEY (`v`)"],
        [(1, 10), (1, 20)],
    ),
    (
        "PRAGMA TablePathPrefix('/local'); CREATE TABLE made (PRIMARY KEY (k)) AS SELECT 1u AS k UNION SELECT 2u AS k",
        ["`k` Uint32 NOT NULL", "PRIMARY KEY (`k`)"],
        [(1,), (2,)],
    ),
    # One row of each key is kept.
    (
        "CREATE TABLE made (PRIMARY KEY (k)) AS SELECT 1 AS k, 7 AS v FROM source",
        ["`k` Int32 NOT NULL", "`v` Int32 NOT NULL", "PRIMARY KEY (`k`)"],
        [(1, 7)],
    ),
    (
        "CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, v FROM source WHERE id > 9",
        ["`id` Uint64 NOT NULL", "`v` Int32", "PRIMARY KEY (`id`)"],
        [],
    ),
]


@pytest.mark.parametrize(("text", "described", "found"), MADE)
def test_columns_and_rows(
    source: None, query_pool: Any, text: str, described: list[str], found: list[tuple[Any, ...]]
) -> None:
    assert query_pool.execute_with_retries(text) == []
    assert columns(query_pool) == described
    assert rows(query_pool, "SELECT * FROM made") == found


def test_parameters_and_settings(source: None, query_pool: Any) -> None:
    query_pool.execute_with_retries(
        "DECLARE $add AS Uint64; CREATE TABLE made (PRIMARY KEY (id)) WITH (AUTO_PARTITIONING_MIN_PARTITIONS_COUNT = 4,"
        ' TTL = Interval("P1D") ON at) AS SELECT id + $add AS id, at FROM source',
        {"$add": ydb.TypedValue(100, ydb.PrimitiveType.Uint64)},
    )
    assert rows(query_pool, "SELECT id FROM made") == [(101,), (102,), (103,)]
    ((text, *_),) = rows(query_pool, "SHOW CREATE TABLE made")
    assert "AUTO_PARTITIONING_MIN_PARTITIONS_COUNT = 4" in text
    assert "TTL = INTERVAL('P1D') DELETE ON at" in text
    # What a CREATE TABLE AS cannot have comes by ALTER TABLE.
    query_pool.execute_with_retries("ALTER TABLE made ADD INDEX by_at GLOBAL ON (at)")
    assert rows(query_pool, "SELECT id FROM made VIEW by_at WHERE at IS NULL AND id > 101u") == [(102,), (103,)]


AS = "AS SELECT id, v FROM source"
GENERIC, SCHEME = issues.GenericError, issues.SchemeError
REFUSED: list[tuple[str, Any, str]] = [
    (
        f"CREATE TABLE made (id Uint64, PRIMARY KEY (id)) {AS}",
        GENERIC,
        "Column types are not supported for CREATE TABLE AS",
    ),
    (f"CREATE TABLE made (id, PRIMARY KEY (id)) {AS}", GENERIC, "CREATE TABLE AS with columns is not supported"),
    (
        f"CREATE TABLE made (PRIMARY KEY (id), FAMILY f (DATA = 'ssd')) {AS}",
        GENERIC,
        "Column families are not supported for CREATE TABLE AS",
    ),
    (
        f"CREATE TABLE made (PRIMARY KEY (id), INDEX i GLOBAL ON (v)) {AS}",
        GENERIC,
        "Secondary indexes are not supported for CREATE TABLE AS",
    ),
    (
        f"CREATE TABLE made (PRIMARY KEY (id), CHANGEFEED f WITH (MODE = 'KEYS_ONLY', FORMAT = 'JSON')) {AS}",
        GENERIC,
        "Changefeeds are not supported for CREATE TABLE AS",
    ),
    (
        "CREATE TABLE made (PRIMARY KEY (column0)) AS VALUES (1, 2)",
        GENERIC,
        "AS VALUES statement is not supported for CreateTableAs",
    ),
    (
        f"CREATE TEMPORARY TABLE made (PRIMARY KEY (id)) {AS}",
        GENERIC,
        "CREATE TEMPORARY TABLE AS is not supported at current time",
    ),
    (
        f"CREATE TABLE made (PRIMARY KEY (id)) {AS}; SELECT 1",
        GENERIC,
        "CTAS statement can.*t be used with other statements",
    ),
    (
        f"CREATE TABLE made (PRIMARY KEY (id)) {AS}; CREATE TABLE n (PRIMARY KEY (id)) {AS}",
        GENERIC,
        "Several CTAS statement can.*t be used",
    ),
    (f"CREATE TABLE source (PRIMARY KEY (id)) {AS}", SCHEME, "path exist, request accepts it"),
    (f"CREATE TABLE made (PRIMARY KEY (w)) {AS}", SCHEME, "Unknown column .*w.* specified in key column list"),
    (f"CREATE TABLE made () {AS}", GENERIC, "mismatched input"),
    ("CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, [v] AS l FROM source", SCHEME, "is not supported by storage"),
    ("CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id FROM nothing", SCHEME, "Cannot find table"),
    (
        "CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, Ensure(v, id < 3u, 'three') AS v FROM source",
        GENERIC,
        "three",
    ),
    (f'CREATE TABLE made (PRIMARY KEY (id)) WITH (TTL = Interval("P1D") ON v) {AS}', SCHEME, "Unsupported column type"),
    (
        f'CREATE TABLE made (PRIMARY KEY (id)) WITH (TTL = Interval("P1D") ON at) {AS}',
        SCHEME,
        "Cannot enable TTL on unknown column",
    ),
]


@pytest.mark.parametrize(("text", "error", "words"), REFUSED)
def test_refusals_leave_nothing(source: None, query_pool: Any, text: str, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        query_pool.execute_with_retries(text)
    with pytest.raises(issues.SchemeError, match="Cannot find table"):
        query_pool.execute_with_retries("SELECT * FROM made")
    assert rows(query_pool, "SELECT COUNT(*) FROM source") == [(3,)]


def test_it_takes_no_transaction(source: None, query_pool: Any, table_pool: Any) -> None:
    text = f"CREATE TABLE made (PRIMARY KEY (id)) {AS}"
    with query_pool.checkout() as session:
        transaction = session.transaction(ydb.QuerySerializableReadWrite())
        with pytest.raises(issues.BadRequest, match="CTAS statement can be executed only in NoTx mode"):
            list(transaction.execute(text))
        transaction = session.transaction(ydb.QuerySerializableReadWrite())
        with pytest.raises(issues.BadRequest, match="CTAS statement can be executed only in NoTx mode"):
            list(transaction.execute(text, commit_tx=True))
    with table_pool.checkout() as session, pytest.raises(issues.GenericError, match="Creating table with data is not"):
        session.execute_scheme(text)


def test_if_not_exists_and_or_replace(source: None, query_pool: Any) -> None:
    query_pool.execute_with_retries(f"CREATE TABLE made (PRIMARY KEY (id)) {AS}")
    query_pool.execute_with_retries("CREATE TABLE IF NOT EXISTS made (PRIMARY KEY (k)) AS SELECT 1 AS k")
    assert rows(query_pool, "SELECT COUNT(*) FROM made") == [(3,)]
    query_pool.execute_with_retries("CREATE OR REPLACE TABLE made (PRIMARY KEY (k)) AS SELECT 1 AS k")
    assert rows(query_pool, "SELECT * FROM made") == [(1,)]


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", STORES, indirect=True)
def test_a_reader_sees_no_table_or_all_of_it(ydb_server: Any, source: None, query_pool: Any) -> None:
    """While one client makes the table, another one reads it again and again."""
    text = (
        "CREATE TABLE made (PRIMARY KEY (id)) AS "
        "SELECT id FROM (SELECT ListFromRange(0, 5000) AS ids) FLATTEN LIST BY ids AS id"
    )
    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(query_pool.execute_with_retries, text)
        seen: set[int | None] = set()
        while True:
            is_last = made.done()
            try:
                ((count,),) = rows(query_pool, "SELECT COUNT(*) FROM made")
                seen.add(count)
            except issues.SchemeError:
                seen.add(None)
            if is_last:
                break
        made.result()
    assert None in seen
    assert seen <= {None, 5000}
    assert 5000 in seen
