"""The stopwatch of a server's budgets, for tests to move."""

from __future__ import annotations

from mayflydb.engine.budgets import Budgets


class Watch:
    """Monotonic microseconds that go on when they are told to."""

    def __init__(self, budgets: Budgets) -> None:
        self._now = 1_000_000_000
        budgets.stopwatch = lambda: self._now

    def on(self, seconds: float) -> None:
        self._now += round(seconds * 1_000_000)
