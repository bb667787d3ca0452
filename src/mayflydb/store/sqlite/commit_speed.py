"""The speed of commits on this disk, which decides if a commit runs on a thread."""

from __future__ import annotations

from collections import deque

THREAD_SWITCH_US = 500
"""The cost in microseconds, about, of waking a thread and handing the interpreter lock over and back."""

SAMPLES = 16
"""Commits that are remembered."""


class CommitSpeed:
    """The durations of the last commits. A disk counts as slow until SAMPLES commits have shown that it can be quick."""

    def __init__(self) -> None:
        self.is_quick = False
        self._recent: deque[int] = deque(maxlen=SAMPLES)

    def note(self, took_us: int) -> None:
        """Note a commit that took so many microseconds."""
        recent = self._recent
        recent.append(took_us)
        if self.is_quick:
            if sum(recent) > THREAD_SWITCH_US * len(recent):
                self.is_quick = False
                recent.clear()
        elif len(recent) == SAMPLES:
            # Commits are timed on the writer's thread here: all but the quickest may have waited for the interpreter lock.
            self.is_quick = min(recent) <= THREAD_SWITCH_US
