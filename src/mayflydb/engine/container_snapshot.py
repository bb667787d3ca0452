"""One container in one open transaction: its reads, its writes, and the checks at commit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mayflydb.engine.building import KeysOf
from mayflydb.engine.catalog import Index, Node
from mayflydb.engine.contention import Turns
from mayflydb.engine.index_overlay import IndexOverlay, ReadRange, entry_keys
from mayflydb.engine.locks import LockHolder, Locks
from mayflydb.engine.version_cache import VersionCache
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.deadline import visibility
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Delete, Get, Put, Read, Scan, ask

if TYPE_CHECKING:
    from mayflydb.engine.scans import Scope

CHANGED: Final = "Another transaction has changed a record that this one works with."

Identity: TypeAlias = tuple[bytes, bytes]
"""(partition, key)"""

_MAX_SINGLE_READS: Final = 16
"""Reads that are repeated one by one at commit; with more, the changes since the beginning are examined first."""

_MAX_CHANGES: Final = 512
"""The largest number of changes that are examined one by one."""


class IndexOverlays:
    """Overlays of one index: `gone` has versions that were replaced since the beginning, `own` has this transaction's writes."""

    def __init__(self, index: Index, keys_of: KeysOf) -> None:
        def keys(record: Record) -> tuple[bytes, ...]:
            return entry_keys(record, index, keys_of)

        self.gone = IndexOverlay(keys)
        self.own = IndexOverlay(keys)
        self.gone_upto = 0
        self.own_upto = 0
        self.first: dict[int, int] = {}
        """The number of changes before the first write of each record, by seq."""


class ContainerSnapshot:
    """One container in one transaction. `lsn` is the last number allocated at its beginning."""

    def __init__(
        self,
        node: Node,
        lsn: int,
        seq: int,
        now: Instant,
        version_cache: VersionCache,
        locks: Locks,
        holder: LockHolder,
        turns: Turns,
    ) -> None:
        self.node = node
        self._turns = turns
        self.workspace = Workspace(node, now, None, locks, holder)
        self.written: dict[Identity, None] = {}
        self.lsn = lsn
        self._seq = seq
        self._version_cache = version_cache
        self._versions: dict[Identity, int | None] = {}
        self._blind: dict[Identity, Record | None] = {}
        self._overlays: dict[int, IndexOverlays] = {}
        self._ranges: dict[tuple[int, KeyRange, bool], list[ReadRange]] = {}
        self._scopes: list[Scope] = []
        self.visibility = visibility(self.workspace.rules, now)
        """Tells whether a record is visible at the instant of the transaction; None: every one is."""

    def is_new(self, stored: Record) -> bool:
        """Return whether another transaction created a record since the beginning."""
        return stored.seq > self._seq

    def visible(self, record: Record) -> bool:
        """Return whether a record is visible at the instant of the transaction."""
        return self.visibility is None or self.visibility(record)

    def conflict(self, *place: object) -> WriteConflict:
        """Build the error for a concurrent transaction that committed first. `place`: what both contend for, if it is known."""
        if place:
            self._turns.note_conflict((self.node.id, *place))
        return WriteConflict(CHANGED, container=self.node.id)

    # --- what was met ------------------------------------------------------------------------------------------------

    def note_read(self, partition: bytes, key: bytes, stored: Record | None) -> None:
        """Record the read of a place. WriteConflict if the version is newer than the beginning, or differs from an earlier
        read.
        """
        # A hidden record counts as missing, so its purge is no conflict.
        version = stored.lsn if stored is not None and self.visible(stored) else None
        # Newer than the beginning: another node wrote it, or the old version would have come from the version cache.
        if (version or 0) > self.lsn or self._versions.setdefault((partition, key), version) != version:
            raise self.conflict(partition, key)

    def note_blind_write(self, identity: Identity, begun: Record | None) -> None:
        """Record the version at a place before its first blind write."""
        self._blind.setdefault(identity, begun)

    def note_blind_read(self, partition: bytes, key: bytes) -> None:
        """Turn a blind write at a place into a read, since its result is now read. WriteConflict as in `note_read`."""
        identity = partition, key
        if identity in self._blind:
            self.note_read(partition, key, self._blind.pop(identity))
            self.written[identity] = None

    def is_blind(self, identity: Identity) -> bool:
        """Return whether a place was written and never read."""
        return identity in self._blind and identity not in self._versions

    def note_scan(self, scope: Scope) -> None:
        """Record a scan; `note_read` records the records that it found."""
        self._scopes.append(scope)

    def read_range(self, index: Index, within: KeyRange, descending: bool, keys_of: KeysOf) -> ReadRange:
        """Return an object that records a walk over a range of an index; the walk marks its end there."""
        ranges = self._ranges.setdefault((index.number, within, descending), [])
        if len(ranges) > 1:
            # All walks start at one place, so the longest covers the others.
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
        """Return the overlays of an index, up to date."""
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
        """Add versions that were replaced since the last call."""
        seqs, overlays.gone_upto = self._version_cache.replaced_since(self.node.id, overlays.gone_upto)
        for seq in dict.fromkeys(seqs):
            before = (
                None if seq in overlays.gone or seq > self._seq else self._version_cache.at(self.node.id, seq, self.lsn)
            )
            if before is not None:
                overlays.gone.put(seq, before)

    # --- at the end --------------------------------------------------------------------------------------------------

    def check_writes(self, workspace: Workspace) -> Generator[Read[Any], Any, None]:
        """Check the writes, in the committing transaction before its first change. WriteConflict if a written record has
        changed.
        """
        for identity in self.written:
            record = yield from workspace.get(*identity)
            if (None if record is None else record.lsn) != self._versions.get(identity):
                raise self.conflict(*identity)

    @property
    def has_reads(self) -> bool:
        """Return whether the commit has reads to check."""
        return bool(self._versions or self._ranges or self._scopes)

    def check_reads(self, lsn: int) -> Generator[Read[Any], Any, None]:
        """Check the reads, when the container has come to `lsn`. WriteConflict unless every read would return the same again."""
        if lsn == self.lsn:
            return
        many = len(self._versions) > _MAX_SINGLE_READS or bool(self._ranges or self._scopes)
        if many and lsn - self.lsn <= _MAX_CHANGES and (yield from self._explain_changes(lsn)):
            return
        for identity, version in self._versions.items():
            found = yield from ask(Get(self.node.id, *identity))
            if self._version(found) != version:
                raise self.conflict(*identity)
        for scope in self._scopes:
            scan = Scan(self.node.id, scope.lower, scope.upper, Order.CHANGED, Position(b"", self.lsn), 1)
            if (yield from ask(scan)):
                raise self.conflict()
        for read_range in self._ranges_read():
            if not (yield from read_range.is_unchanged(self.node.id, self.visible)):
                raise self.conflict(read_range.index.number, read_range.within)

    def _version(self, record: Record | None) -> int | None:
        return record.lsn if record is not None and self.visible(record) else None

    def _explain_changes(self, lsn: int) -> Generator[Read[Any], Any, bool]:
        """Return whether every lsn since the beginning belongs to a record outside of the reads.

        False: unknown, since a removal, for one, leaves no record to examine. WriteConflict if a changed record was read.
        """
        seen = 0
        after = Position(b"", self.lsn)
        while records := (yield from ask(Scan(self.node.id, b"", None, Order.CHANGED, after, _MAX_CHANGES))):
            after = Position(records[-1].partition, records[-1].lsn)
            seen += len(records)
            for record in records:
                self._check_untouched(record)
                if self._ranges and not self.is_new(record):
                    before = self._version_cache.at(self.node.id, record.seq, self.lsn)
                    if before is None:
                        return False
                    self._check_ranges(before)
        return seen == lsn - self.lsn

    def _check_untouched(self, record: Record) -> None:
        if (record.partition, record.key) in self._versions:
            raise self.conflict(record.partition, record.key)
        if any(scope.has(record.partition) for scope in self._scopes):
            raise self.conflict()
        self._check_ranges(record)

    def _check_ranges(self, record: Record) -> None:
        for read_range in self._ranges_read():
            if read_range.covers(record):
                raise self.conflict(read_range.index.number, read_range.within)

    def _ranges_read(self) -> Iterator[ReadRange]:
        return (read_range for ranges in self._ranges.values() for read_range in ranges if not read_range.is_empty)


Answers: TypeAlias = Callable[[ContainerSnapshot, Get, Record | None], Record | None]
"""The answer to a decision's read of a place, given the record that is stored now."""
