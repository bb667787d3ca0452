"""Purges that read each record, beside purges in SQL: one server over a file, whose containers are purged in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
from asking import ask
from figures import Figure, microseconds, rate
from filling import Life, fill, parse_partition
from servers import Meter, Running, mayfly
from signed import DATABASE, Caller, item

from mayflydb.clock import wall_us
from mayflydb.model.instant import HOUR, Instant, floor_to_second

COUNT, IN_SQL = 4_000, 20_000
"""Records of one purge that reads each of them, and of one in SQL."""

ROUNDS, BYTES, PARTITIONS, GROUPS = 5, 300, 100, 3
SQL = "sql"


class Kind(msgspec.Struct, frozen=True):
    """A setting whose purges read each record. `name`: of its containers, before their numbers; `told`: of its figure.

    `prepare`: gives it to the container with this number. `check`: RuntimeError if the purge of that container has not done
    what the setting says. `children`: each record has one record in another container, `children` and the same number.
    """

    name: str
    told: str
    prepare: Callable[[Running, int], None]
    check: Callable[[Running, int], None] = lambda _server, _number: None
    children: bool = False


def target(name: str) -> str:
    """Return the name of a container for the admin API."""
    return f"cosmos:{DATABASE}/{name}"


def lives(count: int, anchor: Instant, prefix: str = "n") -> Iterator[Life]:
    """Yield items in 100 logical partitions: a `group` of three, a number `n`, and `parent`, the id of another item."""
    partitions = [parse_partition(b'["p%d"]' % number) for number in range(PARTITIONS)]
    for number in range(count):
        id, pk = f"{prefix}{number:07}", number % PARTITIONS
        members = {"pk": f"p{pk}", "group": f"g{number % GROUPS}", "n": number % 97, "parent": f"n{number:07}"}
        yield partitions[pk], id.encode(), item(id, BYTES, **members), anchor


@contextmanager
def serve(place: Path, kinds: Iterable[Kind]) -> Iterator[Running]:
    """Serve a file with old records: for each kind and for SQL a container for each round, and one before."""
    path, numbers = place / "records.db", range(ROUNDS + 1)
    sizes = {f"{SQL}{number}": IN_SQL for number in numbers}
    for kind in kinds:
        sizes |= {f"{kind.name}{number}": COUNT for number in numbers}
    children = [f"children{number}" for number in numbers] if any(kind.children for kind in kinds) else []
    with mayfly(str(path)) as server:
        caller = Caller(server.port)
        for name in (*sizes, *children, "totals"):
            caller.make(name)
        caller.close()
    anchor = floor_to_second(wall_us()) - HOUR
    for name, count in sizes.items():
        fill(path, name, lives(count, anchor))
    for name in children:
        fill(path, name, lives(COUNT, anchor, "m"))
    with mayfly("--archive-dir", str(place), str(path)) as server:
        yield server


def purge_in_turn(server: Running, kinds: Iterable[Kind]) -> Iterator[Figure]:
    """Yield records a second of each kind, each beside the purges in SQL of the same rounds."""
    names = [SQL, *(kind.name for kind in kinds)]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    meter = Meter(server.pid)
    by_name = {kind.name: kind for kind in kinds}
    for turn in range(ROUNDS + 1):
        for name in names if turn % 2 else reversed(names):
            taken = _purge(server, meter, name, turn, by_name.get(name))
            if turn:
                seconds[name].append(taken)
    for kind in kinds:
        yield _compare(kind, seconds, meter)


def _purge(server: Running, meter: Meter, name: str, turn: int, kind: Kind | None) -> float:
    """Return the seconds of a record while a container is purged."""
    container, count = f"{name}{turn}", IN_SQL if kind is None else COUNT
    if kind is not None:
        kind.prepare(server, turn)
    caller = Caller(server.port)
    meter.start()
    began = perf_counter()
    caller.set_default_ttl(60, container)
    # The reaper has begun by itself; the answer comes when nothing is due any more.
    ask(server.port, "POST", "/_mayfly/purge", target=target(container))
    taken = perf_counter() - began
    if turn:
        meter.stop(name, count)
    caller.close()
    purged = _stats(server)[target(container)]["purged"]
    if kind is not None:
        kind.check(server, turn)
    if purged != count:
        raise RuntimeError(f"{purged} of {count} records of {container} were purged")
    return taken / count


def _stats(server: Running) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ask(server.port, "GET", "/_mayfly/stats")["targets"]
    return found


def check_children(server: Running, number: int) -> None:
    """RuntimeError if a child of the records that were purged is left."""
    purged = _stats(server)[target(f"children{number}")]["purged"]
    if purged != COUNT:
        raise RuntimeError(f"{purged} of {COUNT} children left with their records")


def _compare(kind: Kind, seconds: Mapping[str, list[float]], meter: Meter) -> Figure:
    shares = [sql / each for each, sql in zip(seconds[kind.name], seconds[SQL], strict=True)]
    value = 1 / median(seconds[kind.name])
    how = (
        f"{median(shares):.2f} times the {1 / median(seconds[SQL]):,.0f}/s of a purge in SQL, rounds {min(shares):.2f}-"
        f"{max(shares):.2f}; {COUNT:,} records of {BYTES} B due at once in a file, {IN_SQL:,} in SQL, {ROUNDS} rounds"
    )
    used = microseconds(meter.cost(kind.name), meter.cost(SQL))
    return rate(f"purge {kind.told}", value, None, how, used)
