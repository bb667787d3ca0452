"""Sliding expiry: bytes that reads write, and the share of plain reads' throughput."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec
from asking import ask
from figures import Figure, at_most
from pipelining import IN_FLIGHT, Pipeline, measure_cost, overhead, take_turns
from servers import Meter, mayfly
from signed import DATABASE, Caller, headers, item
from wrk import raw

SESSIONS = 500
INTERVAL_SECONDS, PER_SECOND = 3_600, 20_000
"""The interval of `touch`, and the reads a second of all sessions together, for which the bytes of a read are told."""

READS, ROUNDS = 960, 9
BYTES = 300
LEAST_SHARE, MOST_BYTES = 0.95, 0.01


def sliding(place: Path) -> Iterator[Figure]:
    """Reads of a container with `touch` against reads of one without. The clock is virtual: it writes no marks of its own."""
    path = place / "sliding.db"
    with mayfly("--clock", "virtual", str(path)) as server:
        for name in ("sliding", "plain"):
            _prepare(server.port, name)
        ask(
            server.port, "POST", "/_mayfly/lifecycle", target=f"cosmos:{DATABASE}/sliding", touch=f"{INTERVAL_SECONDS}s"
        )
        with (
            Pipeline(server.port, _reads(server.port, "sliding")) as one,
            Pipeline(server.port, _reads(server.port, "plain")) as other,
        ):
            # A connection that says nothing is dropped.
            other.send(READS)
            yield from _bytes(server.port, server.pid, one)
            meter = Meter(server.pid)
            rounds = take_turns(3 * ROUNDS, lambda: READS / one.send(READS), lambda: READS / other.send(READS))
            costs = take_turns(
                3 * ROUNDS, lambda: measure_cost(meter, one, READS), lambda: measure_cost(meter, other, READS)
            )
    share = median(a / b for a, b in zip(*rounds, strict=True))
    how = (
        f"{median(rounds[0]):,.0f}/s against {median(rounds[1]):,.0f}/s; reads of {BYTES} B, one connection with {IN_FLIGHT}"
        " in flight, within the interval"
    )
    yield Figure(
        "sliding expiry: share of plain read throughput",
        f"{share:.2f} x",
        f">= {LEAST_SHARE} x",
        share >= LEAST_SHARE,
        how,
        share,
    )
    yield overhead("sliding expiry: processor time of a read", costs, 5.0, "the same reads")


def _bytes(port: int, pid: int, reads: Pipeline) -> Iterator[Figure]:
    """The bytes that the process writes to its files while reads prolong every life, and while they prolong none."""
    prolonging, resting = [], []
    for _ in range(ROUNDS):
        ask(port, "POST", "/_mayfly/clock/advance", by=f"{INTERVAL_SECONDS}s")
        prolonging.append(_written_by(port, pid, reads))
        resting.append(_written_by(port, pid, reads))
    each = median(prolonging) / SESSIONS
    total = INTERVAL_SECONDS * PER_SECOND
    a_read = (median(prolonging) + median(resting) * (total / READS - 1)) / total
    how = (
        f"{SESSIONS} sessions of {BYTES} B, {PER_SECOND:,} reads/s, an interval of {INTERVAL_SECONDS // 60} minutes: a prolonged"
        f" life writes {each:,.0f} bytes to SQLite's files, {READS:,} reads within the interval {median(resting):,.0f};"
        f" a session that is read {each / MOST_BYTES:,.0f} times in an interval writes {MOST_BYTES} bytes a read"
    )
    figure = at_most("sliding expiry: bytes written a read", a_read, "bytes", MOST_BYTES, how)
    yield msgspec.structs.replace(figure, measured=f"{a_read:.4f} bytes")


def _written_by(port: int, pid: int, reads: Pipeline) -> int:
    before = _written(pid)
    reads.send(READS)
    # A purge comes after the notes of reads; here nothing is due.
    ask(port, "POST", "/_mayfly/purge", target=f"cosmos:{DATABASE}/sliding")
    return _written(pid) - before


def _written(pid: int) -> int:
    """Bytes that a process had the kernel write to disks (proc_pid_io(5))."""
    fields = Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()
    return int(fields[fields.index("write_bytes:") + 1])


def _prepare(port: int, name: str) -> None:
    caller = Caller(port)
    caller.make(name, defaultTtl=10 * 86_400)
    link = f"dbs/{DATABASE}/colls/{name}"
    for number in range(SESSIONS):
        caller.expect(201, "POST", f"/{link}/docs", "docs", link, item(f"i{number}", BYTES))
    caller.close()


def _reads(port: int, name: str) -> list[str]:
    links = [f"dbs/{DATABASE}/colls/{name}/docs/i{number}" for number in range(SESSIONS)]
    return [raw("GET", f"/{link}", headers("GET", "docs", link), port) for link in links]
