"""The same random operations on the reference and on SQLite: whatever is asked, both must answer alike.

A failure prints its seed; run again with SEED=… (and STEPS=… for longer runs).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from mayflydb.model.due import DuePath, Path
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Identity, KeyRange, Order, Position
from mayflydb.model.record import IGNORED, NEVER, Entry, Expiry, Kind, Record, Version
from mayflydb.store import interface
from mayflydb.store.interface import (
    AddVersion,
    Allocate,
    CatalogRow,
    Change,
    ChildRows,
    ClearDropped,
    CompetingRule,
    Count,
    CountDue,
    Decision,
    Delete,
    DroppedContainers,
    DropRow,
    Due,
    Entries,
    EntryOwners,
    Expiries,
    Fetch,
    FetchRange,
    FindRow,
    Get,
    History,
    LastExpiry,
    LoadRow,
    NamedNumber,
    NewId,
    NextDue,
    Outcome,
    Purge,
    Put,
    PutRow,
    Read,
    RemoveEntries,
    ReplaceEntries,
    Scan,
    SeekIndex,
    SetNumber,
    Store,
    TrimEvents,
    TrimHistory,
    ask,
)
from mayflydb.store.sqlite.store import SqliteStore
from store_suite.contract import Contract, Mirror
from store_suite.reference import ReferenceStore
from store_suite.subject import dated

BYTES = (b"", b"\x00", b"a", b"a\x00", b"b", b"\xff", b"\xff\xff")
INSTANTS: tuple[int, ...] = (*range(-3, 12), 5 * SECOND, 2**53, 2**62, 2**62 + 1, -(2**62) - 1, 2**70, -(2**70))
OVERRIDES = (None, None, NEVER, IGNORED, 1, 2, 5, 2**31 - 1)
VALUES = (b"", b"v", b"x" * 300, bytes(400_000), bytes(1 << 20))
DATES = ((), (), ((18, 3),), ((18, 2**62 + 5), (19, 5)), ((19, -(2**70)),), ((18, 1), (19, 1)))
PATHS: tuple[Path, ...] = (*DuePath, 18, 19)
SPANS = (0, 1, 3 * SECOND, 2**32 * SECOND)
NAMES = ("a", "b", "c", "d")


class Walk:
    """A random walk over everything that a store can be asked."""

    def __init__(self, store: Store, seed: str) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.containers: list[int] = []
        self.moves: list[tuple[Callable[[], Any], float]] = [
            (self.insert_or_replace, 30),
            (self.delete, 8),
            (self.rename, 5),
            (self.purge, 6),
            (self.refuse, 3),
            (self.create, 3),
            (self.redefine, 2),
            (self.drop, 1),
            (self.clear, 3),
            (self.link, 4),
            (self.unlink, 1),
            (self.settings, 2),
            (self.remember, 6),
            (self.forget, 2),
            (self.ask, 60),
            (self.reset, 0.05),
        ]

    async def run(self, steps: int) -> None:
        moves, weights = zip(*self.moves, strict=True)
        for _ in range(steps):
            await self.random.choices(moves, weights)[0]()

    # --- choices

    def container(self) -> int:
        return self.random.choice(self.containers or [1])

    def identity(self) -> tuple[bytes, bytes]:
        return self.random.choice(BYTES), self.random.choice(BYTES)

    def instant(self) -> int:
        return self.random.choice(INSTANTS)

    def entries(self) -> tuple[Entry, ...]:
        every = [Entry(index, key) for index in (0, 1, 16, 17) for key in (b"", b"x", b"\xff")]
        return tuple(self.random.sample(every, self.random.randrange(4)))

    # --- writes

    async def change(self, *changes: Change) -> None:
        def decide() -> Decision[None]:
            return Outcome(changes, None)
            yield

        await self.store.write(decide, self.random.choice(("user", "sweep")))

    async def insert_or_replace(self) -> None:
        container, (partition, key) = self.container(), self.identity()
        value, anchor = self.random.choice(VALUES), self.random.choice([None, *INSTANTS])
        override = self.random.choice(OVERRIDES)
        entries = self.random.choice([None, self.entries()])
        anew, dates = self.random.random() < 0.2, self.random.choice(DATES)

        def decide() -> Decision[Record]:
            before = yield from ask(Get(container, partition, key))
            lsn, seq = yield from ask(Allocate(container, before is None or anew))
            dead: tuple[Change, ...] = ()
            if before is not None and anew:
                died = before.anchor or 0
                event = Expiry(
                    0, container, partition, key, before.lsn, lsn, died, before.override, "item", 2, died, 9, "replaced"
                )
                lsn = (yield from ask(Allocate(container, False)))[0]
                dead = (Delete(container, before, event if before.anchor is not None else None),)
            insert = before is None or anew
            seq = before.seq if before is not None and not insert else seq
            record = Record(partition, key, value, lsn, anchor, override, lsn, seq, dates)
            owned = (*(entries or ()), *dated(dates)) if dates or (before and before.dates) else entries
            return Outcome((*dead, Put(container, record, insert, owned)), record)

        await self.tolerant(decide)

    async def tolerant(self, decide: Callable[[], Decision[Any]]) -> None:
        """A write that may be refused; that both refuse alike is checked by the mirror."""
        with suppress(MayflyError):
            await self.store.write(decide)

    async def delete(self) -> None:
        container, (partition, key) = self.container(), self.identity()

        def decide() -> Decision[bool]:
            record = yield from ask(Get(container, partition, key))
            return Outcome(() if record is None else (Delete(container, record),), record is not None)

        await self.store.write(decide)

    async def rename(self) -> None:
        """A record gets another key, and keeps its seq; whoever had that key is gone."""
        container, (partition, key) = self.container(), self.identity()
        other, entries = self.random.choice(BYTES), self.random.choice([None, self.entries()])

        def decide() -> Decision[bool]:
            before = yield from ask(Get(container, partition, key))
            holder = yield from ask(Get(container, partition, other))
            if before is None or key == other:
                return Outcome((), False)
            lsn, _ = yield from ask(Allocate(container, False))
            record = msgspec.structs.replace(before, key=other, written=lsn, lsn=lsn)
            gone = (Delete(container, each) for each in (holder, before) if each is not None)
            owned = (*(entries or ()), *dated(record.dates)) if record.dates else entries
            return Outcome((*gone, Put(container, record, True, owned)), True)

        await self.tolerant(decide)

    async def purge(self) -> None:
        container, path, upto = self.container(), self.random.choice(PATHS), self.instant()
        span = None if path is DuePath.DEADLINE else self.random.choice(SPANS)
        not_before = self.random.choice([None, 0, 7, 2**53])
        limit, history = self.random.choice([1, 2, 5, 100]), self.random.random() < 0.5
        competing = tuple(self.rule(other) for other in PATHS if other != path and self.random.random() < 0.3)
        spared = self.spared()

        def decide() -> Decision[bool]:
            if (yield from ask(LoadRow(container))) is None:
                return Outcome((), False)
            purge = Purge(container, path, upto, limit, span, not_before, "default", 1, 9, "sweep", history, competing)
            purge = msgspec.structs.replace(purge, spared=spared)
            return Outcome((purge,), True)

        await self.store.write(decide, "sweep")

    def spared(self) -> tuple[Identity, ...]:
        """Records that are left out, most often none."""
        many = self.random.choice((0, 0, 1, 5))
        return tuple(self.identity() for _ in range(many))

    def rule(self, path: Path) -> CompetingRule:
        span = None if path is DuePath.DEADLINE else self.random.choice(SPANS)
        return CompetingRule(path, span, self.random.choice([None, 0, 7, 2**53]), self.random.random() < 0.5)

    async def refuse(self) -> None:
        container = self.container()

        def decide() -> Decision[None]:
            yield Allocate(container, True)
            yield NewId()
            raise MayflyError("no")

        await self.tolerant(decide)

    async def create(self) -> None:
        parent = self.random.choice([0, *self.containers])
        name = self.random.choice(NAMES)

        def decide() -> Decision[int | None]:
            if (yield from ask(FindRow(parent, name))) is not None:
                return Outcome((), None)
            id = yield from ask(NewId())
            return Outcome((PutRow(CatalogRow(id, parent, name, b"new")),), id)

        id = (await self.store.write(decide)).reply
        if id is not None:
            self.containers.append(id)

    async def redefine(self) -> None:
        container, name, data = self.container(), self.random.choice(NAMES), self.random.randbytes(3)

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(container))
            if row is None or (yield from ask(FindRow(row.parent, name))) is not None:
                return Outcome((), False)
            return Outcome((PutRow(msgspec.structs.replace(row, name=name, data=data)),), True)

        await self.store.write(decide)

    async def drop(self) -> None:
        await self.change(DropRow(self.container()))

    async def clear(self) -> None:
        dropped = await self.store.read(DroppedContainers())
        if dropped:
            await self.change(
                ClearDropped(self.random.choice(dropped), self.random.choice([1, 3, 100]), self.random.random() < 0.8)
            )

    async def link(self) -> None:
        container, index = self.container(), self.random.choice((16, 17))
        identities = list({self.identity() for _ in range(self.random.randrange(1, 4))})
        keys = [tuple({self.random.choice(BYTES) for _ in range(self.random.randrange(4))}) for _ in identities]

        def decide() -> Decision[int]:
            found = []
            for identity, own in zip(identities, keys, strict=True):
                record = yield from ask(Get(container, *identity))
                if record is not None:
                    found.append((record, own))
            return Outcome((ReplaceEntries(container, index, tuple(found)),) if found else (), len(found))

        await self.store.write(decide, "sweep")

    async def unlink(self) -> None:
        container, index = self.container(), self.random.choice((16, 17))
        left = await self.store.read(SeekIndex(container, index, (KeyRange(b"", b"\xff\xff\xff"),), 100))
        # Which of them go first is the store's business.
        await self.change(RemoveEntries(container, index, 100 + len(left or ())))

    async def settings(self) -> None:
        await self.change(SetNumber(self.random.choice(NAMES), self.random.randrange(-5, 5)))
        last = await self.store.read(Expiries(None, 0, 1000))
        await self.change(TrimEvents(self.random.choice(last).id if last else 5, self.random.choice([1, 50])))

    async def remember(self) -> None:
        container, identity = self.container(), self.identity()
        kind, written = self.random.choice(list(Kind)), self.random.randrange(20)

        def decide() -> Decision[None]:
            lsn, _ = yield from ask(Allocate(container, False))
            if kind is Kind.GAP:
                return Outcome((AddVersion(container, Version(kind, lsn, written)),), None)
            previous = 0 if kind is Kind.CREATE else lsn - 1
            value = b"value" if kind in (Kind.CREATE, Kind.REPLACE) else b""
            return Outcome((AddVersion(container, Version(kind, lsn, written, *identity, 7, previous, value)),), None)

        told = await self.store.read(History(container, 0, 1))
        if told or kind in (Kind.CREATE, Kind.GAP):
            await self.tolerant(decide)

    async def forget(self) -> None:
        limit, upto_lsn = self.random.choice([1, 3, 100]), self.random.choice([0, self.random.randrange(40)])
        await self.change(TrimHistory(self.container(), self.random.randrange(-1, 20), limit, upto_lsn))

    async def reset(self) -> None:
        await self.store.reset()

    # --- reads

    def request(self) -> Read[Any]:
        container, path = self.container(), self.random.choice(PATHS)
        limit = self.random.choice([1, 2, 7, 100])
        after = self.random.choice([None, (self.instant(), self.random.randrange(30))])
        bounds = sorted(self.instant() for _ in range(self.random.randrange(4)))
        requests: list[Read[Any]] = [
            Get(container, *self.identity()),
            self.scan(container, limit),
            EntryOwners(container, self.entries()),
            Entries(container, self.random.randrange(40), limit),
            SeekIndex(container, self.random.choice((16, 17)), (self.key_range(), self.key_range()), limit),
            Fetch(container, tuple(sorted(self.random.sample(range(1, 40), self.random.randrange(9))))),
            FetchRange(container, self.random.choice((16, 17)), self.key_range(), limit),
            self.walk(container, limit),
            Due(container, path, self.instant(), after, limit),
            NextDue(container, path, self.random.choice([None, self.instant()]), self.spared()),
            CountDue(container, path, tuple(bounds)),
            Count(container, self.random.random() < 0.5),
            FindRow(self.random.choice([0, container]), self.random.choice(NAMES)),
            LoadRow(container),
            ChildRows(self.random.choice([0, container])),
            DroppedContainers(),
            LastExpiry(),
            Expiries(self.random.choice([None, container]), self.random.randrange(20), limit),
            History(container, self.random.choice([0, self.random.randrange(200)]), limit),
            NamedNumber(self.random.choice(NAMES)),
        ]
        return self.random.choice(requests)

    def key_range(self) -> KeyRange:
        return KeyRange(*sorted(self.random.choices((*BYTES, b"x", b"x\x00"), k=2)))

    def walk(self, container: int, limit: int) -> interface.ScanIndex:
        place = self.random.choice(BYTES), self.random.randrange(40)
        after = self.random.choice([None, place])
        descending = self.random.random() < 0.5
        return interface.ScanIndex(container, self.random.choice((16, 17)), self.key_range(), descending, after, limit)

    def scan(self, container: int, limit: int) -> Scan:
        lower, upper = sorted(self.random.choices(BYTES, k=2))
        position = Position(self.random.choice(BYTES), self.random.randrange(40))
        return Scan(
            container,
            lower,
            self.random.choice([None, upper, lower + b"\x00"]),
            self.random.choice(list(Order)),
            self.random.choice([None, position]),
            limit,
        )

    async def ask(self) -> None:
        """From outside, or several inside one decision."""
        requests = [self.request() for _ in range(self.random.choice([1, 1, 3]))]
        if self.random.random() < 0.5:
            for request in requests:
                await self.store.read(request)
            return

        def decide() -> Decision[None]:
            for request in requests:
                yield from ask(request)
            return Outcome((), None)

        await self.store.write(decide)


@pytest.mark.parametrize("round_", range(4))
def test_random_walk(round_: int) -> None:
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(1 << 32))
    steps = int(os.environ.get("STEPS") or "1500")
    print(f"SEED={seed} STEPS={steps}")

    async def walk() -> None:
        store = Mirror(Contract(ReferenceStore()), await SqliteStore.open(None))
        try:
            await Walk(store, f"{seed}/{round_}").run(steps)
        finally:
            await store.close()

    asyncio.run(walk())
