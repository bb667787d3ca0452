"""What readers notice, through the driver, of a purge by a date and of one by `_ts`; and how fast both are beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter
from typing import Any, NamedTuple

from bson import DatetimeMS
from figures import Figure, rate
from pymongo import MongoClient
from servers import Running, asked, script

from mayflydb.clock import wall_us

COUNT = 30_000
KEPT = 1_000
ROUNDS = 3
PHASE = 2.0
PER_SECOND = 400
"""Reads at their time, whether or not the one before was late: a slow answer counts for all it delays."""

PATIENCE = 60.0
LONG = 100_000_000
PAD = "x" * 200
DATED, WRITTEN = "a date index", "_ts"


class Load(NamedTuple):
    """Seconds that each read took, and items purged in a second."""

    taken: list[float]
    purged: float = 0.0


def beside_readers(place: Path) -> Iterator[Figure]:
    """Reads by `_id` from another collection while a backlog is purged, against the same reads while nothing is."""
    watched = Path(__file__).with_name("watched.py")
    with script(watched, str(place / "purge.db")) as server, MongoClient[dict[str, Any]](server.mongo) as client:
        database = client["bench"]
        database["kept"].insert_many({"_id": number, "pad": PAD} for number in range(KEPT))
        _read(server, database, 0)
        for name, path in ((DATED, "at"), (WRITTEN, "_ts")):
            idle, loaded = [], []
            for turn in range(ROUNDS):
                _backlog(database, turn, path)
                idle.append(_read(server, database, 0))
                change = {"keyPattern": {path: 1}, "expireAfterSeconds": 1}
                database.command("collMod", f"dying{turn}", index=change)
                loaded.append(_read(server, database, COUNT))
                database.drop_collection(f"dying{turn}")
            yield from _figures(name, idle, loaded)


def _backlog(database: Any, turn: int, path: str) -> None:
    """A collection of documents that will be due together."""
    dying = database[f"dying{turn}"]
    dying.create_index(path, expireAfterSeconds=LONG)
    now = DatetimeMS(wall_us() // 1000)
    dying.insert_many({"_id": number, "at": now, "pad": PAD} for number in range(COUNT))


def _read(server: Running, database: Any, awaited: int) -> Load:
    """Reads for a while, and until so many items have been purged."""
    kept = database["kept"]
    taken: list[float] = []
    before = asked(server, "")["purged"]
    began = perf_counter()
    first = last = 0.0
    while True:
        due = began + len(taken) / PER_SECOND
        if (ahead := due - perf_counter()) > 0:
            Event().wait(ahead)
        due = max(due, perf_counter()) if ahead > 0 else due
        kept.find_one({"_id": len(taken) % KEPT})
        now = perf_counter()
        taken.append(now - due)
        if awaited and not last and len(taken) % 8 == 0:
            purged = asked(server, "")["purged"] - before
            first = first or (now if purged else 0.0)
            last = perf_counter() if purged >= awaited else 0.0
        if now - began > PHASE and (last or not awaited):
            return Load(taken, awaited / max(last - first, 1 / PER_SECOND) if awaited else 0.0)
        if now - began > PATIENCE:
            raise RuntimeError(f"{awaited} documents were not purged within {PATIENCE:.0f} s")


def _figures(name: str, idle: Sequence[Load], loaded: Sequence[Load]) -> Iterator[Figure]:
    for percent in (50, 99):
        pairs = [(_at(one.taken, percent), _at(two.taken, percent)) for one, two in zip(loaded, idle, strict=True)]
        shares = [one / two for one, two in pairs]
        value = median(shares)
        how = (
            f"{median(one for one, _ in pairs) * 1e3:.2f} ms against {median(two for _, two in pairs) * 1e3:.2f} ms at"
            f" {PER_SECOND} reads/s from a file; rounds {min(shares):.2f}-{max(shares):.2f}"
        )
        yield Figure(
            f"p{percent} of find_one beside a purge by {name}, against idle", f"{value:.2f} x", "", None, how, value
        )
    found = [each.purged for each in loaded]
    how = f"{COUNT:,} documents of 250 B due at once; rounds {min(found):,.0f}-{max(found):,.0f}"
    yield rate(f"purge by {name} beside these readers", median(found), None, how)


def _at(taken: Sequence[float], percent: int) -> float:
    """Seconds within which that many of a hundred were answered."""
    return sorted(taken)[len(taken) * percent // 100]
