"""The meaning of a store, in dicts and sorted(): what every other store must answer. For tests, never for data.

Every write is a group of one. Numbers allocated by a decision that then failed are not given out again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from mayflydb.model.due import DuePath, Path, date_of
from mayflydb.model.errors import OwnerNotFound, Unavailable
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import HASH_BYTES, LONGEST_ORDERED, KeyRange, Order
from mayflydb.model.record import IGNORED, Entry, Expiry, Kind, Record, Totals, Version
from mayflydb.store import interface

T = TypeVar("T")
V = TypeVar("V", Record, Version)

EVERYTHING = KeyRange(b"", b"\xff" * (LONGEST_ORDERED + 1))

ANCHOR_LIMIT: Instant = 1 << 62
"""Due paths and events hold anchors clamped to plus or minus this; the record keeps its exact value."""


def clamp(instant: Instant) -> Instant:
    """An instant as due paths and events keep it."""
    return max(-ANCHOR_LIMIT, min(ANCHOR_LIMIT, instant))


def path_value(record: Record, path: Path) -> Instant | None:
    """Where the record stands on a due path; None: it is not on it."""
    if isinstance(path, int):
        return next((clamp(date) for slot, date in record.dates if slot == path), None)
    anchor, override = record.anchor, record.override
    if anchor is None:
        return None
    if path is DuePath.ANCHOR:
        return clamp(anchor) if override is None or override == IGNORED else None
    return clamp(anchor) + override * SECOND if override is not None and override > 0 else None


def page(records: Iterable[V], limit: int) -> list[V]:
    """The first records, ending with the limit or with the one that takes the page over PAGE_BYTES."""
    answer: list[V] = []
    size = 0
    for record in records:
        answer.append(record)
        size += len(record.value)
        if len(answer) == limit or size > interface.PAGE_BYTES:
            break
    return answer


def hash_part(partition: bytes) -> bytes:
    """What of a partition HASHED scans sort by."""
    return partition[:HASH_BYTES].ljust(HASH_BYTES, b"\0")


def scan_place(order: Order) -> Callable[[Record], Any]:
    """What a scan in this order sorts by."""
    if order is Order.CREATED:
        return lambda record: record.seq
    if order is Order.CHANGED:
        return lambda record: record.lsn
    return lambda record: (hash_part(record.partition), record.seq)


def entry_place(entry: Entry) -> tuple[int, bytes]:
    """What a record's entries are sorted by."""
    return entry.index, entry.key


def _deadline(record: Record, way: interface.Purge | interface.CompetingRule) -> Instant | None:
    """When it dies in this way; None: it does not."""
    value = path_value(record, way.path)
    if value is None:
        return None
    deadline = value + (way.span or 0)
    return deadline if way.not_before is None else max(deadline, way.not_before)


class Container:
    """The records of one container: by seq, by identity, and what entries each owns."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.identities: dict[tuple[bytes, bytes], int] = {}
        self.entries: dict[int, frozenset[Entry]] = {}
        self.history: dict[int, Version] = {}

    def get(self, partition: bytes, key: bytes) -> Record | None:
        seq = self.identities.get((partition, key))
        return None if seq is None else self.records[seq]

    def scan(self, request: interface.Scan) -> list[Record]:
        place = scan_place(request.order)
        after: Any = None
        if request.after is not None:
            hashed = request.order is Order.HASHED
            after = (hash_part(request.after.partition), request.after.number) if hashed else request.after.number
        wanted = [
            record
            for record in self.records.values()
            if record.partition >= request.lower
            and (request.upper is None or record.partition < request.upper)
            and (after is None or place(record) > after)
        ]
        return page(sorted(wanted, key=place), request.limit)

    def holders(self, entries: Iterable[Entry]) -> list[Record]:
        wanted = set(entries)
        return [self.records[seq] for seq in sorted(self.records) if not wanted.isdisjoint(self.entries[seq])]

    def key_bytes(self, indexes: tuple[int, ...]) -> tuple[int, ...]:
        """The bytes of the keys in each of these indexes."""
        owned = [entry_place(entry) for entries in self.entries.values() for entry in entries]
        return tuple(sum(len(key) for number, key in owned if number == index) for index in indexes)

    def entries_between(self, index: int, within: KeyRange) -> list[tuple[bytes, int]]:
        """(key, seq) of the entries of an index in a range, in order."""
        return sorted(
            (entry.key, seq)
            for seq, entries in self.entries.items()
            for entry in entries
            if entry.index == index and within.lower <= entry.key < within.upper
        )

    def seek(self, request: interface.SeekIndex) -> tuple[int, ...] | None:
        found = [place for each in request.ranges for place in self.entries_between(request.index, each)]
        return None if len(found) > request.limit else tuple(sorted({seq for _, seq in found}))

    def fetch(self, request: interface.Fetch) -> list[Record]:
        there = [self.records[seq] for seq in request.seqs if seq in self.records]
        return page(there, len(request.seqs))

    def fetch_range(self, request: interface.FetchRange) -> list[Record] | None:
        places = self.entries_between(request.index, request.range)
        found = [self.records[seq] for seq in sorted({seq for _, seq in places})]
        fits = len(places) <= request.limit and page(found, len(found)) == found
        return found if fits and sum(len(each.value) for each in found) <= interface.PAGE_BYTES else None

    def walk(self, request: interface.ScanIndex) -> list[tuple[bytes, Record]]:
        places = self.entries_between(request.index, request.range)
        if request.descending:
            places.reverse()
        after = request.after
        if after is not None:
            places = [place for place in places if (place < after if request.descending else place > after)]
        seen = page((self.records[seq] for _, seq in places), request.limit)
        return [(key, record) for (key, _), record in zip(places, seen, strict=False)]

    def link(self, change: interface.ReplaceEntries) -> None:
        for record, keys in change.entries:
            assert self.records.get(record.seq) == record, f"links what is not there: {record}"
            others = [entry for entry in self.entries[record.seq] if entry.index != change.index]
            self.entries[record.seq] = frozenset([*others, *(Entry(change.index, key) for key in keys)])

    def unlink(self, change: interface.RemoveEntries) -> interface.Purged:
        gone = [
            (key, seq) for seq, own in self.entries.items() for i, key in map(entry_place, own) if i == change.index
        ]
        for key, seq in gone[: change.limit]:
            self.entries[seq] -= {Entry(change.index, key)}
        return interface.Purged(min(len(gone), change.limit), 0)

    def read_entries(self, after_seq: int, limit: int) -> list[tuple[int, tuple[Entry, ...]]]:
        """Who owns entries, and which."""
        owners = [seq for seq in sorted(self.entries) if seq > after_seq and self.entries[seq]]
        return [(seq, tuple(sorted(self.entries[seq], key=entry_place))) for seq in owners[:limit]]

    def on_path(self, path: Path) -> list[tuple[Instant, int]]:
        """(path value, seq) of every record on a due path, in order."""
        if isinstance(path, int):
            return [(date_of(key), seq) for key, seq in self.entries_between(path, EVERYTHING)]
        values = ((path_value(record, path), seq) for seq, record in self.records.items())
        return sorted((value, seq) for value, seq in values if value is not None)

    def due(self, path: Path, upto: Instant, after: tuple[int, int] | None) -> list[Record]:
        """All records on a due path up to a bound, after a place."""
        return [
            self.records[seq]
            for value, seq in self.on_path(path)
            if value <= upto and (after is None or (value, seq) > after)
        ]

    def count(self, with_bytes: bool) -> Totals:
        """`own` and `never` are told apart by due path: what has no anchor is `never`, whatever its own ttl."""
        records = self.records.values()
        own, following = len(self.on_path(DuePath.DEADLINE)), len(self.on_path(DuePath.ANCHOR))
        ignored = sum(record.override == IGNORED for record in records)
        size = sum(len(record.value) for record in records) if with_bytes else 0
        return Totals(len(records), own, ignored, len(records) - own - following, size)

    def put(self, change: interface.Put) -> None:
        record = change.record
        identity = record.partition, record.key
        if change.insert:
            assert identity not in self.identities, f"inserted twice: {identity}"
            assert record.seq not in self.records, f"seq {record.seq} is taken"
            self.identities[identity] = record.seq
            self.entries[record.seq] = frozenset()
        else:
            assert self.identities.get(identity) == record.seq, f"no record {record.seq} at {identity}"
        self.records[record.seq] = record
        if change.entries is not None:
            self.entries[record.seq] = frozenset(change.entries)

    def read_history(self, after: int, limit: int) -> list[Version]:
        """The history behind an lsn."""
        return page((self.history[lsn] for lsn in sorted(self.history) if lsn > after), limit)

    def remember(self, version: Version) -> None:
        assert version.lsn not in self.history, f"told twice: {version}"
        self.history[version.lsn] = version

    def forget(self, change: interface.TrimHistory) -> None:
        oldest = sorted(self.history)[: change.limit + 1]
        due = [lsn for lsn in oldest if self.history[lsn].written <= change.upto or lsn <= change.upto_lsn]
        if due:
            for lsn in oldest[: oldest.index(due[-1])]:
                del self.history[lsn]
            self.history[due[-1]] = Version(Kind.GAP, due[-1], self.history[due[-1]].written)

    def remove(self, record: Record) -> None:
        del self.records[record.seq]
        del self.identities[record.partition, record.key]
        del self.entries[record.seq]


class ReferenceStore:
    """A store in memory that is obviously right."""

    def __init__(self) -> None:
        self._rows: dict[int, interface.CatalogRow] = {}
        self._containers: defaultdict[int, Container] = defaultdict(Container)
        self._dropped: set[int] = set()
        self._events: list[Expiry] = []
        self._settings: dict[str, int] = {}
        self._last_id = self._last_event = self._commit_seq = self._catalog_version = 0
        self._closed = False
        self._answers: dict[type[interface.Read[Any]], Callable[[Any], Any]] = {
            interface.Get: lambda read: self._containers[read.container].get(read.partition, read.key),
            interface.Scan: lambda read: self._containers[read.container].scan(read),
            interface.EntryOwners: lambda read: self._containers[read.container].holders(read.entries),
            interface.Entries: lambda read: self._containers[read.container].read_entries(read.after_seq, read.limit),
            interface.SeekIndex: lambda read: self._containers[read.container].seek(read),
            interface.Fetch: lambda read: self._containers[read.container].fetch(read),
            interface.FetchRange: lambda read: self._containers[read.container].fetch_range(read),
            interface.ScanIndex: lambda read: self._containers[read.container].walk(read),
            interface.Due: lambda read: page(
                self._containers[read.container].due(read.path, read.upto, read.after), read.limit
            ),
            interface.NextDue: self._next_due,
            interface.CountDue: self._count_due,
            interface.Count: lambda read: self._containers[read.container].count(read.with_bytes),
            interface.FindRow: self._find,
            interface.LoadRow: lambda read: self._rows.get(read.id),
            interface.ChildRows: lambda read: [
                row for _, row in sorted(self._rows.items()) if row.parent == read.parent
            ],
            interface.DroppedContainers: lambda read: sorted(self._dropped),
            interface.Expiries: self._expiries,
            interface.LastExpiry: lambda read: self._events[-1].id if self._events else 0,
            interface.History: lambda read: self._containers[read.container].read_history(read.after, read.limit),
            interface.NamedNumber: lambda read: self._settings.get(read.name),
            interface.HeldRecords: lambda read: (),
            interface.KnownDamage: lambda read: None,
            interface.KeySegments: lambda read: [],
            interface.KeyBytes: lambda read: self._containers[read.container].key_bytes(read.indexes),
            interface.CountPlain: lambda read: self._containers[read.container].count(False).records,
        }
        self._inside = self._answers | {
            interface.Allocate: lambda read: self._allocate(read.container, read.seq),
            interface.NewId: lambda read: self._new_id(),
        }
        self._changes: dict[type, Callable[[Any], interface.Purged | None]] = {
            interface.Put: lambda change: self._containers[change.container].put(change),
            interface.Delete: self._delete,
            interface.Purge: self._purge,
            interface.AddVersion: lambda change: self._containers[change.container].remember(change.version),
            interface.TrimHistory: lambda change: self._containers[change.container].forget(change),
            interface.ClearDropped: self._clear,
            interface.ReplaceEntries: lambda change: self._containers[change.container].link(change),
            interface.RemoveEntries: lambda change: self._containers[change.container].unlink(change),
            interface.PutRow: self._put_row,
            interface.DropRow: self._drop_row,
            interface.SetNumber: self._set,
            interface.TrimEvents: self._trim,
        }

    @property
    def description(self) -> str:
        return "memory"

    @property
    def durable(self) -> bool:
        return False

    @property
    def catalog_version(self) -> int:
        return self._catalog_version

    async def read(self, request: interface.Read[T]) -> T:
        self._check_open()
        answer = self._answers.get(type(request))
        if answer is None:
            raise TypeError(f"no store read outside decisions: {type(request).__name__}")
        found: T = answer(request)
        return found

    async def write(
        self, decide: Callable[[], interface.Decision[T]], urgency: interface.Urgency = "user"
    ) -> interface.Committed[T]:
        self._check_open()
        outcome = self._drive(decide())
        purged = tuple(done for change in outcome.changes if (done := self._changes[type(change)](change)) is not None)
        self._commit_seq += 1
        return interface.Committed(outcome.reply, self._commit_seq, purged)

    def _drive(self, decision: interface.Decision[T]) -> interface.Outcome[T]:
        answer: Any = None
        try:
            while True:
                request = decision.send(answer)
                answer = self._inside[type(request)](request)
        except StopIteration as end:
            outcome: interface.Outcome[T] = end.value
            return outcome

    async def reset(self) -> None:
        self._check_open()
        for kept in (self._rows, self._containers, self._dropped, self._events, self._settings):
            kept.clear()
        self._catalog_version += 1

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closing")

    # --- reads

    def _next_due(self, read: interface.NextDue) -> Instant | None:
        container = self._containers[read.container]
        spared = {container.identities.get(identity) for identity in read.spared}
        values = (value for value, seq in container.on_path(read.path) if seq not in spared)
        return next((value for value in values if read.after is None or value > read.after), None)

    def _count_due(self, read: interface.CountDue) -> tuple[int, ...]:
        places = self._containers[read.container].on_path(read.path)
        return tuple(sum(value <= upto for value, _ in places) for upto in read.upto)

    def _find(self, read: interface.FindRow) -> interface.CatalogRow | None:
        rows = (row for row in self._rows.values() if row.parent == read.parent and row.name == read.name)
        return next(rows, None)

    def _expiries(self, read: interface.Expiries) -> list[Expiry]:
        events = self._events[self._first_event_after(read.after) :]
        return [event for event in events if read.container is None or event.container == read.container][: read.limit]

    def _first_event_after(self, id: int) -> int:
        return bisect_right(self._events, id, key=lambda event: event.id)

    def _allocate(self, container: int, seq: bool) -> tuple[int, int]:
        row = self._rows.get(container)
        if row is None:
            raise OwnerNotFound(f"container {container} does not exist")
        row = self._rows[container] = msgspec.structs.replace(row, lsn=row.lsn + 1, seq=row.seq + seq)
        return row.lsn, row.seq if seq else 0

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # --- changes

    def _delete(self, change: interface.Delete) -> None:
        self._containers[change.container].remove(change.record)
        if change.expiry is not None:
            anchor, deadline = clamp(change.expiry.anchor), clamp(change.expiry.deadline)
            self._write_event(msgspec.structs.replace(change.expiry, anchor=anchor, deadline=deadline))

    def _write_event(self, event: Expiry) -> None:
        self._last_event += 1
        self._events.append(msgspec.structs.replace(event, id=self._last_event))

    def _purge(self, change: interface.Purge) -> interface.Purged:
        container = self._containers[change.container]
        due = container.due(change.path, change.upto, None)
        spared = set(change.spared)
        meant = [record for record in due if (record.partition, record.key) not in spared]
        doomed = [record for record in meant if not self._remains(record, change)][: change.limit]
        for record in doomed:
            container.remove(record)
            event = self._death(record, change)
            self._write_event(event)
            if change.history:
                place = (record.partition, record.key, record.seq, record.lsn)
                value = b"" if change.stamp is None else change.stamp + record.value
                container.remember(Version(Kind.EXPIRE, event.lsn, change.purged, *place, value))
        return interface.Purged(len(doomed), sum(len(record.value) for record in doomed))

    def _remains(self, record: Record, change: interface.Purge) -> bool:
        """Whether it dies earlier in another way."""
        own = _deadline(record, change)
        ends = [(_deadline(record, rule), rule.wins_tie) for rule in change.competing]
        return any(end is not None and own is not None and (end <= own if first else end < own) for end, first in ends)

    def _death(self, record: Record, change: interface.Purge) -> Expiry:
        anchor = clamp(record.anchor or 0) if change.path is DuePath.DEADLINE else path_value(record, change.path)
        deadline = _deadline(record, change)
        assert anchor is not None, "it is on the due path"
        assert deadline is not None, "it is on the due path"
        return Expiry(
            id=0,
            container=change.container,
            partition=record.partition,
            key=record.key,
            version=record.lsn,
            lsn=self._allocate(change.container, seq=False)[0],
            anchor=anchor,
            override=record.override,
            cause=change.cause,
            rule_version=change.rule_version,
            deadline=deadline,
            purged=change.purged,
            how=change.how,
        )

    def _clear(self, change: interface.ClearDropped) -> interface.Purged:
        container = self._containers[change.container]
        doomed = [container.records[seq] for seq in sorted(container.records)[: change.limit]]
        for record in doomed:
            container.remove(record)
        sizes = [len(record.value) for record in doomed]
        if not doomed and change.history:
            sizes = [len(container.history.pop(lsn).value) for lsn in sorted(container.history)[: change.limit]]
        if not container.records and not container.history:
            self._dropped.discard(change.container)
            del self._containers[change.container]
        return interface.Purged(len(sizes), sum(sizes))

    def _put_row(self, change: interface.PutRow) -> None:
        row = change.row
        namesake = self._find(interface.FindRow(row.parent, row.name))
        assert namesake is None or namesake.id == row.id, f"the name {row.name} is taken"
        before = self._rows.get(row.id, row)
        self._rows[row.id] = msgspec.structs.replace(row, lsn=before.lsn, seq=before.seq)
        self._catalog_version += 1

    def _drop_row(self, change: interface.DropRow) -> None:
        if self._rows.pop(change.id, None) is None:
            return
        self._catalog_version += 1
        if self._containers[change.id].records or self._containers[change.id].history:
            self._dropped.add(change.id)

    def _set(self, change: interface.SetNumber) -> None:
        before = self._settings.get(change.name)
        if before is None or change.value > before or not change.rising:
            self._settings[change.name] = change.value

    def _trim(self, change: interface.TrimEvents) -> None:
        del self._events[: min(self._first_event_after(change.upto), change.limit)]
