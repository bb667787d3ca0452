"""The promises of the store interface as checks: what a request may ask, what its answer must be, what a change may do."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from mayflydb.expiry.rules import CASCADE
from mayflydb.model.due import DuePath
from mayflydb.model.errors import OwnerNotFound
from mayflydb.model.order import FIRST_ORDERED, LONGEST_ORDERED, Identity, Order
from mayflydb.model.record import NEVER, Entry, Kind, Record, Totals, Version
from mayflydb.store import interface
from mayflydb.store.segments import KeySegment
from store_suite.reference import entry_place, hash_part, path_value, scan_place

Check = Generator[interface.Read[Any], Any, None]


def _ascends(places: Sequence[Any]) -> bool:
    return all(left < right for left, right in pairwise(places))


def _is_page(records: Sequence[Record] | Sequence[Version], limit: int) -> bool:
    return len(records) <= limit and sum(len(record.value) for record in records[:-1]) <= interface.PAGE_BYTES


def _fits(index: int, key: bytes) -> bool:
    return index < FIRST_ORDERED or len(key) <= LONGEST_ORDERED


# --- requests --------------------------------------------------------------------------------------------------------


def check_request(request: interface.Read[Any]) -> None:
    """AssertionError if the request makes no sense."""
    check = REQUESTS.get(type(request))
    if check is not None:
        check(request)


def _scan_request(request: interface.Scan) -> None:
    assert request.upper is None or request.lower <= request.upper, f"bounds cross: {request}"
    assert request.limit > 0, f"{request}"
    assert request.after is None or request.after.number >= 0, f"{request}"


def _holders_request(request: interface.EntryOwners) -> None:
    assert all(entry.index >= 0 for entry in request.entries), f"{request}"


def _entries_request(request: interface.Entries) -> None:
    assert request.limit > 0, f"{request}"
    assert request.after_seq >= 0, f"{request}"


def _due_request(request: interface.Due) -> None:
    assert request.limit > 0, f"{request}"


def _seek_request(request: interface.SeekIndex) -> None:
    assert request.limit > 0, f"{request}"
    assert request.index >= FIRST_ORDERED, f"{request}"
    assert request.ranges, f"{request}"


def _fetch_request(request: interface.Fetch) -> None:
    assert _ascends(request.seqs), f"{request}"


def _fetch_range_request(request: interface.FetchRange) -> None:
    assert request.limit > 0, f"{request}"
    assert request.index >= FIRST_ORDERED, f"{request}"


def _walk_request(request: interface.ScanIndex) -> None:
    assert request.limit > 0, f"{request}"
    assert request.index >= FIRST_ORDERED, f"{request}"
    assert request.after is None or request.after[1] >= 0, f"{request}"


def _count_due_request(request: interface.CountDue) -> None:
    assert list(request.upto) == sorted(request.upto), f"bounds must ascend: {request}"


def _expiries_request(request: interface.Expiries) -> None:
    assert request.limit > 0, f"{request}"
    assert request.after >= 0, f"{request}"


def _history_request(request: interface.History) -> None:
    assert request.limit > 0, f"{request}"
    assert request.after >= 0, f"{request}"


REQUESTS: Mapping[type[interface.Read[Any]], Callable[[Any], None]] = {
    interface.Scan: _scan_request,
    interface.EntryOwners: _holders_request,
    interface.Entries: _entries_request,
    interface.SeekIndex: _seek_request,
    interface.Fetch: _fetch_request,
    interface.FetchRange: _fetch_range_request,
    interface.ScanIndex: _walk_request,
    interface.Due: _due_request,
    interface.CountDue: _count_due_request,
    interface.Expiries: _expiries_request,
    interface.History: _history_request,
}


# --- answers ---------------------------------------------------------------------------------------------------------


def check_answer(request: interface.Read[Any], answer: Any) -> None:
    """AssertionError if this cannot be the answer to this request."""
    ANSWERS[type(request)](request, answer)


def _get(request: interface.Get, answer: Record | None) -> None:
    assert answer is None or (answer.partition, answer.key) == (request.partition, request.key), f"{request}: {answer}"


def _scan(request: interface.Scan, answer: list[Record]) -> None:
    place = scan_place(request.order)
    places = [place(record) for record in answer]
    assert _ascends(places), f"{request}: out of order {places}"
    assert _is_page(answer, request.limit), f"{request}: {len(answer)} records"
    for record in answer:
        assert request.lower <= record.partition, f"{request}: {record}"
        assert request.upper is None or record.partition < request.upper, f"{request}: {record}"
    if places and request.after is not None:
        after: Any = request.after.number
        if request.order is Order.HASHED:
            after = hash_part(request.after.partition), after
        assert after < places[0], f"{request}: begins at {places[0]}"


def _holders(request: interface.EntryOwners, answer: list[Record]) -> None:
    assert _ascends([record.seq for record in answer]), f"{request}: out of order"
    assert request.entries or not answer, f"{request}: {len(answer)} records"


def _entries(request: interface.Entries, answer: list[tuple[int, tuple[Entry, ...]]]) -> None:
    assert _ascends([request.after_seq, *(seq for seq, _ in answer)]), f"{request}: out of order"
    assert len(answer) <= request.limit, f"{request}: {len(answer)} records"
    for seq, entries in answer:
        assert entries, f"{request}: record {seq} owns nothing"
        assert _ascends([entry_place(entry) for entry in entries]), f"{request}: {entries} of {seq} out of order"


def _check_held(request: interface.HeldRecords, answer: tuple[Identity, ...] | None) -> None:
    assert answer is None or len(answer) <= interface.MAX_HELD, f"{request}: {len(answer)} records"


def _check_stands(request: interface.StillHeld, answer: bool) -> None:
    assert answer or request.numbers, f"{request}: {answer}"


def _seek(request: interface.SeekIndex, answer: tuple[int, ...] | None) -> None:
    assert answer is None or _ascends(answer), f"{request}: out of order"
    assert answer is None or len(answer) <= request.limit, f"{request}: {len(answer)} seqs"


def _fetch(request: interface.Fetch, answer: list[Record]) -> None:
    seqs = [record.seq for record in answer]
    assert _ascends(seqs), f"{request}: out of order {seqs}"
    assert set(seqs) <= set(request.seqs), f"{request}: {seqs}"
    assert _is_page(answer, len(request.seqs)), f"{request}: {len(answer)} records"


def _fetch_range(request: interface.FetchRange, answer: list[Record] | None) -> None:
    found = answer or []
    assert _ascends([record.seq for record in found]), f"{request}: out of order"
    assert len(found) <= request.limit, f"{request}: {len(found)} records"
    assert sum(len(record.value) for record in found) <= interface.PAGE_BYTES, f"{request}: too many bytes"


def _walk(request: interface.ScanIndex, answer: list[tuple[bytes, Record]]) -> None:
    places = [(key, record.seq) for key, record in answer]
    if request.after is not None:
        places.insert(0, request.after)
    assert _ascends(places[::-1] if request.descending else places), f"{request}: out of order {places}"
    assert _is_page([record for _, record in answer], request.limit), f"{request}: {len(answer)} records"
    assert all(request.range.lower <= key < request.range.upper for key, _ in answer), f"{request}: {places}"


def _due(request: interface.Due, answer: list[Record]) -> None:
    places: list[tuple[int, int]] = []
    for record in answer:
        value = path_value(record, request.path)
        assert value is not None, f"not on the path {request.path}: {record}"
        assert value <= request.upto, f"{request}: {record}"
        places.append((value, record.seq))
    assert _ascends(places), f"{request}: out of order {places}"
    assert _is_page(answer, request.limit), f"{request}: {len(answer)} records"
    assert not places or request.after is None or request.after < places[0], f"{request}: begins at {places[0]}"


def _next_due(request: interface.NextDue, answer: int | None) -> None:
    assert answer is None or request.after is None or answer > request.after, f"{request}: {answer}"


def _count_due(request: interface.CountDue, answer: tuple[int, ...]) -> None:
    assert len(answer) == len(request.upto), f"{request}: {answer}"
    assert list(answer) == sorted(answer), f"{request}: {answer}"
    assert all(count >= 0 for count in answer), f"{request}: {answer}"


def _count(request: interface.Count, answer: Totals) -> None:
    assert min(answer.records, answer.own, answer.ignored, answer.never, answer.value_bytes) >= 0, f"{answer}"
    assert answer.own + answer.never <= answer.records, f"{answer}"
    assert answer.ignored <= answer.records, f"{answer}"
    assert request.with_bytes or answer.value_bytes == 0, f"{request}: {answer}"


def _find(request: interface.FindRow, answer: interface.CatalogRow | None) -> None:
    assert answer is None or (answer.parent, answer.name) == (request.parent, request.name), f"{request}: {answer}"


def _load(request: interface.LoadRow, answer: interface.CatalogRow | None) -> None:
    assert answer is None or answer.id == request.id, f"{request}: {answer}"


def _children(request: interface.ChildRows, answer: list[interface.CatalogRow]) -> None:
    assert _ascends([row.id for row in answer]), f"{request}: out of order"
    assert all(row.parent == request.parent for row in answer), f"{request}: {answer}"
    assert len({row.name for row in answer}) == len(answer), f"{request}: a name twice"


def _check_dropped(request: interface.DroppedContainers, answer: list[int]) -> None:
    assert len(set(answer)) == len(answer), f"{request}: {answer}"


def _expiries(request: interface.Expiries, answer: list[Any]) -> None:
    assert _ascends([request.after, *(event.id for event in answer)]), f"{request}: out of order"
    assert len(answer) <= request.limit, f"{request}: {len(answer)} events"
    assert all(request.container in (None, event.container) for event in answer), f"{request}: of another container"


def _check_last_expiry(request: interface.LastExpiry, answer: int) -> None:
    assert answer >= 0, f"{request}: {answer}"


def _history(request: interface.History, answer: list[Version]) -> None:
    assert _ascends([request.after, *(version.lsn for version in answer)]), f"{request}: out of order"
    assert _is_page(answer, request.limit), f"{request}: {len(answer)} versions"


def _setting(request: interface.NamedNumber, answer: int | None) -> None:
    assert answer is None or type(answer) is int, f"{request}: {answer!r}"


def _check_damage(request: interface.KnownDamage, answer: str | None) -> None:
    assert answer is None or answer, f"{request}: damage without words"


def _allocate(request: interface.Allocate, answer: tuple[int, int]) -> None:
    lsn, seq = answer
    assert lsn > 0, f"{request}: {answer}"
    assert seq > 0 if request.seq else seq == 0, f"{request}: {answer}"


def _new_id(request: interface.NewId, answer: int) -> None:
    assert answer > 0, f"{request}: {answer}"


def _segments(request: interface.KeySegments, answer: list[KeySegment]) -> None:
    assert _ascends([(each.container, each.first) for each in answer if each.state != "undone"]), f"{request}: {answer}"
    assert all(request.container in (None, each.container) for each in answer), f"{request}: {answer}"


def _key_bytes(request: interface.KeyBytes, answer: tuple[int, ...]) -> None:
    assert len(answer) == len(request.indexes) and min(answer, default=0) >= 0, f"{request}: {answer}"


def _count_plain(request: interface.CountPlain, answer: int) -> None:
    assert answer >= 0, f"{request}: {answer}"


ANSWERS: Mapping[type[interface.Read[Any]], Callable[[Any, Any], None]] = {
    interface.Get: _get,
    interface.Scan: _scan,
    interface.EntryOwners: _holders,
    interface.Entries: _entries,
    interface.SeekIndex: _seek,
    interface.Fetch: _fetch,
    interface.FetchRange: _fetch_range,
    interface.ScanIndex: _walk,
    interface.Due: _due,
    interface.NextDue: _next_due,
    interface.CountDue: _count_due,
    interface.Count: _count,
    interface.FindRow: _find,
    interface.LoadRow: _load,
    interface.ChildRows: _children,
    interface.DroppedContainers: _check_dropped,
    interface.Expiries: _expiries,
    interface.LastExpiry: _check_last_expiry,
    interface.History: _history,
    interface.HeldRecords: _check_held,
    interface.StillHeld: _check_stands,
    interface.NamedNumber: _setting,
    interface.KnownDamage: _check_damage,
    interface.Allocate: _allocate,
    interface.NewId: _new_id,
    interface.KeySegments: _segments,
    interface.CountPlain: _count_plain,
    interface.KeyBytes: _key_bytes,
}


# --- changes ---------------------------------------------------------------------------------------------------------


class Changes:
    """The changes of one outcome, checked against what is stored, as far as none before them has touched it.

    `redefines`: a catalogue row is surely new, or another than before.
    """

    def __init__(self) -> None:
        self._records: set[tuple[int, bytes, bytes]] = set()
        self._purged: set[int] = set()
        self._rows_touched = False
        self.redefines = False

    def check(self, change: interface.Change) -> Check:
        """AssertionError if the change is none that a decision may make."""
        match change:
            case interface.Put():
                yield from self._put(change)
            case interface.Delete():
                yield from self._delete(change)
            case interface.Purge():
                yield from self._purge(change)
            case interface.AddVersion():
                yield from self._remember(change)
            case interface.ClearDropped():
                assert change.limit > 0, f"{change}"
                yield from self._stands(change.container, wanted=False)
                self._purged.add(change.container)
            case interface.ReplaceEntries():
                yield from self._link(change)
            case interface.PutRow():
                yield from self._put_row(change.row)
            case interface.DropRow():
                self._rows_touched = True
            case interface.SetNumber():
                assert -(1 << 63) <= change.value < 1 << 63, f"{change}"
            case interface.TrimHistory() | interface.RemoveEntries() | interface.TrimEvents():
                assert change.limit > 0, f"{change}"
            case _:
                raise AssertionError(f"no change: {change!r}")

    def _current(
        self, container: int, record: Record
    ) -> Generator[interface.Read[Any], Any, tuple[bool, Record | None]]:
        """Whether it can be known what stands at a record's identity, and what does."""
        identity = container, record.partition, record.key
        if identity in self._records or container in self._purged:
            return False, None
        self._records.add(identity)
        found = yield from interface.ask(interface.Get(container, record.partition, record.key))
        return True, found

    def _stands(self, container: int, wanted: bool) -> Check:
        if self._rows_touched:
            return
        row = yield from interface.ask(interface.LoadRow(container))
        if wanted and row is None:
            raise OwnerNotFound(f"container {container} does not exist")
        assert wanted or row is None, f"container {container} stands"

    def _put(self, change: interface.Put) -> Check:
        record, entries = change.record, change.entries
        assert record.lsn > 0, f"{change}"
        assert record.seq > 0, f"{change}"
        assert record.override is None or record.override >= NEVER, f"{change}"
        assert entries is None or len(set(entries)) == len(entries), f"an entry twice: {change}"
        assert all(_fits(entry.index, entry.key) for entry in entries or ()), f"too long a key: {change}"
        slots = [slot for slot, _ in record.dates]
        assert slots == sorted(set(slots)), f"slots out of order: {change}"
        assert all(slot >= FIRST_ORDERED for slot in slots), f"{change}"
        known, before = yield from self._current(change.container, record)
        if not known:
            return
        if change.insert:
            assert before is None, f"{change}: inserted over {before}"
        else:
            assert before is not None, f"{change}: replaces nothing"
            assert before.seq == record.seq, f"{change}: replaces {before}"
            # A version may be put again with another anchor, since it was read, or with other dates.
            same = msgspec.structs.replace(before, dates=record.dates, anchor=record.anchor)
            prolonged = before != record and same == record
            assert prolonged or before.lsn < record.lsn, f"{change}: replaces {before}"

    def _delete(self, change: interface.Delete) -> Check:
        record, event = change.record, change.expiry
        known, before = yield from self._current(change.container, record)
        assert not known or before == record, f"{change}: there is {before}"
        if event is None:
            return
        if event.container != change.container:
            # The record stands for a version that left the other container: its key is the number at which it did.
            assert (event.partition, len(record.key)) == (record.partition, 8), f"{change}"
            yield interface.LoadRow(event.container)
            assert event.lsn > event.version, f"{change}"
            return
        assert (event.partition, event.key, event.version) == (record.partition, record.key, record.lsn), f"{change}"
        if event.cause == CASCADE:
            # It left with another record, whose deadline the event has.
            return
        assert event.anchor in (record.anchor, *(date for _, date in record.dates)), f"{change}"
        assert event.override == record.override, f"{change}"
        assert event.lsn > record.lsn, f"{change}"

    def _link(self, change: interface.ReplaceEntries) -> Check:
        assert change.index >= FIRST_ORDERED, f"{change}"
        for record, keys in change.entries:
            assert all(_fits(change.index, key) for key in keys), f"too long a key: {change}"
            assert len(set(keys)) == len(keys), f"a key twice: {change}"
            known, before = yield from self._current(change.container, record)
            assert not known or before == record, f"links {record}: there is {before}"

    def _purge(self, change: interface.Purge) -> Check:
        assert change.limit > 0, f"{change}"
        # On the anchor path no record has a ttl of its own to count with.
        assert (change.span is None) == (change.path is DuePath.DEADLINE), f"{change}"
        assert change.span is None or change.span >= 0, f"{change}"
        for rule in change.competing:
            assert rule.path != change.path, f"{change}"
            assert (rule.span is None) == (rule.path is DuePath.DEADLINE), f"{change}"
        yield from self._stands(change.container, wanted=True)
        self._purged.add(change.container)

    def _remember(self, change: interface.AddVersion) -> Check:
        version = change.version
        assert 0 <= version.previous < version.lsn, f"{change}"
        assert (version.kind in (Kind.CREATE, Kind.REPLACE)) == bool(version.value), f"{change}"
        assert (version.kind in (Kind.CREATE, Kind.GAP)) == (not version.previous), f"{change}"
        yield from self._stands(change.container, wanted=True)

    def _put_row(self, row: interface.CatalogRow) -> Check:
        if not self._rows_touched:
            namesake = yield from interface.ask(interface.FindRow(row.parent, row.name))
            assert namesake is None or namesake.id == row.id, f"{row}: the name belongs to {namesake}"
            self.redefines = namesake is None or namesake.data != row.data
        self._rows_touched = True
