"""Stores with all sorts of things in them, and what a store holds as values that can be compared."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from mayflydb.engine.catalog import catalogue
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.order import Order, Position
from mayflydb.model.record import IGNORED, NEVER, Dates, Entry, Record
from mayflydb.moving.copy import UNFINISHED
from mayflydb.moving.source import RecordWithEntries
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Change,
    Decision,
    Delete,
    DropRow,
    Entries,
    NamedNumber,
    NewId,
    Outcome,
    Put,
    PutRow,
    Scan,
    SetNumber,
    Store,
    ask,
)

ANCHORS = (None, 0, -1, 1_893_456_000_000_000, (1 << 62) + 1, -(1 << 63), (1 << 64) - 1, 1 << 64, -(1 << 63) - 1, 3**60)
OVERRIDES = (None, NEVER, IGNORED, 1, 2_147_483_647)
DATES: tuple[Dates, ...] = (
    (),
    (),
    ((16, 0),),
    ((16, -1), (99, 1_893_456_000_000_000)),
    ((17, 3**60), (18, -(1 << 63) * 1000)),
)
NAMES = ("shop", "nul\0l", "Ünï", "")
BYTES = (b"", b"\0", b"a", b"a\0b", b"\xff" * 9, bytes(range(256)))
MARKED = 1_893_456_789_123_456


class Everything(msgspec.Struct, frozen=True):
    """What must be the same after a move."""

    rows: list[CatalogRow]
    records: dict[int, list[RecordWithEntries]]
    mark: int | None


async def everything(store: Store) -> Everything:
    """All of it, read in other portions than moves read it. AssertionError if the store is marked as unfinished."""
    assert not await store.read(NamedNumber(UNFINISHED))
    rows = await catalogue(store)
    records = {row.id: await _records(store, row.id) for row in rows}
    return Everything(rows, {id: moved for id, moved in records.items() if moved}, await store.read(NamedNumber(MARK)))


async def _records(store: Store, container: int) -> list[RecordWithEntries]:
    found: list[Record] = []
    while some := await store.read(Scan(container, b"", None, Order.CREATED, _behind(found), 7)):
        found += some
    owned: list[tuple[int, tuple[Entry, ...]]] = []
    while more := await store.read(Entries(container, owned[-1][0] if owned else 0, 3)):
        owned += more
    entries = dict(owned)
    assert entries.keys() <= {record.seq for record in found}
    return [(record, entries.get(record.seq, ())) for record in found]


def _behind(records: list[Record]) -> Position | None:
    return Position(b"", records[-1].seq) if records else None


async def new_id(store: Store) -> int:
    """An id that was never used, which is used by that."""

    def decide() -> Decision[int]:
        return Outcome((), (yield from ask(NewId())))

    return (await store.write(decide)).reply


async def change(store: Store, *changes: Change) -> None:
    """Commit these."""

    def decide() -> Decision[None]:
        return Outcome(changes, None)
        yield

    await store.write(decide)


async def fill(store: Store, seed: int, records: int = 60) -> int:
    """A tree of rows, and containers with records of every kind, some replaced or removed. The last id, which no row has."""
    chance = random.Random(seed)
    parents = [0]
    for _ in range(8):
        id = await new_id(store)
        name = f"{chance.choice(NAMES)}{id}" if id > 1 else ""
        parent = chance.choice(parents)
        await change(store, PutRow(CatalogRow(id, parent, name, chance.choice(BYTES))))
        if chance.random() < 0.6:
            parents.append(id)
    gone = await new_id(store)
    await change(store, PutRow(CatalogRow(gone, 0, "gone", b"")))
    await change(store, DropRow(gone))
    containers = [row.id for row in await catalogue(store)][::2]
    for number in range(records):
        await _write(store, chance.choice(containers), number, chance)
    await change(store, SetNumber(MARK, MARKED))
    return gone


async def _write(store: Store, container: int, number: int, chance: random.Random) -> None:
    key, partition = chance.choice(BYTES) + b"%d" % number, chance.choice(BYTES)

    def insert() -> Decision[Record]:
        lsn, seq = yield from ask(Allocate(container, True))
        record = draft(lsn, seq)
        return Outcome(
            (Put(container, record, True, chance.choice((None, (), entries)) if seq % 3 else entries),), record
        )

    def draft(lsn: int, seq: int) -> Record:
        value = chance.choice(BYTES) * chance.choice((1, 1, 400))
        written, anchor = chance.randrange(1 << 60), chance.choice(ANCHORS)
        return Record(partition, key, value, written, anchor, chance.choice(OVERRIDES), lsn, seq, chance.choice(DATES))

    def replace() -> Decision[Any]:
        lsn, _ = yield from ask(Allocate(container, False))
        return Outcome((Put(container, draft(lsn, record.seq), False, None),), None)

    def remove() -> Decision[Any]:
        yield from ask(Allocate(container, False))
        return Outcome((Delete(container, record),), None)

    entries = tuple({Entry(chance.randrange(3), chance.choice(BYTES) + b"%d" % number) for _ in range(3)})
    record = (await store.write(insert)).reply
    after = chance.random()
    if after < 0.4:
        await store.write(replace if after < 0.2 else remove)
