"""Requests that hold a server which computes on its event loop, each by the vendor's client or by bytes.

    python bench/hostile_requests.py fill URL MONGO YDB
    python bench/hostile_requests.py NAME URL MONGO YDB

prints one line: how the request ended.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from signed import COLLECTION, DATABASE, PARTITION, headers

STRINGS = 3_000
ROWS = 3_000
JOINED = "FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a"


class Wires:
    """The addresses of a server, and a client of each wire made when it is asked for."""

    def __init__(self, url: str, mongo: str, ydb: str) -> None:
        self.host = url.removeprefix("http://")
        self._mongo, self._ydb = mongo, ydb

    def cosmos(self, method: str, kind: str, link: str, path: str, body: Any, **more: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, payload, headers(method, kind, link) | more)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def query(self, text: str) -> str:
        more = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
        status, body = self.cosmos("POST", "docs", COLLECTION, f"/{COLLECTION}/docs", {"query": text}, **more)
        return f"{status}: {body.decode()[:60]}"

    @property
    def mongo(self) -> Any:
        from pymongo import MongoClient

        return MongoClient(self._mongo, retryWrites=False, retryReads=False)["d"]

    def yql(self, text: str) -> str:
        import ydb

        with ydb.Driver(endpoint=self._ydb, database="/local") as driver:
            driver.wait(10)
            with ydb.QuerySessionPool(driver) as pool:
                try:
                    found = pool.execute_with_retries(text, retry_settings=ydb.RetrySettings(max_retries=0))
                    return f"answered: {str([list(part.rows) for part in found])[:50]}"
                except ydb.Error as error:
                    return f"{type(error).__name__}: {str(error)[:50]}"


def fill(wires: Wires) -> str:
    """What the requests and the probes read."""
    wires.cosmos("POST", "dbs", "", "/dbs", {"id": DATABASE})
    wires.cosmos(
        "POST", "colls", f"dbs/{DATABASE}", f"/dbs/{DATABASE}/colls",
        {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}},
    )  # fmt: skip
    for item in ({"id": "probe", "pk": PARTITION}, {"id": "big", "pk": PARTITION, "a": [*range(60)]}):
        status, body = wires.cosmos("POST", "docs", COLLECTION, f"/{COLLECTION}/docs", item)
        if status != 201:
            raise RuntimeError(f"filling was answered {status}: {body!r}")
    mongo = wires.mongo
    mongo.probe.insert_one({"_id": 1})
    mongo.texts.insert_many([{"_id": n, "t": "a" * 40 + "!", "n": n} for n in range(STRINGS)])
    wires.yql("CREATE TABLE probe (id Uint64 NOT NULL, n Int64, PRIMARY KEY (id))")
    wires.yql("UPSERT INTO probe (id, n) VALUES (1, 1)")
    wires.yql("CREATE TABLE t (id Uint64 NOT NULL, n Int64, text Utf8, PRIMARY KEY (id))")
    filled = wires.yql(
        f"UPSERT INTO t SELECT Unwrap(CAST(x AS Uint64)) AS id, CAST(x % 3 AS Int64) AS n, Utf8('abcdefgh') AS text FROM "
        f"(SELECT ListFromRange(0, {ROWS}) AS xs) FLATTEN LIST BY xs AS x"
    )
    if not filled.startswith("answered"):
        raise RuntimeError(filled)
    return filled


def of_mongo(work: Callable[[Any], Any]) -> Callable[[Wires], str]:
    """A request of pymongo's."""

    def run(wires: Wires) -> str:
        from pymongo.errors import OperationFailure, PyMongoError

        try:
            return f"answered: {str(work(wires.mongo))[:50]}"
        except OperationFailure as error:
            return f"error {error.code}: {str(error)[:50]}"
        except PyMongoError as error:
            return f"{type(error).__name__}: {str(error)[:50]}"

    return run


def pipelined(wires: Wires) -> str:
    """100,000 requests without waiting for an answer."""
    host, _, port = wires.host.partition(":")
    request = f"GET / HTTP/1.1\r\nhost: {wires.host}\r\n\r\n".encode() * 1000
    with socket.create_connection((host, int(port))) as connection, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(connection.sendall, request * 100)
        answered, tail, wanted = 0, b"", b"HTTP/1.1 "
        while answered < 100_000 and (got := connection.recv(1 << 20)):
            answered += (tail + got).count(wanted)
            # A status line may be cut in two.
            tail = (tail + got)[1 - len(wanted) :]
        sending.result()
    return f"{answered} answered"


def six_at_once(wires: Wires) -> str:
    """The same join on six connections."""
    with ThreadPoolExecutor(6) as pool:
        ends = [*pool.map(lambda _: wires.query(f"SELECT VALUE COUNT(1) {JOINED}")[:3], range(6))]
    return f"answered {', '.join(ends)}"


def abandoned(wires: Wires) -> str:
    """A join whose client leaves at once."""
    connection = http.client.HTTPConnection(wires.host, timeout=120)
    given = headers("POST", "docs", COLLECTION) | {
        "content-type": "application/query+json", "x-ms-documentdb-isquery": "True",
    }  # fmt: skip
    connection.request(
        "POST", f"/{COLLECTION}/docs", json.dumps({"query": f"SELECT VALUE 1 {JOINED} WHERE a < 0"}), given
    )
    connection.close()
    return "its client has left"


def large_item(wires: Wires) -> str:
    """2 MB of nested arrays as one item."""
    item = {"id": "large", "pk": PARTITION, "a": [[[n]] for n in range(160_000)]}
    body = json.dumps(item, separators=(",", ":")).encode()
    status, _ = wires.cosmos("POST", "docs", COLLECTION, f"/{COLLECTION}/docs", body)
    return str(status)


LOOKUP = {"$lookup": {"from": "texts", "localField": "none", "foreignField": "none", "as": "x"}}
RANGE = {"$project": {"x": {"$range": [0, 3_000_000]}}}
SUM = {"$reduce": {"input": {"$range": [0, 5_000_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}

REQUESTS: Final[Mapping[str, Callable[[Wires], str]]] = {
    "Cosmos DB: a join of an item's array with itself, four times": lambda wires: wires.query(f"SELECT VALUE COUNT(1) {JOINED}"),
    "Cosmos DB: the same, and the client leaves": abandoned,
    "Cosmos DB: the same on six connections": six_at_once,
    "Cosmos DB: a query text of 250 KB": lambda wires: wires.query(
        "SELECT * FROM c WHERE " + " OR ".join(f"c.v = {number}" for number in range(16_000))
    ),
    "Cosmos DB: lists of lists of 216,000 members": lambda wires: wires.query(
        "SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE ARRAY(SELECT VALUE 1 FROM x IN c.a) FROM a IN c.a JOIN b IN c.a "
        "JOIN d IN c.a)) FROM c"
    ),
    "Cosmos DB: an item of 2 MB": large_item,
    "HTTP: 100,000 pipelined requests": pipelined,
    "MongoDB: $lookup twice": of_mongo(
        lambda db: [*db.texts.aggregate([LOOKUP, {"$unwind": "$x"}, LOOKUP, {"$count": "n"}])]
    ),
    "MongoDB: $range of 3,000,000 and $group": of_mongo(
        lambda db: [*db.texts.aggregate([{"$limit": 3}, RANGE, {"$unwind": "$x"}, {"$group": {"_id": "$x"}}, {"$count": "n"}])]
    ),
    "MongoDB: the same with maxTimeMS 1000": of_mongo(
        lambda db: [*db.texts.aggregate([RANGE, {"$unwind": "$x"}, {"$group": {"_id": "$x"}}], maxTimeMS=1000)]
    ),
    "MongoDB: a backtracking expression over 3,000 texts": of_mongo(
        lambda db: db.texts.count_documents({"t": {"$regex": "^(a+)+$"}})
    ),
    "MongoDB: an update that adds up 5,000,000 numbers": of_mongo(
        lambda db: db.texts.update_one({"_id": 1}, [{"$set": {"sum": SUM}}]).modified_count
    ),
    "MongoDB: 40 MB of documents in one message": of_mongo(
        lambda db: len(db.large.insert_many([{"t": "x" * 400_000} for _ in range(100)]).inserted_ids)
    ),
    "MongoDB: an order of 300,000 numbers": of_mongo(
        lambda db: [*db.texts.aggregate([{"$limit": 100}, {"$project": {"x": {"$range": [0, 3000]}}}, {"$unwind": "$x"},
                                         {"$sort": {"x": -1, "_id": 1}}, {"$limit": 1}])]
    ),
    "YDB: a join of 3,000 rows with themselves": lambda wires: wires.yql(
        "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.n = b.n JOIN t AS c ON c.n = b.n"
    ),
    "YDB: CONCAT in CONCAT": lambda wires: wires.yql(
        "".join(f"$a{n + 1} = $a{n} || $a{n};" if n else "$a0 = 'abcdefgh'; $a1 = $a0 || $a0;" for n in range(24))
        + "SELECT LENGTH($a24), COUNT(*) FROM t WHERE $a24 || CAST(id AS String) != ''"
    ),
    "YDB: a lambda over 3,000,000 numbers": lambda wires: wires.yql(
        "SELECT ListSum(ListMap(ListFromRange(0, 3000000), ($x) -> { RETURN $x * $x % 7; }))"
    ),
    "YDB: an UPSERT of 90,000 rows": lambda wires: wires.yql(
        "UPSERT INTO t SELECT Unwrap(CAST(x AS Uint64)) AS id, CAST(x AS Int64) AS n, Utf8('abc') AS text FROM "
        "(SELECT ListFromRange(10000, 100000) AS xs) FLATTEN LIST BY xs AS x"
    ),
}  # fmt: skip


def main() -> None:
    """Run one request."""
    name, *addresses = sys.argv[1:]
    print(json.dumps((fill if name == "fill" else REQUESTS[name])(Wires(*addresses))), flush=True)


if __name__ == "__main__":
    main()
