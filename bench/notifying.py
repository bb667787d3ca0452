"""What the guard, a webhook and a reader of events cost writes and purges, and how soon a webhook tells of an expiry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
from asking import ask
from figures import Figure, at_most, microseconds
from filling import fill, many
from pipelining import IN_FLIGHT, Pipeline, measure_cost, overhead, share_of, take_turns
from receiving import Listener, Receiver
from servers import Meter, Running, mayfly
from signed import COLLECTION, DATABASE, IDS, Caller, headers, item
from wrk import raw, upserts

from mayflydb.clock import wall_us
from mayflydb.model.instant import HOUR, floor_to_second

WRITES, WRITE_ROUNDS = 96, 40
PURGED, PURGE_ROUNDS = 20_000, 5
MOST_WRITES, MOST_PURGES = 5.0, 15.0
EXPIRING, SECONDS = 3_000, 10
MOST_DELAY_MS = 100.0


class Side:
    """A server over a file with containers whose records are old. `told`: with the guard, a webhook and a reader of events."""

    def __init__(self, path: Path, told: bool) -> None:
        self._path, self._told = path, told
        self._number = 0
        self.events = 0
        with mayfly(str(path)) as server:
            caller = Caller(server.port)
            caller.make()
            caller.store(f"i{number}" for number in range(IDS))
            for number in range(PURGE_ROUNDS + 1):
                caller.make(f"old{number}")
            caller.close()
        for number in range(PURGE_ROUNDS + 1):
            fill(path, f"old{number}", many(PURGED, item("n"), floor_to_second(wall_us()) - HOUR))

    def serve(self, stack: ExitStack) -> None:
        """Serve the file until the stack is closed."""
        self.server = stack.enter_context(mayfly(*([] if self._told else ["--no-guard"]), str(self._path)))
        self.meter = Meter(self.server.pid)
        if self._told:
            self.receiver = stack.enter_context(Receiver())
            ask(self.server.port, "POST", "/_mayfly/webhooks", name="audit", url=self.receiver.url)
            self.listener = stack.enter_context(Listener(self.server.port))
        self.pipeline = stack.enter_context(Pipeline(self.server.port, upserts(self.server.port)))

    def write(self) -> float:
        """Return the seconds of an upsert."""
        return self.pipeline.send(WRITES) / WRITES

    def purge(self) -> float:
        """Return the seconds in which the next container's records are purged. Afterwards all are told of it."""
        name = f"old{self._number}"
        self._number += 1
        caller = Caller(self.server.port)
        self.meter.start()
        began = perf_counter()
        caller.set_default_ttl(60, name)
        # The reaper has begun by itself; the answer comes when nothing is due any more.
        ask(self.server.port, "POST", "/_mayfly/purge", target=f"cosmos:{DATABASE}/{name}")
        taken = perf_counter() - began
        caller.close()
        self.events += PURGED
        if self._told:
            self.receiver.wait(self.events)
        self.meter.stop("purge", PURGED)
        return taken

    def check(self) -> None:
        """RuntimeError if another number of records was purged."""
        found = ask(self.server.port, "GET", "/_mayfly/stats")["targets"]
        purged = sum(found[f"cosmos:{DATABASE}/old{number}"]["purged"] for number in range(self._number))
        if purged != self.events or (self._told and self.listener.count != self.events):
            raise RuntimeError(f"{self.events} records expired, {purged} were purged")


def notifying(place: Path) -> Iterator[Figure]:
    """Writes and purges with the guard, a webhook and a reader of events, against the same server without them."""
    told, quiet = Side(place / "told.db", True), Side(place / "quiet.db", False)
    with ExitStack() as stack:
        for side in (told, quiet):
            side.serve(stack)
        writes = take_turns(WRITE_ROUNDS, told.write, quiet.write)
        costs = take_turns(
            WRITE_ROUNDS,
            lambda: measure_cost(told.meter, told.pipeline, WRITES),
            lambda: measure_cost(quiet.meter, quiet.pipeline, WRITES),
        )
        purges = take_turns(PURGE_ROUNDS, told.purge, quiet.purge)
        for side in (told, quiet):
            side.check()
    what = f"upserts of 1 KB, one connection with {IN_FLIGHT} in flight, a file, against neither of them"
    yield overhead("writes with guard, webhook and stream: processor time", costs, MOST_WRITES, what)
    yield overhead("writes with guard, webhook and stream: time", _in_us(writes), MOST_WRITES, what)
    used = microseconds(told.meter.cost("purge"), quiet.meter.cost("purge"))
    value = (median(share_of(purges)) - 1) * 100
    rates = [PURGED / median(each) for each in purges]
    how = (
        f"{rates[0]:,.0f}/s against {rates[1]:,.0f}/s; {PURGED:,} records of 1 KB due at once in a file, {PURGE_ROUNDS} rounds;"
        " each expiry was sent once to the webhook and once to the stream; processor time: until all was sent"
    )
    figure = at_most("purges with guard, webhook and stream: time", value, "%", MOST_PURGES, how, used)
    yield msgspec.structs.replace(figure, measured=f"{value:+.1f} %")


def _in_us(rounds: tuple[list[float], list[float]]) -> tuple[list[float], list[float]]:
    return [each * 1e6 for each in rounds[0]], [each * 1e6 for each in rounds[1]]


def delivering(place: Path) -> Iterator[Figure]:
    """The delay from a purge to the arrival of its event at a webhook."""
    with mayfly(str(place / "delivering.db")) as server, Receiver() as receiver:
        caller = Caller(server.port)
        caller.make(defaultTtl=-1)
        caller.close()
        ask(server.port, "POST", "/_mayfly/webhooks", name="audit", url=receiver.url)
        with Pipeline(server.port, _expiring(server)) as pipeline:
            pipeline.send(EXPIRING // IN_FLIGHT * IN_FLIGHT)
        receiver.wait(EXPIRING // IN_FLIGHT * IN_FLIGHT)
        delays = sorted((each.at - _instant(each.event["purged_at"])) / 1e3 for each in receiver.received)
    p50, p99 = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
    how = (
        f"median {p50:.0f} ms, longest {delays[-1]:.0f} ms; {len(delays):,} items whose ttl ends in {SECONDS} different seconds,"
        " each expiry sent once, in messages of up to 100"
    )
    yield at_most("from a purge to the webhook, p99", p99, "ms", MOST_DELAY_MS, how)


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1e6


def _expiring(server: Running) -> list[str]:
    fields = headers("POST", "docs", COLLECTION) | {"Content-Type": "application/json"}
    return [
        raw("POST", f"/{COLLECTION}/docs", fields, server.port, item(f"n{number}", ttl=3 + number % SECONDS))
        for number in range(EXPIRING)
    ]
