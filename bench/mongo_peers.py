"""The same calls beside others: mongomock and MontyDB, which answer in the client's own process, and FerretDB, a server."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from driven import TERMS, Call, calls_of, collection, rates
from figures import Figure, microseconds, not_run, ratio
from pymongo import MongoClient
from servers import Meter, free_port, mayfly, program

COUNT = 10_000
ROUNDS, SECONDS = 5, 0.3
AHEAD = 100
"""Times as fast as what scans."""


def peers() -> dict[str, Callable[[], Any]]:
    """A new client of each that is installed, by its name."""
    sys.path.append(os.environ.get("BENCH_PEERS", ""))
    try:
        mongomock, montydb = importlib.import_module("mongomock"), importlib.import_module("montydb")
    except ImportError:
        return {}
    return {"mongomock": mongomock.MongoClient, "MontyDB": lambda: montydb.MontyClient(":memory:")}


def against_peers(place: Path) -> Iterator[Figure]:
    """By `_id`, by an index and by a range of ten: ours through pymongo from a file, theirs called directly."""
    found = peers()
    if not found:
        yield not_run("finds against mongomock and MontyDB", "they are not installed: tools/bench.sh does that")
        return
    for name, client in found.items():
        with (
            mayfly("--mongo-port", "0", str(place / f"{name}.db")) as server,
            MongoClient[dict[str, Any]](server.mongo) as own,
        ):
            ours, theirs = _finds(collection(own, COUNT)), _finds(_filled(client()))
            both = {(kind, which): call for kind in ours for which, call in (("o", ours[kind]), ("t", theirs[kind]))}
            calls = {f"{which} {kind}": call for (kind, which), call in both.items()}
            # The peer computes in this process, as the driver does: what ours uses is the server's.
            meter = Meter(server.pid)
            measured = rates(calls, ROUNDS, SECONDS, meter)
        for kind in ours:
            what = f"{COUNT:,} documents of 1 KB; ours over a connection, theirs a call"
            used = microseconds(meter.cost(f"o {kind}"))
            both_rates = measured[f"o {kind}"], measured[f"t {kind}"]
            yield ratio(f"find by {kind}, against {name}", *both_rates, AHEAD, what, used)


def against_ferretdb(place: Path) -> Iterator[Figure]:
    """The calls of `through_driver`, ours and FerretDB's on SQLite, each through pymongo on one connection."""
    command = os.environ.get("BENCH_FERRETDB", "")
    if not command:
        yield not_run("calls against FerretDB", "BENCH_FERRETDB names no program")
        return
    port, data = free_port(), place / "ferretdb"
    data.mkdir()
    asked = ["--handler=sqlite", f"--sqlite-url=file:{data}/", f"--listen-addr=127.0.0.1:{port}", f"--state-dir={data}"]
    with (
        program([command, *asked, "--telemetry=disable", "--debug-addr=-"], port, place / "ferretdb.log") as theirs,
        mayfly("--mongo-port", "0", str(place / "ours.db")) as ours,
        MongoClient[dict[str, Any]](ours.mongo) as own,
        MongoClient[dict[str, Any]](f"mongodb://127.0.0.1:{port}/?directConnection=true") as other,
    ):
        meters = Meter(ours.pid), Meter(theirs.pid)
        measured = rates(calls_of(own), ROUNDS, SECONDS, meters[0])
        against = rates(calls_of(other), ROUNDS, SECONDS, meters[1])
    for name, found in measured.items():
        used = microseconds(*(meter.cost(name) for meter in meters))
        yield ratio(
            f"{name}, against FerretDB on SQLite", found, against[name], None, f"{TERMS}; both from a file", used
        )


def _filled(client: Any) -> Any:
    made = client["bench"]["c"]
    made.insert_many([{"_id": n, "n": n, "text": f"v{n}", "pad": "x" * 900} for n in range(COUNT)])
    with contextlib.suppress(NotImplementedError):  # MontyDB has no indexes.
        made.create_index("n")
    return made


def _finds(made: Any) -> dict[str, Call]:
    def some(query: dict[str, Any], count: int) -> None:
        if len(list(made.find(query))) != count:
            raise RuntimeError(f"{query} does not find {count}")

    return {
        "_id": lambda n: some({"_id": n * 7919 % COUNT}, 1),
        "an index": lambda n: some({"n": n * 7919 % COUNT}, 1),
        "a range of ten": lambda n: some({"n": {"$gte": (first := n * 7919 % (COUNT - 10)), "$lt": first + 10}}, 10),
    }
