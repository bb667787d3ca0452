"""The versions of a container that were stored at an earlier instant and have ended since, in memory.

Together with the records that have stayed the same since, they are the container as it was. Of the versions of one record that
had not ended at the instant, the one that ended first was stored then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from mayflydb.engine.index_overlay import IndexOverlay
from mayflydb.engine.lifecycle.retired_versions import ENDS, RetiredVersion, decode_version
from mayflydb.model.due import DATE_LIMIT
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant, to_rfc3339
from mayflydb.model.order import Identity, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Due, LoadRow, Scan, Store

MAX_VERSIONS: Final = 100_000
"""The most versions that have ended since the instant of a read."""

MAX_BYTES: Final = 64 << 20
"""The most bytes of their values."""

OVERHEAD: Final = 512
"""Bytes of a version in memory, besides its value."""

PAGE: Final = 128
"""Versions that are read at a time: about a millisecond of work."""

TURN: Final = 32
"""Records whose index keys are computed in one turn of the event loop."""

LAST_SEQ: Final = 1 << 62

KeysOfRecord = Callable[[Record], tuple[bytes, ...]]


class PastVersions:
    """The versions of one container at one instant. `home`: the container of its retired versions."""

    def __init__(self, home: int, at: Instant) -> None:
        self.at = at
        self.read = 0
        """Versions that have ended since the instant."""

        self.value_bytes = 0
        """Bytes of their values."""

        self.held_bytes = 0
        """Bytes in memory."""

        self._home = home
        self._upto: int | None = None
        self._turn = asyncio.Lock()
        self._chosen: dict[int, RetiredVersion] = {}
        self._by_identity: dict[Identity, int] = {}
        self._overlays: dict[object, IndexOverlay] = {}
        self._building = asyncio.Lock()

    @property
    def is_loaded(self) -> bool:
        """Return whether all that had ended was read once."""
        return self._upto is not None

    async def update(self, store: Store) -> None:
        """Read what has ended since the last call. A record that was read before has its version here then.

        BadRequest if more has ended than is read.
        """
        async with self._turn:
            pages = self._first_pages(store) if self._upto is None else self._next_pages(store, self._upto)
            async for page in pages:
                for number, stored in enumerate(page):
                    self._add(decode_version(stored))
                    if self._overlays and not number % TURN:
                        await asyncio.sleep(0)
                self._check_limits()

    async def _first_pages(self, store: Store) -> AsyncIterator[list[Record]]:
        # After a failure it begins anew.
        self.read = self.value_bytes = 0
        row = await store.read(LoadRow(self._home))
        upto = 0 if row is None else row.lsn
        for path, _, span in ENDS:
            # Ended later than the instant: a version that ended at it was not stored any longer.
            after: tuple[int, int] | None = (self.at + span, LAST_SEQ)
            while page := await store.read(Due(self._home, path, DATE_LIMIT, after, PAGE)):
                yield page
                after = decode_version(page[-1]).ended + span, page[-1].seq
                await asyncio.sleep(0)
        self._upto = upto
        async for page in self._next_pages(store, upto):
            yield page

    async def _next_pages(self, store: Store, upto: int) -> AsyncIterator[list[Record]]:
        # In the order of commits, which waits for commits in progress on several workers.
        while page := await store.read(Scan(self._home, b"", None, Order.CHANGED, Position(b"", upto), PAGE)):
            yield page
            self._upto = upto = page[-1].lsn
            await asyncio.sleep(0)

    def _add(self, retired: RetiredVersion) -> None:
        if retired.ended <= self.at:
            return
        record = retired.record
        self.read += 1
        self.value_bytes += len(record.value)
        chosen = self._chosen.get(record.seq)
        if not retired.was_stored(self.at) or not retired.ended_before(chosen):
            return
        if chosen is not None:
            self.held_bytes -= len(chosen.record.value) + OVERHEAD
            self._by_identity.pop((chosen.record.partition, chosen.record.key), None)
        self.held_bytes += len(record.value) + OVERHEAD
        self._chosen[record.seq] = retired
        self._by_identity[record.partition, record.key] = record.seq
        for overlay in self._overlays.values():
            overlay.put(record.seq, record)

    def _check_limits(self) -> None:
        if self.read > MAX_VERSIONS or self.value_bytes > MAX_BYTES:
            raise BadRequest(
                f"The container has changed too much since {to_rfc3339(self.at)}: of the versions that have ended since, "
                f"{self.read} were read, of {self.value_bytes} bytes, and the limits of a read as of an earlier instant are "
                f"{MAX_VERSIONS} versions and {MAX_BYTES} bytes.",
                hint="read as of a later instant",
            )

    # --- what is known -----------------------------------------------------------------------------------------------

    def find(self, seq: int) -> Record | None:
        """Return the version of a record that was stored then and has ended since; None: there is none."""
        found = self._chosen.get(seq)
        return None if found is None else found.record

    def find_at(self, identity: Identity) -> Record | None:
        """Return the version with this identity that was stored then and has ended since; None: there is none."""
        seq = self._by_identity.get(identity)
        return None if seq is None else self._chosen[seq].record

    def is_unchanged(self, stored: Record) -> bool:
        """Return whether a stored record was so at the instant."""
        return stored.written <= self.at and stored.seq not in self._chosen

    async def overlay(self, order: object, keys: Callable[[], KeysOfRecord]) -> IndexOverlay:
        """Return the versions by their keys in an order, whose name is `order`. `keys`: returns the function of the keys."""
        async with self._building:
            overlay = self._overlays.get(order)
            if overlay is None:
                # Versions that come meanwhile are added by `_add`.
                overlay = self._overlays[order] = IndexOverlay(keys())
                try:
                    for number, seq in enumerate(list(self._chosen)):
                        if not number % TURN:
                            await asyncio.sleep(0)
                        overlay.put(seq, self._chosen[seq].record)
                except BaseException:
                    del self._overlays[order]
                    raise
            return overlay
