"""How many items a query looks at in a second when no key helps it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from figures import Figure, microseconds, rate
from filling import Life, fill, parse_partition
from servers import Meter, mayfly
from signed import COLLECTION, CONTAINER, PARTITION, Caller, item

from mayflydb.clock import wall_us
from mayflydb.model.instant import floor_to_second

COUNT = 20_000
ROUNDS = 3
QUERY = {"query": "SELECT c.id FROM c WHERE c.n > @low AND c.n < @high", "parameters": [
    {"name": "@low", "value": 999}, {"name": "@high", "value": 1200},
]}  # fmt: skip
MATCHES = 200


def scan(place: Path) -> Iterator[Figure]:
    """Row 8."""
    path = place / "scan.db"
    with mayfly(str(path)) as server:
        caller = Caller(server.port)
        caller.make()
        caller.close()
    fill(path, CONTAINER, _numbered())
    with mayfly(str(path)) as server:
        caller = Caller(server.port)
        meter, taken = Meter(server.pid), []
        for _ in range(ROUNDS):
            meter.start()
            taken.append(_run(caller))
            meter.stop("scan", COUNT)
        caller.close()
    how = f"{QUERY['query']} over {COUNT:,} items of 1 KB in a file, all pages"
    yield rate(
        "query that scans, items looked at", COUNT / median(taken), 300_000, how, microseconds(meter.cost("scan"))
    )


def _numbered() -> Iterator[Life]:
    partition = parse_partition(json.dumps([PARTITION]))
    now = floor_to_second(wall_us())
    for number in range(COUNT):
        yield partition, b"n%d" % number, item(f"n{number}", n=number), now


def _run(caller: Caller) -> float:
    """Seconds of the whole query; RuntimeError when it does not find what is there."""
    found, token = 0, None
    began = perf_counter()
    while True:
        more = {
            "Content_Type": "application/query+json",
            "x_ms_documentdb_isquery": "True",
            "x_ms_max_item_count": "1000",
        }
        if token:
            more["x_ms_continuation"] = token
        status, fields, body = caller.send(
            "POST", f"/{COLLECTION}/docs", "docs", COLLECTION, json.dumps(QUERY).encode(), **more
        )
        if status != 200:
            raise RuntimeError(f"the query answered {status}: {body[:300]!r}")
        found += json.loads(body)["_count"]
        token = fields.get("x-ms-continuation")
        if not token:
            break
    if found != MATCHES:
        raise RuntimeError(f"the query found {found} items instead of {MATCHES}")
    return perf_counter() - began
