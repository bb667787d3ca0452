"""What an operation costs over few records and over many: processor time, in which disk and neighbours have little part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from asking import ask
from driven import PIPELINED, TIMES, Pipe
from figures import Figure, Table, at_most, not_run
from filling import Life, fill, parse_partition
from pymongo import MongoClient
from servers import Meter, mayfly, processor_seconds
from signed import COLLECTION, CONTAINER, DATABASE, IDS, Caller, headers, item
from wrk import Wrk, raw

from mayflydb.clock import wall_us
from mayflydb.model.instant import HOUR, SECOND, floor_to_second

CONNECTIONS, SECONDS = 32, 1.0
ROUNDS = 3
BYTES = 200
FLAT = 1.15
"""Times the cost over few records that it may be over many."""

KINDS = ("point read", "upsert", "find by an index", "preview of a TTL", "purge of a record", "start")
TARGET = f"cosmos:{DATABASE}/{CONTAINER}"


class Grown:
    """A server over a file with `count` items, and a collection of MongoDB with as many documents and an index."""

    def __init__(self, place: Path, count: int, dying: int) -> None:
        self.count = count
        self._path = place / f"grown{count}.db"
        self._dying = dying

    def prepare(self) -> None:
        """Fill the file."""
        with mayfly("--mongo-port", "0", str(self._path)) as server:
            caller = Caller(server.port)
            caller.make()
            caller.close()
            with MongoClient[dict[str, Any]](server.mongo) as client:
                made = client["bench"]["c"]
                made.create_index("n")
                made.insert_many({"_id": n, "n": n, "pad": "x" * 100} for n in range(self.count))
        fill(self._path, CONTAINER, self._lives())

    def _lives(self) -> Iterator[Life]:
        """The first records are hours old, in as many groups as there are rounds: each round purges one."""
        partition, now = parse_partition(b'["p1"]'), floor_to_second(wall_us())
        for number in range(self.count):
            group = number * ROUNDS // self._dying
            anchor = now - (ROUNDS - group) * 2 * HOUR if number < self._dying else now
            yield partition, b"n%07d" % number, item(f"n{number:07d}", BYTES), anchor

    def start(self) -> float:
        """Seconds of processor time of a start."""
        with mayfly("--mongo-port", "0", str(self._path)) as server:
            return processor_seconds(server.pid)

    def serve(self, stack: ExitStack, wrk: Wrk) -> None:
        """Serve the file until the stack is closed."""
        self._server = stack.enter_context(mayfly("--mongo-port", "0", str(self._path)))
        self._wrk = wrk
        self._meter = Meter(self._server.pid)
        self._scripts = {
            kind: wrk.script(f"grown{self.count}-{kind}", requests(self._server.port))
            for kind, requests in {"read": self._reads, "upsert": self._upserts}.items()
        }
        host, _, port = self._server.mongo.partition("://")[2].partition("/")[0].rpartition(":")
        finds = [number * self.count // PIPELINED for number in range(PIPELINED)]
        self._pipe = stack.enter_context(Pipe(host, int(port), "n", finds))
        # A connection that says nothing is dropped.
        self._pipe.rate()

    def _ids(self) -> list[str]:
        """Of items that live, spread over all of them."""
        living = self.count - self._dying
        return [f"n{self._dying + number * living // IDS:07d}" for number in range(IDS)]

    def _reads(self, port: int) -> list[str]:
        links = [f"{COLLECTION}/docs/{id}" for id in self._ids()]
        return [raw("GET", f"/{link}", headers("GET", "docs", link), port) for link in links]

    def _upserts(self, port: int) -> list[str]:
        fields = headers("POST", "docs", COLLECTION)
        fields |= {"x-ms-documentdb-is-upsert": "True", "Content-Type": "application/json"}
        return [raw("POST", f"/{COLLECTION}/docs", fields, port, item(id, BYTES)) for id in self._ids()]

    def measure(self, kind: str, turn: int) -> float:
        """Microseconds of processor time of one operation."""
        meters: dict[str, Callable[[], float]] = {
            "point read": lambda: self._load("read"),
            "upsert": lambda: self._load("upsert"),
            "find by an index": self._find,
            "preview of a TTL": self._preview,
            "purge of a record": lambda: self._purge(turn),
        }
        if kind == "start":
            return self.start() * 1e6
        self._meter.start()
        self._meter.stop(f"{kind} {turn}", meters[kind]())
        return self._meter.cost(f"{kind} {turn}")

    def _load(self, kind: str) -> float:
        return self._wrk.rate(self._server.port, self._scripts[kind], CONNECTIONS, SECONDS) * SECONDS

    def _find(self) -> float:
        self._pipe.rate()
        return PIPELINED * TIMES

    def _preview(self) -> float:
        times, due = 10, self._dying // ROUNDS
        for _ in range(times):
            found = ask(self._server.port, "POST", "/_mayfly/ttl/preview", target=TARGET, default_ttl=_default(0))
            if found["expire_now"] != due:
                raise RuntimeError(f"{found['expire_now']} of {due} items would expire")
        return times

    def _purge(self, turn: int) -> float:
        caller = Caller(self._server.port)
        caller.set_default_ttl(_default(turn))
        caller.close()
        # The reaper has begun by itself; the answer comes when nothing is due any more.
        ask(self._server.port, "POST", "/_mayfly/purge", target=TARGET)
        return self._dying // ROUNDS

    def check(self) -> None:
        """RuntimeError if another number of items was purged than was due. It counts all items: no part of what is measured."""
        purged = ask(self._server.port, "GET", "/_mayfly/stats")["targets"][TARGET]["purged"]
        if purged != self._dying:
            raise RuntimeError(f"{purged} of {self._dying} items were purged")


def _default(turn: int) -> int:
    """A default that the group of this round has outlived, and no later one has."""
    return ((ROUNDS - turn) * 2 * HOUR - HOUR) // SECOND


def growth(wrk: Wrk, place: Path, sizes: Sequence[int]) -> Iterator[Figure | Table]:
    """Each operation over files of these sizes, in turn, so that what disturbs the machine disturbs all of them."""
    if wrk.program is None:
        yield not_run("growth of costs", "wrk is missing")
        return
    files = [Grown(place, size, sizes[0] // 2 // ROUNDS * ROUNDS) for size in sizes]
    for each in files:
        each.prepare()
    found: dict[str, list[list[float]]] = {kind: [[] for _ in files] for kind in KINDS}
    for _ in range(ROUNDS):
        for number, each in enumerate(files):
            found["start"][number].append(each.measure("start", 0))
    with ExitStack() as stack:
        for each in files:
            each.serve(stack, wrk)
        for kind in KINDS[:-1]:
            for turn in range(ROUNDS):
                for number, each in enumerate(files):
                    found[kind][number].append(each.measure(kind, turn))
        for each in files:
            each.check()
    costs = {kind: [median(rounds) for rounds in found[kind]] for kind in KINDS}
    rows = tuple(
        (kind, *(f"{cost:,.1f} us" if cost < 1e5 else f"{cost / 1e6:.2f} s" for cost in each))
        for kind, each in costs.items()
    )
    numbers = {kind: tuple(zip(map(float, sizes), costs[kind], strict=True)) for kind in KINDS}
    yield Table("growth", ("processor time of a", *(f"{size:,} records" for size in sizes)), rows, numbers)
    for kind, by_size in costs.items():
        how = f"processor time over {sizes[-1]:,} records against {sizes[0]:,}; items of {BYTES} B in a file"
        yield at_most(f"growth: {kind}", by_size[-1] / by_size[0], "x", FLAT, how)
