"""Ordered indexes: their entries are sought by ranges of keys, walked in order, built and removed."""

from __future__ import annotations

import pytest

from mayflydb.model.order import FIRST_ORDERED, KeyRange
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    PAGE_BYTES,
    Decision,
    EntryOwners,
    Fetch,
    FetchRange,
    Get,
    KeyBytes,
    Outcome,
    RemoveEntries,
    ReplaceEntries,
    ScanIndex,
    SeekIndex,
    ask,
)
from store_suite.subject import Subject, keys

N, OTHER = FIRST_ORDERED, FIRST_ORDERED + 1
ALL = KeyRange(b"", b"\xff")
KEYS = {b"a": b"k2", b"b": b"k1", b"c": b"k3", b"d": b"k1", b"e": b"k1\x00"}
"""Record -> its entry's key; their seqs are 1 to 5."""


@pytest.fixture
def filled(store: Subject, container: int) -> int:
    for key, entry in KEYS.items():
        store.put(container, key, entries=(Entry(N, entry), Entry(OTHER, b"k1"), Entry(0, entry)))
    store.put(container, b"f", entries=())
    store.put(store.container("another"), b"g", entries=(Entry(N, b"k1"),))
    return container


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([ALL], (1, 2, 3, 4, 5)),
        ([KeyRange(b"k1", b"k1\x00")], (2, 4)),
        ([KeyRange(b"k1", b"k2")], (2, 4, 5)),
        ([KeyRange(b"k2", b"k3")], (1,)),
        ([KeyRange(b"k3", b"k9"), KeyRange(b"k1\x00", b"k2")], (3, 5)),
        ([KeyRange(b"k1", b"k3"), KeyRange(b"k2", b"k9")], (1, 2, 3, 4, 5)),
        ([KeyRange(b"k4", b"k9")], ()),
        ([KeyRange(b"k2", b"k2")], ()),
    ],
)
def test_seek(store: Subject, filled: int, ranges: list[KeyRange], expected: tuple[int, ...]) -> None:
    assert store.read(SeekIndex(filled, N, tuple(ranges), 9)) == expected


def test_seek_gives_up_beyond_its_limit(store: Subject, filled: int) -> None:
    assert store.read(SeekIndex(filled, N, (ALL,), 5)) == (1, 2, 3, 4, 5)
    assert store.read(SeekIndex(filled, N, (ALL,), 4)) is None
    assert store.read(SeekIndex(filled, N, (KeyRange(b"k1", b"k2"), KeyRange(b"k2", b"k9")), 4)) is None
    assert store.read(SeekIndex(filled + 99, N, (ALL,), 4)) == ()


def test_fetch(store: Subject, filled: int) -> None:
    """What is there, by seq; another container's are not met."""
    assert keys(store.read(Fetch(filled, (1, 3, 4, 77)))) == [b"a", b"c", b"d"]
    assert store.read(Fetch(filled, (77,))) == []
    assert store.read(Fetch(filled, ())) == []


def test_fetch_and_walk_end_a_page_with_its_bytes(store: Subject, container: int) -> None:
    for key in (b"a", b"b", b"c"):
        store.put(container, key, value=bytes(PAGE_BYTES * 2 // 3), entries=(Entry(N, key),))
    assert keys(store.read(Fetch(container, (1, 2, 3)))) == [b"a", b"b"]
    for descending, expected in ((False, [b"a", b"b"]), (True, [b"c", b"b"])):
        assert [key for key, _ in store.read(ScanIndex(container, N, ALL, descending, None, 9))] == expected


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        (ALL, [1, 2, 3, 4, 5]),
        (KeyRange(b"k1", b"k1\x00"), [2, 4]),
        (KeyRange(b"k1", b"k2"), [2, 4, 5]),
        (KeyRange(b"k4", b"k9"), []),
        (KeyRange(b"k2", b"k2"), []),
    ],
)
def test_fetch_range(store: Subject, filled: int, range_: KeyRange, expected: list[int]) -> None:
    """By seq, however the keys lie; once more after all of it has been read, and may be kept."""
    for _ in range(2):
        found = store.read(FetchRange(filled, N, range_, 9))
        assert found is not None
        assert [record.seq for record in found] == expected
    assert store.read(FetchRange(filled + 99, N, range_, 9)) == []


def test_fetch_range_gives_up_beyond_its_limits(store: Subject, filled: int, container: int) -> None:
    assert store.read(FetchRange(filled, N, ALL, 4)) is None
    other = store.container("large")
    for key in (b"a", b"b"):
        store.put(other, key, value=bytes(PAGE_BYTES * 2 // 3), entries=(Entry(N, key),))
        found = store.read(FetchRange(other, N, ALL, 9))
        assert (found is None) == (key == b"b")


def test_fetch_range_sees_what_was_written_since(store: Subject, container: int) -> None:
    """A record that left the range, one that came, one that is gone, and one with another value."""
    put = {key: store.put(container, key, value=b"old", entries=(Entry(N, b"k1"),)) for key in (b"a", b"b", b"c", b"d")}
    assert len(store.read(FetchRange(container, N, ALL, 9)) or ()) == 4
    store.put(container, b"a", value=b"new", entries=(Entry(N, b"k2"),))
    store.put(container, b"b", value=b"new", entries=(Entry(N, b"k1"),))
    store.delete(container, put[b"c"])
    store.put(container, b"e", value=b"new", entries=(Entry(N, b"k1"),))
    found = store.read(FetchRange(container, N, KeyRange(b"k1", b"k2"), 9))
    assert found is not None
    assert [(record.key, record.value) for record in found] == [(b"b", b"new"), (b"d", b"old"), (b"e", b"new")]


@pytest.mark.parametrize(
    ("range_", "after", "expected"),
    [
        (ALL, None, [2, 4, 5, 1, 3]),
        (KeyRange(b"k1\x00", b"k3"), None, [5, 1]),
        (ALL, (b"k1", 2), [4, 5, 1, 3]),
        (ALL, (b"k1", 4), [5, 1, 3]),
        (ALL, (b"k1", 9), [5, 1, 3]),
        (ALL, (b"k11", 1), [1, 3]),
        (ALL, (b"k3", 3), []),
        (KeyRange(b"k2", b"\xff"), (b"k1", 2), [1, 3]),
    ],
)
def test_walk(
    store: Subject, filled: int, range_: KeyRange, after: tuple[bytes, int] | None, expected: list[int]
) -> None:
    for limit in (1, 2, 9):
        walked = walk(store, filled, range_, False, after, limit)
        assert [record.seq for _, record in walked] == expected
        assert [key for key, _ in walked] == [KEYS[record.key] for _, record in walked]


@pytest.mark.parametrize(
    ("range_", "after", "expected"),
    [
        (ALL, None, [3, 1, 5, 4, 2]),
        (KeyRange(b"k1\x00", b"k3"), None, [1, 5]),
        (ALL, (b"k1", 4), [2]),
        (ALL, (b"k1", 2), []),
        (KeyRange(b"k1", b"k2"), (b"k3", 3), [5, 4, 2]),
    ],
)
def test_walk_backwards(
    store: Subject, filled: int, range_: KeyRange, after: tuple[bytes, int] | None, expected: list[int]
) -> None:
    for limit in (1, 2, 9):
        assert [record.seq for _, record in walk(store, filled, range_, True, after, limit)] == expected


def walk(
    store: Subject, container: int, range_: KeyRange, descending: bool, after: tuple[bytes, int] | None, limit: int
) -> list[tuple[bytes, Record]]:
    """Page by page to the end."""
    walked: list[tuple[bytes, Record]] = []
    while page := store.read(ScanIndex(container, N, range_, descending, after, limit)):
        walked += page
        after = page[-1][0], page[-1][1].seq
    return walked


def link(store: Subject, container: int, index: int, entries: dict[bytes, tuple[bytes, ...]]) -> None:
    def decide() -> Decision[None]:
        wanted = []
        for key, own in entries.items():
            record = yield from ask(Get(container, b"p", key))
            assert record is not None
            wanted.append((record, own))
        return Outcome((ReplaceEntries(container, index, tuple(wanted)),), None)

    store.write(decide)


def test_link_replaces_one_index_of_its_records(store: Subject, filled: int) -> None:
    link(store, filled, N, {b"a": (b"z",), b"f": (b"y",), b"b": (b"k1",)})
    assert store.read(SeekIndex(filled, N, (KeyRange(b"z", b"zz"),), 9)) == (1,)
    assert store.read(SeekIndex(filled, N, (KeyRange(b"y", b"z"),), 9)) == (6,)
    assert store.read(SeekIndex(filled, N, (KeyRange(b"k1", b"k1\x00"),), 9)) == (2, 4)
    assert store.read(SeekIndex(filled, N, (KeyRange(b"k2", b"k3"),), 9)) == ()
    assert store.read(SeekIndex(filled, OTHER, (ALL,), 9)) == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("own", "sought", "walked"),
    [
        ((), (), [2, 4, 5, 3]),
        ((b"k2",), (1,), [2, 4, 5, 1, 3]),
        ((b"k2", b"k0", b"k9"), (1,), [1, 2, 4, 5, 1, 3, 1]),
        ((b"k4", b"k1"), (), [1, 2, 4, 5, 3, 1]),
    ],
)
def test_a_record_has_any_number_of_entries(
    store: Subject, filled: int, own: tuple[bytes, ...], sought: tuple[int, ...], walked: list[int]
) -> None:
    """Linked or written: it is sought once, held once, and walked once for each of them."""
    link(store, filled, N, {b"a": own})
    for _ in range(2):
        assert store.read(SeekIndex(filled, N, (KeyRange(b"k2", b"k3"),), 9)) == sought
        assert store.read(SeekIndex(filled, N, (ALL,), 9)) == tuple(sorted(set(walked)))
        for descending, expected in ((False, walked), (True, walked[::-1])):
            for limit in (1, 9):
                found = walk(store, filled, ALL, descending, None, limit)
                assert [record.seq for _, record in found] == expected
        holders = store.read(EntryOwners(filled, tuple(Entry(N, key) for key in (*own, b"k3"))))
        assert [record.seq for record in holders if record.seq in (1, 3)] == ([1, 3] if own else [3])
        store.put(filled, b"a", entries=tuple(Entry(N, key) for key in own))


def test_unlink_counts_entries(store: Subject, filled: int) -> None:
    link(store, filled, N, {b"a": (b"1", b"2", b"3"), b"b": (b"1", b"2")})
    removed = [store.change(RemoveEntries(filled, N, 3)).purged[0].records for _ in range(4)]
    assert removed == [3, 3, 2, 0]


def test_unlink_removes_one_index_bit_by_bit(store: Subject, filled: int) -> None:
    removed = [store.change(RemoveEntries(filled, N, 2)).purged[0].records for _ in range(4)]
    assert removed == [2, 2, 1, 0]
    assert store.read(SeekIndex(filled, N, (ALL,), 9)) == ()
    assert store.read(SeekIndex(filled, OTHER, (ALL,), 9)) == (1, 2, 3, 4, 5)


def test_entries_go_with_their_record(store: Subject, filled: int) -> None:
    store.delete(filled, store.read(Fetch(filled, (2,)))[0])
    store.put(filled, b"d", entries=(Entry(N, b"k8"),))
    assert store.read(SeekIndex(filled, N, (KeyRange(b"k1", b"k2"),), 9)) == (5,)
    assert [record.seq for _, record in walk(store, filled, ALL, False, None, 9)] == [5, 1, 3, 4]


def test_the_bytes_of_keys(store: Subject, filled: int) -> None:
    assert store.read(KeyBytes(filled, (OTHER, N, OTHER + 1))) == (10, 11, 0)
    store.put(filled, b"a", entries=(Entry(N, b"longer"),))
    assert store.read(KeyBytes(filled, (N, OTHER))) == (15, 8)
    assert store.read(KeyBytes(filled + 99, (N,))) == (0,)
    assert store.read(KeyBytes(filled, ())) == ()
