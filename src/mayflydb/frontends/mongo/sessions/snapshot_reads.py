"""Reads of a snapshot outside of transactions: read concern `snapshot`, with or without `atClusterTime`.

The first read begins a snapshot and names its cluster time; later reads name that time to see the same state. Rules:
https://github.com/mongodb/specifications/blob/master/source/sessions/snapshot-sessions.md
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

from bson import Timestamp

from mayflydb.engine.engine import Engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.mongo.collections import SPACE, Collection, Identity
from mayflydb.frontends.mongo.cursors import ReadTime
from mayflydb.frontends.mongo.decisions import Decision
from mayflydb.frontends.mongo.reading import DocumentRow, ReadView, Selection
from mayflydb.frontends.mongo.sessions.retries import RetryableWrite
from mayflydb.frontends.mongo.sessions.transaction_work import SnapshotView
from mayflydb.frontends.mongo.spending import SpentUnits
from mayflydb.frontends.mongo.streams.options import cluster_time
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError

T = TypeVar("T")

WINDOW: Final[Span] = 300 * SECOND
"""The span for which a snapshot may be read, by the host's time.

https://www.mongodb.com/docs/manual/reference/parameters/#mongodb-parameter-param.minSnapshotHistoryWindowInSeconds
"""

MAX_SNAPSHOTS: Final = 100
"""Snapshots at a time. A further one ends the oldest."""

_TOO_OLD: Final = 239


class KeptSnapshot:
    """A snapshot that reads share. `time`: the cluster time that names it. `closed`: it can be read no more."""

    def __init__(self, snapshot: Snapshot, time: Timestamp, ends_at: int) -> None:
        self.snapshot = snapshot
        self.time = time
        self.ends_at = ends_at
        self.closed = False

    def close(self) -> None:
        """Release what is kept for the snapshot."""
        self.closed = True
        self.snapshot.close()

    def build_error(self) -> MqlError:
        """The error of a read after the end."""
        return _too_old_error(self.time)


class SnapshotReads:
    """The snapshots of one server, by their cluster times, the oldest first."""

    def __init__(self, engine: Engine, monotonic: Callable[[], int]) -> None:
        """`monotonic`: returns the host's monotonic time in microseconds."""
        self._engine = engine
        self._monotonic = monotonic
        self._kept: dict[Timestamp, KeptSnapshot] = {}
        self._latest = Timestamp(0, 1)

    def __len__(self) -> int:
        return len(self._kept)

    async def find_or_begin(self, named: Timestamp | None, now: Instant) -> KeptSnapshot:
        """Return the snapshot of a cluster time, or a new one without it. Raise MqlError 239 and 246."""
        self.end_overdue()
        if named is None:
            return await self._begin(now)
        kept = self._kept.get(named)
        if kept is not None:
            return kept
        if named > max(self._latest, cluster_time(now)):
            text = f"Unable to read from a snapshot at {named}, which is later than the last commit"
            raise MqlError(
                246, f"{text}. Please retry the read at a cluster time that a read of a snapshot has returned."
            )
        raise _too_old_error(named)

    async def _begin(self, now: Instant) -> KeptSnapshot:
        space = await self._engine.node(SPACE)
        databases = [] if space is None else await self._engine.children(space.id)
        snapshot = await Snapshot.begin(self._engine, now, [node.id for node in databases])
        time = cluster_time(now)
        # Two snapshots of one instant may show different commits.
        while time in self._kept:
            time = Timestamp(time.time, time.inc + 1)
        while len(self._kept) >= MAX_SNAPSHOTS:
            self._close(next(iter(self._kept.values())))
        self._latest = max(self._latest, time)
        kept = self._kept[time] = KeptSnapshot(snapshot, time, self._monotonic() + WINDOW)
        return kept

    def end_overdue(self) -> None:
        """Close the snapshots whose window is over."""
        now = self._monotonic()
        for kept in list(self._kept.values()):
            if kept.ends_at >= now:
                break
            self._close(kept)

    def _close(self, kept: KeptSnapshot) -> None:
        del self._kept[kept.time]
        kept.close()


class SnapshotWork:
    """The work of a command that reads a snapshot, and writes nothing."""

    in_transaction = False
    retryable_write: RetryableWrite | None = None

    def __init__(self, engine: Engine, kept: KeptSnapshot) -> None:
        self.spent = SpentUnits()
        self._snapshot = kept.snapshot
        self.view: ReadView = KeptView(engine, kept, self.spent)

    async def get(self, collection: Collection, identity: Identity, now: Instant) -> Record | None:
        return await self._snapshot.get(collection.id, identity.partition, identity.key)

    async def perform(self, decide: Decision[T]) -> T:
        """Raise MqlError 72: only $out and $merge come here, and they do not write what others may read already."""
        raise MqlError(72, "$out and $merge cannot be used with a 'snapshot' read concern")

    def note_refusal(self) -> None:
        """Do nothing: there is no transaction."""


class KeptView(SnapshotView):
    """The view of a snapshot that may be closed while a cursor reads on."""

    def __init__(self, engine: Engine, kept: KeptSnapshot, spent: SpentUnits) -> None:
        super().__init__(engine, kept.snapshot, spent)
        self._kept = kept

    async def rows(
        self, collection: Collection, selection: Selection, read_time: ReadTime
    ) -> AsyncIterator[list[DocumentRow]]:
        """As for a transaction. Raise MqlError 239 when the versions that the snapshot needs are gone."""
        try:
            async for found in super().rows(collection, selection, read_time):
                # What it has read after the end may be of another state.
                if self._kept.closed:
                    raise self._kept.build_error()
                yield found
        except WriteConflict as conflict:
            raise self._kept.build_error() from conflict
        if self._kept.closed:
            raise self._kept.build_error()


def _too_old_error(time: Timestamp) -> MqlError:
    text = f"Read timestamp {time} is older than the oldest available timestamp."
    return MqlError(_TOO_OLD, text)
