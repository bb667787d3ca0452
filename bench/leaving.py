"""Purges that do more than remove: last images, archive, roll-up, cascade and legal hold, each beside purges in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from asking import ask
from by_record import BYTES, COUNT, GROUPS, Kind, check_children, purge_in_turn, serve, target
from figures import Figure, rate
from servers import Running
from signed import DATABASE, Caller

TOTALS = f"dbs/{DATABASE}/colls/totals"


def _set(server: Running, container: str, **settings: Any) -> None:
    ask(server.port, "POST", "/_mayfly/lifecycle", target=target(container), **settings)


def keeping_images(place: Path) -> Iterator[Figure]:
    """Purges that keep the last version of each record for its event."""
    kind = Kind("kept", "with last images", lambda server, number: _set(server, f"kept{number}", last_image="1d"))
    with serve(place, [kind]) as server:
        yield from purge_in_turn(server, [kind])


def archiving(place: Path) -> Iterator[Figure]:
    """Purges that keep each record for an archive, and the flushes that write them to files."""
    flushes: list[float] = []

    def check(server: Running, _: int) -> None:
        began = perf_counter()
        written = ask(server.port, "POST", "/_mayfly/archives/flush", name="cold")
        flushes.append(perf_counter() - began)
        if (written["records"], written["waiting"]) != (COUNT, 0):
            raise RuntimeError(f"of {COUNT} records the archive got {written}")

    kind = Kind("cold", "into an archive", lambda server, n: _set(server, f"cold{n}", archive="cold"), check)
    with serve(place, [kind]) as server:
        ask(server.port, "POST", "/_mayfly/archives", name="cold", url=(place / "cold").as_uri(), every="1h")
        yield from purge_in_turn(server, [kind])
    rates = [COUNT / each for each in flushes[1:]]
    how = (
        f"JSON Lines in a directory, synced; {COUNT:,} records of {BYTES} B in one file; rounds {min(rates):,.0f}-"
        f"{max(rates):,.0f}; it runs beside the purges, by default within a minute"
    )
    yield rate("flush of an archive", median(rates), None, how)


def rolling_up(place: Path) -> Iterator[Figure]:
    """Purges that count records, and add up their numbers, in groups."""
    roll_up = {
        "into": target("totals"),
        "group": [{"path": "/group", "name": "pk"}],
        "count": "count",
        "sum": {"sum": "/n"},
    }

    def check(server: Running, number: int) -> None:
        caller, counts = Caller(server.port), []
        body = {"query": "SELECT VALUE c.count FROM c", "parameters": []}
        fields = {"Content_Type": "application/query+json", "x_ms_documentdb_isquery": "True"}
        for group in range(GROUPS):
            fields["x_ms_documentdb_partitionkey"] = f'["g{group}"]'
            counts += caller.expect(200, "POST", f"/{TOTALS}/docs", "docs", TOTALS, body, **fields)["Documents"]
        caller.close()
        # The totals are those of all rounds until now.
        if (len(counts), sum(counts)) != (GROUPS, (number + 1) * COUNT):
            raise RuntimeError(f"the roll-up counted {counts}")

    told = f"with a roll-up in {GROUPS} groups"
    kind = Kind("rolled", told, lambda server, number: _set(server, f"rolled{number}", roll_up=roll_up), check)
    with serve(place, [kind]) as server:
        yield from purge_in_turn(server, [kind])


def cascading(place: Path) -> Iterator[Figure]:
    """Purges that take a child along with each record. Records are counted, and not their children."""

    def prepare(server: Running, number: int) -> None:
        cascade = [{"to": target(f"children{number}"), "path": "/parent"}]
        _set(server, f"parents{number}", cascade=cascade)

    kind = Kind("parents", "with a child each", prepare, check_children, children=True)
    with serve(place, [kind]) as server:
        yield from purge_in_turn(server, [kind])


def holding(place: Path) -> Iterator[Figure]:
    """Purges under a hold that matches no record, and under one that matches, and so preserves, all."""
    kinds = [_hold("none", "c.pk = 'none'", 0), _hold("all", "c.n >= 0", COUNT)]
    with serve(place, kinds) as server:
        yield from purge_in_turn(server, kinds)


def _hold(name: str, where: str, preserved: int) -> Kind:
    def prepare(server: Running, number: int) -> None:
        body = {"target": target(f"{name}{number}"), "name": f"{name}-{number}", "where": where}
        ask(server.port, "POST", "/_mayfly/holds", **body, why="measured", by="bench")

    def check(server: Running, number: int) -> None:
        found = ask(server.port, "GET", f"/_mayfly/holds/{name}-{number}")["preserved"]
        if found != preserved:
            raise RuntimeError(f"a hold preserves {found} records instead of {preserved}")

    return Kind(name, f"under a hold that matches {name}", prepare, check)
