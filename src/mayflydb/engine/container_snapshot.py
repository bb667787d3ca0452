"""What a transaction knows of one container: what it has read there, and written, and whether all that still holds."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mayflydb.engine.building import KeysOf
from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.index_overlay import IndexOverlay, ReadRange, entry_keys
from mayflydb.engine.locks import LockHolder, Locks
from mayflydb.engine.version_cache import VersionCache
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Delete, Get, Put, Read, Scan, ask

if TYPE_CHECKING:
    from mayflydb.engine.engine import Scope

CHANGED: Final = "What the transaction works with was changed by somebody else."

Identity: TypeAlias = tuple[bytes, bytes]
"""(partition, key)"""

_MAX_SINGLE_READS: Final = 16
"""Reads that are made again one by one; of more it is asked first what has been written since."""

_MAX_CHANGES: Final = 512
"""So many changes at most are looked at one by one."""


class IndexOverlays:
    """Beside one index: what was there at the beginning and was replaced since, and what was written here."""

    def __init__(self, index: Index, keys_of: KeysOf) -> None:
        def keys(record: Record) -> tuple[bytes, ...]:
            return entry_keys(record, index, keys_of)

        self.gone = IndexOverlay(keys)
        self.own = IndexOverlay(keys)
        self.gone_upto = 0
        self.own_upto = 0
        self.first: dict[int, int] = {}
        """When each record was first written here: how many changes there were before."""


class ContainerSnapshot:
    """One container in one transaction. `lsn` is the last number that had been given out at its beginning."""

    def __init__(
        self,
        node: Node,
        lsn: int,
        seq: int,
        now: Instant,
        version_cache: VersionCache,
        locks: Locks,
        holder: LockHolder,
    ) -> None:
        self.node = node
        self.workspace = Workspace(node, now, None, locks, holder)
        self.written: dict[Identity, None] = {}
        self.lsn = lsn
        self._seq = seq
        self._now = now
        self._version_cache = version_cache
        self._versions: dict[Identity, int | None] = {}
        self._blind: dict[Identity, Record | None] = {}
        self._overlays: dict[int, IndexOverlays] = {}
        self._ranges: dict[tuple[int, KeyRange, bool], list[ReadRange]] = {}
        self._scopes: list[Scope] = []

    def is_new(self, stored: Record) -> bool:
        """Whether it was made since the beginning, by somebody else."""
        return stored.seq > self._seq

    def visible(self, record: Record) -> bool:
        """Whether it is at the instant of the transaction."""
        return visible_at(record, self.workspace.rules, self._now)

    def conflict(self) -> WriteConflict:
        """Somebody else was quicker."""
        return WriteConflict(CHANGED, container=self.node.id)

    # --- what was met ------------------------------------------------------------------------------------------------

    def note_read(self, partition: bytes, key: bytes, stored: Record | None) -> None:
        """This is stored there. WriteConflict if it is not what was there at the beginning, or was met before."""
        # Whether what is hidden is purged or not makes no difference to anybody.
        version = stored.lsn if stored is not None and self.visible(stored) else None
        if (version or 0) > self.lsn or self._versions.setdefault((partition, key), version) != version:
            raise self.conflict()

    def note_blind_write(self, identity: Identity, begun: Record | None) -> None:
        """What was at a place when it was first written blindly."""
        self._blind.setdefault(identity, begun)

    def note_blind_read(self, partition: bytes, key: bytes) -> None:
        """What was written blindly at a place is looked at, and so what it was made from. WriteConflict as of `note_read`."""
        identity = partition, key
        if identity in self._blind:
            self.note_read(partition, key, self._blind.pop(identity))
            self.written[identity] = None

    def is_blind(self, identity: Identity) -> bool:
        """Whether a place was written and never looked at."""
        return identity in self._blind and identity not in self._versions

    def note_scan(self, scope: Scope) -> None:
        """What is visible there has been read; what was found is told to `note_read`."""
        self._scopes.append(scope)

    def read_range(self, index: Index, within: KeyRange, descending: bool, keys_of: KeysOf) -> ReadRange:
        """Where to note what is read in a range of an index, of which it is told when no more is."""
        ranges = self._ranges.setdefault((index.number, within, descending), [])
        if len(ranges) > 1:
            # All are of one beginning, so the longest says what the others do.
            longest = max(
                (read_range for read_range in ranges if read_range.is_finished),
                key=lambda read_range: read_range.reach,
                default=None,
            )
            ranges[:] = [read_range for read_range in ranges if read_range is longest or not read_range.is_finished]
        ranges.append(ReadRange(index, within, descending, keys_of))
        return ranges[-1]

    # --- beside the stored -------------------------------------------------------------------------------------------

    def overlays(self, index: Index, keys_of: KeysOf) -> IndexOverlays:
        """Those of an index, up to date."""
        overlays = self._overlays.get(index.number)
        if overlays is None:
            overlays = self._overlays[index.number] = IndexOverlays(index, keys_of)
        changes = self.workspace.changes
        for number in range(overlays.own_upto, len(changes)):
            change = changes[number]
            if isinstance(change, (Put, Delete)):
                seq = change.record.seq
                overlays.first.setdefault(seq, number)
                overlays.own.put(seq, change.record if isinstance(change, Put) else None)
        overlays.own_upto = len(changes)
        self.add_replaced(overlays)
        return overlays

    def add_replaced(self, overlays: IndexOverlays) -> None:
        """Take note of what has been replaced meanwhile."""
        seqs, overlays.gone_upto = self._version_cache.replaced_since(self.node.id, overlays.gone_upto)
        for seq in dict.fromkeys(seqs):
            before = (
                None if seq in overlays.gone or seq > self._seq else self._version_cache.at(self.node.id, seq, self.lsn)
            )
            if before is not None:
                overlays.gone.put(seq, before)

    # --- at the end --------------------------------------------------------------------------------------------------

    def check_writes(self, workspace: Workspace) -> Generator[Read[Any], Any, None]:
        """In the committing transaction, before it writes anything. WriteConflict if somebody else wrote what is written here."""
        for identity in self.written:
            record = yield from workspace.get(*identity)
            if (None if record is None else record.lsn) != self._versions.get(identity):
                raise self.conflict()

    @property
    def has_reads(self) -> bool:
        """Whether there is anything that has to be the same at the end."""
        return bool(self._versions or self._ranges or self._scopes)

    def check_reads(self, lsn: int) -> Generator[Read[Any], Any, None]:
        """As `check_writes`, when the container has come to `lsn`. WriteConflict unless everything would be read again."""
        if lsn == self.lsn:
            return
        many = len(self._versions) > _MAX_SINGLE_READS or bool(self._ranges or self._scopes)
        if many and lsn - self.lsn <= _MAX_CHANGES and (yield from self._explain_changes(lsn)):
            return
        for identity, version in self._versions.items():
            found = yield from ask(Get(self.node.id, *identity))
            if self._version(found) != version:
                raise self.conflict()
        for scope in self._scopes:
            scan = Scan(self.node.id, scope.lower, scope.upper, Order.CHANGED, Position(b"", self.lsn), 1)
            if (yield from ask(scan)):
                raise self.conflict()
        for read_range in self._ranges_read():
            if not (yield from read_range.is_unchanged(self.node.id, self.visible)):
                raise self.conflict()

    def _version(self, record: Record | None) -> int | None:
        return record.lsn if record is not None and self.visible(record) else None

    def _explain_changes(self, lsn: int) -> Generator[Read[Any], Any, bool]:
        """Whether all numbers since the beginning belong to records that have nothing to do with what was read.

        False: nobody knows; a removal, for one, leaves nothing to look at. WriteConflict if one has.
        """
        seen = 0
        after = Position(b"", self.lsn)
        while records := (yield from ask(Scan(self.node.id, b"", None, Order.CHANGED, after, _MAX_CHANGES))):
            after = Position(records[-1].partition, records[-1].lsn)
            seen += len(records)
            for record in records:
                if self._touches(record):
                    raise self.conflict()
                if self._ranges and not self.is_new(record):
                    before = self._version_cache.at(self.node.id, record.seq, self.lsn)
                    if before is None:
                        return False
                    if self._is_in_ranges([before]):
                        raise self.conflict()
        return seen == lsn - self.lsn

    def _touches(self, record: Record) -> bool:
        if (record.partition, record.key) in self._versions:
            return True
        return any(scope.has(record.partition) for scope in self._scopes) or self._is_in_ranges([record])

    def _is_in_ranges(self, records: Iterable[Record]) -> bool:
        return any(read_range.covers(record) for record in records for read_range in self._ranges_read())

    def _ranges_read(self) -> Iterator[ReadRange]:
        return (read_range for ranges in self._ranges.values() for read_range in ranges if not read_range.is_empty)
