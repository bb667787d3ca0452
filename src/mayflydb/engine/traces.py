"""Traces: the requests and purges of which spans are made, until a thread sends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mayflydb.clock import Stopwatch
from mayflydb.engine.access_log import AccessLine, EndedRequest, Waiting, line_of
from mayflydb.model.instant import Instant, Span

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class PurgeLine(NamedTuple):
    """The records that one purge request has removed from a container. `causes`: of the rules that it has."""

    ended: Instant
    space: str
    database: str
    container: str
    causes: tuple[str, ...]
    records: int
    took: Span


class TraceLog(Waiting[AccessLine | PurgeLine]):
    """Notes that wait to become spans. They are sampled here, so that the other requests cost next to nothing."""

    def __init__(
        self, wall: Callable[[], Instant], stopwatch: Stopwatch, chance: Callable[[], float], ratio: float
    ) -> None:
        """`ratio`: the part of the traces that begin here which are kept, 0 to 1. `chance`: gives numbers from 0 up to 1."""
        super().__init__()
        self.stopwatch = stopwatch
        self._wall = wall
        self._chance = chance
        self._ratio = ratio

    def note(self, access: EndedRequest) -> None:
        """Note a request that ends now. A client that sends its trace context has decided for its requests."""
        if self._is_sampled(access.parent) and self.has_room():
            self.add(line_of(access, self._wall(), self.stopwatch() - access.began))

    def note_purge(
        self, space: str, database: str, container: str, causes: tuple[str, ...], records: int, began: int
    ) -> None:
        """Note that records were purged. `began`: by the stopwatch."""
        if self._is_sampled("") and self.has_room():
            took = self.stopwatch() - began
            self.add(PurgeLine(self._wall(), space, database, container, causes, records, took))

    def _is_sampled(self, parent: str) -> bool:
        found = parse_parent(parent) if parent else None
        if found is not None:
            return found[2]
        return self._ratio >= 1 or self._chance() < self._ratio


def parse_parent(text: str) -> tuple[str, str, bool] | None:
    """Return trace id, span id and whether the trace is sampled, of W3C's `traceparent`. None for a text that is none."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or text.startswith("ff") or not (found[1].strip("0") and found[2].strip("0")):
        return None
    return found[1], found[2], bool(int(found[3], 16) & 1)
