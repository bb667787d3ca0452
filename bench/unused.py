"""The features before and after death while none of them is used, against the commit that BENCH_BASE names.

Accesses are sampled by default, for the advice on a TTL; here they are not. The part `advice` has what that costs.
The other version is taken out of the repository and started beside this one, on the same Python and the same libraries.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from figures import Figure, at_most, not_run
from pipelining import IN_FLIGHT, Pipeline, measure_cost, overhead, take_turns
from servers import Meter, Running, asked, mayfly, script
from signed import IDS, Caller
from wrk import reads, upserts

MOST_PERCENT = 1.0
STARTS, ROUNDS = 3, 20
"""Servers are started so many times: two processes of one program differ by a few percent."""

STEPPED, SLICES = 20, 41
"""Requests of which the instructions are counted together, one after the other, and how often."""

PURGED, PURGES = 10_000, 9
KINDS: dict[str, tuple[Callable[[int], list[str]], int]] = {
    "point reads of 1 KB": (reads, 480),
    "upserts of 1 KB": (upserts, 96),
}
"""The requests of a port, and how many of them one round sends."""

ROOT = Path(__file__).parents[1]


def unused(place: Path) -> Iterator[Figure]:
    """What reads, writes and purges cost more than before."""
    base = os.environ.get("BENCH_BASE", "")
    if not base:
        yield not_run("features that are not used", "BENCH_BASE names no commit to compare with")
        return
    source = take_out(base, place / "base")
    yield from _steps(place, source, base)
    yield from _requests(place, source, base)
    yield _purges(place, source, base)


def take_out(commit: str, place: Path) -> Path:
    """Write the packages of a commit to a directory, and return the one to import from."""
    place.mkdir()
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(place)], input=packed.stdout, check=True)
    return place / "src"


def _steps(place: Path, source: Path, base: str) -> Iterator[Figure]:
    """Count what Python itself does: the same at each run, however busy the machine is."""
    stepping = Path(__file__).with_name("stepping.py")
    found: list[dict[str, float]] = []
    for number, (packages, settings) in enumerate(((None, ("sample_accesses=0",)), (source, ()))):
        with script(stepping, str(place / f"steps{number}.db"), *settings, source=packages) as server:
            _prepare(server)
            found.append({name: _count(server, requests(server.port)) for name, (requests, _) in KINDS.items()})
    for name in KINDS:
        ours, theirs = (each[name] for each in found)
        value = (ours / theirs - 1) * 100
        how = (
            f"{ours:,.0f} against {theirs:,.0f} in {base[:8]}; the least of {SLICES} slices of {STEPPED} requests; libraries in C"
            " are not counted"
        )
        figure = at_most(f"nothing used: {name}, instructions of Python", value, "%", MOST_PERCENT, how)
        yield msgspec.structs.replace(figure, measured=f"{value:+.1f} %")


def _count(server: Running, requests: list[str]) -> float:
    """The least of the slices: what the server does at its own times falls into some of them."""
    found = []
    with Pipeline(server.port, requests) as pipeline:
        pipeline.send(IDS)
        for _ in range(SLICES + 1):
            asked(server, "")
            pipeline.send(STEPPED, 1)
            found.append(int(asked(server, "")) / STEPPED)
    return min(found[1:])


def _requests(place: Path, source: Path, base: str) -> Iterator[Figure]:
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in KINDS}
    for start in range(STARTS):
        with (
            mayfly("--sample-accesses", "0", str(place / f"ours{start}.db")) as ours,
            mayfly(str(place / f"base{start}.db"), source=source) as theirs,
        ):
            for server in (ours, theirs):
                _prepare(server)
            for name, (requests, count) in KINDS.items():
                for both, more in zip(found[name], _compare(ours, theirs, requests, count), strict=True):
                    both += more
    for name, (_, count) in KINDS.items():
        what = (
            f"processor time against {base[:8]}; a file, one connection with {IN_FLIGHT} in flight, {count} requests a round,"
            f" {STARTS} starts"
        )
        yield overhead(f"nothing used: {name}", found[name], MOST_PERCENT, what)


def _compare(
    ours: Running, theirs: Running, requests: Callable[[int], list[str]], count: int
) -> tuple[list[float], list[float]]:
    with Pipeline(ours.port, requests(ours.port)) as one, Pipeline(theirs.port, requests(theirs.port)) as other:
        mine, base = Meter(ours.pid), Meter(theirs.pid)
        return take_turns(ROUNDS, lambda: measure_cost(mine, one, count), lambda: measure_cost(base, other, count))


def _prepare(server: Running) -> None:
    caller = Caller(server.port)
    caller.make(defaultTtl=86_400)
    caller.store(f"i{number}" for number in range(IDS))
    caller.close()


def _purges(place: Path, source: Path, base: str) -> Figure:
    backlog = Path(__file__).with_name("backlog.py")
    with (
        script(backlog, str(place / "one.db"), str(PURGED)) as ours,
        script(backlog, str(place / "other.db"), str(PURGED), source=source) as theirs,
    ):
        rounds = take_turns(PURGES, lambda: asked(ours, ""), lambda: asked(theirs, ""))
    what = f"processor time against {base[:8]}; {PURGED:,} records of 1 KB due at once in a file"
    return overhead("nothing used: purges", rounds, MOST_PERCENT, what)
