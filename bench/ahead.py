"""Reads as of a later instant, against the same reads of the present, over each protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure, at_most
from pipelining import share_of, take_turns
from servers import Meter, Running, mayfly
from signed import COLLECTION, Caller, item

from mayflydb.clock import wall_us

RECORDS, ROUNDS = 3_000, 15
MOST = 1.2


def ahead(place: Path) -> Iterator[Figure]:
    """Queries that read every record of a container. All are left at the later instant, so that both do the same work."""
    import ydb
    from pymongo import MongoClient

    with mayfly("--mongo-port", "0", "--ydb-port", "0", str(place / "ahead.db")) as server, ExitStack() as stack:
        mongo = stack.enter_context(MongoClient[dict[str, Any]](server.mongo))
        driver = ydb.Driver(endpoint=server.ydb, database="/local")
        stack.callback(driver.stop)
        driver.wait(20)
        pool = stack.enter_context(ydb.QuerySessionPool(driver, size=1))
        later = _now() + timedelta(minutes=10)
        for name, query in (
            ("Cosmos DB", _on_cosmos(server, later)),
            ("MongoDB", _on_mongo(mongo, later)),
            ("YDB", _on_ydb(pool, later)),
        ):
            yield _compare(name, server, query)


def _compare(name: str, server: Running, query: Callable[[bool], int]) -> Figure:
    meter = Meter(server.pid)

    def measure(is_later: bool) -> float:
        meter.start()
        found = query(is_later)
        if found != RECORDS:
            raise RuntimeError(f"{name}: {found} of {RECORDS} records, {is_later=}")
        return meter.take(1)

    costs = take_turns(ROUNDS, lambda: measure(True), lambda: measure(False))
    shares = share_of(costs)
    how = (
        f"processor time of a query over {RECORDS:,} records with a filter, all of which are left then; rounds"
        f" {min(shares):.2f}-{max(shares):.2f}"
    )
    used = f"{median(costs[0]) / 1e3:.1f} ms against {median(costs[1]) / 1e3:.1f} ms"
    return at_most(f"as of a later instant against now, {name}", median(shares), "x", MOST, how, used)


def _now() -> datetime:
    return datetime.fromtimestamp(wall_us() / 1e6, UTC)


def _on_cosmos(server: Running, later: datetime) -> Callable[[bool], int]:
    caller = Caller(server.port)
    caller.make(defaultTtl=-1)
    for number in range(RECORDS):
        ttl = 3_600 if number % 2 else 30 * 86_400
        caller.expect(201, "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, item(f"i{number}", 200, n=1, ttl=ttl))
    body = {"query": "SELECT VALUE COUNT(1) FROM c WHERE c.n = 1", "parameters": []}
    fields = {"Content_Type": "application/query+json", "x_ms_documentdb_isquery": "True"}

    def query(is_later: bool) -> int:
        more = fields | ({"x_mayfly_as_of": later.isoformat()} if is_later else {})
        found = caller.expect(200, "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, body, **more)
        return int(found["Documents"][0])

    return query


def _on_mongo(client: Any, later: datetime) -> Callable[[bool], int]:
    collection = client["bench"]["c"]
    collection.create_index("until", expireAfterSeconds=0)
    spans = (timedelta(hours=1), timedelta(days=30))
    now = _now()
    collection.insert_many({"_id": n, "n": 1, "until": now + spans[n % 2], "pad": "x" * 100} for n in range(RECORDS))

    def query(is_later: bool) -> int:
        more = {"comment": {"mayflyAsOf": later}} if is_later else {}
        return int(collection.count_documents({"n": 1}, **more))

    return query


def _on_ydb(pool: Any, later: datetime) -> Callable[[bool], int]:
    pool.execute_with_retries(
        "CREATE TABLE c (id Uint64, n Int64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON until)"
    )
    spans = ("PT1H", "P30D")
    for at in range(0, RECORDS, 500):
        rows = ", ".join(f"({n}, 1, CurrentUtcTimestamp() + Interval('{spans[n % 2]}'))" for n in range(at, at + 500))
        pool.execute_with_retries(f"UPSERT INTO c (id, n, until) VALUES {rows}")
    pragma = f'PRAGMA mayfly.AsOf = "{later.isoformat()}"; '

    def query(is_later: bool) -> int:
        (found,) = pool.execute_with_retries(f"{pragma if is_later else ''}SELECT COUNT(*) AS n FROM c WHERE n = 1")
        return int(found.rows[0].n)

    return query
