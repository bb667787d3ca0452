"""How the processor time of a request divides between the layers of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from driven import PAD, PIPELINED, TIMES, Pipe, collection
from figures import Figure, Table, not_run
from protocol import Target
from pymongo import MongoClient
from servers import asked, processor_seconds, script
from wrk import Wrk

SECONDS = 4.0
INSERTS = 4_000
LEAST = 0.3
"""Microseconds below which a layer is no row of its own."""

COLUMNS = ("point read", "upsert", "find by _id", "insert_one")


def layers(wrk: Wrk, place: Path) -> Iterator[Figure | Table]:
    """Microseconds of one request by layer; Cosmos DB's on 32 connections, MongoDB's on one."""
    if wrk.program is None:
        yield not_run("layers", "wrk is missing")
        return
    with (
        script(Path(__file__).with_name("sampled.py"), str(place / "layers.db")) as server,
        MongoClient[dict[str, Any]](server.mongo) as client,
    ):
        target, made = Target(wrk, "layers", server), collection(client)
        host, port = client.address or ("127.0.0.1", 0)
        with Pipe(host, port) as pipe:
            # A connection that says nothing is dropped.
            pipe.rate()
            work: dict[str, Callable[[], float]] = {
                "point read": lambda: target.rate("read", seconds=SECONDS) * SECONDS,
                "upsert": lambda: target.rate("upsert", seconds=SECONDS) * SECONDS,
                "find by _id": lambda: sum(_finds(pipe) for _ in range(10)),
                "insert_one": lambda: _inserts(made),
            }
            split = {}
            for name in COLUMNS:
                asked(server, "")
                used = processor_seconds(server.pid)
                count = work[name]()
                used = processor_seconds(server.pid) - used
                seen = asked(server, "")
                # The samples give the shares, the clock of the process the sum.
                split[name] = {place: part / sum(seen.values()) * used / count * 1e6 for place, part in seen.items()}
    yield _table(split)


def _finds(pipe: Pipe) -> float:
    pipe.rate()
    return PIPELINED * TIMES


def _inserts(made: Any) -> float:
    for _ in range(INSERTS):
        made.insert_one({"text": "new", "pad": PAD})
    return INSERTS


def _table(split: dict[str, dict[str, float]]) -> Table:
    places = {place for each in split.values() for place in each}
    large = {place: max(each.get(place, 0.0) for each in split.values()) for place in places}
    shown = sorted((place for place in places if large[place] >= LEAST), key=lambda place: -large[place])
    rows = [(place, *(f"{split[name].get(place, 0.0):.1f}" for name in COLUMNS)) for place in shown]
    rest = [sum(part for place, part in split[name].items() if large[place] < LEAST) for name in COLUMNS]
    rows.append(("all others", *(f"{part:.1f}" for part in rest)))
    rows.append(("**together**", *(f"**{sum(split[name].values()):.1f}**" for name in COLUMNS)))
    return Table("layers", ("microseconds", *COLUMNS), tuple(rows))
