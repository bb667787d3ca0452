"""Wakes the readers of a topic when it may have grown.

The engine tells of every commit of this process. One task looks after each which topics have changed, for all readers together:
so a commit elsewhere costs one read for each topic that is being read, however many readers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mayflydb.engine.engine import Engine
from mayflydb.model.instant import MILLISECOND, SECOND

POLL: Final = SECOND
"""The span after which the task looks by itself: other nodes may have written."""

PAUSE: Final = 2 * MILLISECOND
"""The span between two looks, so that a stream of commits elsewhere does not keep the event loop."""


class Tails:
    """The topics that are being read, with what wakes their readers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bells: dict[int, dict[Callable[[], None], None]] = {}
        self._lsns: dict[int, int] = {}
        self._catalog = engine.catalog_version
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def watch(self, topic: int, ring: Callable[[], None]) -> None:
        """Have `ring` called after each change of a topic, and of the catalogue."""
        self._bells.setdefault(topic, {})[ring] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_on())

    def unwatch(self, topic: int, ring: Callable[[], None]) -> None:
        """Undo `watch`."""
        bells = self._bells.get(topic, {})
        bells.pop(ring, None)
        if not bells:
            self._bells.pop(topic, None)
            self._lsns.pop(topic, None)

    async def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _look_on(self) -> None:
        notifier = self._engine.reaper.notifier
        while self._bells and not notifier.closed:
            heard = notifier.notifications
            await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PAUSE / SECOND)
            await notifier.wait(heard, POLL)
        self._task = None

    async def _look(self) -> None:
        catalog = self._engine.catalog_version
        renewed = catalog != self._catalog
        self._catalog = catalog
        for topic in list(self._bells):
            lsn = await self._engine.lsn(topic)
            if topic in self._bells and (renewed or lsn != self._lsns.get(topic)):
                self._lsns[topic] = lsn
                for ring in self._bells[topic]:
                    ring()
