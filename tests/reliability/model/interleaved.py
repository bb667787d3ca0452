"""Rows that are removed by runs while transactions read and change them, in every order that chance comes upon.

Whoever works here is a coroutine that stops before each request to the store; a scheduler lets one of them go on at a time. What
is committed, and who has died, is followed by a plain dictionary, so that after each step everybody can be held to it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from mayflydb.clock import VirtualClock
from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Definition, Index
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.dates import with_slot
from mayflydb.engine.open import open_engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.passes import following
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import Limits, PurgeRequest
from mayflydb.model.errors import WriteConflict
from mayflydb.model.instant import MINUTE, SECOND
from mayflydb.model.order import FIRST_ORDERED, KeyRange, Order
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Committed, Decision, Expiries, Read, Scan, ScanIndex
from reliability.model.stores import Direct, Turn, finish

START = 1_000 * MINUTE
AFTER = 10
"""Seconds from a row's date to its deadline."""

KEYS = tuple(b"%02d" % n for n in range(12))
ALL = KeyRange(b"", b"\xff" * 9)
PARTITION = b"p" * 8


class Row(msgspec.Struct, frozen=True):
    """A row: how often it was counted up, and its date in microseconds."""

    count: int
    at: int | None


def value_of(row: Row) -> bytes:
    return msgspec.json.encode(row)


def row_of(record: Record) -> Row:
    return msgspec.json.decode(record.value, type=Row)


def keys_of(record: Record, index: Index) -> tuple[bytes, ...]:
    """Every row has one entry, by its count."""
    return (row_of(record).count.to_bytes(4, "big"),)


def _counted(at: int | None) -> Callable[[Row | None], Row]:
    """Counts a row up and gives it a date."""
    return lambda row: Row(row.count + 1 if row else 1, at)


class Worker:
    """A coroutine that goes on when it is told to, unless it waits for a future."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self.work = work
        self._waits: asyncio.Future[Any] | None = None

    @property
    def able(self) -> bool:
        """Whether it can go on."""
        return self._waits is None or self._waits.done()

    def step(self) -> bool:
        """Go on; whether that was its end."""
        try:
            self._waits = self.work.send(None)
        except StopIteration:
            return True
        return False


class Pausing:
    """A store before each of whose answers others may work."""

    def __init__(self, store: Direct) -> None:
        self.store = store
        self.description = store.description
        self.durable = store.durable

    @property
    def catalog_version(self) -> int:
        return self.store.catalog_version

    async def read(self, request: Read[Any]) -> Any:
        await Turn()
        return await self.store.read(request)

    async def write(self, decide: Callable[[], Decision[Any]], urgency: Any = "user") -> Committed[Any]:
        await Turn()
        return await self.store.write(decide, urgency)

    async def reset(self) -> None:
        await self.store.reset()

    async def close(self) -> None:
        await self.store.close()


class Interleaved:
    """One table, and those who work on it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = Direct()
        self.clock = VirtualClock(START)
        self.engine = finish(open_engine(Pausing(self.store), self.clock))
        self.engine.reaper._sweeper.limits = Limits(self.chance.choice((1, 2, 3, 100)), None)
        space = finish(self.engine.definitions.space("ydb", START))
        home = finish(self.engine.definitions.create(space.id, "local", Definition({}, START)))
        definition, self.slot = with_slot(Definition({}, START, indexes=(Index(FIRST_ORDERED, (), "ready"),)))
        self.index = definition.indexes[0]
        rule = Rule("column", AFTER, slot=self.slot, passes=True)
        schedule = following(None, MINUTE, START)
        definition = msgspec.structs.replace(definition, rules=(rule,), schedule=schedule)
        self.home = home.id
        self.id = finish(self.engine.definitions.create(home.id, "carts", definition)).id
        self.rows: dict[bytes, Row] = {}
        self.lsns: dict[bytes, int] = {}
        self.tally: Counter[str] = Counter()
        self.saved: Counter[bytes] = Counter()
        """What open transactions have written, as far as they have been told that they have."""
        self._event = 0
        self._run = START

    # --- those who work ----------------------------------------------------------------------------------------------

    async def counting(self) -> None:
        """Read some rows, change some; what was read must be so when it is committed."""
        snapshot = await self._begin()
        reads: list[tuple[Callable[[], object], object]] = []
        writes: dict[bytes, Row] = {}
        blindly: dict[bytes, int | None] = {}
        try:
            for _ in range(self.chance.randrange(1, 5)):
                await self._step(snapshot, reads, writes, blindly)
            written = await snapshot.commit(self.clock.now())
        except WriteConflict:
            self.tally["conflicts"] += 1
            return
        finally:
            snapshot.close()
            self.saved.subtract([*writes, *blindly])
        if written:
            self.tally["commits"] += 1
            for again, told in reads:
                assert again() == told, "what was read was not so when it was committed"
        for key, at in blindly.items():
            if key not in writes:
                self.rows[key] = Row(self.rows[key].count if key in self.rows else 0, at)
        self.rows |= writes
        self.lsns |= {each.record.key: each.record.lsn for each in written}

    async def _step(
        self,
        snapshot: Snapshot,
        reads: list[tuple[Callable[[], object], object]],
        writes: dict[bytes, Row],
        blindly: dict[bytes, int | None],
    ) -> None:
        key, at = self.chance.choice(KEYS), self._date()
        if (kind := self.chance.random()) < 0.3 and key not in writes:
            # From then on it is known what the row is, and so it is read before.
            await snapshot.run(self.id, self._put(key, lambda before: Row(before.count if before else 0, at)), True)
            self.saved[key] += key not in blindly
            blindly[key] = at
        elif kind < 0.5 and not (writes or blindly):
            lower = self.chance.randrange(4)
            within = KeyRange(lower.to_bytes(4, "big"), ALL.upper)
            found = [row async for row in self._walk(snapshot, within)]
            reads.append((lambda: sorted(k for k, row in self.rows.items() if row.count >= lower), sorted(found)))
        elif key not in blindly:
            record = await snapshot.get(self.id, PARTITION, key)
            before = None if record is None else row_of(record)
            if key not in writes:
                reads.append((lambda: self.rows.get(key), before))
            after = Row(before.count + 1 if before else 1, at)
            await snapshot.run(self.id, self._put(key, lambda _: after))
            self.saved[key] += key not in writes
            writes[key] = after

    async def owning(self) -> None:
        """Change some rows with exclusive locks: what was written is committed, whoever else comes."""
        snapshot = await Snapshot.begin(self.engine, self.clock.now(), [self.home], exclusive=True)
        writes: dict[bytes, Row] = {}
        before: dict[bytes, Row | None] = {}
        committing = False
        try:
            for _ in range(self.chance.randrange(1, 6)):
                key, at = self.chance.choice(KEYS), self._date()
                record = await snapshot.get(self.id, PARTITION, key)
                was = None if record is None else row_of(record)
                await snapshot.run(self.id, self._put(key, _counted(at)))
                self.saved[key] += key not in writes
                before.setdefault(key, was)
                writes[key] = _counted(at)(was)
            committing = self.chance.random() < 0.7
            written = await snapshot.commit(self.clock.now()) if committing else []
        except WriteConflict:
            assert not committing, "what it has written was not its own"
            self.tally["refusals"] += 1
            return
        finally:
            snapshot.close()
            self.saved.subtract(writes.keys())
        if not committing:
            return
        assert all(self.rows.get(key) == row for key, row in before.items()), "others have changed its rows"
        self.rows |= writes
        self.lsns |= {each.record.key: each.record.lsn for each in written}
        self.tally["owned"] += 1

    async def plainly(self) -> None:
        """Change a row without a transaction."""
        key, at = self.chance.choice(KEYS), self._date()
        command = self._put(key, _counted(at))
        waited = self.engine.locks.conflicts
        written = await self.engine.write(self.id, command, self.clock.now())
        self.rows[key] = row_of(written.record)
        self.lsns[key] = written.record.lsn
        self.tally["plain"] += 1
        self.tally["waits"] += self.engine.locks.conflicts > waited

    def _put(self, key: bytes, change: Callable[[Row | None], Row]) -> Command:
        def merge(before: Record | None) -> Draft:
            row = change(None if before is None else row_of(before))
            dates = () if row.at is None else ((self.slot, row.at),)
            value = value_of(row)

            def indexed(indexes: Any) -> tuple[Entry, ...]:
                return tuple(entry(each, row.count.to_bytes(4, "big"), PARTITION) for each in indexes)

            return Draft(value, dates=dates, indexed=indexed)

        return Command(Mode.UPSERT, PARTITION, key, merge)

    async def looking(self) -> None:
        """Read everything, twice: what was there at the beginning."""
        snapshot = await self._begin()
        rows = dict(self.rows)
        try:
            for _ in range(2):
                found = [key async for key in self._walk(snapshot, ALL)]
                assert sorted(found) == sorted(rows), "not what was there at the beginning"
            for key in self.chance.sample(KEYS, 3):
                record = await snapshot.get(self.id, PARTITION, key)
                assert (None if record is None else row_of(record)) == rows.get(key)
            self.tally["looks"] += 1
        finally:
            snapshot.close()

    async def _walk(self, snapshot: Snapshot, within: KeyRange) -> Any:
        batch, descending = self.chance.randrange(1, 4), self.chance.random() < 0.5
        async for stretch in snapshot.walk(self.id, self.index, within, descending, keys_of, batch):
            for key, record in stretch:
                assert key == row_of(record).count.to_bytes(4, "big")
                yield record.key

    async def running(self) -> None:
        """Time goes on to the next run, which is made."""
        self._run = self.clock.now() + MINUTE
        self.clock.set(self._run)
        await self.engine.reaper.sweep_due(PurgeRequest(self._run, self._run, "sweep"))
        self.tally["runs"] += 1

    async def _begin(self) -> Snapshot:
        return await Snapshot.begin(self.engine, self.clock.now(), [self.home], serializable=True)

    def _date(self) -> int | None:
        if self.chance.random() < 0.15:
            return None
        return self.clock.now() - AFTER * SECOND + self.chance.randrange(-60, 90) * SECOND

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def steps(self, many: int) -> None:
        """Let chance decide who goes on, so often. AssertionError if something is as it must not be."""
        loop = asyncio.new_event_loop()
        asyncio._set_running_loop(loop)  # Futures want one, although nobody runs in it.
        working: list[Worker] = []
        runs: list[Worker] = []
        try:
            for _ in range(many):
                if len(working) < 6:
                    working.append(Worker(self.chance.choices(*self._workers)[0]()))
                if not runs and self.chance.random() < 0.06:
                    runs.append(Worker(self.running()))
                able = [each for each in [*working, *runs, *runs] if each.able]
                assert able, "all wait for one another"
                each = self.chance.choice(able)
                if each.step():
                    (runs if each in runs else working).remove(each)
                self._deaths()
        finally:
            for left in [*working, *runs]:
                left.work.close()
            asyncio._set_running_loop(None)
            loop.close()
        self._check_stored()

    @property
    def _workers(self) -> tuple[list[Callable[[], Coroutine[Any, Any, None]]], list[int]]:
        """Who comes, and how often."""
        return [self.counting, self.looking, self.owning, self.plainly], [6, 2, 4, 6]

    def _deaths(self) -> None:
        for event in finish(self.store.read(Expiries(self.id, self._event, 1000))):
            self._event = event.id
            row = self.rows.pop(event.key, None)
            assert self.saved[event.key] <= 0, f"{event.key!r} died, although an open transaction has written it"
            assert row is not None, f"{event.key!r} died and was not there"
            assert row.at is not None, f"{event.key!r} died and has no date"
            assert row.at + AFTER * SECOND == event.deadline <= self._run, f"{event.key!r} died too early"
            assert self.lsns.pop(event.key) == event.version, "another version than the one that is there has died"
            self.tally["deaths"] += 1

    def _check_stored(self) -> None:
        stored = finish(self.store.read(Scan(self.id, b"", None, Order.CREATED, None, 1000)))
        assert {record.key: row_of(record) for record in stored} == self.rows
        walked = finish(self.store.read(ScanIndex(self.id, self.index.number, ALL, False, None, 1000)))
        assert sorted(record.key for _, record in walked) == sorted(self.rows), "entries without rows, or the reverse"
