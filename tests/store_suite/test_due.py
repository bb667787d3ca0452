"""The two due paths: who is on them, in which order, and how many."""

from __future__ import annotations

import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.instant import SECOND
from mayflydb.model.record import IGNORED, NEVER, Totals
from mayflydb.store.interface import Count, CountDue, Due, NextDue
from store_suite.subject import Subject, keys

FAR = 2**62
BEYOND = 1 << 70
LONGEST = 2**31 - 1

LIVES = {
    b"default": (30, None),
    b"ignored": (10, IGNORED),
    b"never": (10, NEVER),
    b"own": (5, 2),
    b"dateless": (None, None),
    b"dateless own": (None, 2),
    b"earlier": (-7, None),
    b"own later": (0, 3),
}


@pytest.fixture
def stocked(store: Subject, container: int) -> int:
    store.keep(container, LIVES)
    return container


def due(
    store: Subject, container: int, path: DuePath, upto: int, after: tuple[int, int] | None = None, limit: int = 100
) -> list[bytes]:
    return keys(store.read(Due(container, path, upto, after, limit)))


@pytest.mark.parametrize(
    ("path", "upto", "expected"),
    [
        (DuePath.ANCHOR, -8, []),
        (DuePath.ANCHOR, -7, [b"earlier"]),
        (DuePath.ANCHOR, 9, [b"earlier"]),
        (DuePath.ANCHOR, 10, [b"earlier", b"ignored"]),
        (DuePath.ANCHOR, 29, [b"earlier", b"ignored"]),
        (DuePath.ANCHOR, 30, [b"earlier", b"ignored", b"default"]),
        (DuePath.ANCHOR, FAR, [b"earlier", b"ignored", b"default"]),
        (DuePath.DEADLINE, 2 * SECOND + 4, []),
        (DuePath.DEADLINE, 2 * SECOND + 5, [b"own"]),
        (DuePath.DEADLINE, 3 * SECOND - 1, [b"own"]),
        (DuePath.DEADLINE, 3 * SECOND, [b"own", b"own later"]),
        (DuePath.DEADLINE, FAR, [b"own", b"own later"]),
    ],
)
def test_due_bounds(store: Subject, stocked: int, path: DuePath, upto: int, expected: list[bytes]) -> None:
    assert due(store, stocked, path, upto) == expected
    assert store.read(CountDue(stocked, path, (upto,))) == (len(expected),)


def test_due_ties(store: Subject, container: int) -> None:
    """Equal values come by seq, and a page may end between them."""
    store.keep(container, {b"a": (7, None), b"b": (5, None), b"c": (7, None), b"d": (5, None), b"e": (7, None)})
    assert due(store, container, DuePath.ANCHOR, 7) == [b"b", b"d", b"a", b"c", b"e"]
    assert due(store, container, DuePath.ANCHOR, 7, limit=3) == [b"b", b"d", b"a"]
    assert due(store, container, DuePath.ANCHOR, 7, after=(7, 1)) == [b"c", b"e"]
    assert due(store, container, DuePath.ANCHOR, 7, after=(5, 4)) == [b"a", b"c", b"e"]
    assert due(store, container, DuePath.ANCHOR, 7, after=(6, 99)) == [b"a", b"c", b"e"]
    assert due(store, container, DuePath.ANCHOR, 5, after=(5, 4)) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_due_pages(store: Subject, container: int, limit: int) -> None:
    for n in range(7):
        store.put(container, b"%d" % n, anchor=n % 3, override=1 + n % 2)
    walked: list[bytes] = []
    after: tuple[int, int] | None = None
    while page := store.read(Due(container, DuePath.DEADLINE, 3 * SECOND, after, limit)):
        walked += keys(page)
        last = page[-1]
        after = ((last.anchor or 0) + (last.override or 0) * SECOND, last.seq)
    assert walked == due(store, container, DuePath.DEADLINE, 3 * SECOND) == [b"0", b"6", b"4", b"2", b"3", b"1", b"5"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [(DuePath.ANCHOR, [-7, 10, 30]), (DuePath.DEADLINE, [2 * SECOND + 5, 3 * SECOND])],
)
def test_next_due(store: Subject, stocked: int, path: DuePath, expected: list[int]) -> None:
    walked: list[int] = []
    after: int | None = None
    while (after := store.read(NextDue(stocked, path, after))) is not None:
        walked.append(after)
    assert walked == expected
    assert store.read(NextDue(stocked, path, expected[0] - 1)) == expected[0]


def test_next_due_empty(store: Subject, container: int) -> None:
    store.keep(container, {b"a": (None, None), b"b": (5, NEVER)})
    assert [store.read(NextDue(container, path, None)) for path in DuePath] == [None, None]


@pytest.mark.parametrize(
    ("upto", "expected"),
    [
        ((), ()),
        ((-8,), (0,)),
        ((-8, -7, 9, 10, 30, 31), (0, 1, 1, 2, 3, 3)),
        ((10, 10, 10), (2, 2, 2)),
        ((-FAR, FAR), (0, 3)),
        ((-BEYOND, BEYOND), (0, 3)),
    ],
)
def test_count_due(store: Subject, stocked: int, upto: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert store.read(CountDue(stocked, DuePath.ANCHOR, upto)) == expected


def test_totals(store: Subject, stocked: int) -> None:
    """What has no anchor is `never`, with or without an own ttl."""
    assert store.read(Count(stocked)) == Totals(records=8, own=2, ignored=1, never=3, value_bytes=0)
    assert store.read(Count(store.container("empty"))) == Totals(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("life", "on_anchor", "on_deadline"),
    [
        ((50, None), [50], []),
        ((50, IGNORED), [50], []),
        ((50, NEVER), [], []),
        ((None, None), [], []),
        ((None, 9), [], []),
        ((50, 9), [], [50 + 9 * SECOND]),
        ((-50, LONGEST), [], [-50 + LONGEST * SECOND]),
        ((FAR, None), [FAR], []),
    ],
)
def test_new_life(
    store: Subject, life: tuple[int | None, int | None], on_anchor: list[int], on_deadline: list[int]
) -> None:
    """A write moves the record from wherever it was to where its new anchor and own ttl say."""
    for before in (None, None), (None, 5), (1, None), (1, 1), (1, NEVER), (1, IGNORED), (BEYOND, 5):
        container = store.container(repr(before))
        store.put(container, b"a", anchor=before[0], override=before[1])
        store.put(container, b"a", anchor=life[0], override=life[1])
        for path, expected in ((DuePath.ANCHOR, on_anchor), (DuePath.DEADLINE, on_deadline)):
            assert store.read(NextDue(container, path, None)) == (expected[0] if expected else None)
            assert store.read(CountDue(container, path, (BEYOND,))) == (len(expected),)


@pytest.mark.parametrize(("anchor", "value"), [(2**62 + 9, FAR), (BEYOND, FAR), (-(2**62) - 9, -FAR), (-BEYOND, -FAR)])
def test_clamped_anchors(store: Subject, container: int, anchor: int, value: int) -> None:
    """A path holds the anchor clamped, the record holds it exactly."""
    record = store.put(container, b"a", anchor=anchor)
    own = store.put(container, b"b", anchor=anchor, override=1)
    assert store.read(NextDue(container, DuePath.ANCHOR, None)) == value
    assert store.read(NextDue(container, DuePath.DEADLINE, None)) == value + SECOND
    assert store.read(Due(container, DuePath.ANCHOR, value, None, 5)) == [record]
    assert store.read(Due(container, DuePath.DEADLINE, value + SECOND, None, 5)) == [own]
    assert store.read(Due(container, DuePath.ANCHOR, value - 1, None, 5)) == []
    assert store.read(CountDue(container, DuePath.DEADLINE, (value + SECOND - 1, value + SECOND))) == (0, 1)


def test_walk_beyond_clamp(store: Subject, container: int) -> None:
    """Walking on from any answer ends."""
    store.keep(container, {b"a": (BEYOND, 1), b"b": (BEYOND, 2), b"c": (FAR, 3)})
    walked: list[int] = []
    after: int | None = None
    while len(walked) < 9 and (after := store.read(NextDue(container, DuePath.DEADLINE, after))) is not None:
        walked.append(after)
    assert walked == [FAR + n * SECOND for n in (1, 2, 3)]
    last = store.read(Due(container, DuePath.DEADLINE, walked[1], None, 5))[-1]
    assert due(store, container, DuePath.DEADLINE, walked[2], after=(walked[1], last.seq)) == [b"c"]


@pytest.mark.parametrize("path", DuePath)
def test_bound_below_all(store: Subject, container: int, path: DuePath) -> None:
    """A bound below the clamp, from a span longer than time, holds nobody."""
    store.keep(container, {b"a": (-BEYOND, None), b"b": (-BEYOND, 1)})
    assert due(store, container, path, -BEYOND) == []
    assert store.read(CountDue(container, path, (-BEYOND, 0))) == (0, 1)


def test_due_containers_apart(store: Subject, stocked: int) -> None:
    other = store.container("other")
    store.put(other, b"z", anchor=-100)
    assert due(store, other, DuePath.ANCHOR, 0) == [b"z"]
    assert due(store, stocked, DuePath.ANCHOR, -100) == []
    assert store.read(NextDue(stocked, DuePath.ANCHOR, None)) == -7
