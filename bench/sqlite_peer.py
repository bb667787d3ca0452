"""One client that waits for each answer, beside SQLite itself with the same bytes: insert and commit, and read by key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import apsw
from figures import Figure, at_most, microseconds
from lines import Line, inserts, point_reads
from servers import Meter, mayfly, processor_seconds
from signed import ITEM_BYTES, Caller, item

ROUNDS, TIMES = 7, 400
TARGET = 1.5
"""Times SQLite's own time."""


class Bare:
    """A table of keys and values in a file, written as Mayfly's files are: write-ahead log, each commit synced."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", 2)
        self._connection.execute("CREATE TABLE record (key BLOB PRIMARY KEY, value BLOB)")
        self._number = count()
        self._value = item("bare")
        self.used: dict[str, list[float]] = {}

    def close(self) -> None:
        self._connection.close()

    def insert(self) -> float:
        """Seconds of an insert and its commit."""
        return self._time("insert", lambda: self._write(next(self._number)))

    def read(self) -> float:
        """Seconds of a read by key."""
        return self._time("read", lambda: self._find(next(self._number) % TIMES))

    def _time(self, kind: str, act: Callable[[], None]) -> float:
        used, began = processor_seconds(os.getpid()), perf_counter()
        for _ in range(TIMES):
            act()
        taken = perf_counter() - began
        self.used.setdefault(kind, []).append((processor_seconds(os.getpid()) - used) / TIMES * 1e6)
        return taken / TIMES

    def _write(self, number: int) -> None:
        self._connection.execute("INSERT INTO record VALUES (?, ?)", (b"n%07d" % number, self._value))

    def _find(self, number: int) -> None:
        found = self._connection.execute("SELECT value FROM record WHERE key = ?", (b"n%07d" % number,))
        if found.get != self._value:
            raise RuntimeError(f"there is no record {number}")


def against_sqlite(place: Path) -> Iterator[Figure]:
    """A durable insert and a point read over the protocol, against the same without any server."""
    taken: dict[str, list[float]] = {kind: [] for kind in ("insert", "bare insert", "read", "bare read")}
    bare = Bare(place / "bare.db")
    with mayfly(str(place / "single.db")) as server:
        caller = Caller(server.port)
        caller.make()
        caller.close()
        meter = Meter(server.pid)
        with Line(server.port) as line:
            for turn in range(ROUNDS + 1):
                new = inserts(server.port, turn * TIMES, TIMES, ITEM_BYTES)
                reads = point_reads(server.port, [f"l{turn * TIMES}"], TIMES)
                for kind, requests in (("insert", new), ("read", reads)):
                    meter.start()
                    ours = line.seconds(requests)
                    meter.stop(kind, TIMES)
                    theirs = bare.insert() if kind == "insert" else bare.read()
                    if turn:  # Before the first round everything has been warm once.
                        taken[kind].append(ours)
                        taken[f"bare {kind}"].append(theirs)
    bare.close()
    for kind, what in (("insert", "durable insert of 1 KB"), ("read", "point read of 1 KB")):
        shares = [one / other for one, other in zip(taken[kind], taken[f"bare {kind}"], strict=True)]
        how = (
            f"{median(taken[kind]) * 1e6:,.0f} us against {median(taken[f'bare {kind}']) * 1e6:,.0f} us of time;"
            f" rounds {min(shares):.2f}-{max(shares):.2f}; ours over HTTP with its signature, theirs a call"
        )
        used = microseconds(meter.cost(kind), median(bare.used[kind]))
        name = f"{what}, one connection, against SQLite alone"
        if kind == "insert":
            yield at_most(name, median(shares), "x", TARGET, how, used)
        else:
            yield Figure(name, f"{median(shares):.2f} x", "", None, how, median(shares), used)
