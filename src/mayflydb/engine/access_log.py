"""The access log: notes of requests that have ended, until a thread writes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from mayflydb.clock import Stopwatch
from mayflydb.engine.request_counts import Operation
from mayflydb.model.instant import Instant, Span

MAX_WAITING: Final = 20_000
"""The most requests that wait to be written; further ones are dropped and counted."""

MAX_TEXT: Final = 300
"""The most characters of an id and of a target: clients choose both."""

T = TypeVar("T")


class AccessLine(NamedTuple):
    """One request that has ended. `ended`: by the host's clock. `charge`: request units; None: its protocol has none.

    `target`: the database and container, without keys. `client`: the address; empty for requests of this process itself.
    `namespace`: the database, where `target` does not tell. `parent`: the client's trace context, as it sent it.
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
    namespace: str = ""
    parent: str = ""


class EndedRequest(NamedTuple):
    """A request as a front end notes it; the members are those of AccessLine. `began`: by the stopwatch."""

    protocol: str
    id: str
    operation: Operation
    target: str
    status: str | int
    charge: float | None
    began: int
    client: str
    namespace: str = ""
    parent: str = ""


class Observer(Protocol):
    """Takes note of requests that have ended."""

    def note(self, access: EndedRequest) -> None:
        """Note a request that ends now."""
        ...


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def note(self, access: EndedRequest) -> None:
        """Note a request that ends now."""
        for each in self._observers:
            each.note(access)


class Waiting(Generic[T]):
    """Lines that wait for a thread, at most MAX_WAITING. `dropped`: those that never will be written."""

    def __init__(self) -> None:
        self.dropped = 0
        self._lines: deque[T] = deque()

    def has_room(self) -> bool:
        """Return whether a line can be added; count one that is dropped, if not."""
        if len(self._lines) < MAX_WAITING:
            return True
        self.dropped += 1
        return False

    def add(self, line: T) -> None:
        """Add a line, after `has_room`."""
        self._lines.append(line)

    def take(self, most: int) -> list[T]:
        """Remove and return up to `most` lines, the oldest first. Another thread may call this."""
        lines = self._lines
        return [lines.popleft() for _ in range(min(most, len(lines)))]


class AccessLog(Waiting[AccessLine]):
    """The requests that wait to be written."""

    def __init__(self, wall: Callable[[], Instant], stopwatch: Stopwatch) -> None:
        super().__init__()
        self._wall = wall
        self._stopwatch = stopwatch

    def note(self, access: EndedRequest) -> None:
        """Note a request that ends now."""
        if self.has_room():
            self.add(line_of(access, self._wall(), self._stopwatch() - access.began))


def line_of(access: EndedRequest, ended: Instant, took: Span) -> AccessLine:
    """Return the line of a request, its texts cut where a client made them long."""
    protocol, id, operation, target, status, charge, _, client, namespace, parent = access
    return AccessLine(
        ended, protocol, id[:MAX_TEXT], operation, target[:MAX_TEXT], status, charge, took, client, namespace, parent
    )
