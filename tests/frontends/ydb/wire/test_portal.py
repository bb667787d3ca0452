"""Tables in the admin API and in the Explorer."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from mayflydb.embedded import RunningServer

ydb: Any = pytest.importorskip("ydb")


@pytest.fixture(scope="module")
def table(ydb_server: RunningServer, query_pool: Any) -> str:
    query_pool.execute_with_retries(
        "CREATE TABLE `shop/eu/t` (id Uint64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT10S') ON at)"
    )
    query_pool.execute_with_retries("UPSERT INTO `shop/eu/t` (id, at) VALUES (1, CurrentUtcTimestamp()), (2, NULL)")
    query_pool.execute_with_retries("CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT 1 AS a")
    return "ydb:/local/shop/eu/t"


def got(server: RunningServer, path: str, method: str = "GET") -> str:
    root = server.admin_url.partition("/_mayfly")[0]
    headers = {"Origin": root} if method == "POST" else {}
    request = Request(f"{root}{path}", method=method, headers=headers, data=b"" if method == "POST" else None)
    with urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


def test_the_admin_api_lists_tables(ydb_server: RunningServer, table: str) -> None:
    (told,) = json.loads(got(ydb_server, "/_mayfly/ttl"))["targets"]
    assert (told["target"], told["records"]) == (table, 2)
    assert told["indexes"][0]["expire_after_seconds"] == 10
    assert ydb_server.stats()["targets"][table]["records"] == 2


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("ydb:/local", "name a table: ydb:/local/TABLE"),
        ("ydb:t", "paths begin with a database: ydb:/local/t"),
        ("ydb:/t", "paths begin with a database: ydb:/local/t"),
        ("ydb:shop/eu/t", "there is no"),
    ],
)
def test_targets_that_are_no_tables(ydb_server: RunningServer, table: str, target: str, hint: str) -> None:
    with pytest.raises(HTTPError) as raised:
        got(ydb_server, f"/_mayfly/ttl/explain?target={target}&id=1")
    assert hint in raised.value.read().decode()


def test_a_table_without_ttl_has_a_page(ydb_server: RunningServer, query_pool: Any) -> None:
    query_pool.execute_with_retries("CREATE TABLE stays (id Uint64, PRIMARY KEY (id))")
    page = got(ydb_server, "/_explorer/ydb/local/stays/rows")
    query_pool.execute_with_retries("DROP TABLE stays")
    assert "nothing expires here" in page
    assert "Run now" not in page


def test_the_explorer_has_tables(ydb_server: RunningServer, table: str) -> None:
    assert 'href="/_explorer/ydb/local/shop/eu/t/rows"' in got(ydb_server, "/_explorer/")
    page = got(ydb_server, "/_explorer/ydb/local/shop/eu/t/rows")
    assert "Next run: 20" in page
    assert "<h1>Rows</h1>" in page
    rows = json.loads(got(ydb_server, "/_explorer/ydb/local/shop/eu/t/rows.json"))["documents"]
    assert [(row["id"], row["deadline"] is not None) for row in rows] == [("1", True), ("2", False)]
    page = got(ydb_server, "/_explorer/ydb/local/shop/eu/t/pass", "POST")
    assert "Run now" in page
