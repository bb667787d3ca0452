"""Counters of the server's work since its start, for serverStatus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized
from typing import Final

import msgspec

OPERATIONS: Final = ("insert", "query", "update", "delete", "getmore", "command")

_COUNTED_AS: Final[Mapping[str, tuple[str, str]]] = {
    "insert": ("insert", "documents"),
    "update": ("update", "updates"),
    "delete": ("delete", "deletes"),
    "find": ("query", ""),
    "getMore": ("getmore", ""),
}
"""The operation as which a command counts, and the array whose elements are counted.

An empty name: the command counts once.
"""


class ServerCounters(msgspec.Struct):
    """The server's work since its start.

    `refusals`: commands that were answered by an error; `failures`: by an internal one. `received`, `sent`: bytes of messages.
    `connected`: open connections; `connections`: all since the start.
    """

    operations: Counter[str] = msgspec.field(default_factory=Counter)
    requests: int = 0
    refusals: int = 0
    failures: int = 0
    received: int = 0
    sent: int = 0
    connected: int = 0
    connections: int = 0

    def count(self, name: str, arrays: Mapping[str, Sized]) -> None:
        """Count a command that is about to run. `arrays`: its arguments that are arrays of documents."""
        kind, array = _COUNTED_AS.get(name, ("command", ""))
        self.operations[kind] += len(arrays.get(array, ())) if array else 1
