"""How late an event loop is: a task that sleeps for a moment and sees when it wakes."""

from __future__ import annotations

import asyncio
from time import perf_counter, process_time

import msgspec

MOMENT = 0.001


class Lateness(msgspec.Struct, frozen=True):
    """Milliseconds by which the loop was late at worst: `wall` whatever the reason, `own` while this process computed.

    The two differ where other processes had the processor.
    """

    wall: float = 0.0
    own: float = 0.0


class Watchdog:
    """Watches the loop it was made on, until `stop`."""

    def __init__(self) -> None:
        self._wall = self._own = 0.0
        self._task = asyncio.create_task(self._watch())

    def restart(self) -> Lateness:
        """Begin anew; the worst until now."""
        worst = Lateness(self._wall * 1e3, self._own * 1e3)
        self._wall = self._own = 0.0
        return worst

    async def _watch(self) -> None:
        while True:
            began, used = perf_counter(), process_time()
            await asyncio.sleep(MOMENT)
            late = perf_counter() - began - MOMENT
            self._wall = max(self._wall, late)
            self._own = max(self._own, min(late, process_time() - used))

    def stop(self) -> None:
        self._task.cancel()
