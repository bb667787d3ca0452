"""A client of each wire that reads one record every 5 ms, as a process of its own, and says how long it waited.

    python bench/probing.py URL MONGO YDB SECONDS

prints `ready`, then for each line of its input one line: what each wire waited since the line before, as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter
from typing import Any

from signed import COLLECTION, headers

PAUSE = 0.005


def cosmos(url: str) -> Callable[[], Any]:
    """A point read over REST."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    path, given = f"/{COLLECTION}/docs/probe", headers("GET", "docs", f"{COLLECTION}/docs/probe")

    def read() -> None:
        connection.request("GET", path, headers=given)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"a probe was answered {answer.status}")

    return read


def mongo(url: str) -> Callable[[], Any]:
    """A find by `_id`."""
    from pymongo import MongoClient

    collection: Any = MongoClient(url, serverSelectionTimeoutMS=60_000)["d"]["probe"]
    return lambda: collection.find_one({"_id": 1})


def ydb(url: str) -> Callable[[], Any]:
    """A prepared read by key."""
    import ydb as sdk

    driver = sdk.Driver(endpoint=url, database="/local")
    driver.wait(10)
    session = driver.table_client.session().create()
    prepared = session.prepare("DECLARE $id AS Uint64; SELECT n FROM probe WHERE id = $id;")
    return lambda: session.transaction(sdk.OnlineReadOnly()).execute(prepared, {"$id": 1}, commit_tx=True)


class Probe:
    """One wire. `waits`: seconds; the read that is under way counts with the time that it has taken so far."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._waits: list[float] = []
        self._began = perf_counter()

    def run(self, ended: Event) -> None:
        while not ended.is_set():
            self._began = perf_counter()
            self._read()
            self._waits.append(perf_counter() - self._began)
            ended.wait(PAUSE)

    def take(self) -> dict[str, float]:
        """What was waited since the last call: milliseconds, and the number of reads."""
        waits, self._waits = self._waits, []
        waits = sorted(waits or [perf_counter() - self._began])
        at = [waits[min(len(waits) - 1, int(len(waits) * share))] * 1000 for share in (0.5, 0.99)]
        return {"reads": len(waits), "p50": at[0], "p99": at[1], "max": waits[-1] * 1000}


def main() -> None:
    """Probe until the input ends."""
    probes = {
        name: Probe(make(url))
        for name, make, url in zip(("cosmos", "mongo", "ydb"), (cosmos, mongo, ydb), sys.argv[1:4], strict=True)
    }
    ended = Event()
    for probe in probes.values():
        Thread(target=probe.run, args=(ended,), daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({name: probe.take() for name, probe in probes.items()}), flush=True)
    ended.set()


if __name__ == "__main__":
    main()
