"""The use of collections since the server's start: uses of indexes, and the times of operations.

The counters are those of this process, as a mongod's are. They belong to a collection's id: a collection that was dropped
and created again begins anew.

Buckets of a histogram begin at powers of two.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from bson import Int64

from mayflydb.model.instant import Instant
from mayflydb.query.mongo.values import Document

MAX_COLLECTIONS: Final = 10_000
"""The most collections whose use is counted. The one that has been counted longest is forgotten first."""

READS: Final = frozenset({"find", "getMore", "count", "distinct", "aggregate"})
WRITES: Final = frozenset({"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"})

_EVENTS: Final[Mapping[str, str]] = {
    "find": "queries",
    "getMore": "getmore",
    "insert": "insert",
    "update": "update",
    "delete": "remove",
}
"""The event of `top` as which a command counts; others count as `commands`."""

EVENTS: Final = ("queries", "getmore", "insert", "update", "remove", "commands")


class Latency(msgspec.Struct):
    """Operations of one kind, and the microseconds that they took. `histogram`: operations by the bit length of their time."""

    operations: int = 0
    micros: int = 0
    histogram: Counter[int] = msgspec.field(default_factory=Counter)

    def add(self, micros: int) -> None:
        """Count an operation."""
        self.operations += 1
        self.micros += micros
        self.histogram[micros.bit_length()] += 1

    def describe(self, histograms: bool = False) -> Document:
        """Return the document of `latencyStats` and `opLatencies`. Each `micros` of the histogram is a lower bound."""
        found: Document = {"latency": Int64(self.micros), "ops": Int64(self.operations)}
        if histograms:
            bounds = [(1 << bits >> 1, count) for bits, count in sorted(self.histogram.items())]
            found["histogram"] = [{"micros": Int64(low), "count": Int64(count)} for low, count in bounds]
        return found


class Latencies(msgspec.Struct):
    """The times of reads, writes and other commands."""

    reads: Latency = msgspec.field(default_factory=Latency)
    writes: Latency = msgspec.field(default_factory=Latency)
    commands: Latency = msgspec.field(default_factory=Latency)

    def of(self, command: str) -> Latency:
        """Return the counter to which a command belongs."""
        if command in READS:
            return self.reads
        return self.writes if command in WRITES else self.commands

    def describe(self, histograms: bool = False) -> Document:
        """Return the three as a document."""
        parts = (("reads", self.reads), ("writes", self.writes), ("commands", self.commands))
        return {name: each.describe(histograms) for name, each in parts}


class CollectionUsage:
    """The use of one collection.

    `accesses`: queries that used an index, by the index's name. `scans`: queries that read all documents.
    `since`: when counting began.
    """

    __slots__ = ("_created", "accesses", "events", "latencies", "name", "scans", "since")

    def __init__(self, since: Instant, name: tuple[str, str] = ("", "")) -> None:
        """`name`: those of the database and of the collection."""
        self.since = since
        self.name = name
        self.accesses: Counter[str] = Counter()
        self.scans = 0
        self.latencies = Latencies()
        self.events: dict[str, Latency] = {name: Latency() for name in EVENTS}
        self._created: dict[str, Instant] = {}

    def note(self, command: str, micros: int) -> None:
        """Count a command that has ended."""
        self.latencies.of(command).add(micros)
        self.events[_EVENTS.get(command, "commands")].add(micros)

    def begin_indexes(self, created: Collection[str], present: Collection[str], now: Instant) -> None:
        """Count the uses of indexes from their creation on. `present`: all names; others were dropped, and are forgotten."""
        for name in {*self.accesses, *self._created}:
            if name in created or name not in present:
                self.accesses.pop(name, None)
                self._created.pop(name, None)
        self._created.update(dict.fromkeys(created, now))

    def counted_since(self, name: str) -> Instant:
        """The instant from which on the uses of an index are counted."""
        return self._created.get(name, self.since)


UNCOUNTED: Final = CollectionUsage(0)
"""The use of collections that no command has looked up: of a list, or of a report."""


class Usage:
    """The use of all collections, and the times of all operations."""

    def __init__(self) -> None:
        self._since: Instant = 0
        self._present: Instant = 0
        self._by_id: OrderedDict[int, CollectionUsage] = OrderedDict()
        self._ids: dict[tuple[str, str], int] = {}
        self.latencies = Latencies()

    def begin(self, now: Instant) -> None:
        """Note the instant from which on is counted."""
        self._since = self._present = now

    def of(self, id: int, database: str, name: str) -> CollectionUsage:
        """Return the use of a collection."""
        found = self._by_id.get(id)
        if found is None:
            if len(self._by_id) >= MAX_COLLECTIONS:
                self._forget_first()
            found = self._by_id[id] = CollectionUsage(self._since, (database, name))
        elif found.name != (database, name):
            # Renamed. Without this the old names of a collection would stay for ever.
            self._forget_name(id, found)
            found.name = (database, name)
        self._ids[found.name] = id
        return found

    def _forget_name(self, id: int, usage: CollectionUsage) -> None:
        # Another collection may have the name by now.
        if self._ids.get(usage.name) == id:
            del self._ids[usage.name]

    def _forget_first(self) -> None:
        self._forget_name(*self._by_id.popitem(last=False))
        # What is counted from here on may have been forgotten before.
        self._since = self._present

    def find(self, database: str, name: str) -> CollectionUsage | None:
        """Return the use of the collection that last had this name; None: it was not used."""
        return self._by_id.get(self._ids.get((database, name), 0))

    def note(self, command: str, collection: CollectionUsage | None, micros: int, now: Instant) -> None:
        """Count a command that has ended. `collection`: None where it was about none. `now`: its instant."""
        self._present = now
        self.latencies.of(command).add(micros)
        if collection is not None:
            collection.note(command, micros)
