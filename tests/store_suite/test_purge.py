"""Purging: who goes, in which order, and the event each leaves behind."""

from __future__ import annotations

import msgspec
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import IGNORED, NEVER, Entry, Expiry
from mayflydb.store.interface import (
    Count,
    Decision,
    Delete,
    EntryOwners,
    Expiries,
    Get,
    LastExpiry,
    LoadRow,
    NextDue,
    Outcome,
    Purge,
    Purged,
    Put,
    Scan,
    TrimEvents,
)
from store_suite.subject import Subject, keys

SPAN = 10 * SECOND
BEYOND = 1 << 70
FAR = 1 << 62


def events(store: Subject, container: int | None = None, after: int = 0, limit: int = 100) -> list[Expiry]:
    return store.read(Expiries(container, after, limit))


def left(store: Subject, container: int) -> list[bytes]:
    return keys(store.read(Scan(container, b"", None, Order.CREATED, None, 100)))


@pytest.mark.parametrize(
    ("path", "upto", "limit", "gone"),
    [
        (DuePath.ANCHOR, 4, 100, []),
        (DuePath.ANCHOR, 5, 100, [b"b", b"e"]),
        (DuePath.ANCHOR, 6, 100, [b"b", b"e"]),
        (DuePath.ANCHOR, 7, 100, [b"b", b"e", b"a", b"c"]),
        (DuePath.ANCHOR, 7, 1, [b"b"]),
        (DuePath.ANCHOR, 7, 3, [b"b", b"e", b"a"]),
        (DuePath.ANCHOR, 7, 4, [b"b", b"e", b"a", b"c"]),
        (DuePath.DEADLINE, 2 * SECOND + 2, 100, []),
        (DuePath.DEADLINE, 2 * SECOND + 3, 100, [b"d"]),
        (DuePath.DEADLINE, 3 * SECOND, 100, [b"d", b"g"]),
        (DuePath.DEADLINE, 3 * SECOND, 1, [b"d"]),
    ],
)
def test_purge_victims(store: Subject, container: int, path: DuePath, upto: int, limit: int, gone: list[bytes]) -> None:
    """Oldest first, equals by seq; each leaves one event in that order."""
    lives = {b"a": (7, None), b"b": (5, None), b"c": (7, None), b"d": (3, 2), b"e": (5, IGNORED), b"f": (1, NEVER)}
    records = store.keep(container, {**lives, b"g": (0, 3), b"h": (None, None), b"i": (None, 1)})
    committed = store.purge(container, upto, path, limit)
    assert committed.purged == (Purged(len(gone), len(gone)),)
    assert [event.key for event in events(store)] == gone
    assert left(store, container) == [record.key for record in records if record.key not in gone]


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("path", DuePath)
def test_some_are_spared(store: Subject, container: int, path: DuePath, limit: int) -> None:
    """They do not count for the limit, and not as what is due next. A key is meant in its own partition alone."""
    lives: dict[bytes, tuple[int | None, int | None]] = {
        key: (n, n if path is DuePath.DEADLINE else None) for n, key in enumerate((b"a", b"b", b"c", b"d"), 1)
    }
    store.keep(container, lives)
    partition = store.read(Scan(container, b"", None, Order.CREATED, None, 1))[0].partition
    spared = ((partition, b"a"), (partition, b"c"), (b"elsewhere", b"d"), (partition, b"missing"))
    unit = 1 if path is DuePath.ANCHOR else SECOND + 1
    assert store.read(NextDue(container, path, None, spared)) == 2 * unit
    assert store.read(NextDue(container, path, 2 * unit, spared)) == 4 * unit
    assert store.read(NextDue(container, path, 4 * unit, spared)) is None
    span = SPAN if path is DuePath.ANCHOR else None
    store.change(Purge(container, path, BEYOND, limit, span, None, "x", 1, 9, "sweep", spared=spared))
    gone = [b"b", b"d"][:limit]
    assert [event.key for event in events(store)] == gone
    assert left(store, container) == [key for key in lives if key not in gone]


def test_event_fields(store: Subject, container: int) -> None:
    store.put(container, b"k", partition=b"\x00\xff", anchor=100, override=IGNORED)
    record = store.put(container, b"k", partition=b"\x00\xff", anchor=200, override=IGNORED)
    store.purge(container, 200, span=SPAN)
    (event,) = events(store)
    assert event == Expiry(
        id=event.id,
        container=container,
        partition=b"\x00\xff",
        key=b"k",
        version=record.lsn,
        lsn=record.lsn + 1,
        anchor=200,
        override=IGNORED,
        cause="default",
        rule_version=3,
        deadline=200 + SPAN,
        purged=77,
        how="sweep",
    )


@pytest.mark.parametrize(
    ("path", "span", "not_before", "deadline"),
    [
        (DuePath.ANCHOR, 0, None, 50),
        (DuePath.ANCHOR, SPAN, None, 50 + SPAN),
        (DuePath.ANCHOR, SPAN, 50 + SPAN - 1, 50 + SPAN),
        (DuePath.ANCHOR, SPAN, 50 + SPAN, 50 + SPAN),
        (DuePath.ANCHOR, SPAN, 50 + SPAN + 1, 50 + SPAN + 1),
        (DuePath.ANCHOR, SPAN, -5, 50 + SPAN),
        (DuePath.ANCHOR, 2**32 * SECOND, None, 50 + 2**32 * SECOND),
        (DuePath.DEADLINE, None, None, 50 + 4 * SECOND),
        (DuePath.DEADLINE, None, 50 + 4 * SECOND - 1, 50 + 4 * SECOND),
        (DuePath.DEADLINE, None, 50 + 4 * SECOND + 1, 50 + 4 * SECOND + 1),
        (DuePath.DEADLINE, None, 2**60, 2**60),
    ],
)
def test_event_deadline(
    store: Subject, container: int, path: DuePath, span: int | None, not_before: int | None, deadline: int
) -> None:
    store.put(container, b"a", anchor=50, override=4 if path is DuePath.DEADLINE else None)
    change = Purge(container, path, 50 + 4 * SECOND, 10, span, not_before, "x", 1, 9, "run now")
    assert store.change(change).purged == (Purged(1, 1),)
    (event,) = events(store)
    assert (event.deadline, event.cause, event.rule_version, event.purged, event.how) == (
        deadline,
        "x",
        1,
        9,
        "run now",
    )


@pytest.mark.parametrize(("anchor", "kept"), [(-BEYOND, -FAR), (-FAR, -FAR), (-FAR + 1, -FAR + 1)])
def test_event_clamped(store: Subject, container: int, anchor: int, kept: int) -> None:
    store.put(container, b"a", anchor=anchor)
    store.put(container, b"b", anchor=anchor, override=1)
    store.purge(container, 0, span=SPAN)
    store.purge(container, 0, DuePath.DEADLINE)
    assert [(event.anchor, event.deadline) for event in events(store)] == [(kept, kept + SPAN), (kept, kept + SECOND)]


def test_purge_numbers(store: Subject, container: int) -> None:
    """Each event takes its own place in the container's change order; later writes follow."""
    last = store.keep(container, {b"%d" % n: (n, None) for n in range(4)})[-1]
    store.purge(container, 1)
    store.purge(container, 3)
    lsns = [event.lsn for event in events(store)]
    assert lsns == [last.lsn + n for n in (1, 2, 3, 4)]
    later = store.put(container, b"new")
    assert later.lsn > lsns[-1]
    assert later.seq > last.seq
    row = store.read(LoadRow(container))
    assert row is not None
    assert (row.lsn, row.seq) == (later.lsn, later.seq)


def test_purge_nothing(store: Subject, container: int) -> None:
    store.put(container, b"a", anchor=5)
    assert store.purge(container, 4).purged == (Purged(0, 0),)
    assert events(store) == []


def test_purge_entries(store: Subject, container: int) -> None:
    store.put(container, b"a", anchor=1, entries=(Entry(1, b"x"), Entry(2, b"y")))
    kept = store.put(container, b"b", anchor=9, entries=(Entry(1, b"x"),))
    store.purge(container, 5)
    assert store.read(EntryOwners(container, (Entry(1, b"x"), Entry(2, b"y")))) == [kept]


def test_purge_bytes(store: Subject, container: int) -> None:
    for n, size in enumerate((0, 7, 1 << 21)):
        store.put(container, b"%d" % n, anchor=n, value=bytes(size))
    assert store.purge(container, 1).purged == (Purged(2, 7),)
    assert store.purge(container, 9).purged == (Purged(1, 1 << 21),)


def test_purge_paths_apart(store: Subject, container: int) -> None:
    store.keep(container, {b"a": (0, None), b"b": (0, 1)})
    store.purge(container, 100 * SECOND)
    assert left(store, container) == [b"b"]
    store.purge(container, 100 * SECOND, DuePath.DEADLINE)
    assert left(store, container) == []
    assert [(event.key, event.override) for event in events(store)] == [(b"a", None), (b"b", 1)]


def test_purge_containers_apart(store: Subject, container: int) -> None:
    other = store.container("other")
    store.put(container, b"a", anchor=0)
    store.put(other, b"a", anchor=0)
    store.purge(container, 5)
    assert (left(store, container), left(store, other)) == ([], [b"a"])
    assert store.read(NextDue(container, DuePath.ANCHOR, None)) is None
    assert store.read(Count(container)).records == 0


def test_purge_twice_at_once(store: Subject, container: int) -> None:
    """Several purges in one outcome: the later see what the earlier did, and answers come in their order."""
    store.keep(container, {b"a": (0, None), b"b": (0, 1), b"c": (1, None)})
    anchor = Purge(container, DuePath.ANCHOR, SECOND, 1, SPAN, None, "default", 1, 9, "sweep")
    own = Purge(container, DuePath.DEADLINE, SECOND, 5, None, None, "item", 1, 9, "sweep")
    assert store.change(anchor, own, anchor, anchor).purged == (Purged(1, 1), Purged(1, 1), Purged(1, 1), Purged(0, 0))
    assert [event.key for event in events(store)] == [b"a", b"b", b"c"]


def test_purge_sees_refresh(store: Subject, container: int) -> None:
    """A record refreshed by the decision before is no longer due."""
    old, stays = store.keep(container, {b"a": (0, None), b"b": (0, None)})
    fresh = msgspec.structs.replace(old, lsn=stays.lsn + 1, anchor=50)
    purge = Purge(container, DuePath.ANCHOR, 10, 10, SPAN, None, "default", 1, 60, "sweep")
    assert store.change(Put(container, fresh, insert=False), purge).purged == (Purged(1, 1),)
    assert store.read(Get(container, b"p", b"a")) == fresh
    assert left(store, container) == [b"a"]


def test_replaced_event(store: Subject, container: int) -> None:
    """A delete may carry its death; the store gives the event its id alone."""
    old = store.put(container, b"a", anchor=5)
    new = msgspec.structs.replace(old, lsn=old.lsn + 2, seq=old.seq + 1, anchor=99)
    event = Expiry(0, container, b"p", b"a", old.lsn, old.lsn + 1, 5, None, "default", 2, 15, 99, "replaced")
    store.change(Delete(container, old, event), Put(container, new, insert=True))
    (written,) = events(store)
    assert written.id > 0
    assert written == msgspec.structs.replace(event, id=written.id)
    assert store.read(Get(container, b"p", b"a")) == new


def test_plain_delete_no_event(store: Subject, container: int) -> None:
    store.delete(container, store.put(container, b"a"))
    assert events(store) == []


def test_event_pages(store: Subject, container: int) -> None:
    """By id over the whole store or one container, after the last one seen."""
    other = store.container("other")
    for n in range(6):
        home = container if n % 2 else other
        store.put(home, b"%d" % n, anchor=n)
        store.purge(home, n)
    found = events(store)
    ids = [event.id for event in found]
    assert ids == sorted(set(ids))
    assert [event.key for event in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert events(store, after=ids[2]) == found[3:]
    assert events(store, after=ids[2], limit=2) == found[3:5]
    assert events(store, after=ids[-1]) == []
    assert events(store, container) == found[1::2]
    assert events(store, other, after=ids[0], limit=1) == found[2:3]
    assert events(store, other + container) == []


def test_trim_events(store: Subject, container: int) -> None:
    store.keep(container, {b"%d" % n: (n, None) for n in range(5)})
    store.purge(container, 9)
    ids = [event.id for event in events(store)]
    assert store.read(LastExpiry()) == ids[4]
    store.change(TrimEvents(ids[3], 2))
    assert [event.id for event in events(store)] == ids[2:]
    store.change(TrimEvents(ids[3], 100))
    assert [event.id for event in events(store)] == ids[4:]
    store.change(TrimEvents(ids[4], 100))
    assert events(store) == []
    assert store.read(LastExpiry()) == 0
    store.put(container, b"new", anchor=0)
    store.purge(container, 9)
    assert events(store)[0].id > ids[4]


def test_purge_with_user_writes(store: Subject, container: int) -> None:
    """A sweep queued among user decisions purges and is answered with its own counts alone."""
    store.keep(container, {b"a": (0, None), b"b": (9, None)})

    def sweep() -> Decision[str]:
        return Outcome((Purge(container, DuePath.ANCHOR, 5, 10, SPAN, None, "default", 1, 9, "sweep"),), "swept")
        yield

    def user() -> Decision[str]:
        return Outcome((), "served")
        yield

    committed = store.together(user, sweep, user)
    assert [(done.reply, done.purged) for done in committed] == [
        ("served", ()),
        ("swept", (Purged(1, 1),)),
        ("served", ()),
    ]
