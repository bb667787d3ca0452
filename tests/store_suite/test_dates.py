"""Dates of records in the slots of date indexes: kept exactly, ordered, counted, and purged by."""

from __future__ import annotations

import msgspec
import pytest

from mayflydb.model.due import DATE_LIMIT, DuePath, Path, date_key, date_of, instant_key
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Dates, Record
from mayflydb.store.interface import (
    Allocate,
    CompetingRule,
    CountDue,
    Decision,
    Due,
    Entries,
    Expiries,
    Get,
    History,
    NextDue,
    Outcome,
    Purge,
    Put,
    RemoveEntries,
    ReplaceEntries,
    ask,
)
from store_suite.subject import Subject, dated, keys

SLOT, OTHER = 16, 17
MILLISECONDS_64 = ((2**63 - 1) * 1000, -(2**63) * 1000)

DATES: dict[bytes, Dates] = {
    b"late": ((SLOT, 30),),
    b"early": ((SLOT, -7), (OTHER, 3)),
    b"none": (),
    b"other": ((OTHER, 1),),
    b"tie": ((SLOT, 30), (OTHER, 30)),
    b"far": ((SLOT, MILLISECONDS_64[0]),),
    b"long ago": ((SLOT, MILLISECONDS_64[1]),),
}
ORDER = [b"long ago", b"early", b"late", b"tie", b"far"]


@pytest.fixture
def stocked(store: Subject, container: int) -> int:
    for key, dates in DATES.items():
        store.put(container, key, anchor=5, dates=dates)
    store.put(store.container("beside"), b"stranger", dates=((SLOT, 0),))
    return container


@pytest.mark.parametrize("instant", [0, 1, -1, 2**32, -(2**32), DATE_LIMIT, -DATE_LIMIT, 2**63 - 1, -(2**63)])
def test_keys_are_in_the_order_of_instants(instant: int) -> None:
    assert date_of(instant_key(instant)) == instant
    assert instant_key(instant - 1) <= instant_key(instant) <= instant_key(instant + 1)
    assert date_of(date_key(instant)) == max(-DATE_LIMIT, min(DATE_LIMIT, instant))


@pytest.mark.parametrize("anchor", [None, 7, 1 << 70, -(1 << 70)])
@pytest.mark.parametrize(
    "dates", [(), ((SLOT, 0),), ((SLOT, MILLISECONDS_64[0]), (OTHER, MILLISECONDS_64[1]), (99, -1))]
)
def test_a_record_keeps_its_dates_exactly(store: Subject, container: int, anchor: int | None, dates: Dates) -> None:
    for before in ((), ((SLOT, 9), (20, 9)), dates):
        store.put(container, b"k", anchor=1, dates=before)
        record = store.put(container, b"k", anchor=anchor, dates=dates)
        assert store.read(Get(container, b"p", b"k")) == record
        assert record.dates == dates


@pytest.mark.parametrize(
    ("slot", "upto", "expected"),
    [
        (SLOT, -DATE_LIMIT - 1, []),
        (SLOT, -DATE_LIMIT, [b"long ago"]),
        (SLOT, -8, [b"long ago"]),
        (SLOT, -7, [b"long ago", b"early"]),
        (SLOT, 29, [b"long ago", b"early"]),
        (SLOT, 30, [b"long ago", b"early", b"late", b"tie"]),
        (SLOT, DATE_LIMIT - 1, [b"long ago", b"early", b"late", b"tie"]),
        (SLOT, 1 << 80, ORDER),
        (OTHER, 1 << 80, [b"other", b"early", b"tie"]),
        (18, 1 << 80, []),
    ],
)
def test_due_in_a_slot(store: Subject, stocked: int, slot: int, upto: int, expected: list[bytes]) -> None:
    assert keys(store.read(Due(stocked, slot, upto, None, 100))) == expected
    assert store.read(CountDue(stocked, slot, (-(1 << 80), upto))) == (0, len(expected))


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_slot_is_walked_page_by_page(store: Subject, stocked: int, limit: int) -> None:
    seen: list[bytes] = []
    after: tuple[int, int] | None = None
    while page := store.read(Due(stocked, SLOT, 1 << 80, after, limit)):
        seen += keys(page)
        after = date_of(date_key(dict(page[-1].dates)[SLOT])), page[-1].seq
    assert seen == ORDER


def test_next_dates(store: Subject, stocked: int) -> None:
    seen: list[int] = []
    after: int | None = None
    while (after := store.read(NextDue(stocked, SLOT, after))) is not None:
        seen.append(after)
    assert seen == [-DATE_LIMIT, -7, 30, DATE_LIMIT]
    assert store.read(NextDue(stocked, 18, None)) is None
    assert store.read(CountDue(stocked, SLOT, (-8, -7, 30, 30, 31))) == (1, 2, 4, 4, 4)


def test_a_write_moves_a_record_in_its_slots(store: Subject, container: int) -> None:
    for dates, expected in ((((SLOT, 5),), (5, None)), (((SLOT, 4), (OTHER, 8)), (4, 8)), ((), (None, None))):
        store.put(container, b"k", dates=dates)
        assert tuple(store.read(NextDue(container, slot, None)) for slot in (SLOT, OTHER)) == expected


@pytest.mark.parametrize(
    ("upto", "limit", "gone"),
    [
        (-DATE_LIMIT - 1, 9, []),
        (-8, 9, [b"long ago"]),
        (29, 9, [b"long ago", b"early"]),
        (30, 3, [b"long ago", b"early", b"late"]),
        (1 << 80, 9, ORDER),
    ],
)
def test_purge_in_a_slot(store: Subject, stocked: int, upto: int, limit: int, gone: list[bytes]) -> None:
    committed = store.purge(stocked, upto, SLOT, limit)
    assert [purged.records for purged in committed.purged] == [len(gone)]
    events = store.read(Expiries(stocked, 0, 100))
    assert [event.key for event in events] == gone
    for event in events:
        anchor = date_of(date_key(dict(DATES[event.key])[SLOT]))
        assert (event.anchor, event.override, event.deadline) == (anchor, None, anchor + 10 * SECOND)
    left = [key for key in DATES if key not in gone]
    assert [store.read(Get(stocked, b"p", key)) is None for key in DATES] == [key in gone for key in DATES]
    owners = {seq for seq, _ in store.read(Entries(stocked, 0, 100))}
    assert len(owners) == len([key for key in left if DATES[key]])


@pytest.mark.parametrize("full", [False, True])
def test_some_are_spared_in_a_slot(store: Subject, container: int, full: bool) -> None:
    for n, key in enumerate((b"a", b"b", b"c"), 1):
        store.put(container, key, partition=b"p", dates=((SLOT, 10 * n),))
    spared = ((b"p", b"a"),)
    assert [store.read(NextDue(container, SLOT, after, spared)) for after in (None, 20, 30)] == [20, 30, None]
    purge = Purge(container, SLOT, 99, 1, 0, None, "index", 4, 77, "sweep", full, spared=spared)
    store.change(msgspec.structs.replace(purge, stamp=b"stamp" if full else None))
    assert [event.key for event in store.read(Expiries(container, 0, 9))] == [b"b"]


@pytest.mark.parametrize("not_before", [None, 29, 31, 10 * SECOND + 31])
def test_the_event_of_a_date(store: Subject, container: int, not_before: int | None) -> None:
    record = store.put(container, b"k", anchor=1, override=9, dates=((SLOT, 30),))
    purge = Purge(container, SLOT, 30, 5, 10 * SECOND, not_before, "index", 4, 77, "sweep", history=True)
    store.change(purge)
    (event,) = store.read(Expiries(container, 0, 9))
    deadline = max(30 + 10 * SECOND, not_before or 0)
    assert (event.anchor, event.override, event.deadline) == (30, 9, deadline)
    assert (event.cause, event.rule_version, event.version, event.purged) == ("index", 4, record.lsn, 77)
    (told,) = store.read(History(container, 0, 9))
    assert (told.lsn, told.previous) == (event.lsn, record.lsn)


RIVALS: list[tuple[Path, int | None, int | None, Path, int | None, int | None, bool, bool]] = [
    (SLOT, 10, None, OTHER, 0, None, False, True),
    (SLOT, 10, None, OTHER, 4, None, False, True),
    (SLOT, 10, None, OTHER, 5, None, False, False),
    (SLOT, 10, None, OTHER, 5, None, True, True),
    (SLOT, 10, None, OTHER, 6, None, True, False),
    (SLOT, 10, 30, OTHER, 6, None, True, True),
    (SLOT, 10, None, OTHER, 0, 21, True, False),
    (SLOT, 10, None, OTHER, 0, 20, True, True),
    (SLOT, 10, None, 18, 0, None, True, False),
    (SLOT, 10, None, DuePath.ANCHOR, 14, None, False, True),
    (SLOT, 10, None, DuePath.ANCHOR, 15, None, False, False),
    (SLOT, 10, None, DuePath.DEADLINE, None, None, True, False),
    (DuePath.ANCHOR, 15, None, SLOT, 9, None, False, True),
    (DuePath.ANCHOR, 15, None, SLOT, 10, None, False, False),
    (DuePath.ANCHOR, 15, None, SLOT, 10, None, True, True),
]
"""path, span, not_before | the rule's path, span, not_before, first | left to it; of anchor 5, dates 10 and 15."""


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(("path", "span", "floor", "other", "others", "others_floor", "first", "left"), RIVALS)
def test_a_record_is_left_to_who_kills_it_earlier(
    store: Subject,
    container: int,
    path: Path,
    span: int | None,
    floor: int | None,
    other: Path,
    others: int | None,
    others_floor: int | None,
    first: bool,
    left: bool,
    history: bool,
) -> None:
    store.put(container, b"k", anchor=5, dates=((SLOT, 10), (OTHER, 15)))
    competing = (CompetingRule(other, others, others_floor, first), CompetingRule(20, 0, None, True))
    store.change(Purge(container, path, 99, 5, span, floor, "index", 4, 77, "sweep", history, competing))
    assert bool(store.read(Get(container, b"p", b"k"))) is left
    assert len(store.read(Expiries(container, 0, 9))) == (not left)


@pytest.mark.parametrize(("own", "left"), [(3, False), (4, False), (5, False), (2, True)])
def test_an_own_ttl_is_a_rival_of_a_date(store: Subject, container: int, own: int, left: bool) -> None:
    store.put(container, b"k", anchor=0, override=own, dates=((SLOT, SECOND),))
    competing = (CompetingRule(DuePath.DEADLINE, None, None, False),)
    store.purge(container, 99 * SECOND, SLOT, span=2 * SECOND, competing=competing)
    assert bool(store.read(Get(container, b"p", b"k"))) is left


def test_a_version_is_put_again_with_dates_that_an_index_asked_for(store: Subject, container: int) -> None:
    """With the same lsn, and its other entries as they are."""
    record = store.put(container, b"k", dates=((SLOT, 3),), value=b"body")
    dates = ((SLOT, 3), (OTHER, 8))
    again = msgspec.structs.replace(record, dates=dates)

    def build() -> Decision[None]:
        yield from ask(Allocate(container, seq=False))
        return Outcome(
            (Put(container, again, False), ReplaceEntries(container, OTHER, ((again, (date_key(8),)),))), None
        )

    store.write(build, "sweep")
    assert store.read(Get(container, b"p", b"k")) == again
    assert store.read(Entries(container, 0, 9)) == [(record.seq, dated(dates))]
    assert store.read(NextDue(container, OTHER, None)) == 8


def test_an_unlinked_slot_kills_nobody(store: Subject, stocked: int) -> None:
    """Dates of a slot that is gone stay in records and mean nothing."""
    store.change(RemoveEntries(stocked, SLOT, 100))
    assert store.read(NextDue(stocked, SLOT, None)) is None
    assert store.purge(stocked, 1 << 80, SLOT).purged[0].records == 0
    record = store.read(Get(stocked, b"p", b"early"))
    assert isinstance(record, Record)
    assert record.dates == DATES[b"early"]
