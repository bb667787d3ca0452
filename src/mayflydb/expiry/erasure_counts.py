"""Counts of what the lines of an erasure log tell; pure."""

from __future__ import annotations

from collections import Counter, deque

from mayflydb.expiry.erasure_chain import Line


class ErasureCounts:
    """Counts lines in their order. `erased`: records by (container, cause, kind of purge); `first`, `last`: their times.

    `gaps`: places where lines are missing. `overwritten`: records that secure erase has overwritten. `shredded`: destroyed
    keys.
    """

    def __init__(self) -> None:
        self.erased: Counter[tuple[str, str, str]] = Counter()
        self.first: str | None = None
        self.last: str | None = None
        self.gaps = self.overwritten = self.shredded = 0
        self._stored: deque[int] = deque()
        """The events whose records are not overwritten, as far as the lines tell."""

    def add(self, line: Line) -> None:
        """Count a line, after those before it."""
        self.gaps += line.kind == "gap"
        self.shredded += line.kind == "shredded"
        if line.kind == "erased":
            self.erased[name_container(line), line.cause, line.how] += 1
            self.first, self.last = self.first or line.at, line.at
            self._stored.append(line.event)
        elif line.kind == "start":
            # Events are numbered anew in a copy; what was in the file of before is not known.
            self._stored.clear()
        elif line.kind == "scrubbed":
            while self._stored and self._stored[0] <= line.event:
                self._stored.popleft()
                self.overwritten += 1

    def list_erased(self) -> list[dict[str, str | int]]:
        """Return the counts of `erased` as rows."""
        return [
            {"container": container, "cause": cause, "how": how, "records": number}
            for (container, cause, how), number in sorted(self.erased.items())
        ]


def name_container(line: Line) -> str:
    """Return the container of a line by its names, or by its number if it was dropped before the log could read them."""
    return "/".join(line.path) or f"dropped container {line.container}"
