"""The asynchronous engine: clients at once, the real writer, the reaper's own loop, walks of the clock, restarts of a file."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TypeVar
from unittest.mock import patch

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine import reaper as reaping
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.clock_mover import ClockMover, SweepMode
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.engine.scans import Scope
from mayflydb.expiry.sweep import Limits, PurgeRequest
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.model.errors import Conflict, MayflyError, NotFound, Unavailable
from mayflydb.model.order import Order
from mayflydb.model.record import Expiry
from mayflydb.store.interface import Count, Expiries, NextDue, Read
from mayflydb.store.sqlite.store import SqliteStore
from reliability.model.world import START, death_in, facts
from reliability.oracle import MICROS, Box, Life, Verb, Who, Wish
from store_suite.reference import ReferenceStore

T = TypeVar("T")
CLIENTS, KEYS = 8, 4
OWN = (None, None, -1, 1, 2, 5)
TTLS = (None, -1, 1, 2, 3, 10)
FLOOR = 20_000


class Crowd:
    """Clients that each own some keys, so that what each must be answered is known although all run at once."""

    def __init__(self, seed: int, path: str | None) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.box = Box(2)
        self.steps = 0
        self.dead: dict[int, Life] = {}
        self.tally: Counter[str] = Counter()
        self._event = 0
        self._rules_before: list[Box] = [self.box]

    async def open(self, instant: int) -> None:
        self.store = await SqliteStore.open(self.path)
        self.clock = VirtualClock(instant)
        self.engine: Engine = await open_engine(self.store, self.clock, 0)
        self.engine.reaper._sweeper.limits = Limits(self.random.choice((1, 2, 5, 1000)), None)
        self.clock_mover = ClockMover(self.engine, self.clock)
        self.reaper = asyncio.create_task(self.engine.reaper.run())

    async def begin(self) -> None:
        await self.open(START)
        space = await self.engine.definitions.space("cosmos", START)
        definition = Definition({}, START, rules=rules_of(self.box.ttl))
        self.id = (await self.engine.definitions.create(space.id, "c", definition)).id

    async def end(self) -> None:
        self.reaper.cancel()
        with suppress(asyncio.CancelledError):
            await self.reaper
        await self.store.close()

    async def node(self) -> Node:
        node = await self.engine.node_by_id(self.id)
        assert node is not None
        return node

    async def client(self, number: int) -> None:
        """A few operations on its own keys, one after the other."""
        for _ in range(self.random.randint(1, 4)):
            who = b"p%d" % (number % 3), b"%d-%d" % (number, self.random.randrange(KEYS))
            self.steps += 1
            if self.random.random() < 0.4:
                await self.read(who)
            else:
                await self.write(who)

    async def read(self, who: Who) -> None:
        now = await self.engine.now()
        record = await self.engine.get(await self.node(), *who, now)
        seen = self.box.seen(who, now)
        assert (None if record is None else facts(record)) == seen, f"{record} at {now}, and there is {seen}"

    async def write(self, who: Who) -> None:
        verbs: tuple[Verb, ...] = ("create", "upsert", "upsert", "upsert", "replace", "delete")
        wish = Wish(self.random.choice(verbs), who, b"v%d" % self.steps, self.random.choice(OWN))
        now = await self.engine.now()
        verdict = self.box.judge(wish, now)
        command = Command(Mode(wish.verb), *who, None if wish.verb == "delete" else Draft(wish.value, wish.own))
        try:
            written = await self.engine.write(self.id, command, now)
        except MayflyError as error:
            assert type(error).__name__ == verdict.refusal, f"{wish} at {now}: {error!r}, not {verdict.refusal}"  # noqa: PT017
            return
        assert verdict.refusal is None, f"{wish} at {now} was accepted, not {verdict.refusal}"
        assert written.created == (verdict.seen is None and wish.verb != "delete")
        for life in verdict.buried:
            self.dead[life.lsn] = life
        self.box.apply(wish, verdict, now, written.record.lsn, written.record.seq)

    async def settle(self) -> None:
        """Take note of who was purged meanwhile. Each of them must have been dead under a rule of this round."""
        events: list[Expiry] = await self.store.read(Expiries(self.id, self._event, 10_000))
        for event in events:
            self._event = event.id
            self.tally[event.how] += 1
            life = self.dead.pop(event.version, None) or self._purged(event)
            deaths = {
                box.obituary(life, event.purged, event.how)
                for box in self._rules_before
                if box.dead(life, event.purged)
            }
            assert death_in(event) in deaths, f"{event}, and it should be one of {deaths}"
        replaced = [life for life in self.dead.values() if self.box.lives.get(life.who) is not life]
        assert not replaced, f"dead, replaced and without an event: {replaced}"
        self._rules_before = [self._with_rule()]

    def _purged(self, event: Expiry) -> Life:
        life = self.box.lives[event.partition, event.key]
        assert life.lsn == event.version, f"{event} is not about {life}"
        del self.box.lives[life.who]
        return life

    def _with_rule(self) -> Box:
        return Box(self.box.ttl, {}, self.box.version, self.box.rule_version)

    async def rule(self) -> None:
        ttl = self.random.choice(TTLS)
        rules = rules_of(ttl)
        await self.engine.definitions.replace(self.id, lambda node: Definition({}, START, rules=rules), START)
        self.box.set_ttl(ttl)
        self._rules_before.append(self._with_rule())

    async def time(self) -> None:
        """A walk on, to a deadline or anywhere, with each way of purging; or a clock that runs by itself."""
        mode: SweepMode = self.random.choice(("scheduled", "now", "none"))
        before = await self.engine.now()
        span = self.random.choice((1, MICROS // 2, MICROS, 3 * MICROS))
        deaths = [
            death for life in self.box.lives.values() if (death := self.box.death(life)) is not None and death > before
        ]
        if deaths and self.random.random() < 0.5:
            span = max(0, min(deaths) - before + self.random.choice((-1, 0, 1)))
        stored = (await self.store.read(Count(self.id))).records
        advanced = await self.clock_mover.advance(span, [await self.node()], mode)
        assert advanced.now == before + span
        left = (await self.store.read(Count(self.id))).records
        assert sum(advanced.purged.values()) == stored - left
        if mode != "none":
            assert left == sum(not self.box.dead(life, advanced.now) for life in self.box.lives.values())
        await self.settle()
        await self.everything(advanced.now)

    async def everything(self, now: int) -> None:
        """All that a scan shows is what must be visible."""
        found = [
            record
            async for batch in self.engine.scan(await self.node(), Scope(order=Order.CREATED), None, now, 3)
            for record in batch.records
        ]
        assert {life.who: life for life in map(facts, found)} == {life.who: life for life in self.box.alive(now)}

    async def round(self) -> None:
        outcomes = await asyncio.gather(*(self.client(number) for number in range(CLIENTS)), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self.settle()
        await self.random.choice((self.time, self.time, self.time, self.rule))()

    async def restart(self) -> None:
        now = await self.engine.now()
        await self.end()
        await self.open(now)
        await self.settle()
        await self.everything(await self.engine.now())


async def crowd(seed: int, path: str | None, steps: int) -> Crowd:
    people = Crowd(seed, path)
    await people.begin()
    try:
        while people.steps < steps:
            await people.round()
            if path is not None and people.random.random() < 0.02:
                await people.restart()
        await people.clock_mover.advance(100 * MICROS, [await people.node()], "now")
        await people.settle()
        due = people.box.due(people.clock.now())
        assert due == 0, f"{due} records are still due at the end"
    finally:
        await people.end()
    return people


@pytest.mark.parametrize(("file", "steps"), [(False, 14_000), (True, 6_000)], ids=["memory", "file"])
def test_clients_at_once_agree_with_the_oracle(
    file: bool, steps: int, seed: int, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    began = monotonic()
    people = asyncio.run(crowd(seed, str(tmp_path / "store.db") if file else None, steps))
    assert people.tally["sweep"] > steps // 100 and people.tally["replaced"] > 0, people.tally
    figure(f"{people.steps} steps, {people.steps / (monotonic() - began):.0f}/s, {dict(people.tally)}")


def test_a_late_write_does_not_revive_what_a_reader_was_told_is_gone() -> None:
    """A request reads the time, waits, and reaches the writer after somebody else has been told that the record is gone."""

    async def check() -> None:
        clock = VirtualClock(START)
        engine = await open_engine(ReferenceStore(), clock)
        space = await engine.definitions.space("cosmos", START)
        node = await engine.definitions.create(space.id, "c", Definition({}, START, rules=rules_of(1)))
        await engine.write(node.id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), await engine.now())
        early = await engine.now()
        clock.set(START + MICROS)
        assert await engine.get(node, b"p", b"k", await engine.now()) is None
        with pytest.raises(NotFound):
            await engine.write(node.id, Command(Mode.REPLACE, b"p", b"k", Draft(b"w")), early)
        assert await engine.get(node, b"p", b"k", await engine.now()) is None

    asyncio.run(check())


def test_a_refusal_waits_for_the_commit_that_it_rests_on() -> None:
    """Two creates of one key in one group: the second is refused because of the first, and told so only after its commit."""

    async def check() -> None:
        store = await SqliteStore.open(None)
        engine = await open_engine(store, VirtualClock(START))
        space = await engine.definitions.space("cosmos", START)
        node = await engine.definitions.create(space.id, "c", Definition({}, START))
        told: list[str] = []
        execute_commit = store._writer._execute_commit

        def commit() -> None:
            assert not told, f"{told} before the commit"
            execute_commit()

        async def create() -> None:
            try:
                await engine.write(node.id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), START)
                told.append("created")
            except Conflict:
                told.append("conflict")

        async def slow(work: Callable[[], None]) -> None:
            # As a real disk does, the commit takes a while.
            for _ in range(5):
                await asyncio.sleep(0)
            work()

        with (
            patch.object(store._writer, "_execute_commit", commit),
            patch.object(store._writer, "_run_on_thread", slow),
        ):
            await asyncio.gather(create(), create())
        assert sorted(told) == ["conflict", "created"]
        await store.close()

    asyncio.run(check())


class Stumbling(ReferenceStore):
    """A store that cannot read deadlines for a while."""

    failing = False

    async def read(self, request: Read[T]) -> T:
        if self.failing and isinstance(request, NextDue):
            raise Unavailable("the store could not read")
        return await super().read(request)


def test_a_read_that_fails_does_not_make_the_reaper_forget() -> None:
    async def check() -> None:
        store = Stumbling()
        engine = await open_engine(store, VirtualClock(START))
        space = await engine.definitions.space("cosmos", START)
        node = await engine.definitions.create(space.id, "c", Definition({}, START, rules=rules_of(1)))
        await engine.write(node.id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), START)
        engine = await open_engine(store, VirtualClock(START + MICROS))
        store.failing = True
        with pytest.raises(Unavailable):
            await engine.reaper.sweep_due(PurgeRequest(START + MICROS, START + MICROS, "sweep"))
        store.failing = False
        assert (await engine.reaper.sweep_due(PurgeRequest(START + MICROS, START + MICROS, "sweep")))[node.id] == 1

    asyncio.run(check())


def test_the_reaper_purges_by_itself_when_time_runs() -> None:
    """Without anybody asking: the loop wakes at the next deadline, and the backlog goes to nothing."""

    async def check() -> None:
        ticks = 0
        clock = VirtualClock(START, lambda: ticks)
        engine = await open_engine(ReferenceStore(), clock, 0)
        space = await engine.definitions.space("cosmos", START)
        node = await engine.definitions.create(space.id, "c", Definition({}, START, rules=rules_of(5)))
        with patch.object(reaping, "LONGEST_SLEEP", 0):
            clock.resume()
            task = asyncio.create_task(engine.reaper.run())
            for key in range(2500):
                await engine.write(node.id, Command(Mode.CREATE, b"p", b"%d" % key, Draft(b"v")), START)
            for ticks in (5 * MICROS - 1, 5 * MICROS):
                for _ in range(100):
                    await asyncio.sleep(0)
                left = (await engine.store.read(Count(node.id))).records
                assert left == (2500 if ticks < 5 * MICROS else 0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(check())
