"""The earlier states that reads are using, shared by the pages of a query and by readers of one instant."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.past_versions import PastVersions
from mayflydb.engine.lifecycle.retired_versions import RetiredVersion, decode_version
from mayflydb.engine.reads import settled_lsn
from mayflydb.expiry.past import find_first_known
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant, to_rfc3339
from mayflydb.model.order import Identity, Order, Position
from mayflydb.store.interface import Scan, Store

MOST: Final = 32
"""Earlier states in memory. One more takes the place of the one that was not used for the longest time."""

MAX_HELD_BYTES: Final = 128 << 20
"""Bytes of all of them, likewise."""

LOADS: Final = 2
"""Earlier states that are read from the store at the same time. Others wait."""

IDLE_SECONDS: Final = 60
"""An earlier state that was not used for this long is dropped, within twice the time."""

FEW: Final = 64
"""Retired versions of one partition that a read by key looks through."""


class Pasts:
    """The earlier states of the containers of a store."""

    def __init__(self, store: Store, settle: Callable[[], Awaitable[None]], latest: Callable[[], Instant]) -> None:
        """`settle`: waits for the writes and purges in progress. `latest`: returns the latest instant of a request."""
        self._store = store
        self._settle = settle
        self._latest = latest
        self._loads = asyncio.Semaphore(LOADS)
        self._pasts: OrderedDict[tuple[int, Instant], PastVersions] = OrderedDict()
        self._used: set[tuple[int, Instant]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def find_first_known(self, container: Node) -> Instant | None:
        """Return the first instant as of which a container can be read; None: it keeps no earlier states."""
        past = container.definition.past
        return None if past is None else find_first_known(past, container.definition.lifecycle.history, self._latest())

    async def begin(self, container: Node, at: Instant) -> None:
        """Prepare a read, before anything is read. BadRequest if the state of the instant is not kept."""
        self._check_kept(container, at)
        # A write with an earlier instant may not be committed yet.
        await self._settle()

    def _check_kept(self, container: Node, at: Instant) -> None:
        first = self.find_first_known(container)
        if first is None:
            raise BadRequest(
                f"No states before now are kept of '{container.name}': a lifecycle setting keeps them from then on "
                "(mayfly lifecycle set TARGET --history 7d)."
            )
        if at < first:
            raise BadRequest(
                f"No states before {to_rfc3339(first)} are kept of '{container.name}'.",
                hint="`mayfly lifecycle show TARGET` tells since when",
            )

    async def of(self, container: Node, at: Instant) -> PastVersions:
        """Return what has ended in a container since an instant, up to now. BadRequest if that is too much, or not kept.

        A state that is in memory stays readable there: `begin` tells whether a new read may.
        """
        place, home = (container.id, at), container.definition.retired
        past = self._pasts.get(place)
        if past is None or home is None or container.definition.past is None:
            self._check_kept(container, at)
            assert home is not None
            past = self._pasts[place] = PastVersions(home, at)
        try:
            if past.is_loaded:
                await past.update(self._store)
            else:
                async with self._loads:
                    await past.update(self._store)
                    # Versions may have been forgotten while they were read.
                    self._check_kept(container, at)
        except BaseException:
            if self._pasts.get(place) is past:
                del self._pasts[place]
            raise
        self._note_use(place)
        return past

    async def find_one(
        self, container: Node, at: Instant, identity: Identity
    ) -> RetiredVersion | Literal["many"] | None:
        """Find the version with an identity that was stored at an instant and has ended since, by a read of its partition alone;
        `many`: the partition has so many versions, or all are in memory, that `of` is better.
        """
        home = container.definition.retired
        if home is None or (container.id, at) in self._pasts:
            return "many"
        partition, seen, found = identity[0], 0, None
        await settled_lsn(self._store, home, partition)
        after: Position | None = None
        while page := await self._store.read(Scan(home, partition, partition + b"\0", Order.HASHED, after, FEW)):
            seen += len(page)
            if seen > FEW:
                return "many"
            after = Position(page[-1].partition, page[-1].seq)
            for retired in map(decode_version, page):
                if retired.was_stored(at) and retired.record.key == identity[1] and retired.ended_before(found):
                    found = retired
        self._check_kept(container, at)
        return found

    # --- memory --------------------------------------------------------------------------------------------------------

    def _note_use(self, place: tuple[int, Instant]) -> None:
        self._used.add(place)
        if place in self._pasts:
            self._pasts.move_to_end(place)
        while len(self._pasts) > 1 and (
            len(self._pasts) > MOST or sum(past.held_bytes for past in self._pasts.values()) > MAX_HELD_BYTES
        ):
            # Its readers read it again.
            self._pasts.popitem(last=False)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_idle)

    def _drop_idle(self) -> None:
        for place in [place for place in self._pasts if place not in self._used]:
            del self._pasts[place]
        self._used.clear()
        self._timer = None
        if self._pasts:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_idle)

    def forget(self) -> None:
        """Drop all of them: everything stored was replaced."""
        self._pasts.clear()
