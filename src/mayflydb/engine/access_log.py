"""The access log: what is noted of each request, until a thread writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from mayflydb.clock import Stopwatch
from mayflydb.engine.request_counts import Operation
from mayflydb.model.instant import Instant, Span

MAX_WAITING: Final = 20_000
"""The most requests that wait to be written; further ones are dropped and counted."""

MAX_TEXT: Final = 300
"""The most characters of an id and of a target: clients choose both."""


class AccessLine(NamedTuple):
    """One request that has ended. `ended`: by the host's clock. `charge`: request units; None: its protocol has none.

    `target`: the database and container, without keys. `client`: the address; empty for requests of this process itself.
    """

    ended: Instant
    protocol: str
    id: str
    operation: Operation
    target: str
    status: str | int
    charge: float | None
    took: Span
    client: str


class AccessLog:
    """The requests that wait to be written. `dropped`: those that never will be."""

    def __init__(self, wall: Callable[[], Instant], stopwatch: Stopwatch) -> None:
        self.dropped = 0
        self._wall = wall
        self._stopwatch = stopwatch
        self._waiting: deque[AccessLine] = deque()

    def note(
        self,
        protocol: str,
        id: str,
        operation: Operation,
        target: str,
        status: str | int,
        charge: float | None,
        began: int,
        client: str,
    ) -> None:
        """Note a request that ends now and began at `began`, by the stopwatch."""
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            return
        took = self._stopwatch() - began
        self._waiting.append(
            AccessLine(
                self._wall(), protocol, id[:MAX_TEXT], operation, target[:MAX_TEXT], status, charge, took, client
            )
        )

    def take(self, most: int) -> list[AccessLine]:
        """Remove and return up to `most` requests, the oldest first. Another thread may call this."""
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]
