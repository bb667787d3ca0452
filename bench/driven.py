"""MongoDB's protocol: one client through the driver against its ping, and pipelined finds against an echo of the protocol."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bson import encode
from figures import Figure, microseconds, rate, ratio
from pymongo import MongoClient
from servers import Meter, mayfly, script

ROUNDS = 9
SLICE = 0.4
"""Seconds of one kind of call before it is the next one's turn."""

DOCUMENTS = 1_000
PAD = "x" * 900
PIPELINED, TIMES = 64, 40
LEAST = 160
"""Bytes of an answer that has a document."""

SHARES = {("find_one", "memory"): 0.6, ("insert_one", "memory"): 0.6, ("insert_one", "a file"): 0.45}
"""Of the rate of pings, that these calls are to reach."""

ONE, TEN = "find of one by an index", "find of ten by an index"
TERMS = "one connection, documents of 1 KB"

Call = Callable[[int], Any]


def collection(client: MongoClient[dict[str, Any]], count: int = DOCUMENTS) -> Any:
    """`bench.c` with so many documents of about 1 KB and an index on `n`."""
    made = client["bench"]["c"]
    made.insert_many({"_id": number, "n": number, "text": f"v{number}", "pad": PAD} for number in range(count))
    made.create_index("n")
    return made


def rates(
    calls: Mapping[str, Call], rounds: int = ROUNDS, seconds: float = SLICE, meter: Meter | None = None
) -> dict[str, list[float]]:
    """Calls per second of each kind, in turn, so that what disturbs the machine disturbs all of them.

    `meter`: of the server that answers; it gets the same names.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            if meter is not None:
                meter.start()
            done, taken = repeat(call, seconds)
            if turn:  # Before the first round everything has been warm once.
                found[name].append(done / taken)
                if meter is not None:
                    meter.stop(name, done)
    return found


def repeat(call: Call, seconds: float) -> tuple[int, float]:
    """How often a call was made, and the seconds that took: as many as are asked for, or one call."""
    began, done, taken = perf_counter(), 0, 0.0
    while taken < seconds:
        call(done)
        done += 1
        taken = perf_counter() - began
    return done, taken


def through_driver(place: Path) -> Iterator[Figure]:
    """Calls of pymongo, one after the other on one connection; its inserts and updates are retryable, as it has them."""
    for where, arguments in (("memory", ("--memory",)), ("a file", (str(place / "driver.db"),))):
        with mayfly("--mongo-port", "0", *arguments) as server, MongoClient[dict[str, Any]](server.mongo) as client:
            meter = Meter(server.pid)
            measured = rates(calls_of(client), meter=meter)
        pings = measured.pop("ping")
        for name, found in measured.items():
            used = microseconds(meter.cost(name), meter.cost("ping"))
            target = SHARES.get((name, where))
            yield ratio(f"{name} through pymongo against its ping, {where}", found, pings, target, TERMS, used)
        used = microseconds(meter.cost(TEN), meter.cost(ONE))
        yield ratio(f"{TEN} against {ONE}, {where}", measured[TEN], measured[ONE], None, TERMS, used)


def calls_of(client: MongoClient[dict[str, Any]]) -> dict[str, Call]:
    database, found = client["bench"], collection(client)
    inserted = database["inserted"]
    return {
        "ping": lambda _: database.command("ping"),
        "find_one": lambda n: found.find_one({"_id": n % DOCUMENTS}),
        ONE: lambda n: list(found.find({"n": n % DOCUMENTS})),
        TEN: lambda n: list(found.find({"n": {"$gte": n % (DOCUMENTS - 10), "$lt": n % (DOCUMENTS - 10) + 10}})),
        "insert_one": lambda n: inserted.insert_one({"n": n, "pad": PAD}),
        "update_one": lambda n: found.update_one({"_id": n % DOCUMENTS}, {"$set": {"text": f"w{n}"}}),
    }


# --- pipelined -----------------------------------------------------------------------------------------------------------


def pipelined(place: Path) -> Iterator[Figure]:
    """Finds by `_id`, many sent at once, against a server that only echoes."""
    echo = Path(__file__).with_name("echoing.py")
    with mayfly("--mongo-port", "0", "--memory") as server, script(echo, str(len(PAD))) as echoing:
        with MongoClient[dict[str, Any]](server.mongo) as client:
            collection(client)
            host, port = client.address or ("127.0.0.1", 0)
        found, echoed = list[float](), list[float]()
        meters = {"find": Meter(server.pid), "echo": Meter(echoing.pid)}
        with Pipe(host, port) as ours, Pipe("127.0.0.1", echoing.port) as theirs:
            for turn in range(ROUNDS + 1):
                for kind, pipe, to in (("find", ours, found), ("echo", theirs, echoed)):
                    meter = meters[kind]
                    meter.start()
                    measured = pipe.rate()
                    meter.stop(kind, PIPELINED * TIMES)
                    if turn:
                        to.append(measured)
            used = microseconds(meters["find"].cost("find"), meters["echo"].cost("echo"))
    yield ratio(
        f"finds by _id, {PIPELINED} pipelined, against an echo of the protocol", found, echoed, None, TERMS, used
    )


class Pipe:
    """One connection on which many finds are sent before their answers are read."""

    def __init__(self, host: str, port: int, field: str = "_id", numbers: Sequence[int] = range(PIPELINED)) -> None:
        """Finds by these numbers in a field."""
        self._socket = socket.create_connection((host, port))
        self._finds = b"".join(_find(field, number) for number in numbers)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def rate(self) -> float:
        """Answers in a second."""
        began = perf_counter()
        for _ in range(TIMES):
            self._socket.sendall(self._finds)
            for _ in range(PIPELINED):
                self._answer()
        return PIPELINED * TIMES / (perf_counter() - began)

    def _answer(self) -> None:
        length = int.from_bytes(self._take(4), "little")
        if length < LEAST:
            raise RuntimeError(f"an answer of {length} bytes holds no document")
        self._take(length - 4)

    def _take(self, length: int) -> bytes:
        data = self._socket.recv(length, socket.MSG_WAITALL)
        if len(data) < length:
            raise RuntimeError("the server has ended the connection")
        return data


def _find(field: str, number: int) -> bytes:
    body = encode({"find": "c", "filter": {field: number}, "limit": 1, "singleBatch": True, "$db": "bench"})
    data = struct.pack("<IB", 0, 0) + body
    return struct.pack("<iiii", 16 + len(data), number, 0, 2013) + data


# --- many documents ------------------------------------------------------------------------------------------------------

MANY = 100_000
SCAN_ROUNDS = 3


def over_many(place: Path) -> Iterator[Figure]:
    """What has to look at each document of many, in documents per second."""
    with (
        mayfly("--mongo-port", "0", str(place / "many.db")) as server,
        MongoClient[dict[str, Any]](server.mongo) as client,
    ):
        found = client["bench"]["many"]
        meter = Meter(server.pid)
        meter.start()
        began = perf_counter()
        found.insert_many({"_id": n, "n": n, "group": n % 100, "pad": "x" * 200} for n in range(MANY))
        taken = [perf_counter() - began]
        meter.stop("insert_many", MANY)
        yield _rate("insert_many of 100,000 documents", taken, meter.cost("insert_many"))
        group = [{"$group": {"_id": "$group", "sum": {"$sum": "$n"}}}]
        work: dict[str, Callable[[], Any]] = {
            "find by a field without an index": lambda: list(found.find({"n": -1})),
            "$group into 100 groups": lambda: list(found.aggregate(group)),
            "sort by a field without an index, limit 10": lambda: list(found.find().sort("n", -1).limit(10)),
            "count_documents with a filter": lambda: found.count_documents({"n": {"$gte": MANY // 2}}),
        }
        for name, each in work.items():
            taken = []
            for _ in range(SCAN_ROUNDS):
                meter.start()
                began = perf_counter()
                each()
                taken.append(perf_counter() - began)
                meter.stop(name, MANY)
            yield _rate(f"{name}, {MANY:,} documents", taken, meter.cost(name))


def _rate(name: str, taken: list[float], used: float) -> Figure:
    value = MANY / median(taken)
    how = f"documents of 250 B from a file; {min(taken):.2f}-{max(taken):.2f} s a time"
    return rate(name, value, None, how, microseconds(used))
