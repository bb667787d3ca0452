"""Requests over the protocol: against the other server, against a request that does nothing, and group commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from figures import Figure, at_most, microseconds, not_run, ratio
from servers import Meter, Running, mayfly, rival
from signed import IDS, Caller
from wrk import Wrk, nothings, reads, upserts

CONNECTIONS, MANY = 32, 64
ROUNDS = 5
SECONDS = 2.0
SLOW_DISKS_MS = (2, 5)

READ = f"point read of 1 KB, {CONNECTIONS} connections, against the rival"
UPSERT = f"upsert of 1 KB, {CONNECTIONS} connections, against the rival"
NOTHING = "point read against a request that does nothing"
GROUPS = f"durable writes, {MANY} connections, against one"
OURS = "ours durable in a file, signatures checked"
TERMS = f"{OURS}; theirs in memory, unchecked"
TARGETS = {"read": 2.5, "upsert": 1.3}
"""Times the rate of the other server."""

MOST = {"read": 28, "upsert": 70}
"""Microseconds of processor time."""


class Target:
    """One server under load."""

    def __init__(self, wrk: Wrk, name: str, server: Running) -> None:
        self._wrk = wrk
        self._server = server
        self._meter = Meter(server.pid)
        made = {"read": reads, "upsert": upserts, "nothing": nothings}
        self._scripts = {kind: wrk.script(f"{name}-{kind}", make(server.port)) for kind, make in made.items()}
        caller = Caller(server.port)
        caller.make()
        caller.store(f"i{number}" for number in range(IDS))
        caller.close()
        # What compiles itself while it runs has done so before it counts.
        for kind in ("upsert", "read"):
            wrk.rate(server.port, self._scripts[kind], CONNECTIONS, 1.0)

    def rate(self, kind: str, connections: int = CONNECTIONS, seconds: float = SECONDS) -> float:
        """Requests per second."""
        self._meter.start()
        rate = self._wrk.rate(self._server.port, self._scripts[kind], connections, seconds)
        self._meter.stop(f"{kind} {connections}", rate * seconds)
        return rate

    def cost(self, kind: str, connections: int = CONNECTIONS) -> float:
        """Microseconds of processor time of a request, which depend little on who else has the processors."""
        return self._meter.cost(f"{kind} {connections}")


def against_rival(wrk: Wrk, place: Path, command: str, why_not: str) -> Iterator[Figure]:
    """Rows 1, 2 and 4, and group commit on this disk."""
    names = (READ, UPSERT, NOTHING, GROUPS)
    if wrk.program is None:
        yield from (not_run(name, "wrk is missing") for name in names)
        return
    with mayfly(str(place / "against.db")) as server:
        ours = Target(wrk, "mayfly", server)
        if command:
            with rival(command) as other:
                yield from _side_by_side(ours, Target(wrk, "rival", other))
        else:
            yield from (not_run(name, why_not) for name in (READ, UPSERT))
        measured = rounds([lambda: ours.rate("read"), lambda: ours.rate("nothing")])
        used = microseconds(ours.cost("read"), ours.cost("nothing"))
        yield ratio(NOTHING, measured[0], measured[1], 0.5, "same server, same headers", used)
        for kind, most in MOST.items():
            if kind == "upsert" and not command:
                rounds([lambda: ours.rate("upsert")])
            name = f"processor time of a {kind} of 1 KB, {CONNECTIONS} connections"
            yield at_most(name, ours.cost(kind), "us", most, f"all threads and the kernel's work; {OURS}")
        yield _groups(ours, "this disk")


def _side_by_side(ours: Target, theirs: Target) -> Iterator[Figure]:
    measured = rounds(
        [
            lambda: ours.rate("read"),
            lambda: theirs.rate("read"),
            lambda: ours.rate("upsert"),
            lambda: theirs.rate("upsert"),
        ]
    )
    for name, kind, first in ((READ, "read", 0), (UPSERT, "upsert", 2)):
        used = microseconds(ours.cost(kind), theirs.cost(kind))
        yield ratio(name, measured[first], measured[first + 1], TARGETS[kind], TERMS, used)


def rounds(measures: Sequence[Callable[[], float]], count: int = ROUNDS) -> list[list[float]]:
    """Each measure once a round, so that whatever else the machine does meets all of them; one list per measure."""
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(count):
        for measure, values in zip(measures, found, strict=True):
            values.append(measure())
    return found


def _groups(server: Target, disk: str, count: int = ROUNDS) -> Figure:
    measured = rounds([lambda: server.rate("upsert", MANY), lambda: server.rate("upsert", 1)], count)
    used = microseconds(server.cost("upsert", MANY), server.cost("upsert", 1))
    return ratio(f"{GROUPS}, {disk}", measured[0], measured[1], 10, "upserts of 1 KB", used)


def on_slow_disks(wrk: Wrk, place: Path) -> Iterator[Figure]:
    """Group commit where a disk takes its time, as disks that keep their word do."""
    strace = shutil.which("strace")
    for milliseconds in SLOW_DISKS_MS:
        disk = f"fdatasync {milliseconds} ms slower"
        if strace is None or wrk.program is None:
            yield not_run(f"{GROUPS}, {disk}", f"{'wrk' if strace else 'strace'} is missing")
            continue
        through = [strace, "-f", "--seccomp-bpf", "-qqq", "-o", "/dev/null", "-e", "trace=fdatasync"]
        through += ["-e", f"inject=fdatasync:delay_enter={milliseconds * 1000}"]
        try:
            with mayfly(str(place / f"slow{milliseconds}.db"), through=through) as server:
                yield _groups(Target(wrk, f"slow{milliseconds}", server), disk, 3)
        except RuntimeError as error:
            yield not_run(f"{GROUPS}, {disk}", f"failed under strace: {error}")
