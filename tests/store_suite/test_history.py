"""Histories: versions come back in the order of changes, are forgotten from the oldest on, and go with their container."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.record import Kind, Version
from mayflydb.store.interface import (
    PAGE_BYTES,
    AddVersion,
    Allocate,
    ClearDropped,
    Decision,
    DroppedContainers,
    DropRow,
    Expiries,
    History,
    Outcome,
    Purge,
    TrimHistory,
    ask,
)
from store_suite.subject import Subject


def version(lsn: int, written: int | None = None, **other: Any) -> Version:
    return Version(Kind.CREATE, lsn, lsn if written is None else written, b"p", b"k%d" % lsn, lsn, value=b"v", **other)


def gap(lsn: int, written: int | None = None) -> Version:
    return Version(Kind.GAP, lsn, lsn if written is None else written)


def remember(store: Subject, container: int, *versions: Version) -> None:
    """With lsns that have been given out, as in earnest."""

    def decide() -> Decision[None]:
        reached, last = 0, max(version.lsn for version in versions)
        while reached < last:
            reached, _ = yield from ask(Allocate(container, seq=False))
        return Outcome(tuple(AddVersion(container, each) for each in versions), None)

    store.write(decide)


def told(store: Subject, container: int, after: int = 0, limit: int = 99) -> list[Version]:
    return store.read(History(container, after, limit))


def test_what_is_remembered_comes_back(store: Subject, container: int) -> None:
    other = store.container("other")
    said = [
        Version(Kind.CREATE, 1, 1_000, b"\x80\xff", b"k\0", 7, 0, b"\x00\xffvalue"),
        Version(Kind.REPLACE, 3, 1_000, b"", b"", 1, 1, b"v" * 5_000),
        Version(Kind.DELETE, 4, -5, b"p", b"k", 2, 3),
        Version(Kind.EXPIRE, 8, (1 << 62), b"p", b"k", 3, 4),
        Version(Kind.GAP, 9, 9),
    ]
    remember(store, container, *said)
    remember(store, other, version(2))
    assert told(store, container) == said
    assert told(store, container, after=3) == said[2:]
    assert told(store, container, after=2, limit=2) == said[1:3]
    assert told(store, container, after=1 << 41) == []
    assert told(store, container, after=1 << 70) == []
    assert told(store, other) == [version(2)]
    assert told(store, 999) == []


def test_a_page_ends_with_the_version_that_fills_it(store: Subject, container: int) -> None:
    large = [Version(Kind.CREATE, n, n, b"p", b"k", n, value=b"v" * (PAGE_BYTES // 2 + 1)) for n in (1, 2, 3)]
    remember(store, container, *large)
    assert told(store, container) == large[:2]
    assert told(store, container, after=2) == large[2:]


def test_with_other_changes_or_not_at_all(store: Subject, container: int) -> None:
    def refused() -> Decision[None]:
        raise ValueError
        yield

    remember(store, container, version(7))
    store.change(AddVersion(container, version(6)))
    results = store.together(refused, lambda: _outcome(AddVersion(container, version(5))), refused)
    assert [type(result) for result in results if isinstance(result, Exception)] == [ValueError, ValueError]
    assert told(store, container) == [version(5), version(6), version(7)]


def _outcome(*changes: Any) -> Decision[None]:
    return Outcome(changes, None)
    yield


@pytest.mark.parametrize("path", DuePath)
def test_a_purge_tells_each_death_with_the_lsn_of_its_event(store: Subject, container: int, path: DuePath) -> None:
    override = None if path is DuePath.ANCHOR else 1
    dead = [store.put(container, b"k%d" % n, anchor=100 - n, override=override, value=b"v" * n) for n in range(1, 6)]
    store.put(container, b"alive", anchor=10**9, override=override)
    span = 10 if path is DuePath.ANCHOR else None

    def purge(history: bool) -> Purge:
        return Purge(container, path, 2_000_000, 3, span, None, "c", 1, 77, "sweep", history)

    store.change(purge(history=True))
    gone = sorted(dead, key=lambda record: record.anchor or 0)
    events = store.read(Expiries(container, 0, 99))
    assert told(store, container) == [
        Version(Kind.EXPIRE, event.lsn, 77, record.partition, record.key, record.seq, record.lsn)
        for event, record in zip(events, gone[:3], strict=True)
    ]
    store.change(purge(history=False))
    assert len(store.read(Expiries(container, 0, 99))) == 5
    assert len(told(store, container)) == 3
    after = store.put(container, b"next")
    assert after.lsn == store.read(Expiries(container, 0, 99))[-1].lsn + 1


@pytest.mark.parametrize("path", DuePath)
def test_a_purge_with_a_stamp_keeps_what_the_dead_were(store: Subject, container: int, path: DuePath) -> None:
    override = None if path is DuePath.ANCHOR else 1
    dead = store.put(container, b"k", anchor=5, override=override, value=b"v\0\xff" * 9)
    span = 10 if path is DuePath.ANCHOR else None
    stamp = b"\0\x80stamp"
    store.change(Purge(container, path, 2_000_000, 3, span, None, "c", 1, 77, "sweep", history=True, stamp=stamp))
    place = (dead.partition, dead.key, dead.seq, dead.lsn)
    assert told(store, container) == [Version(Kind.EXPIRE, dead.lsn + 1, 77, *place, stamp + dead.value)]


@pytest.mark.parametrize(
    ("upto", "limit", "kept"),
    [
        (0, 99, [1, 2, 3, 5]),
        (1, 99, [-1, 2, 3, 5]),
        (2, 99, [-2, 3, 5]),
        (4, 99, [-3, 5]),
        (9, 99, [-5]),
        (9, 1, [-2, 3, 5]),
        (9, 2, [-3, 5]),
        (1 << 70, 99, [-5]),
        (-(1 << 70), 99, [1, 2, 3, 5]),
    ],
)
def test_forgetting(store: Subject, container: int, upto: int, limit: int, kept: list[int]) -> None:
    """Minus: a gap."""
    other = store.container("other")
    remember(store, container, *map(version, (1, 2, 3, 5)))
    remember(store, other, version(1))
    wanted = [version(lsn) if lsn > 0 else gap(-lsn) for lsn in kept]
    store.change(TrimHistory(container, upto, limit))
    assert told(store, container) == wanted
    assert told(store, other) == [version(1)]


@pytest.mark.parametrize(
    ("upto", "upto_lsn", "limit", "kept"),
    [
        (0, 0, 99, [1, 2, 3, 5]),
        (0, 1, 99, [-1, 2, 3, 5]),
        (0, 2, 99, [-2, 3, 5]),
        (0, 4, 99, [-3, 5]),
        (0, 4, 1, [-2, 3, 5]),
        (2, 1, 99, [-2, 3, 5]),
        (0, 1 << 70, 99, [-5]),
    ],
)
def test_forgetting_by_number(
    store: Subject, container: int, upto: int, upto_lsn: int, limit: int, kept: list[int]
) -> None:
    remember(store, container, *map(version, (1, 2, 3, 5)))
    store.change(TrimHistory(container, upto, limit, upto_lsn))
    assert told(store, container) == [version(lsn) if lsn > 0 else gap(-lsn) for lsn in kept]


def test_forgetting_goes_on_behind_a_gap(store: Subject, container: int) -> None:
    remember(store, container, *map(version, range(1, 6)), gap(6), version(7))
    steps = []
    for _ in range(7):
        store.change(TrimHistory(container, 6, 1))
        steps.append([each.lsn for each in told(store, container)])
    assert steps == [[2, 3, 4, 5, 6, 7], [3, 4, 5, 6, 7], [4, 5, 6, 7], [5, 6, 7], [6, 7], [6, 7], [6, 7]]
    assert told(store, container) == [gap(6), version(7)]


def test_it_goes_with_its_container(store: Subject, container: int) -> None:
    other = store.container("other")
    for n in range(3):
        store.put(container, b"k%d" % n)
    remember(store, container, *(version(lsn) for lsn in range(1, 6)))
    remember(store, other, version(1))
    store.change(DropRow(container))
    assert store.read(DroppedContainers()) == [container]
    cleared = []
    while store.read(DroppedContainers()):
        cleared.append(store.change(ClearDropped(container, 2)).purged[0].records)
    assert cleared == [2, 1, 2, 2, 1]
    assert told(store, container) == []
    assert told(store, other) == [version(1)]
    store.change(DropRow(other))
    assert store.read(DroppedContainers()) == [other], "there is a history and no record"
    assert store.change(ClearDropped(other, 2, history=False)).purged[0].records == 0
    assert told(store, other) == [version(1)]
    assert store.change(ClearDropped(other, 2)).purged[0].value_bytes == 1
    assert store.read(DroppedContainers()) == []


def test_it_goes_with_a_reset(store: Subject, container: int) -> None:
    remember(store, container, version(1))
    store.run(store.store.reset())
    assert told(store, container) == []
