"""The progress of one purge request over its containers."""

from __future__ import annotations

from collections import Counter
from typing import Final

from mayflydb.engine.lifecycle.guard import Pass
from mayflydb.model.instant import Span

FRUITLESS_SWEEPS: Final = 100
"""Sweeps in a row that removed nothing, after which a request leaves a container out."""


class SweepProgress:
    """`done`: purged records by container. `rounds`: sweeps by container that removed some. `waits`: containers whose budget is
    exhausted, and the host time until it can pay again. `began`: the stopwatch of each container.
    """

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()
        self.rounds: Counter[int] = Counter()
        self.waits: dict[int, Span] = {}
        self.began: dict[int, int] = {}
        self._stuck: set[int] = set()
        self._passes: dict[int, Pass] = {}
        self._fruitless: Counter[int] = Counter()

    @property
    def excluded(self) -> dict[int, Span]:
        """The containers that the request leaves out from now on, and the host time until they may go on."""
        return self.waits | dict.fromkeys(self._stuck, 0)

    def leave_out(self, container: int) -> None:
        """Leave a container out of the rest of the request."""
        self._stuck.add(container)

    def take_pass(self, container: int) -> Pass | None:
        """Return what the guard has let through in a container and was not used yet; None: the guard looks first."""
        return self._passes.pop(container, None)

    def note(self, container: int, removed: int, others: int, permit: Pass) -> None:
        """Take note of a sweep that removed records of a container, and `others` of its children."""
        self.done[container] += removed
        # Nothing was removed: the rules may be others now, which needs another look.
        if removed and (rest := permit.without(removed)) is not None:
            self._passes[container] = rest
        # What is due and cannot be purged must not keep the request from its end.
        self._fruitless[container] = 0 if removed or others else self._fruitless[container] + 1
        if self._fruitless[container] == FRUITLESS_SWEEPS:
            self.leave_out(container)
