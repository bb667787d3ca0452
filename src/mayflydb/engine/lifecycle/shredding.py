"""Crypto-shredding: the keys of containers whose records are sealed, from their first write to their destruction.

A container with `shred` has a key for each day of writes, or one for all. The first write of a day begins the segment of that
day, in its own transaction (`Workspace`). Here segments end: when a purge, or a look once a minute, finds that no record of a
segment is stored any more, its key is destroyed, and every copy of these records with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.expiry.lifecycle import segment_number
from mayflydb.model.errors import MayflyError, Unsupported
from mayflydb.model.instant import MINUTE, Instant, Span
from mayflydb.model.order import Order, Position
from mayflydb.store.interface import (
    CountPlain,
    Decision,
    KeySegments,
    LastExpiry,
    LoadRow,
    Outcome,
    Scan,
    Store,
    ask,
)
from mayflydb.store.segments import ForgetSegments, Keys, KeySegment, ShredEmpty, ShredUndone

log = logging.getLogger(__name__)

INTERVAL: Final[Span] = MINUTE
"""The interval of looks at all segments: clients delete and replace records, and days end, without a purge."""


class ShredState(msgspec.Struct, frozen=True):
    """The segments of a container. `keys`: its keys; `plain`: its stored records that are not sealed."""

    keys: int
    plain: int


class Shredding:
    """Shreds the containers of one store. `keys`: its keys; None: it has none."""

    def __init__(self, store: Store, time: Timekeeper, nodes: Nodes, erasure_log: ErasureLog) -> None:
        self.keys: Keys | None = None
        self.destroyed = 0
        """The keys that were destroyed since the start."""
        self._told: set[KeySegment] = set()
        self._store = store
        self._time = time
        self._nodes = nodes
        self._erasure_log = erasure_log
        self._working = asyncio.Lock()
        self._looked_at: Instant = -INTERVAL

    @property
    def is_used(self) -> bool:
        """Return whether the store has keys, or had some."""
        return self.keys is not None and self.keys.is_used

    # --- settings --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Unsupported for a store without keys, Unavailable if no key can be made."""
        if self.keys is None:
            raise Unsupported(
                "records are shredded in a file of SQLite only: in memory nothing is copied, and in PostgreSQL the keys would lie"
                " beside the records, in the same backups",
                hint="serve a file: --storage sqlite:///./mayfly.db",
            )
        self.keys.check()

    async def state(self, container: int) -> ShredState | None:
        """Return the segments of a container; None: none of its records was ever sealed."""
        if not self.is_used:
            return None
        live = [each for each in await self._store.read(KeySegments(container)) if each.state == "live"]
        return ShredState(len(live), await self._store.read(CountPlain(container))) if live else None

    # --- the end of keys -------------------------------------------------------------------------------------------------

    async def run_at_times(self, now: Instant) -> None:
        """Look at all containers, at most once in an interval."""
        if not self.is_used or 0 <= now - self._looked_at < INTERVAL:
            return
        await self.run()
        self._looked_at = now

    async def run_after(self, purged: Mapping[int, int]) -> None:
        """Look at containers of which records were purged. A failure is none of the purge: the next look tries again."""
        if not purged or not self.is_used:
            return
        try:
            await self.run(purged)
        except MayflyError as error:
            log.warning("keys could not be destroyed, and will be within a minute: %s", error)

    async def run(self, containers: Iterable[int] | None = None) -> None:
        """Destroy the keys of the segments of these containers of which nothing is stored; None: of all."""
        if self.keys is None or not self.keys.is_used:
            return
        async with self._working:
            segments = await self._store.read(KeySegments(None))
            wanted = {each.container for each in segments} if containers is None else set(containers)
            for container in sorted(wanted & {each.container for each in segments if each.state == "live"}):
                await self._end_empty(container, [each for each in segments if each.container == container])
            if any(each.state == "undone" for each in segments):
                await self._end_undone(await self.keys.read_needed())
            gone = {each for each in await self._store.read(KeySegments(None)) if each.state == "gone"}
            # Those that the erasure log has not told of yet are known.
            self._told &= gone
            if gone - self._told:
                await self._destroy(self.keys)

    async def _end_empty(self, container: int, segments: list[KeySegment]) -> None:
        now = await self._time.now()
        number = await self._number(container, now)
        # Asked first, since a write costs a sync of the disk.
        if not await self._has_empty(container, [each for each in segments if each.state in ("live", "plain")], number):
            return

        def decide() -> Decision[None]:
            row = yield from ask(LoadRow(container))
            at = 0 if row is None else _number_of(self._nodes.of(row), now)
            return Outcome((ShredEmpty(container, at, dropped=row is None),), None)

        await self._store.write(decide, "sweep")

    async def _number(self, container: int, now: Instant) -> int | None:
        row = await self._store.read(LoadRow(container))
        return None if row is None else _number_of(self._nodes.of(row), now)

    async def _has_empty(self, container: int, segments: list[KeySegment], number: int | None) -> bool:
        """Return whether a segment may be empty and need not stay. `number`: that of the present; None: there is no container."""
        for n, each in enumerate(segments):
            is_newest = n + 1 == len(segments)
            if each.state != "live" or (is_newest and number is not None and each.number >= number):
                continue
            after = Position(b"", each.first - 1)
            found = await self._store.read(Scan(container, b"", None, Order.CHANGED, after, 1))
            if not found or (not is_newest and found[0].lsn >= segments[n + 1].first):
                return True
        return False

    async def _end_undone(self, needed: tuple[int, ...]) -> None:
        def decide() -> Decision[None]:
            return Outcome((ShredUndone(needed),), None)
            yield

        await self._store.write(decide, "sweep")

    async def _destroy(self, keys: Keys) -> None:
        # The log tells of them behind the lines of the records that they sealed.
        last = await self._store.read(LastExpiry())
        gone = await keys.destroy()
        self.destroyed += len(set(gone) - self._told)
        self._told |= set(gone)
        if self._erasure_log.is_on:
            self._erasure_log.note_destruction(gone, last)
            return

        def decide() -> Decision[None]:
            return Outcome((ForgetSegments(tuple((each.container, each.first) for each in gone)),), None)
            yield

        await self._store.write(decide, "sweep")


def _number_of(node: Node, now: Instant) -> int:
    return segment_number(node.definition.lifecycle.shred, now)
