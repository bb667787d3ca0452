"""The read set of a transaction that is composed outside of the writer; the writer checks that it still holds."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

from mayflydb.engine.locks import LockHolder
from mayflydb.engine.reads import Reads, Steps, run_steps
from mayflydb.expiry.deadline import deadline, has_passed, visible_at
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import EntryOwners, Get, Read, Scan, ask

T = TypeVar("T")

CHANGED: Final = "Another transaction has changed a record that this one has read."
_MAX_SINGLE_READS: Final = 16
"""Records that are looked up one by one at the check; more are found by reading their partitions."""

_BATCH_SIZE: Final = 1_000


class ReadSet:
    """The reads of one container under `rules` at `now`, since the time at which `lsn` was its last number."""

    def __init__(
        self, container: int, lsn: int, rules: tuple[Rule, ...], now: Instant, holder: LockHolder | None = None
    ) -> None:
        """`holder`: the locks of the transaction, which keep a locked record alive for it beyond the old deadline."""
        self.holder = LockHolder(now, exclusive=False) if holder is None else holder
        self._container = container
        self._lsn = lsn
        self._rules = rules
        self._now = now
        self._versions: dict[tuple[bytes, bytes], int | None] = {}
        self._partitions: set[bytes] = set()
        self._ends: dict[Identity, Instant] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has been read."""
        return not self._versions and not self._partitions

    def note_read(self, partition: bytes, key: bytes, record: Record | None) -> None:
        """Record the stored record at a place."""
        if record is not None and not visible_at(record, self._rules, self._now):
            record = None  # A hidden record counts as missing, so its purge is no conflict.
        # The first read counts: a different version later was written by another transaction.
        self._versions.setdefault((partition, key), None if record is None else record.lsn)
        ends = None if record is None else deadline(record, self._rules)
        if ends is not None:
            self._ends.setdefault((partition, key), ends)

    async def decide(self, steps: Steps[T], reads: Reads, allocate: Callable[[], tuple[int, int]]) -> T:
        """Run a decision outside of the writer: its reads are recorded here, its lsns and seqs come from `allocate`."""
        return await run_steps(steps, lambda request: self._answer(request, reads, allocate))

    async def _answer(self, request: Read[Any], reads: Reads, allocate: Callable[[], tuple[int, int]]) -> Any:
        if not isinstance(request, Get | EntryOwners):  # Allocate
            return allocate()
        found: Any = await reads.read(request)
        if isinstance(request, Get):
            self.note_read(request.partition, request.key, found)
            return found
        for record in found:
            self.note_read(record.partition, record.key, record)
        return found

    def note_scan(self, partition: bytes) -> None:
        """Record a scan of a partition's visible records; `note_read` records those that it found."""
        self._partitions.add(partition)

    def check(self, lsn: int, rules: Sequence[Rule], now: Instant) -> Generator[Read[Any], Any, None]:
        """Raise WriteConflict unless every read returns the same at `now`, when the container has come to `lsn`."""
        # An expiry since the read changes the read as a deletion would, without any commit.
        if tuple(rules) != self._rules or any(
            has_passed(ends, self._instant_for(place, now)) for place, ends in self._ends.items()
        ):
            raise WriteConflict(CHANGED)
        # No commit in the container since, so nothing else can have changed.
        if lsn == self._lsn:
            return
        for partition in self._partitions:
            scan = Scan(self._container, partition, partition + b"\0", Order.CHANGED, Position(b"", self._lsn), 1)
            if (yield from ask(scan)):
                raise WriteConflict(CHANGED)
        if len(self._versions) <= _MAX_SINGLE_READS or not self._partitions:
            for (partition, key), version in self._versions.items():
                found = yield from ask(Get(self._container, partition, key))
                if self._version(found, now) != version:
                    raise WriteConflict(CHANGED)
            return
        visible = yield from self._visible(now)
        if any(visible.get(identity) != version for identity, version in self._versions.items()):
            raise WriteConflict(CHANGED)

    def _version(self, record: Record | None, now: Instant) -> int | None:
        if record is None or not visible_at(
            record, self._rules, self._instant_for((record.partition, record.key), now)
        ):
            return None
        return record.lsn

    def _instant_for(self, identity: Identity, now: Instant) -> Instant:
        return self.holder.instant_for(self._container, identity, now)

    def _visible(self, now: Instant) -> Generator[Read[Any], Any, dict[tuple[bytes, bytes], int]]:
        """Return the versions in the scanned partitions: a script reads in no other."""
        versions: dict[tuple[bytes, bytes], int] = {}
        for partition in self._partitions:
            after: Position | None = None
            while True:
                scan = Scan(self._container, partition, partition + b"\0", Order.HASHED, after, _BATCH_SIZE)
                records = yield from ask(scan)
                if not records:
                    break
                after = Position(records[-1].partition, records[-1].seq)
                for record in records:
                    if (version := self._version(record, now)) is not None:
                        versions[record.partition, record.key] = version
        return versions
