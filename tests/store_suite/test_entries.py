"""Index entries: they belong to their record and come and go with it."""

from __future__ import annotations

import msgspec
import pytest

from mayflydb.model.record import Entry
from mayflydb.store.interface import Decision, Entries, EntryOwners, Outcome, Put, ask
from store_suite.subject import Subject, keys

X, Y, Z = Entry(1, b"x"), Entry(1, b"y"), Entry(1, b"z")


def holders(store: Subject, container: int, *entries: Entry) -> list[bytes]:
    return keys(store.read(EntryOwners(container, entries)))


def test_holders_by_seq(store: Subject, container: int) -> None:
    """Each record once, however many of the entries it owns."""
    for key, entries in [(b"a", (Y,)), (b"b", (X, Y)), (b"c", ()), (b"d", (X,)), (b"e", (Z, X, Y))]:
        store.put(container, key, entries=entries)
    assert holders(store, container, X) == [b"b", b"d", b"e"]
    assert holders(store, container, Y, X) == [b"a", b"b", b"d", b"e"]
    assert holders(store, container, X, Y, Z, X) == [b"a", b"b", b"d", b"e"]
    assert holders(store, container, Z) == [b"e"]
    assert holders(store, container) == []


@pytest.mark.parametrize("key", [b"", b"\x00", b"\xff", b"x\x00", b"x" * 2000])
def test_entry_bytes(store: Subject, container: int, key: bytes) -> None:
    """An entry is found by its exact key and index number."""
    store.put(container, b"a", entries=(Entry(0, key), Entry(7, key)))
    assert holders(store, container, Entry(0, key)) == [b"a"]
    assert holders(store, container, Entry(7, key)) == [b"a"]
    assert holders(store, container, Entry(1, key)) == []
    assert holders(store, container, Entry(0, key + b"\x00")) == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [(None, [True, True, False]), ((), [False] * 3), ((Y, Z), [False, True, True]), ((X, Y), [True, True, False])],
)
def test_entries_on_replace(
    store: Subject, container: int, after: tuple[Entry, ...] | None, expected: list[bool]
) -> None:
    """None leaves the entries as they are; anything else is all there are from now on."""
    store.put(container, b"a", entries=(X, Y))
    store.put(container, b"a", value=b"new", entries=after)
    assert [holders(store, container, entry) == [b"a"] for entry in (X, Y, Z)] == expected


def test_insert_without_entries(store: Subject, container: int) -> None:
    store.put(container, b"a", entries=None)
    assert holders(store, container, X, Y, Z) == []
    store.put(container, b"a", entries=(X,))
    assert holders(store, container, X) == [b"a"]


def test_entries_go_with_record(store: Subject, container: int) -> None:
    record = store.put(container, b"a", entries=(X, Y))
    store.delete(container, record)
    assert holders(store, container, X, Y) == []
    store.put(container, b"a", entries=(Y,))
    assert holders(store, container, X) == []
    assert holders(store, container, Y) == [b"a"]


def test_entries_containers_apart(store: Subject, container: int) -> None:
    other = store.container("other")
    store.put(container, b"a", entries=(X,))
    store.put(other, b"b", entries=(X, Y))
    assert holders(store, container, X, Y) == [b"a"]
    assert holders(store, other, X, Y) == [b"b"]


def test_entries_read_by_seq(store: Subject, container: int) -> None:
    """Only records that own entries, each with all of them; `limit` counts records."""
    for key, entries in [(b"a", (Z, X, Entry(0, b"\xff"))), (b"b", ()), (b"c", None), (b"d", (Y,)), (b"e", (X,))]:
        store.put(container, key, entries=entries)
    everything = [(1, (Entry(0, b"\xff"), X, Z)), (4, (Y,)), (5, (X,))]
    for after, limit in [(0, 9), (0, 3), (0, 2), (0, 1), (1, 9), (2, 1), (4, 9), (5, 9), (99, 1)]:
        expected = [owned for owned in everything if owned[0] > after][:limit]
        assert store.read(Entries(container, after, limit)) == expected
    assert store.read(Entries(container + 1, 0, 9)) == []


def test_entries_read_as_they_are(store: Subject, container: int) -> None:
    """Replaced, removed, of another container."""
    other = store.container("other")
    records = [store.put(container, key, entries=(X, Y)) for key in (b"a", b"b", b"c")]
    store.put(other, b"a", entries=(Z,))
    store.put(container, b"a", entries=(Z,))
    store.put(container, b"b", entries=())
    store.delete(container, records[2])
    assert store.read(Entries(container, 0, 9)) == [(1, (Z,))]
    assert store.read(Entries(other, 0, 9)) == [(1, (Z,))]


def test_entries_read_in_a_decision(store: Subject, container: int) -> None:
    """A decision sees what those before it in its group have written."""
    record = store.put(container, b"a", entries=(X,))

    def replace() -> Decision[None]:
        return Outcome((Put(container, msgspec.structs.replace(record, lsn=9), False, (Y, Z)),), None)
        yield

    def look() -> Decision[list[tuple[int, tuple[Entry, ...]]]]:
        return Outcome((), (yield from ask(Entries(container, 0, 9))))

    assert store.together(replace, look)[1].reply == [(1, (Y, Z))]
