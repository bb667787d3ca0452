"""Catalogue rows, ids, settings; dropping, clearing and resetting."""

from __future__ import annotations

import msgspec
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.order import Order
from mayflydb.model.record import Entry
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    ChildRows,
    ClearDropped,
    Count,
    Decision,
    DroppedContainers,
    DropRow,
    EntryOwners,
    Expiries,
    FindRow,
    Get,
    LoadRow,
    NamedNumber,
    NewId,
    NextDue,
    Outcome,
    Purged,
    PutRow,
    Scan,
    SetNumber,
    ask,
)
from store_suite.subject import Subject


def names(store: Subject, parent: int) -> list[str]:
    return [row.name for row in store.read(ChildRows(parent))]


def new_id(store: Subject) -> int:
    def decide() -> Decision[int]:
        return Outcome((), (yield from ask(NewId())))

    return store.write(decide).reply


def test_find_and_load(store: Subject) -> None:
    shop = store.new_row("shop", data=b"\x00\xff")
    inner = store.new_row("shop", parent=shop.id)
    assert store.read(FindRow(0, "shop")) == store.read(LoadRow(shop.id)) == shop
    assert store.read(FindRow(shop.id, "shop")) == store.read(LoadRow(inner.id)) == inner
    assert store.read(FindRow(0, "Shop")) is None
    assert store.read(FindRow(inner.id, "shop")) is None
    assert store.read(LoadRow(inner.id + 100)) is None


@pytest.mark.parametrize("name", ["", "a", "grüße", "日本", "a/b?c", "x" * 255, "\U0001f600"])
def test_any_name(store: Subject, name: str) -> None:
    assert store.read(FindRow(0, name)) is None
    row = store.new_row(name)
    assert store.read(FindRow(0, name)) == row


def test_children_by_id(store: Subject) -> None:
    shop = store.new_row("shop").id
    for name in ("zebra", "apple", "mango"):
        store.new_row(name, parent=shop)
    store.new_row("elsewhere")
    assert names(store, shop) == ["zebra", "apple", "mango"]
    assert names(store, 0) == ["shop", "elsewhere"]
    assert names(store, shop + 100) == []


def test_replace_keeps_counters(store: Subject, container: int) -> None:
    """New data, a new name even, but the last numbers given out stay."""
    record = store.put(container, b"a")
    store.change(PutRow(CatalogRow(container, 0, "renamed", b"new", lsn=0, seq=99)))
    row = store.read(LoadRow(container))
    assert row == CatalogRow(container, 0, "renamed", b"new", record.lsn, record.seq)
    assert store.read(FindRow(0, "renamed")) == row
    assert store.read(FindRow(0, "sessions")) is None
    assert store.put(container, b"b").seq == record.seq + 1


def test_new_row_keeps_counters(store: Subject) -> None:
    """A row that did not exist brings its counters along, as a restore needs."""
    id = new_id(store)
    store.change(PutRow(CatalogRow(id, 0, "restored", b"", lsn=70, seq=50)))
    record = store.put(id, b"a")
    assert (record.lsn, record.seq) == (71, 51)


def test_names_swap(store: Subject) -> None:
    left, right = store.new_row("left"), store.new_row("right")
    store.change(
        PutRow(msgspec.structs.replace(right, data=b"touched first")),
        PutRow(msgspec.structs.replace(left, name="aside")),
        PutRow(msgspec.structs.replace(right, name="left")),
        PutRow(msgspec.structs.replace(left, name="right")),
    )
    assert [store.read(FindRow(0, name)) for name in ("left", "right", "aside")] == [
        msgspec.structs.replace(right, name="left"),
        msgspec.structs.replace(left, name="right"),
        None,
    ]


def test_name_again(store: Subject) -> None:
    """A name is free as soon as its row is dropped, in the same commit even; the id never returns."""
    old = store.new_row("shop")

    def decide() -> Decision[int]:
        id = yield from ask(NewId())
        return Outcome((DropRow(old.id), PutRow(CatalogRow(id, 0, "shop", b"new"))), id)

    new = store.write(decide).reply
    assert new > old.id
    assert store.read(FindRow(0, "shop")) == CatalogRow(new, 0, "shop", b"new")
    assert store.read(LoadRow(old.id)) is None


def test_catalog_version(store: Subject, container: int) -> None:
    """Grows with every new definition; records and settings leave it alone."""
    versions = [store.store.catalog_version]
    row = store.new_row("shop")
    versions.append(store.store.catalog_version)
    store.put(container, b"a")
    store.change(SetNumber("mark", 1))
    assert store.store.catalog_version == versions[-1]
    store.change(PutRow(msgspec.structs.replace(row, data=b"new")))
    versions.append(store.store.catalog_version)
    store.change(DropRow(row.id))
    versions.append(store.store.catalog_version)
    store.run(store.store.reset())
    versions.append(store.store.catalog_version)
    assert versions == sorted(set(versions))


def test_drop_absent(store: Subject, container: int) -> None:
    store.change(DropRow(container + 100))
    assert names(store, 0) == ["sessions"]
    assert store.read(DroppedContainers()) == []


def test_drop_and_clear(store: Subject, container: int) -> None:
    """Records of a dropped container leave in steps, without events."""
    for n in range(5):
        store.put(container, b"%d" % n, value=b"xx", anchor=n, entries=(Entry(1, b"e"),))
    kept = store.container("kept")
    other = store.put(kept, b"a", entries=(Entry(1, b"e"),))
    store.change(DropRow(container))
    assert store.read(LoadRow(container)) is None
    assert store.read(FindRow(0, "sessions")) is None
    assert names(store, 0) == ["kept"]
    assert store.read(DroppedContainers()) == [container]
    assert store.change(ClearDropped(container, 3)).purged == (Purged(3, 6),)
    assert store.read(DroppedContainers()) == [container]
    assert store.change(ClearDropped(container, 3)).purged == (Purged(2, 4),)
    assert store.read(DroppedContainers()) == []
    assert store.read(Count(container)).records == 0
    assert store.read(EntryOwners(container, (Entry(1, b"e"),))) == []
    assert store.read(NextDue(container, DuePath.ANCHOR, None)) is None
    assert store.read(Expiries(None, 0, 10)) == []
    assert store.read(Scan(kept, b"", None, Order.CREATED, None, 10)) == [other]
    assert store.read(EntryOwners(kept, (Entry(1, b"e"),))) == [other]


def test_drop_empty(store: Subject, container: int) -> None:
    """Only what still has records needs clearing."""
    store.delete(container, store.put(container, b"a"))
    store.change(DropRow(container))
    assert store.read(DroppedContainers()) == []


def test_clear_exactly(store: Subject, container: int) -> None:
    store.keep(container, {b"a": (0, None), b"b": (0, None)})
    store.change(DropRow(container))
    assert store.change(ClearDropped(container, 2)).purged == (Purged(2, 2),)
    assert store.read(DroppedContainers()) == []
    assert store.change(ClearDropped(container, 2)).purged == (Purged(0, 0),)


def test_dropped_several(store: Subject) -> None:
    ids = [store.container(name) for name in "abc"]
    for id in ids:
        store.put(id, b"k")
    store.change(DropRow(ids[2]), DropRow(ids[0]))
    assert store.read(DroppedContainers()) == [ids[0], ids[2]]


def test_ids_never_again(store: Subject) -> None:
    ids = [new_id(store)]
    row = store.new_row("shop")
    ids.append(row.id)
    store.change(DropRow(row.id))
    ids.append(new_id(store))
    store.run(store.store.reset())
    ids += [new_id(store), store.container()]
    assert ids == sorted(set(ids))


def test_settings(store: Subject) -> None:
    assert store.read(NamedNumber("mark")) is None
    for value in (0, 1, -1, 2**62, -(2**63), 2**63 - 1):
        store.change(SetNumber("mark", value), SetNumber("other", 5))
        assert store.read(NamedNumber("mark")) == value
    assert store.read(NamedNumber("other")) == 5
    assert store.read(NamedNumber("Mark")) is None


def test_last_set_wins(store: Subject) -> None:
    store.change(SetNumber("mark", 1), SetNumber("mark", 2))
    assert store.read(NamedNumber("mark")) == 2


def test_reset(store: Subject, container: int) -> None:
    """Everything goes but the promise that numbers do not return."""
    store.keep(container, {b"a": (0, None), b"b": (9, 1), b"c": (1, None)})
    store.put(container, b"d", entries=(Entry(1, b"x"),))
    store.purge(container, 0)
    (event, *_) = store.read(Expiries(None, 0, 10))
    store.change(SetNumber("mark", 5))
    doomed = store.container("doomed")
    store.put(doomed, b"a")
    before = store.change(DropRow(doomed)).commit_seq
    store.run(store.store.reset())
    assert names(store, 0) == []
    assert store.read(LoadRow(container)) is None
    assert store.read(DroppedContainers()) == []
    assert store.read(Expiries(None, 0, 10)) == []
    assert store.read(NamedNumber("mark")) is None
    assert store.read(Count(container)).records == 0
    assert store.read(Get(container, b"p", b"a")) is None
    assert store.read(EntryOwners(container, (Entry(1, b"x"),))) == []
    assert [store.read(NextDue(container, path, None)) for path in DuePath] == [None, None]
    again = store.container()
    store.put(again, b"a", anchor=0)
    assert store.purge(again, 0).commit_seq > before
    assert store.read(Expiries(None, 0, 10))[0].id > event.id


def test_reset_starts_counters(store: Subject, container: int) -> None:
    store.put(container, b"a")
    store.run(store.store.reset())
    again = store.container()

    def decide() -> Decision[tuple[int, int]]:
        return Outcome((), (yield from ask(Allocate(again, True))))

    assert store.write(decide).reply == (1, 1)
