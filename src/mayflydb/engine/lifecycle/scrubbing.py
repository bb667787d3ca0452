"""Secure erase: after expiries, what they left in the store's files is overwritten within a bounded time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import SECOND, Span
from mayflydb.store.interface import LastExpiry, Store

log = logging.getLogger(__name__)

Scrub: TypeAlias = Callable[[bool], Awaitable[bool]]
"""Overwrites what is left of deleted records. False: a long read needs it, which is told to end if the argument is true."""

INTERVAL: Final[Span] = 10 * SECOND
"""The shortest time between two scrubs: each copies the whole log into the file."""

RETRY: Final[Span] = SECOND
PATIENCE: Final = 20
"""Failed scrubs after which long reads are told to end. So a scrub ends within half a minute, and a busy disk's time."""


class Scrubber:
    """Scrubs one store. `scrubbed`: the number of the last expiry event whose record is overwritten; -1: none since the start."""

    def __init__(self, store: Store, notifier: ChangeNotifier, erasure_log: ErasureLog, scrub: Scrub) -> None:
        self.scrubbed = -1
        self._store = store
        self._notifier = notifier
        self._erasure_log = erasure_log
        self._scrub = scrub
        self._failed = 0
        self._rest = ChangeNotifier()

    async def run(self) -> None:
        """Scrub until cancelled. The first scrub is of what another process has left."""
        while True:
            heard = self._notifier.notifications
            try:
                is_done = await self.scrub_now()
            except MayflyError as error:
                log.warning("secure erase failed and will be tried again: %s", error)
                is_done = False
            await self._rest.wait(0, INTERVAL if is_done else RETRY)
            if is_done:
                await self._notifier.wait(heard, INTERVAL)

    async def scrub_now(self) -> bool:
        """Overwrite what has expired until now. False: a read is in the way."""
        last = await self._store.read(LastExpiry())
        if last <= self.scrubbed:
            return True
        if not await self._scrub(self._failed >= PATIENCE):
            self._failed += 1
            return False
        self._failed = 0
        self.scrubbed = last
        self._erasure_log.note_scrub(last)
        return True
