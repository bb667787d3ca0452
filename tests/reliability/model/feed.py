"""What a follower of a container's history is told, against what was done: every version and every end, once, in order."""

from __future__ import annotations

from collections.abc import Iterable

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.model.record import Kind, Record
from reliability.model.stores import finish
from reliability.oracle import Life, Verdict

Line = tuple[Kind, bytes, bytes, int, int, bytes]
"""Kind, partition, key, version before, instant, value."""


class Follower:
    """Goes on where it was whenever it looks, whatever has happened to the server in between."""

    def __init__(self) -> None:
        self._position = 0
        self._expected: list[Line] = []

    def died(self, lives: Iterable[Life], now: int) -> None:
        """Age removed them at `now`."""
        self._expected += [(Kind.EXPIRE, *life.who, life.lsn, now, b"") for life in lives]

    def wrote(self, verb: str, verdict: Verdict, record: Record, now: int) -> None:
        """An acknowledged command that came to this record."""
        seen = verdict.seen
        self.died(verdict.buried, now)
        if verb == "delete":
            self._expected.append((Kind.DELETE, record.partition, record.key, record.lsn, now, b""))
        elif verb != "read":
            kind = Kind.CREATE if seen is None else Kind.REPLACE
            before = 0 if seen is None else seen.lsn
            self._expected.append((kind, record.partition, record.key, before, now, record.value))

    def look(self, engine: Engine, node: Node, now: int) -> None:
        """What is new is what was done since the last look."""
        told: list[Line] = []
        while versions := finish(engine.versions(node, self._position, now)):
            assert all(version.lsn > self._position for version in versions)
            self._position = versions[-1].lsn
            told += [
                (each.kind, each.partition, each.key, each.previous, each.written, each.value) for each in versions
            ]
        assert told == self._expected, f"told {told} of {self._expected}"
        self._expected = []
