"""Scans: three orders, bounds on partitions, positions, limits and pages."""

from __future__ import annotations

import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import PAGE_BYTES, Due, Scan
from store_suite.subject import Subject, keys

KIBIBYTE = 1024


@pytest.fixture
def stocked(store: Subject, container: int) -> int:
    """Keys a..f by creation, partitions out of order, c and a written again in that order."""
    for key, partition in [(b"a", b"q"), (b"b", b"p"), (b"c", b"r"), (b"d", b"q"), (b"e", b""), (b"f", b"p\x00")]:
        store.put(container, key, partition=partition)
    store.put(container, b"c", partition=b"r", value=b"again")
    store.put(container, b"a", partition=b"q", value=b"again")
    return container


def scan(
    store: Subject,
    container: int,
    order: Order = Order.CREATED,
    lower: bytes = b"",
    upper: bytes | None = None,
    after: Position | None = None,
    limit: int = 100,
) -> list[Record]:
    return store.read(Scan(container, lower, upper, order, after, limit))


def place(record: Record, order: Order) -> Position:
    return Position(record.partition, record.lsn if order is Order.CHANGED else record.seq)


def walk(store: Subject, container: int, order: Order, limit: int, upper: bytes | None = None) -> list[list[Record]]:
    """All pages until the empty one."""
    pages: list[list[Record]] = []
    after: Position | None = None
    while found := scan(store, container, order, upper=upper, after=after, limit=limit):
        pages.append(found)
        after = place(found[-1], order)
    return pages


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Order.CREATED, b"abcdef"), (Order.HASHED, b"ebfadc"), (Order.CHANGED, b"bdefca")],
)
def test_scan_orders(store: Subject, stocked: int, order: Order, expected: bytes) -> None:
    assert b"".join(keys(scan(store, stocked, order))) == expected


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (b"", None, b"abcdef"),
        (b"p", None, b"abcdf"),
        (b"p", b"q", b"bf"),
        (b"p", b"p\x00", b"b"),
        (b"p\x00", b"q", b"f"),
        (b"", b"p", b"e"),
        (b"", b"", b""),
        (b"q", b"q", b""),
        (b"q", b"r\x00", b"acd"),
        (b"s", None, b""),
        (b"\xff", None, b""),
        (b"", b"\xff", b"abcdef"),
    ],
)
@pytest.mark.parametrize("order", Order)
def test_scan_bounds(
    store: Subject, stocked: int, order: Order, lower: bytes, upper: bytes | None, expected: bytes
) -> None:
    found = scan(store, stocked, order, lower, upper)
    assert sorted(keys(found)) == [bytes([byte]) for byte in expected]
    everything = [record for record in scan(store, stocked, order) if record in found]
    assert found == everything


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("order", Order)
def test_scan_pages(store: Subject, stocked: int, order: Order, limit: int) -> None:
    pages = walk(store, stocked, order, limit)
    assert all(len(found) <= limit for found in pages)
    assert [record for found in pages for record in found] == scan(store, stocked, order)


@pytest.mark.parametrize("order", Order)
def test_scan_last_position(store: Subject, stocked: int, order: Order) -> None:
    last = scan(store, stocked, order)[-1]
    assert scan(store, stocked, order, after=place(last, order)) == []


@pytest.mark.parametrize("order", [Order.CREATED, Order.CHANGED])
def test_position_ignores_partition(store: Subject, stocked: int, order: Order) -> None:
    records = scan(store, stocked, order)
    number = place(records[2], order).number
    for partition in (b"", b"zzz"):
        assert scan(store, stocked, order, after=Position(partition, number)) == records[3:]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (Position(b"", 0), b"ebfadc"),
        (Position(b"o", 99), b"bfadc"),
        (Position(b"p", 0), b"bfadc"),
        (Position(b"p", 2), b"fadc"),
        (Position(b"p\x00", 99), b"adc"),
        (Position(b"q", 1), b"dc"),
        (Position(b"q", 2), b"dc"),
        (Position(b"q", 4), b"c"),
        (Position(b"z", 0), b""),
    ],
)
def test_hashed_positions(store: Subject, stocked: int, after: Position, expected: bytes) -> None:
    """A position need not be that of a record that still exists."""
    assert b"".join(keys(scan(store, stocked, Order.HASHED, after=after))) == expected


@pytest.mark.parametrize(
    ("lower", "after", "expected"),
    [(b"q", Position(b"p", 99), b"ad"), (b"q", Position(b"q", 1), b"d"), (b"q", Position(b"r", 0), b"")],
)
def test_position_and_bounds(store: Subject, stocked: int, lower: bytes, after: Position, expected: bytes) -> None:
    """The later of bound and position counts."""
    assert b"".join(keys(scan(store, stocked, Order.HASHED, lower, lower + b"\x00", after))) == expected


def test_hashed_one_partition(store: Subject, container: int) -> None:
    for n in range(5):
        store.put(container, b"%d" % n, partition=b"p")
        store.put(container, b"%d" % n, partition=b"p\x00")
    pages = walk(store, container, Order.HASHED, 2, upper=b"p\x00")
    assert [keys(found) for found in pages] == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_scan_after_delete(store: Subject, stocked: int) -> None:
    records = scan(store, stocked)
    store.delete(stocked, records[1])
    assert scan(store, stocked, after=place(records[0], Order.CREATED)) == records[2:]
    assert scan(store, stocked, after=place(records[1], Order.CREATED)) == records[2:]


def test_changes_move_up(store: Subject, stocked: int) -> None:
    last = scan(store, stocked, Order.CHANGED)[-1]
    changed = store.put(stocked, b"b", partition=b"p", value=b"new")
    assert scan(store, stocked, Order.CHANGED, after=place(last, Order.CHANGED)) == [changed]


def test_scan_other_container(store: Subject, stocked: int) -> None:
    other = store.container("other")
    assert scan(store, other) == []
    record = store.put(other, b"z")
    assert [scan(store, other, order) for order in Order] == [[record]] * 3
    assert record not in scan(store, stocked)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize(
    ("sizes", "pages"),
    [
        ([PAGE_BYTES, 1, 1], [2, 1]),
        ([PAGE_BYTES - 1, 1, 1, 0], [3, 1]),
        ([PAGE_BYTES + 1, PAGE_BYTES + 1], [1, 1]),
        ([0, 0, 2 * PAGE_BYTES, 0], [3, 1]),
        ([512 * KIBIBYTE] * 5, [3, 2]),
        ([0] * 5, [5]),
    ],
)
def test_page_bytes(store: Subject, container: int, order: Order, sizes: list[int], pages: list[int]) -> None:
    """A page ends with the record that takes it over PAGE_BYTES; the rest follows, and only an empty answer is the end."""
    for n, size in enumerate(sizes):
        store.put(container, b"%d" % n, value=bytes(size))
    assert [len(found) for found in walk(store, container, order, 100)] == pages


def test_due_page_bytes(store: Subject, container: int) -> None:
    for n in range(5):
        store.put(container, b"%d" % n, value=bytes(512 * KIBIBYTE), anchor=n)
    first = store.read(Due(container, DuePath.ANCHOR, 10, None, 100))
    assert keys(first) == [b"0", b"1", b"2"]
    assert keys(store.read(Due(container, DuePath.ANCHOR, 10, (2, first[-1].seq), 100))) == [b"3", b"4"]
