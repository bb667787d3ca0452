"""Expiry events are kept for a time and up to a number; a reader from before them gets an error, removed or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mayflydb.clock import SystemClock, VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_events import BATCH, EventLimits
from mayflydb.engine.history import HistoryLost
from mayflydb.engine.housekeeping import Retention
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import DAY, HOUR, SECOND, Instant
from mayflydb.model.record import Kind
from mayflydb.store.interface import Expiries, History
from mayflydb.store.sqlite.store import SqliteStore

START: Instant = 1000 * DAY
AGE = DAY


class Life:
    """Records that die one after the other, one an hour from START on."""

    def __init__(self, limits: EventLimits, history: int = 1_000_000, virtual: bool = True) -> None:
        self.retention = Retention(limits, history)
        self.time = START
        self.clock = VirtualClock(START) if virtual else SystemClock(None, lambda: self.time, lambda: self.time)
        self.engine: Engine

    async def begin(self, deaths: int) -> None:
        self.engine = await open_engine(await SqliteStore.open(None), self.clock, retention=self.retention)
        space = await self.engine.definitions.space("cosmos", START)
        rules = (Rule("default", 1, hides=True),)
        definition = Definition({}, START, rules=rules, history=365 * DAY)
        self.container = (await self.engine.definitions.create(space.id, "c", definition)).id
        for number in range(deaths):
            now = START + number * HOUR
            command = Command(Mode.CREATE, b"p", b"%d" % number, Draft(b"v", anchor=now - SECOND))
            await self.engine.write(self.container, command, now)
            await self.engine.reaper.sweep_due(PurgeRequest(now, now, "sweep"))

    async def read(self, after: int, now: Instant) -> list[int] | None:
        """The numbers of all events after a number; None if some are lost."""
        found: list[int] = []
        try:
            while events := await self.engine.expiries(after, 2, now):
                after = events[-1].id
                found += [event.id for event in events]
        except HistoryLost:
            return None
        return found

    async def tidy(self, now: Instant) -> None:
        housekeeping = self.engine.reaper._housekeeping
        housekeeping._forgotten_at = -(10**18)  # Otherwise it looks once a minute.
        while await housekeeping.forget_old(now):
            pass

    async def stored(self) -> list[int]:
        return [event.id for event in await self.engine.store.read(Expiries(None, 0, 9999))]


def run(life: Life, deaths: int, check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await life.begin(deaths)
        await check()
        await life.engine.store.close()

    asyncio.run(main())


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize(("number", "first"), [(6, 1), (5, 1), (4, 2), (1, 5)])
def test_the_last_ones_are_kept(number: int, first: int, tidy: bool) -> None:
    life = Life(EventLimits(number))

    async def check() -> None:
        now = START + 5 * HOUR
        if tidy:
            await life.tidy(now)
            assert await life.stored() == list(range(first, 6))
        for after in range(6):
            kept = list(range(after + 1, 6)) if after >= first - 1 else None
            assert await life.read(after, now) == kept, after

    run(life, 5, check)


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize(
    ("virtual", "limits", "ends"),
    [
        (False, EventLimits(age=AGE), True),
        (True, EventLimits(age=AGE), False),
        (True, EventLimits(virtual_age=AGE), True),
        (False, EventLimits(), False),
    ],
)
def test_young_ones_are_kept(virtual: bool, limits: EventLimits, ends: bool, tidy: bool) -> None:
    """By the time of the purge. A virtual clock has an age of its own, so that no test loses events by a leap."""
    life = Life(limits, virtual=virtual)

    async def check() -> None:
        for lost, now in ((0, AGE - 1), (1, AGE), (1, AGE + HOUR - 1), (2, AGE + HOUR), (3, AGE + 3 * HOUR)):
            lost = min(lost, 3) if ends else 0
            if tidy:
                await life.tidy(START + now)
                assert await life.stored() == list(range(lost + 1, 4))
            if lost < 3:
                assert await life.read(lost, START + now) == list(range(lost + 1, 4))
            if lost:
                assert await life.read(lost - 1, START + now) is None

    run(life, 3, check)


def test_the_reaper_trims_by_itself_in_batches() -> None:
    deaths = 2 * BATCH + 3
    life = Life(EventLimits(number=2))

    async def check() -> None:
        reaping = asyncio.create_task(life.engine.reaper.run())
        async with asyncio.timeout(30):
            while len(await life.stored()) > 2:
                assert not reaping.done()
                await asyncio.sleep(0)
        assert await life.stored() == [deaths - 1, deaths]
        reaping.cancel()
        await asyncio.wait({reaping})

    run(life, deaths, check)


def test_a_reset_begins_anew() -> None:
    life = Life(EventLimits(number=2))

    async def check() -> None:
        await life.tidy(START + DAY)
        assert await life.read(0, START) is None
        await life.engine.reset()
        assert await life.read(0, START) == []

    run(life, 4, check)


@pytest.mark.parametrize(("most", "gap"), [(8, None), (7, 1), (1, 7)])
def test_histories_keep_their_last_versions(most: int, gap: int | None) -> None:
    """Four lives are eight versions, each with the next lsn."""
    life = Life(EventLimits(), history=most)

    async def check() -> None:
        await life.tidy(START + 4 * HOUR)
        lines = await life.engine.store.read(History(life.container, 0, 99))
        first = 1 if gap is None else gap
        assert [line.lsn for line in lines] == list(range(first, 9))
        assert [line.lsn for line in lines if line.kind is Kind.GAP] == ([] if gap is None else [gap])

    run(life, 4, check)
