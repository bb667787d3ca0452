"""What a server counts of its own work since its start, for serverStatus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized
from typing import Final

import msgspec

OPERATIONS: Final = ("insert", "query", "update", "delete", "getmore", "command")

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "insert": ("insert", "documents"),
    "update": ("update", "updates"),
    "delete": ("delete", "deletes"),
    "find": ("query", ""),
    "getMore": ("getmore", ""),
}
"""Which operation a command counts as, and the array whose elements are counted; nothing: the command is."""


class ServerCounters(msgspec.Struct):
    """`received` and `sent`: bytes of messages. `connected`: at the moment; `connections`: ever."""

    operations: Counter[str] = msgspec.field(default_factory=Counter)
    requests: int = 0
    received: int = 0
    sent: int = 0
    connected: int = 0
    connections: int = 0

    def count(self, name: str, arrays: Mapping[str, Sized]) -> None:
        """A command of this name is about to be run. `arrays`: its arguments that are arrays of documents."""
        kind, array = _KINDS.get(name, ("command", ""))
        self.operations[kind] += len(arrays.get(array, ())) if array else 1
