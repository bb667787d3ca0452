"""A change of a container's default: as long as it takes over few items, whatever the container holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from figures import Figure, at_most
from filling import fill, many
from servers import mayfly
from signed import DATABASE, Caller, item

from mayflydb.clock import wall_us
from mayflydb.model.instant import HOUR, SECOND, floor_to_second, to_rfc3339

FEW = 1_000
CHANGES = 41
LONG, SHORT = 86_400, 60
"""Defaults in seconds that let the item which is read live, and that make it due."""

VALUE = b'{"id":"n","pk":"p1","pad":"' + b"x" * 170 + b'"}'


def change_of_default(place: Path, many_items: int) -> Iterator[Figure]:
    """Row 5. The clock stands still, so that nothing is purged between two changes."""
    path = place / "policy.db"
    start = floor_to_second(wall_us())
    sizes = {"few": FEW, "many": many_items}
    clock = ("--clock", "virtual", str(path))
    with mayfly(*clock, "--clock-start", to_rfc3339(start - 2 * HOUR)) as server:
        _prepare(server.port, list(sizes))
    for name, count in sizes.items():
        fill(path, name, many(count, VALUE, start - 2 * HOUR, SECOND // 1000))
    with mayfly(*clock, "--clock-start", to_rfc3339(start)) as server:
        taken = _changes(server.port, list(sizes))
    few, full = (median(taken[name]) * 1e3 for name in ("few", "many"))
    how = (
        f"{full:.2f} ms at {many_items:,} items against {few:.2f} ms at {FEW:,}; PUT of the container, medians of {CHANGES};"
        " each time the next point read obeyed"
    )
    yield at_most("change of defaultTtl over many items against few", full / few, "x", 2, how)


def _prepare(port: int, names: list[str]) -> None:
    caller = Caller(port)
    for name in names:
        caller.make(name)
        link = f"dbs/{DATABASE}/colls/{name}"
        caller.expect(201, "POST", f"/{link}/docs", "docs", link, item("probe"))
    caller.close()


def _changes(port: int, names: list[str]) -> dict[str, list[float]]:
    """Seconds of each change; RuntimeError when the read that follows does not obey."""
    caller = Caller(port)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(CHANGES):
        default, status = ((SHORT, 404), (LONG, 200))[turn % 2]
        for name in names:
            began = perf_counter()
            caller.set_default_ttl(default, name)
            taken[name].append(perf_counter() - began)
            link = f"dbs/{DATABASE}/colls/{name}/docs/probe"
            caller.expect(status, "GET", f"/{link}", "docs", link)
    caller.close()
    return taken
