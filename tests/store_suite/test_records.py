"""Records by identity: what is put comes back exactly, until it is replaced or deleted."""

from __future__ import annotations

from itertools import product

import pytest

from mayflydb.model.order import Order
from mayflydb.model.record import IGNORED, NEVER, Entry, Record
from mayflydb.store.interface import Count, Delete, Entries, EntryOwners, Get, Put, Scan
from store_suite.subject import Subject

EDGES = (0, 1, 2**31, 2**53 + 1, 2**62, 2**62 + 1, 2**63, 2**80)
ANCHORS = (None, *EDGES, *(-edge for edge in EDGES))
OVERRIDES = (None, NEVER, IGNORED, 1, 2**31 - 1)


def get(store: Subject, container: int, key: bytes, partition: bytes = b"p") -> Record | None:
    return store.read(Get(container, partition, key))


def test_get_absent(store: Subject, container: int) -> None:
    store.put(container, b"a")
    assert get(store, container, b"b") is None
    assert get(store, container, b"a", partition=b"q") is None
    assert get(store, container + 1, b"a") is None


@pytest.mark.parametrize(
    "key", [b"", b"\x00", b"\xff", b"a\x00", b"a\x00b", b"\xff\xff\x00", bytes(range(256)), b"k" * 2000]
)
def test_get_any_bytes(store: Subject, container: int, key: bytes) -> None:
    others = [store.put(container, key + b"\x00", partition=key), store.put(container, key, partition=key + b"\x00")]
    record = store.put(container, key, partition=key)
    assert store.read(Get(container, key, key)) == record
    assert [store.read(Get(container, other.partition, other.key)) for other in others] == others


@pytest.mark.parametrize("size", [0, 1, 4096, 2 * 1024 * 1024])
def test_value_sizes(store: Subject, container: int, size: int) -> None:
    value = bytes(n % 251 for n in range(size))
    record = store.put(container, b"a", value=value)
    found = get(store, container, b"a")
    assert found == record
    assert found is not None
    assert type(found.value) is bytes
    assert found.value == value


def test_exact_lives(store: Subject, container: int) -> None:
    """Anchor and own ttl come back as they were, however large, also where a column cannot hold them."""
    for anchor, override in product(ANCHORS, OVERRIDES):
        key = b"%r %r" % (anchor, override)
        record = store.put(container, key, anchor=anchor, override=override)
        found = get(store, container, key)
        assert found == record
        assert found is not None
        assert (found.anchor, found.override) == (anchor, override)


def test_replace_keeps_seq(store: Subject, container: int) -> None:
    first = store.put(container, b"a", value=b"one", anchor=1, override=5)
    store.put(container, b"b")
    second = store.put(container, b"a", value=b"two", anchor=2**70, override=None)
    assert second.seq == first.seq
    assert second.lsn > first.lsn
    assert get(store, container, b"a") == second
    third = store.put(container, b"a", value=b"", anchor=3)
    assert get(store, container, b"a") == third


def test_delete_removes(store: Subject, container: int) -> None:
    record, other = store.put(container, b"a"), store.put(container, b"b")
    store.delete(container, record)
    assert get(store, container, b"a") is None
    assert get(store, container, b"b") == other
    assert store.read(Count(container)).records == 1


def test_insert_after_delete(store: Subject, container: int) -> None:
    first = store.put(container, b"a")
    store.delete(container, first)
    second = store.put(container, b"a", value=b"again")
    assert second.seq > first.seq
    assert second.lsn > first.lsn
    assert get(store, container, b"a") == second


def test_same_key_anew(store: Subject, container: int) -> None:
    """One outcome may delete a record and insert another with its key."""
    old = store.put(container, b"a")
    new = Record(b"p", b"a", b"new", 5, 6, None, old.lsn + 1, old.seq + 1)
    store.change(Delete(container, old), Put(container, new, insert=True))
    assert get(store, container, b"a") == new
    assert store.read(Scan(container, b"", None, Order.CREATED, None, 10)) == [new]


@pytest.mark.parametrize("entries", [None, (), (Entry(1, b"x"),), (Entry(1, b"y"), Entry(2, b"x"))])
@pytest.mark.parametrize("within", ["one outcome", "two"])
def test_another_key(store: Subject, container: int, entries: tuple[Entry, ...] | None, within: str) -> None:
    """One outcome may delete a record and insert it again under another key, in its place."""
    old = store.put(container, b"a", entries=(Entry(1, b"x"),) if entries else ())
    last = store.put(container, b"z")
    new = Record(b"p", b"b", b"new", 5, 6, 7, last.lsn + 1, old.seq)
    moved = Delete(container, old), Put(container, new, insert=True, entries=entries)
    if within == "two":
        store.change(*moved)
        old, new = new, Record(b"p", b"c", b"newer", 6, 6, None, last.lsn + 2, old.seq)
        moved = Delete(container, old), Put(container, new, insert=True, entries=entries)
    store.change(*moved)
    assert get(store, container, b"a") is None
    assert get(store, container, old.key) is None
    assert get(store, container, new.key) == new
    for order, found in ((Order.CREATED, [new, last]), (Order.CHANGED, [last, new])):
        assert store.read(Scan(container, b"", None, order, None, 10)) == found
    assert store.read(EntryOwners(container, (Entry(1, b"x"), Entry(1, b"y")))) == ([new] if entries else [])
    assert store.read(Entries(container, 0, 10)) == ([(new.seq, entries)] if entries else [])
    assert store.read(Count(container)).records == 2


def test_containers_apart(store: Subject) -> None:
    left, right = store.container("left"), store.container("right")
    here, there = store.put(left, b"a", value=b"l"), store.put(right, b"a", value=b"r")
    assert get(store, left, b"a") == here
    assert get(store, right, b"a") == there
    store.delete(left, here)
    assert get(store, right, b"a") == there


def test_count_bytes(store: Subject, container: int) -> None:
    store.put(container, b"a", value=b"xyz")
    store.put(container, b"b", value=b"")
    store.put(store.container("other"), b"a", value=b"elsewhere")
    assert store.read(Count(container, with_bytes=True)).value_bytes == 3
    assert store.read(Count(container)).value_bytes == 0
    store.put(container, b"a", value=b"x")
    assert store.read(Count(container, with_bytes=True)).value_bytes == 1
