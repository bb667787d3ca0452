"""One container in one write transaction: reads see its earlier writes, and changes are collected for one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence, Set
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Index, Node, row_of, with_several
from mayflydb.engine.commands import Command, Draft, Mode, RecordChange, Written
from mayflydb.engine.lifecycle.access_ages import WriteTally
from mayflydb.engine.lifecycle.archive_ledger import check_room
from mayflydb.engine.lifecycle.hold_filters import NO_MATCHES, HoldFilters, Matches
from mayflydb.engine.lifecycle.preserved_versions import Keeper
from mayflydb.engine.lifecycle.retired_versions import End, RetiredVersion
from mayflydb.engine.locks import Locked, LockHolder, Locks
from mayflydb.engine.ordered_histories import next_stamp
from mayflydb.engine.reads import Steps
from mayflydb.engine.record_decisions import (
    build_record,
    cascade_event,
    check_key_free,
    check_target,
    expiry_event,
    not_unique,
    resolve_dates,
    resolve_draft,
    split_holders,
)
from mayflydb.engine.version_cache import Replaced
from mayflydb.expiry.deadline import visible_at
from mayflydb.expiry.lifecycle import NO_LIFECYCLE, Shred, segment_number
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sliding import needs_touch, touch
from mayflydb.model.due import date_key
from mayflydb.model.errors import Conflict, Corrupt, Unavailable
from mayflydb.model.instant import Instant, floor_to_second
from mayflydb.model.order import FIRST_ORDERED, HASH_BYTES, KeyRange, Order, Position
from mayflydb.model.record import Dates, Entry, Expiry, Kind, Record, Totals, Version
from mayflydb.store.interface import (
    AddVersion,
    Allocate,
    Change,
    Count,
    Delete,
    EntryOwners,
    Get,
    HeldRecords,
    Put,
    PutRow,
    Read,
    ReplaceEntries,
    Scan,
    ScanIndex,
    ask,
)
from mayflydb.store.segments import BeginSegment


def repeated_indexes(entries: Sequence[Entry]) -> set[int]:
    """Return the indexes with more than one of these entries."""
    numbers = [entry.index for entry in entries]
    if len(set(numbers)) == len(numbers):
        return set()
    counts = Counter(numbers)
    return {number for number, count in counts.items() if count > 1}


def _join(found: list[Record], more: Sequence[Record]) -> list[Record]:
    """Return two lists of records as one, each record once."""
    return [*found, *(record for record in more if record not in found)] if found else [*more]


GUARDED_PAGE: Final = 64
"""Records with one key of a guarded index that a write reads at a time."""

GUARDED_PAGES: Final = 32
"""Pages of hidden records with one key that a write reads. Only keys that were shared before can have more."""

_READ, _DELETE = Mode.READ, Mode.DELETE
"""Before Python 3.12, looking up a member in its class takes ten times as long as this."""


class Workspace:
    """Runs commands one after the other against a container, at one instant, under its rules in the transaction."""

    __slots__ = (
        "_container", "_definition", "_entries", "_exclusive", "_guarded", "_history", "_holder", "_indexes", "_keeper",
        "_locks", "_node", "_now", "_records", "_shred", "_stamps", "changes", "expired", "latest", "published", "replaced",
        "rules", "schedule", "tally",
    )  # fmt: skip

    def __init__(
        self,
        container: Node,
        now: Instant,
        stamps: dict[int, bytes] | None = None,
        locks: Locks | None = None,
        holder: LockHolder | None = None,
        filters: HoldFilters[Node] | None = None,
    ) -> None:
        """`stamps`: the last stamps of the transaction, over all its containers. `locks`: records locked by others than
        `holder` cannot be written; expiry of records locked by `holder` is judged at its own instant. `filters`: those of
        legal holds, for versions that end; None where the changes are not those that will be committed, and nothing is kept or
        rolled up.
        """
        self._stamps = {} if stamps is None else stamps
        self._locks = locks
        self._holder = holder
        self._container = container.id
        self._node = container
        self._definition = definition = container.definition
        self.tally: WriteTally | None = None
        self.latest: Instant = 0
        """The earliest instant at which a version may end here, as in `purge_due`."""

        self.rules = container.rules
        self.schedule = definition.schedule
        self._history = bool(definition.history)
        # All three are None where no lifecycle setting needs them.
        self._keeper: Keeper | None = None
        # The expired records to roll up, with their deadlines.
        self.expired: list[tuple[Record, Instant]] | None = None
        # The setting until a segment is begun for this transaction.
        self._shred: Shred | None = None
        # The changes of records that are to be published; None where none is.
        self.published: list[RecordChange] | None = None
        if definition.holds or definition.lifecycle is not NO_LIFECYCLE or definition.publisher is not None:
            self._prepare_lifecycle(filters)
        self._indexes: list[Index] = []
        self._exclusive: Set[int] = frozenset()
        self._guarded: Set[int] = frozenset()
        if definition.indexes:
            self._indexes = [index for index in definition.indexes if index.state != "dropped"]
            self._exclusive = {index.number for index in self._indexes if index.unique}
            self._guarded = {index.number for index in self._indexes if index.guarded}
        self._now = now
        self.changes: list[Change] = []
        self.replaced: list[Replaced] = []
        # By identity: the record after this transaction's writes; None: removed.
        self._records: dict[tuple[bytes, bytes], Record | None] = {}
        # By seq: the same record, and its entries if they were written here.
        self._entries: dict[int, tuple[Record | None, tuple[Entry, ...] | None]] = {}

    def _prepare_lifecycle(self, filters: HoldFilters[Node] | None) -> None:
        """Prepare for what the legal holds and the lifecycle settings of the container ask for."""
        definition, lifecycle = self._definition, self._definition.lifecycle
        if filters is not None and (definition.holds or lifecycle.keeps_versions):
            self._keeper = Keeper(self._node, filters)
        if filters is not None and lifecycle.roll_up is not None:
            self.expired = []
        if filters is not None and definition.publisher is not None:
            self.published = []
        if lifecycle.shred != "off":
            self._shred = lifecycle.shred

    @property
    def node(self) -> Node:
        """The container, as it is in this transaction."""
        return self._node

    @property
    def now(self) -> Instant:
        """The instant of the transaction."""
        return self._now

    @property
    def remembers(self) -> bool:
        """True if the container has a history."""
        return self._history

    @property
    def shreds(self) -> bool:
        """True if the container seals its records, to shred them."""
        return self._definition.lifecycle.shred != "off"

    def seal(self) -> None:
        """Seal what is written here from now on, as in a container that shreds its records by days."""
        self._shred = "day"

    def get(self, partition: bytes, key: bytes) -> Generator[Read[Any], Any, Record | None]:
        """Find the visible record with this identity, with the transaction's writes."""
        record = yield from self._get(partition, key)
        now = self._instant_for(partition, key)
        return record if record is not None and visible_at(record, self.rules, now) else None

    def count_stored(self) -> Steps[Totals]:
        """Count the stored records without this transaction's writes, with hidden ones and with the size of values."""
        return ask(Count(self._container, with_bytes=True))

    def read_stored(self, after: Position | None, limit: int) -> Steps[list[Record]]:
        """Return up to `limit` stored records after a position, by creation, without this transaction's writes, with hidden
        ones.
        """
        return ask(Scan(self._container, b"", None, Order.CREATED, after, limit))

    def last_entry(self, index: int, within: KeyRange) -> Steps[bytes | None]:
        """Return the last entry key of an index in a range, without this transaction's writes; None: there is none."""
        found = yield from ask(ScanIndex(self._container, index, within, True, None, 1))
        return found[0][0] if found else None

    def next_number(self) -> Steps[int]:
        """Return a number that no other write of the container gets."""
        number, _ = yield from ask(Allocate(self._container, seq=False))
        return number

    def _instant_for(self, partition: bytes, key: bytes) -> Instant:
        """Return the instant at which expiry of a record is judged."""
        holder = self._holder
        return self._now if holder is None else holder.instant_for(self._container, (partition, key), self._now)

    def run(self, command: Command) -> Generator[Read[Any], Any, Written]:
        """Run one command and collect its changes. A refusal collects nothing; numbers allocated for it are gaps.

        Locked: another open transaction has locked a record or entry to be written.
        """
        container, mode, partition, key = self._container, command.mode, command.partition, command.key
        current = yield from self._get(partition, key)
        visible = self._check_target(command, current)
        if mode is _READ and visible is not None:
            return Written(_READ, visible, False, self._now)
        key_after = command.key_after
        if self._locks:
            self._locks.check(container, (partition, key), self._holder)
            self._locks.check(container, (partition, key_after), self._holder)
        if mode is _DELETE and visible is not None:
            lsn, _ = yield from ask(Allocate(container, seq=False))  # A deletion moves the session's lsn, too.
            yield from self._remove(visible, lsn)
            return Written(_DELETE, visible, False, self._now)
        draft = resolve_draft(command, visible, self.rules)
        dates = resolve_dates(draft, self._definition)
        entries = self._entries_of(draft, dates, visible)
        hidden: list[Record] = []
        if self._exclusive or self._guarded or draft.entries:
            hidden = yield from self._check_entries(draft, entries, visible)
        moves = key_after != key
        if visible is None or moves:
            holder = (yield from self._get(partition, key_after)) if moves else current
            hidden = _join(hidden, check_key_free(holder, self.rules, self._now))
        for expired in hidden:
            yield from self.purge_hidden(expired, (expired.partition, expired.key) == (partition, key_after))
        # After the purges, so that a history has the expiry of the old record before the creation of the new one.
        lsn, seq = yield Allocate(container, seq=visible is None)
        if self._shred is not None:
            self._begin_segment(self._shred, lsn)
        record = build_record(command, draft, dates, self._now, lsn, seq if visible is None else visible.seq)
        if visible is not None:
            self.replaced.append(Replaced(visible, lsn))
            if moves or self._keeper is not None:
                yield from self._replace(visible, record, lsn, moves)
        self._keep(record, entries, visible, moves)
        if self.tally is not None or self.published is not None:
            self._note_write(visible, record, draft.remembered)
        self._mark_several(entries)
        if self._history:
            kind = Kind.CREATE if visible is None else Kind.REPLACE
            yield from self._remember(kind, lsn, record, visible, draft.remembered or record.value)
        return Written(mode, record, visible is None, self._now)

    def _replace(self, visible: Record, record: Record, lsn: int, moves: bool) -> Generator[Read[Any], Any, None]:
        """End a version that another one replaces, under another key if it moves."""
        if moves:
            # The record keeps its seq: its place in creation order.
            self.changes.append(Delete(self._container, visible))
            self._forget(visible)
        if self._keeper is not None:
            yield from self._retire(visible, "replaced", lsn, self._keeper.match(visible, record))

    def _begin_segment(self, shred: Shred, lsn: int) -> None:
        """Begin the segment of the present before the first version of this transaction; a segment that is there stays."""
        self._shred = None
        self.changes.append(BeginSegment(self._container, lsn, segment_number(shred, self._now)))

    def _check_target(self, command: Command, current: Record | None) -> Record | None:
        now = self._now if self._holder is None else self._instant_for(command.partition, command.key)
        try:
            return check_target(command, current, self.rules, now)
        except Conflict:
            if self._locks:
                # If an open transaction deletes the record that is in the way, the create waits for its outcome.
                self._locks.check_gone(self._container, (command.partition, command.key), self._holder)
            raise

    def _entries_of(self, draft: Draft, dates: Dates, before: Record | None) -> tuple[Entry, ...] | None:
        """Return the entries of a draft for the indexes in this transaction."""
        entries = draft.entries
        if self._indexes and draft.indexed is not None:
            entries = (*(entries or ()), *draft.indexed(self._indexes))
        if dates or (before is not None and before.dates):
            entries = (*(entries or ()), *(Entry(slot, date_key(date)) for slot, date in dates))
        return entries

    def _mark_several(self, entries: tuple[Entry, ...] | None) -> None:
        """Mark the indexes in which a record has several entries."""
        if not entries or len(entries) < 2:
            return
        several = repeated_indexes(entries)
        found = several and several & {index.number for index in self._indexes if not index.several}
        if found:
            self._node = with_several(self._node, found)
            self._indexes = [index for index in self._node.definition.indexes if index.state != "dropped"]
            self.changes.append(PutRow(row_of(self._node)))

    def _unique(self, draft: Draft, entries: tuple[Entry, ...] | None) -> tuple[Entry, ...]:
        """Return the entries that only one record may own."""
        if not self._exclusive or not entries:
            return draft.entries or ()
        return tuple([entry for entry in entries if self._is_unique(entry)])

    def _rivals(self, entries: tuple[Entry, ...], visible: Record | None) -> Generator[Read[Any], Any, list[Record]]:
        """Return the hidden holders of entries, which must be purged first. Conflict names the first entry with a visible
        holder.
        """
        hidden, taken = split_holders((yield from self._holders(entries)), visible, self.rules, self._now)
        if self._locks and not taken:
            self._check_free(entries)
        if not taken:
            return hidden
        for entry in entries:
            # Asked again one by one: the first answer does not say which entry is taken.
            _, taken = split_holders((yield from self._holders((entry,))), visible, self.rules, self._now)
            if taken:
                if self._locks:
                    owner = taken[0].partition, taken[0].key
                    self._locks.check_entry(self._container, entry, owner, self._holder)
                raise not_unique(entry, taken[0])
        # The store contradicts itself, as after a read that failed without an error.
        raise Corrupt("a holder of unique entries holds none of them")

    def _check_entries(
        self, draft: Draft, entries: tuple[Entry, ...] | None, visible: Record | None
    ) -> Steps[list[Record]]:
        """Return the hidden holders of unique entries, which must be purged first. Conflict for an entry that is taken."""
        unique = self._unique(draft, entries)
        hidden = (yield from self._rivals(unique, visible)) if unique else []
        for entry in entries or ():
            if entry.index in self._guarded:
                hidden = _join(hidden, (yield from self._check_guarded(entry, visible)))
        return hidden

    def _check_guarded(self, entry: Entry, visible: Record | None) -> Steps[list[Record]]:
        """Return the hidden records with this key of a guarded index.

        Conflict for a key that another visible record has and this one had not; Unavailable where too many hidden ones have it.
        """
        holders = yield from self._holders((entry,))
        if visible is not None and any(record.seq == visible.seq for record in holders):
            return []
        found: list[Record] = []
        after: tuple[bytes, int] | None = None
        for _ in range(GUARDED_PAGES):
            stored, others = yield from self._read_holders(entry, after)
            hidden, taken = split_holders(others, visible, self.rules, self._now)
            if taken:
                raise not_unique(entry, taken[0])
            found = _join(found, hidden)
            if not stored:
                return found
            after = stored[-1][0], stored[-1][1].seq
        raise Unavailable("too many expired records have a value that must be unique: try again once they are purged")

    def _read_holders(
        self, entry: Entry, after: tuple[bytes, int] | None
    ) -> Steps[tuple[list[tuple[bytes, Record]], list[Record]]]:
        """Return the next stored entries with a key in any partition, and its owners among them and this transaction's writes."""
        key = entry.key[:-HASH_BYTES]
        within = KeyRange(key, key + b"\xff" * (HASH_BYTES + 1))
        stored = yield from ask(ScanIndex(self._container, entry.index, within, False, after, GUARDED_PAGE))
        holders = [record for _, each in stored if (record := self._holding(each)) is not None]
        if after is None:
            for record, own in self._entries.values():
                if record is not None and any(
                    each.index == entry.index and each.key[:-HASH_BYTES] == key for each in own or ()
                ):
                    holders.append(record)
        return stored, holders

    def unique(self, record: Record) -> tuple[Entry, ...]:
        """Return the unique entries that a record was given here."""
        own = self._entries.get(record.seq, (None, None))[1] or ()
        return tuple([entry for entry in own if self._is_unique(entry)])

    def _is_unique(self, entry: Entry) -> bool:
        return entry.index in self._exclusive or entry.index < FIRST_ORDERED

    def _check_free(self, entries: Iterable[Entry]) -> None:
        assert self._locks is not None
        for entry in entries:
            self._locks.check_entry(self._container, entry, None, self._holder)

    def _get(self, partition: bytes, key: bytes) -> Generator[Read[Any], Any, Record | None]:
        if self._records and (partition, key) in self._records:
            return self._records[partition, key]
        # Without `ask`, which is a generator of its own: every write passes here.
        stored: Record | None = yield Get(self._container, partition, key)
        return stored

    def current_version(self, record: Record) -> Record | None:
        """Return a stored record with this transaction's writes; None: removed."""
        kept = self._entries.get(record.seq)
        return record if kept is None else kept[0]

    @property
    def written_records(self) -> list[Record]:
        """The records that were written here and not removed."""
        return [record for record in self._records.values() if record is not None]

    def _holders(self, entries: tuple[Entry, ...]) -> Generator[Read[Any], Any, list[Record]]:
        stored = yield from ask(EntryOwners(self._container, entries))
        holders = [record for each in stored if (record := self._holding(each)) is not None]
        for record, own in self._entries.values():
            if record is not None and own is not None and not set(own).isdisjoint(entries):
                holders.append(record)
        return holders

    def _holding(self, stored: Record) -> Record | None:
        """Return a stored holder of entries with this transaction's writes, unless its entries were written here."""
        record, own = self._entries.get(stored.seq, (stored, None))
        return record if own is None else None

    def undelete(self, hidden: Record, dates: Dates) -> Generator[Read[Any], Any, None]:
        """Give a hidden record a new life, with these dates. Its value and its other entries stay.

        Locked: an open transaction has locked the record.
        """
        if self._locks:
            self._locks.check(self._container, (hidden.partition, hidden.key), self._holder)
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        if self._shred is not None:
            self._begin_segment(self._shred, lsn)
        anchor = floor_to_second(self._now)
        record = msgspec.structs.replace(hidden, written=self._now, anchor=anchor, lsn=lsn, dates=dates)
        self.replaced.append(Replaced(hidden, lsn))
        if self._keeper is not None:
            yield from self._retire(hidden, "replaced", lsn, NO_MATCHES)
        self._keep(record, None, hidden, moved=False)
        self._publish(Kind.REPLACE, hidden, record, None)
        for slot, date in set(dates) - set(hidden.dates):
            self.changes.append(ReplaceEntries(self._container, slot, ((record, (date_key(date),)),)))
        yield from self._remember(Kind.REPLACE, lsn, record, hidden, record.value)

    def touch(self, record: Record, read: Instant) -> Generator[Read[Any], Any, bool]:
        """Prolong the life of a stored record that was read at an instant; False: it has expired, or needs no new life.

        Its version stays, so that clients that know its etag may go on.
        """
        interval = self._definition.lifecycle.touch
        if not visible_at(record, self.rules, self._now):
            return False
        if not interval or not needs_touch(record, self.rules, read, interval):
            return False
        # The lsn must move all the same: nodes that cache the container's row rely on it to see changes.
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        if self._keeper is not None:
            # Its earlier life is a part of its past: after a change of rules it may have been over while the new one is not.
            yield from self._retire(record, "replaced", lsn, NO_MATCHES)
        anchor, dates = touch(record, self.rules, read)
        after = msgspec.structs.replace(record, anchor=anchor, dates=dates)
        self._keep(after, None, record, moved=False)
        for slot, date in set(dates) - set(record.dates):
            self.changes.append(ReplaceEntries(self._container, slot, ((after, (date_key(date),)),)))
        return True

    def purge_hidden(self, expired: Record, is_succeeded: bool = False) -> Generator[Read[Any], Any, None]:
        """Purge a hidden record, with its event. `is_succeeded`: a new record takes its identity, and its children.

        Locked: another open transaction may have prevented its expiry. Unavailable: its children have to leave first.
        """
        if self._definition.lifecycle.cascade and not is_succeeded:
            raise Unavailable(
                "an expired record has a value that must be unique, and its children leave first: try again"
            )
        if self._locks is not None:
            identity = expired.partition, expired.key
            self._locks.check_expired(self._container, identity, self._holder)
            # Only purges ask for locks of other nodes; a write of a visible record does not wait for them.
            if identity in ((yield from ask(HeldRecords(self._container))) or ()):
                raise Locked((self._container, identity), elsewhere=True)
        if self._definition.retired is not None:
            yield from check_room(self._definition, self._definition.retired)
        yield from self.expire(expired, self.rules, "replaced")

    def expire(self, expired: Record, rules: Sequence[Rule], how: str) -> Generator[Read[Any], Any, None]:
        """Remove a record that has expired by one of these rules, with its event."""
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        yield from self._expire(expired, expiry_event(self._container, expired, rules, self._now, lsn, how))

    def cascade(self, child: Record, deadline: Instant, rule: int, how: str) -> Generator[Read[Any], Any, None]:
        """Remove a record that leaves with one that expired at a deadline by a rule, with its event."""
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        yield from self._expire(child, cascade_event(self._container, child, deadline, rule, self._now, lsn, how))

    def _expire(self, expired: Record, event: Expiry) -> Generator[Read[Any], Any, None]:
        held = NO_MATCHES if self._keeper is None else self._keeper.match(expired)
        # The event tells that the data is gone: it waits as long as a hold preserves the record.
        self.changes.append(Delete(self._container, expired, None if held.holds else event))
        self.replaced.append(Replaced(expired, event.lsn))
        self._publish(Kind.EXPIRE, expired, None, None)
        yield from self._remember(Kind.EXPIRE, event.lsn, expired, expired)
        if self._keeper is not None:
            yield from self._retire(expired, "expired", event.lsn, held, event)
        # A record under a hold is rolled up as well: it leaves now, and not once more at the release.
        if self.expired is not None:
            self.expired.append((expired, event.deadline))
        self._forget(expired)

    def _retire(
        self, record: Record, end: End, until: int, held: Matches, event: Expiry | None = None
    ) -> Generator[Read[Any], Any, None]:
        """Keep a version that ends at an lsn, if a hold or the lifecycle says so."""
        assert self._keeper is not None
        version = RetiredVersion(record, end, max(self._now, self.latest), until)
        self.changes += yield from self._keeper.keep(version, held, event)

    def _remove(self, record: Record, lsn: int) -> Generator[Read[Any], Any, None]:
        if self.tally is not None:
            self.tally.deleted += 1
        self.changes.append(Delete(self._container, record))
        self.replaced.append(Replaced(record, lsn))
        self._publish(Kind.DELETE, record, None, None)
        if self._keeper is not None:
            yield from self._retire(record, "deleted", lsn, self._keeper.match(record))
        yield from self._remember(Kind.DELETE, lsn, record, record)
        self._forget(record)

    def _note_write(self, visible: Record | None, record: Record, remembered: bytes | None) -> None:
        if self.tally is not None:
            self.tally.note(visible, record)
        self._publish(Kind.CREATE if visible is None else Kind.REPLACE, visible, record, remembered)

    def _publish(self, kind: Kind, before: Record | None, after: Record | None, remembered: bytes | None) -> None:
        if self.published is not None:
            self.published.append(RecordChange(kind, before, after, remembered))

    def _forget(self, record: Record) -> None:
        self._records[record.partition, record.key] = None
        self._entries[record.seq] = (None, ())

    def _keep(self, record: Record, entries: tuple[Entry, ...] | None, before: Record | None, moved: bool) -> None:
        self.changes.append(Put(self._container, record, before is None or moved, entries))
        self._records[record.partition, record.key] = record
        known = self._entries.get(record.seq, (None, None))[1]
        self._entries[record.seq] = (record, known if entries is None and before is not None else entries)

    def _remember(
        self, kind: Kind, lsn: int, record: Record, before: Record | None, value: bytes = b""
    ) -> Generator[Read[Any], Any, None]:
        if not self._history:
            return
        orderer = self._definition.ordered
        if orderer is not None:
            stamp = yield from next_stamp(orderer, self._stamps)
            value = stamp + (value or record.value)
        previous = 0 if before is None else before.lsn
        version = Version(kind, lsn, self._now, record.partition, record.key, record.seq, previous, value)
        self.changes.append(AddVersion(self._container, version))
