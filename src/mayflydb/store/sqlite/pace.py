"""How quick the disk is: whether a commit is worth a thread."""

from __future__ import annotations

from collections import deque

QUICK_US = 500
"""To wake a thread and hand the interpreter over and back takes about as long."""

MEMORY = 16


class Pace:
    """What the last commits took. A disk counts as slow until several commits have shown that it can be quick."""

    def __init__(self) -> None:
        self.quick = False
        self._recent: deque[int] = deque(maxlen=MEMORY)

    def note(self, took_us: int) -> None:
        """One commit took this long."""
        recent = self._recent
        recent.append(took_us)
        if self.quick:
            if sum(recent) > QUICK_US * len(recent):
                self.quick = False
                recent.clear()
        elif len(recent) == MEMORY:
            # The quickest counts: the others may have waited for the interpreter.
            self.quick = min(recent) <= QUICK_US
