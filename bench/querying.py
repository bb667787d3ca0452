"""Queries with an index against the same ones without, and beside the other server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
from figures import Figure, microseconds, not_run, rate, ratio
from filling import Life, fill, parse_partition
from servers import Meter, Running, mayfly, rival
from signed import COLLECTION, CONTAINER, Caller, item

from mayflydb.clock import wall_us
from mayflydb.model.instant import floor_to_second

COUNT, BESIDE = 100_000, 10_000
KINDS = 5_000
ROUNDS = 5
EVERYWHERE = {
    "x_ms_documentdb_partitionkey": "[]",
    "x_ms_documentdb_partitionkeyrangeid": "0",
    "x_ms_documentdb_query_enablecrosspartition": "True",
}
PATIENCE = 120.0
"""Seconds in which an index must be there."""


class Asked(msgspec.Struct, frozen=True):
    """A query and how many rows it has, over `n` items of which n is the number and kind n % KINDS."""

    name: str
    text: str
    rows: Callable[[int], int]


EQUAL = Asked("an equality", "SELECT * FROM c WHERE c.kind = 77", lambda count: max(1, count // KINDS))
FIRST = Asked("ORDER BY with TOP 10", "SELECT TOP 10 * FROM c ORDER BY c.n DESC", lambda count: 10)
SUM = Asked("an aggregate over all partitions", "SELECT VALUE SUM(c.n) FROM c", lambda count: 1)


def queries(place: Path, command: str, why_not: str) -> Iterator[Figure]:
    """Each with its index against a scan, in one file of 100,000 items; then beside the rival, which has no indexes."""
    path = place / "queries.db"
    with mayfly(str(path)) as server:
        caller = Caller(server.port)
        caller.make()
        caller.close()
    fill(path, CONTAINER, _numbered(COUNT))
    scanned = {}
    with mayfly(str(path), "--index-after", "0") as server:
        scans = Meter(server.pid)
        for asked in (EQUAL, FIRST, SUM):
            scanned[asked.name] = _rounds(server, asked, COUNT, scans)
    with mayfly(str(path)) as server:
        meter = Meter(server.pid)
        for asked, target in ((EQUAL, 50), (FIRST, 10)):
            _wait_for_index(server.port, asked)
            quick = [1 / seconds for seconds in _rounds(server, asked, COUNT, meter)]
            slow = [1 / seconds for seconds in scanned[asked.name]]
            name = f"{asked.name} over {COUNT:,} items, by index against a scan"
            used = microseconds(meter.cost(asked.name), scans.cost(asked.name))
            yield ratio(name, quick, slow, target, f"{asked.text}; 1 KB items in a file", used)
    summed, how = COUNT / median(scanned[SUM.name]), f"{SUM.text} over {COUNT:,} items of 1 KB"
    yield rate(f"{SUM.name}, items", summed, None, how, microseconds(scans.cost(SUM.name) / COUNT))
    yield from _beside(place, command, why_not)


def _beside(place: Path, command: str, why_not: str) -> Iterator[Figure]:
    names = {asked.name: f"{asked.name} over {BESIDE:,} items, against the rival" for asked in (EQUAL, FIRST, SUM)}
    if not command:
        yield from (not_run(name, why_not) for name in names.values())
        return
    with mayfly(str(place / "beside.db"), "--index-after", "1000") as ours, rival(command) as theirs:
        for server in (ours, theirs):
            caller = Caller(server.port)
            caller.make()
            for number in range(BESIDE):
                body, how = item(f"n{number}", n=number, kind=number % KINDS), {"Content_Type": "application/json"}
                caller.expect(201, "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, body, **how)
            caller.close()
        for asked in (EQUAL, FIRST, SUM):
            if asked is not SUM:
                _wait_for_index(ours.port, asked)
            meters = [Meter(each.pid) for each in (ours, theirs)]
            taken = [_rounds(each, asked, BESIDE, meter) for each, meter in zip((ours, theirs), meters, strict=True)]
            rates = [[1 / seconds for seconds in each] for each in taken]
            used = microseconds(*(meter.cost(asked.name) for meter in meters))
            yield ratio(
                names[asked.name], rates[0], rates[1], 1, f"{asked.text}; ours in a file, theirs in memory", used
            )


def _numbered(count: int) -> Iterator[Life]:
    partition = parse_partition(b'["p1"]')
    now = floor_to_second(wall_us())
    for number in range(count):
        yield partition, b"n%d" % number, item(f"n{number}", n=number, kind=number % KINDS), now


def _wait_for_index(port: int, asked: Asked) -> None:
    """Ask until the answer is read from an index."""
    ends = perf_counter() + PATIENCE
    while _ask(port, asked)[1] > COUNT // 100:
        if perf_counter() > ends:
            raise RuntimeError(f"no index for {asked.text} after {PATIENCE:.0f} s")


def _rounds(server: Running, asked: Asked, count: int, meter: Meter) -> list[float]:
    """Seconds of each round; `meter` gets the name of the query."""
    taken = []
    for _ in range(ROUNDS):
        meter.start()
        taken.append(_seconds(server.port, asked, count))
        meter.stop(asked.name, 1)
    return taken


def _seconds(port: int, asked: Asked, count: int) -> float:
    """How long the whole query took; RuntimeError when it does not find what is there."""
    began = perf_counter()
    found, _ = _ask(port, asked)
    took = perf_counter() - began
    if found != asked.rows(count):
        raise RuntimeError(f"{asked.text} found {found} rows")
    return took


def _ask(port: int, asked: Asked) -> tuple[int, int]:
    """Rows found, and items read for them as the server says (0: it does not)."""
    caller = Caller(port)
    found, read, token = 0, 0, None
    while True:
        more = {
            "Content_Type": "application/query+json",
            "x_ms_documentdb_isquery": "True",
            "x_ms_max_item_count": "1000",
        }
        more |= EVERYWHERE | {"x_ms_documentdb_populatequerymetrics": "True"}
        if token:
            more["x_ms_continuation"] = token
        body = json.dumps({"query": asked.text}).encode()
        status, fields, answer = caller.send("POST", f"/{COLLECTION}/docs", "docs", COLLECTION, body, **more)
        if status != 200:
            raise RuntimeError(f"{asked.text} answered {status}: {answer[:300]!r}")
        found += len(json.loads(answer)["Documents"])
        metrics = dict(
            part.split("=") for part in (fields.get("x-ms-documentdb-query-metrics") or "").split(";") if part
        )
        read += int(metrics.get("retrievedDocumentCount", 0))
        token = fields.get("x-ms-continuation")
        if not token:
            caller.close()
            return found, read
