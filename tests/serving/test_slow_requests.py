"""A slow request of each protocol is one line of the log, with what it read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ydb
from pymongo import MongoClient

from frontends.cosmos.service import START, Raw
from logged import logged
from mayflydb.embedded import RunningServer, serve


@pytest.fixture
def lines() -> Iterator[list[str]]:
    with logged("mayflydb.slow") as texts:
        yield texts


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, clock="virtual", clock_start=START, slow_request="10ms") as running:
        yield running


def test_cosmos(server: RunningServer, lines: list[str]) -> None:
    raw = Raw(server.cosmos.url)
    raw("POST", "/dbs", {"id": "d"})
    raw("POST", "/dbs/d/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
    raw("POST", "/dbs/d/colls/c/docs", {"id": "secret", "pk": "p", "a": [*range(60)]}, pk="p")
    lines.clear()
    query = {"query": "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a"}
    headers = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
    answer = raw("POST", "/dbs/d/colls/c/docs", query, headers, pk="p")
    raw.close()
    (line,) = lines
    assert f"cosmos POST dbs/d/colls/c, id {answer.headers['x-ms-activity-id']}, took " in line
    assert ", read 1 items of " in line and "secret" not in line


def test_mongo(server: RunningServer, lines: list[str]) -> None:
    with MongoClient[dict[str, object]](server.mongo.uri) as client:
        client["d"]["c"].insert_one({"_id": 1})
        lines.clear()
        sums = {"$reduce": {"input": {"$range": [0, 100_000]}, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}
        list(client["d"]["c"].aggregate([{"$project": {"n": sums}}]))
    (line,) = lines
    assert "mongo aggregate d.c, id 127.0.0.1:" in line and " request units" in line


def test_ydb(server: RunningServer, lines: list[str]) -> None:
    assert server.ydb is not None
    with ydb.Driver(endpoint=server.ydb.endpoint, database="/local") as driver, ydb.QuerySessionPool(driver) as pool:
        driver.wait(10, fail_fast=True)
        pool.execute_with_retries("CREATE TABLE t (id Uint64 NOT NULL, PRIMARY KEY (id))")
        pool.execute_with_retries("UPSERT INTO t (id) VALUES (1), (2)")
        lines.clear()
        heavy = "ListSum(ListMap(ListFromRange(0, 100000), ($x) -> { RETURN $x % 7; }))"
        pool.execute_with_retries(f"SELECT id, {heavy} FROM t")
    (line,) = [each for each in lines if "ExecuteQuery" in each]
    assert line.endswith("read 2 rows") and " /local, id " in line
