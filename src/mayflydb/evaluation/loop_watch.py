"""Measures the delay of the event loop, and logs the place of long turns."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from threading import Event, Thread, get_ident
from typing import Final

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.histogram import Histogram
from mayflydb.model.instant import MILLISECOND

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.1
"""The interval of measurements. A turn that takes longer is always noticed, a shorter one by chance."""

STUCK_SECONDS: Final = 0.25
"""The length from which on a turn is logged, with its place in the code."""

QUIET_SECONDS: Final = 10.0
"""The time in which at most one turn is logged."""

BOUNDS: Final = tuple(n * MILLISECOND for n in (1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000))
"""Upper bounds of delays that are counted, in microseconds."""

_SECOND: Final = 1_000_000


class LoopWatch:
    """Watches one event loop: a timer on the loop measures its own delay, and a thread finds the place of a long turn.

    `delays`: all that were measured, in microseconds; `longest` of them. `stuck`: the number of long turns.
    """

    def __init__(self, stopwatch: Stopwatch = monotonic_us) -> None:
        self.delays = Histogram(BOUNDS)
        self.longest = 0
        self.stuck = 0
        self._stopwatch = stopwatch
        self._due = 0
        self._ident = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = Event()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to measure. Called on the loop's own thread."""
        self._ident = get_ident()
        self._schedule(loop)

    def log_long_turns(self) -> None:
        """Start to log the places of long turns: in a process of its own, where no other thread holds the interpreter."""
        Thread(target=self._watch, name="loop watch", daemon=True).start()

    def stop(self) -> None:
        """Stop to measure and to log."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = self._stopwatch() + int(TICK_SECONDS * _SECOND)
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.note_delay(self._stopwatch() - self._due)
        self._schedule(loop)

    def note_delay(self, micros: int) -> None:
        """Count a delay."""
        # A timer fires up to a millisecond early.
        delay = max(0, micros)
        self.longest = max(self.longest, delay)
        self.delays.add(delay)

    def _watch(self) -> None:
        logged_at = -int(QUIET_SECONDS * _SECOND)
        reported = 0
        while not self._ended.wait(TICK_SECONDS):
            now, due = self._stopwatch(), self._due
            if now - due < STUCK_SECONDS * _SECOND or due == reported:
                continue
            reported = due
            self.stuck += 1
            if now - logged_at >= QUIET_SECONDS * _SECOND:
                logged_at = now
                log.warning("the event loop is held for %d ms, here:\n%s", (now - due) // 1000, self.describe_place())

    def describe_place(self) -> str:
        """Return the stack of the loop's thread as text: file names and lines, no values."""
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001 -- the one way to see another thread
        return "" if frame is None else "".join(traceback.format_stack(frame)[-12:])
