"""Crypto-shredding: what sealed records cost, and what a snapshot tells of secrets after they have expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

from asking import ask
from figures import Figure
from pipelining import IN_FLIGHT, Pipeline, measure_cost, multiple, take_turns
from servers import Meter, Running, mayfly
from signed import COLLECTION, CONTAINER, DATABASE, Caller, headers, item
from wrk import raw

COUNT, ROUNDS = 3_200, 5
"""Records of a container; each round writes and purges one of its own."""

READS, READ_ROUNDS = 480, 25
SCANS, SCAN_ROUNDS = 3, 25
"""Queries of a round, and rounds."""

SECRETS = 1_000
MARK = "secret "
QUERY = {"Content_Type": "application/query+json", "x_ms_documentdb_isquery": "True"}


def shredding(place: Path) -> Iterator[Figure]:
    """The cost of sealed records, and the search for secrets."""
    yield from _costs(place)
    yield from _searches(place)


# --- the cost ------------------------------------------------------------------------------------------------------------


def _costs(place: Path) -> Iterator[Figure]:
    """One server over a file, with containers whose records are sealed beside others."""
    with mayfly(str(place / "sealed.db")) as server:
        caller = Caller(server.port)
        for number in range(ROUNDS + 1):
            for kind in ("sealed", "plain"):
                caller.make(f"{kind}{number}")
            ask(server.port, "POST", "/_mayfly/lifecycle", target=_target(f"sealed{number}"), shred="day")
        meter = Meter(server.pid)
        of = f"items of 1 KB in a file, one connection with {IN_FLIGHT} in flight"
        writes = _in_turn(ROUNDS, lambda kind, turn: _write(server, meter, f"{kind}{turn}"))
        yield multiple("writes of sealed records", writes, f"processor time; {COUNT:,} new {of}")
        yield multiple("point reads of sealed records", _read(server, meter), f"processor time; {of}")
        scans = _in_turn(SCAN_ROUNDS, lambda kind, _: _scan(caller, meter, f"{kind}0"))
        what = f"processor time for each item of a query that reads {COUNT:,} items of 1 KB"
        yield multiple("a query over sealed records", scans, what)
        # Records are whole seconds old, and the last were written within this one.
        Event().wait(2)
        purges = _in_turn(ROUNDS, lambda kind, turn: _purge(server, caller, meter, f"{kind}{turn}"))
        yield multiple("purges of sealed records", purges, f"processor time; {COUNT:,} items of 1 KB due at once")
        caller.close()


def _in_turn(rounds: int, measure: Callable[[str, int], float]) -> tuple[list[float], list[float]]:
    """Measure sealed and plain containers in turn; `measure` gets the kind and the number of the round."""
    sealed, plain = iter(range(rounds + 1)), iter(range(rounds + 1))
    return take_turns(rounds, lambda: measure("sealed", next(sealed)), lambda: measure("plain", next(plain)))


def _target(name: str) -> str:
    return f"cosmos:{DATABASE}/{name}"


def _creates(server: Running, name: str, values: Iterator[bytes]) -> list[str]:
    link = f"dbs/{DATABASE}/colls/{name}"
    fields = headers("POST", "docs", link) | {"Content-Type": "application/json"}
    return [raw("POST", f"/{link}/docs", fields, server.port, value) for value in values]


def _write(server: Running, meter: Meter, name: str) -> float:
    values = (item(f"i{number}", n=1) for number in range(COUNT))
    with Pipeline(server.port, _creates(server, name, values)) as pipeline:
        return measure_cost(meter, pipeline, COUNT)


def _read(server: Running, meter: Meter) -> tuple[list[float], list[float]]:
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(Pipeline(server.port, _point_reads(server, f"{kind}0"))) for kind in ("sealed", "plain")
        )
        return take_turns(
            READ_ROUNDS, lambda: measure_cost(meter, one, READS), lambda: measure_cost(meter, other, READS)
        )


def _point_reads(server: Running, name: str) -> list[str]:
    links = [f"dbs/{DATABASE}/colls/{name}/docs/i{number}" for number in range(COUNT)]
    return [raw("GET", f"/{link}", headers("GET", "docs", link), server.port) for link in links]


def _scan(caller: Caller, meter: Meter, name: str) -> float:
    """Return the microseconds of an item."""
    meter.start()
    for _ in range(SCANS):
        found = _query(caller, f"dbs/{DATABASE}/colls/{name}", "SELECT VALUE COUNT(1) FROM c WHERE c.n = 1")
        if found != [COUNT]:
            raise RuntimeError(f"{found} of {COUNT} items were found")
    return meter.take(SCANS * COUNT)


def _query(caller: Caller, link: str, text: str) -> Any:
    body = {"query": text, "parameters": []}
    return caller.expect(200, "POST", f"/{link}/docs", "docs", link, body, **QUERY)["Documents"]


def _purge(server: Running, caller: Caller, meter: Meter, name: str) -> float:
    meter.start()
    caller.set_default_ttl(1, name)
    ask(server.port, "POST", "/_mayfly/purge", target=_target(name))
    used = meter.take(COUNT)
    purged = ask(server.port, "GET", "/_mayfly/stats")["targets"][_target(name)]["purged"]
    if purged != COUNT:
        raise RuntimeError(f"{purged} of {COUNT} records were purged")
    return used


# --- what a snapshot tells -----------------------------------------------------------------------------------------------


def _searches(place: Path) -> Iterator[Figure]:
    for shred in ("day", "off"):
        found, restored = _plant_and_search(place / f"{shred}.db", shred)
        kind = "with crypto-shredding" if shred == "day" else "without it"
        how = (
            f"occurrences in a snapshot that was saved while {SECRETS:,} items with a secret each lived; after their expiry its"
            f" restore brings {restored:,} of them back"
        )
        target, met = ("<= 0", found + restored == 0) if shred == "day" else ("", None)
        yield Figure(f"secrets found in a snapshot, {kind}", f"{found:,}", target, met, how, found)


def _plant_and_search(path: Path, shred: str) -> tuple[int, int]:
    """Return how often a mark stands in the snapshot, and how many items a client can read after its restore."""
    with mayfly("--clock", "virtual", str(path)) as server:
        caller = Caller(server.port)
        caller.make(defaultTtl=3_600)
        ask(server.port, "POST", "/_mayfly/lifecycle", target=_target(CONTAINER), shred=shred)
        values = (item(f"i{number}", note=f"{MARK}{number}") for number in range(SECRETS))
        with Pipeline(server.port, _creates(server, CONTAINER, values)) as pipeline:
            # One at a time: their number is no multiple of those in flight.
            pipeline.send(SECRETS, 1)
        ask(server.port, "PUT", "/_mayfly/snapshots/planted")
        ask(server.port, "POST", "/_mayfly/clock/advance", by="2d")
        purged = ask(server.port, "GET", "/_mayfly/stats")["targets"][_target(CONTAINER)]["purged"]
        if purged != SECRETS:
            raise RuntimeError(f"{purged} of {SECRETS} secrets expired")
        snapshot = Path(f"{path}-snapshots") / "planted.snapshot"
        found = snapshot.read_bytes().count(MARK.encode())
        answer = ask(server.port, "POST", "/_mayfly/snapshots/planted/restore")
        (restored,) = _query(caller, COLLECTION, f"SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.note, '{MARK}')")
        caller.close()
    if restored + answer["shredded"] != SECRETS:
        raise RuntimeError(f"of {SECRETS} secrets {restored} were restored, and {answer['shredded']} left out")
    return found, int(restored)
