"""Records that come and die on three wires, steadily, while memory and files of the server are looked at."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from threading import Event, Thread
from time import monotonic
from typing import Any

import ydb
from pymongo import MongoClient

from reliability.kill9.process import Server
from reliability.kill9.wire import Connection
from served import Http

PAUSE = 0.01
"""Seconds between two rounds of a client; each round writes, reads and queries."""

TTL = 5
ROUNDS = 200
"""Rounds of one connection or session; then it is opened anew."""

PAD = "x" * 1000
MEGABYTE = 1_000_000


@dataclass
class Sample:
    """`at`: seconds since the start. `resident`, `stored`: megabytes of memory, and of the file with its log."""

    at: float
    resident: float
    stored: float


@dataclass
class Measured:
    """`rounds` by wire, what failed, and the samples."""

    rounds: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def growth(self, what: str) -> float:
        """By how much the last quarter lies above the third one, as a share: both are means."""
        values = [getattr(sample, what) for sample in self.samples]
        half = values[len(values) // 2 :]
        middle = len(half) // 2
        return float(mean(half[middle:]) / mean(half[:middle]) - 1)

    def spread(self, count: int) -> list[Sample]:
        """So many samples at even distances, the last one among them; all if there are fewer."""
        return self.samples[:: -max(1, len(self.samples) // count)][:count][::-1]


class ChurnServer(Server):
    """A server whose dates expire at once."""

    @property
    def _arguments(self) -> list[str]:
        return [*super()._arguments, "--mongo-sweep-interval", "1s", "--event-limit", "1000"]


def churn(directory: Path, seconds: float, every: float = 5.0) -> Measured:
    """Let clients of three wires work for so many seconds."""
    measured = Measured()
    with ChurnServer(directory, ydb=True) as server:
        server.start()
        ports = Http(server.port).get("info")["ports"]
        ended = Event()
        workers: dict[str, Callable[[int], None]] = {
            "cosmos": cosmos(server.port), "mongo": mongo(ports["mongo"]), "ydb": yql(server.ydb)
        }  # fmt: skip
        threads = [Thread(target=_work, args=(name, work, measured, ended)) for name, work in workers.items()]
        for thread in threads:
            thread.start()
        began = monotonic()
        while monotonic() - began < seconds and not measured.errors:
            ended.wait(every)
            measured.samples.append(Sample(monotonic() - began, _resident(server.pid), _stored(server.file)))
        ended.set()
        for thread in threads:
            thread.join()
    return measured


def _work(name: str, work: Callable[[int], None], measured: Measured, ended: Event) -> None:
    number = 0
    while not ended.is_set():
        try:
            for _ in range(ROUNDS):
                work(number)
                number += 1
                if ended.wait(PAUSE):
                    break
            work(-1)
        except Exception as error:  # noqa: BLE001 -- the soak ends and tells of it
            measured.errors.append(f"{name}: {type(error).__name__}: {error}")
            return
        measured.rounds[name] = number


def cosmos(port: int) -> Callable[[int], None]:
    """Items with a ttl of their own. A negative number: a new connection follows."""
    held: list[Connection] = []
    runners: list[asyncio.Runner] = []

    async def work(number: int) -> None:
        if number < 0:
            held.pop().close()
            await asyncio.sleep(0)
            return
        if not held:
            held.append(await Connection.open(port))
        connection = held[0]
        key = {"x-ms-documentdb-partitionkey": '["p"]'}
        if not number:
            await connection.ask("POST", "dbs", "dbs", {"id": "d"})
            body = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}, "defaultTtl": -1}
            await connection.ask("POST", "colls", "dbs/d/colls", body)
        item = {"id": str(number), "pk": "p", "ttl": TTL, "n": number, "a": [*range(20)], "pad": PAD}
        answer = await connection.ask("POST", "docs", "dbs/d/colls/c/docs", item, **key)
        assert answer.status == 201, answer
        assert (await connection.ask("GET", "docs", f"dbs/d/colls/c/docs/{number}", None, **key)).status == 200
        if not number % 10:
            query = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True", **key}
            text = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a WHERE c.n > 5"
            assert (await connection.ask("POST", "docs", "dbs/d/colls/c/docs", {"query": text}, **query)).status == 200

    def run(number: int) -> None:
        if not runners:
            runners.append(asyncio.Runner())
        runners[0].run(work(number))
        if number < 0:
            runners.pop().close()

    return run


def mongo(port: int) -> Callable[[int], None]:
    """Documents under an index with `expireAfterSeconds`."""
    held: list[MongoClient[dict[str, Any]]] = []

    def work(number: int) -> None:
        if number < 0:
            held.pop().close()
            return
        if not held:
            held.append(MongoClient("127.0.0.1", port))
        collection = held[0]["d"]["c"]
        if not number:
            collection.create_index("at", expireAfterSeconds=TTL)
        collection.insert_one({"_id": number, "at": datetime.now(UTC), "n": number % 7, "pad": PAD})
        collection.update_one({"_id": number}, {"$set": {"seen": True}})
        if not number % 10:
            list(collection.aggregate([{"$group": {"_id": "$n", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]))

    return work


def yql(endpoint: str) -> Callable[[int], None]:
    """Rows that are written and deleted, since runs over TTL columns are minutes apart."""
    held: list[Any] = []

    def work(number: int) -> None:
        if number < 0:
            driver, pool = held
            held.clear()
            pool.stop()
            driver.stop()
            return
        if not held:
            driver = ydb.Driver(endpoint=endpoint, database="/local")
            driver.wait(10, fail_fast=True)
            held[:] = [driver, ydb.QuerySessionPool(driver)]
        pool = held[1]
        if not number:
            pool.execute_with_retries("CREATE TABLE c (id Uint64 NOT NULL, n Int64, pad Utf8, PRIMARY KEY (id))")
        upsert = f"UPSERT INTO c (id, n, pad) VALUES ({number}, {number % 7}, '{PAD}')"
        pool.execute_with_retries(f"{upsert}; DELETE FROM c WHERE id = {max(0, number - 100)}")
        if not number % 10:
            pool.execute_with_retries("SELECT n, COUNT(*) AS c FROM c GROUP BY n ORDER BY n")

    return work


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / MEGABYTE


def _stored(file: Path) -> float:
    parts = [file, file.with_name(file.name + "-wal")]
    return sum(os.stat(part).st_size for part in parts if part.exists()) / MEGABYTE  # noqa: PTH116
