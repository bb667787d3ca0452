"""How quick the disk is: whether a commit is worth a thread."""

from __future__ import annotations

from collections import deque

THREAD_SWITCH_US = 500
"""To wake a thread and hand the interpreter over and back takes about as long."""

SAMPLES = 16


class CommitSpeed:
    """What the last commits took. A disk counts as slow until several commits have shown that it can be quick."""

    def __init__(self) -> None:
        self.is_quick = False
        self._recent: deque[int] = deque(maxlen=SAMPLES)

    def note(self, took_us: int) -> None:
        """One commit took this long."""
        recent = self._recent
        recent.append(took_us)
        if self.is_quick:
            if sum(recent) > THREAD_SWITCH_US * len(recent):
                self.is_quick = False
                recent.clear()
        elif len(recent) == SAMPLES:
            # The quickest counts: the others may have waited for the interpreter.
            self.is_quick = min(recent) <= THREAD_SWITCH_US
