"""The keys of a store file, for the engine: `Keys` of the interface."""

from __future__ import annotations

from mayflydb.store.segments import KeySegment
from mayflydb.store.sqlite.sealing import Sealing
from mayflydb.store.sqlite.snapshots import RunAlone, SqliteSnapshots


class SqliteKeys:
    """The keys of one store file. Those of a store in memory would protect nothing: it has none."""

    def __init__(self, sealing: Sealing, snapshots: SqliteSnapshots, run_alone: RunAlone) -> None:
        self._sealing = sealing
        self._snapshots = snapshots
        self._run_alone = run_alone

    @property
    def is_used(self) -> bool:
        """True if the store has segments, or had some."""
        return self._sealing.is_on

    def check(self) -> None:
        """Raise Unavailable if no key can be made."""
        self._sealing.check()

    async def destroy(self) -> list[KeySegment]:
        """Destroy the keys of all segments that are `gone`, and return these. Unavailable."""
        # Between two transactions: none of them reads segments, and their purge is committed.
        return await self._run_alone(self._sealing.destroy)

    async def read_needed(self) -> tuple[int, ...]:
        """Return the serial numbers of the keys that snapshots of the store have."""
        return await self._snapshots.needed_keys()
