"""Earlier instants: queries as of one, and what keeping the versions costs writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from asking import ask
from figures import Figure
from pipelining import IN_FLIGHT, Pipeline, measure_cost, multiple, share_of, take_turns
from servers import Meter, Running, mayfly
from signed import DATABASE, IDS, Caller
from wrk import upserts

RECORDS, GROUPS, CHANGES = 5_000, 100, 1_000
FIRST, FURTHER = 7, 15
WRITES, WRITE_ROUNDS = 96, 30


def past(place: Path) -> Iterator[Figure]:
    """Queries over MongoDB's protocol, and upserts over that of Cosmos DB."""
    from pymongo import MongoClient

    with mayfly("--clock", "virtual", "--mongo-port", "0", str(place / "past.db")) as server, ExitStack() as stack:
        mongo = stack.enter_context(MongoClient[dict[str, Any]](server.mongo, tz_aware=True))
        yield from _queries(server, mongo["bench"]["c"])
    with mayfly("--clock", "virtual", str(place / "kept.db")) as server:
        yield _writes(server)


def _advance(server: Running) -> datetime:
    """Advance the clock by a second, and return the instant before."""
    before = ask(server.port, "GET", "/_mayfly/clock")["now"]
    ask(server.port, "POST", "/_mayfly/clock/advance", by="1s")
    return datetime.fromisoformat(before)


def _queries(server: Running, collection: Any) -> Iterator[Figure]:
    collection.create_index("group")
    collection.insert_many({"_id": n, "group": n % GROUPS, "pad": "x" * 200} for n in range(RECORDS))
    ask(server.port, "POST", "/_mayfly/lifecycle", target="mongo:bench.c", history="30d")
    meter, first = Meter(server.pid), list[tuple[float, float]]()
    for turn in range(FIRST):
        ids, instant = _change(server, collection, turn)
        now = _measure(meter, collection)
        first.append((_measure(meter, collection, instant, ids), now))
    yield _told("the first query as of an instant", ([each for each, _ in first], [each for _, each in first]))
    ids, instant = _change(server, collection, FIRST)
    as_of = partial(_measure, meter, collection, instant, ids)
    further = take_turns(FURTHER, as_of, lambda: _measure(meter, collection))
    yield _told("further queries as of this instant", further)


def _change(server: Running, collection: Any, turn: int) -> tuple[set[int], datetime]:
    """Return the ids that a query finds, and their instant. Afterwards as many others are found."""
    from pymongo import UpdateOne

    ids, instant = _find(collection), _advance(server)
    numbers = range(turn * CHANGES, (turn + 1) * CHANGES)
    collection.bulk_write([UpdateOne({"_id": n % RECORDS}, {"$inc": {"group": 1}}) for n in numbers])
    _advance(server)
    if _find(collection) == ids:
        raise RuntimeError("the changes have changed nothing")
    return ids, instant


def _find(collection: Any, instant: datetime | None = None) -> set[int]:
    comment = None if instant is None else {"mayflyAsOf": instant}
    return {each["_id"] for each in collection.find({"group": 7}, {"_id": 1}, comment=comment)}


def _measure(meter: Meter, collection: Any, instant: datetime | None = None, expected: set[int] | None = None) -> float:
    """Return the microseconds of a query; RuntimeError for other ids than expected."""
    meter.start()
    found = _find(collection, instant)
    taken = meter.take(1)
    if expected is not None and found != expected:
        raise RuntimeError(f"as of an instant with {len(expected)} documents {len(found)} were found, or others")
    return taken


def _told(name: str, costs: tuple[list[float], list[float]]) -> Figure:
    values = [median(each) / 1e3 for each in costs]
    shares = share_of(costs)
    used = f"{values[0]:.1f} ms against {values[1]:.1f} ms"
    how = (
        f"processor time against the same query of the present; {CHANGES:,} of {RECORDS:,} documents were changed since the"
        f" instant; a find by an index, of {RECORDS // GROUPS} documents, whose ids are those of then; rounds"
        f" {min(shares):.2f}-{max(shares):.2f}"
    )
    return Figure(name, f"{median(shares):.2f} x", "", None, how, median(shares), used)


def _writes(server: Running) -> Figure:
    links = {name: f"dbs/{DATABASE}/colls/{name}" for name in ("kept", "plain")}
    caller = Caller(server.port)
    for name in links:
        caller.make(name)
    caller.close()
    ask(server.port, "POST", "/_mayfly/lifecycle", target=f"cosmos:{DATABASE}/kept", history="1h")
    meter = Meter(server.pid)
    with ExitStack() as stack:
        one, other = (stack.enter_context(Pipeline(server.port, upserts(server.port, link))) for link in links.values())
        for pipeline in (one, other):
            pipeline.send(IDS // IN_FLIGHT * IN_FLIGHT + IN_FLIGHT)
        costs = take_turns(
            WRITE_ROUNDS, lambda: measure_cost(meter, one, WRITES), lambda: measure_cost(meter, other, WRITES)
        )
    what = f"processor time of upserts of 1 KB that replace items of a file, one connection with {IN_FLIGHT} in flight"
    return multiple("writes that keep the version before", costs, what)
