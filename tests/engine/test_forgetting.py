"""The reaper forgets what containers need not remember any more, by itself, however much it is."""

from __future__ import annotations

import asyncio

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.history import FORGET_BATCH
from mayflydb.engine.open import open_engine
from mayflydb.model.instant import HOUR, MINUTE
from mayflydb.model.record import Kind
from mayflydb.store.interface import History
from mayflydb.store.sqlite.store import SqliteStore

PATIENCE = 30.0
VERSIONS = FORGET_BATCH * 2 + 10


@pytest.mark.parametrize(("history", "at"), [(10 * MINUTE, 10 * MINUTE), (0, 0)])
def test_the_reaper_forgets(history: int, at: int) -> None:
    """`history`: what the container is told in the end; until then it remembers for ten minutes."""

    async def check() -> None:
        store, clock = await SqliteStore.open(None), VirtualClock(HOUR)
        engine = await open_engine(store, clock)
        space = await engine.definitions.space("cosmos", HOUR)
        made = await engine.definitions.create(space.id, "c", Definition({}, HOUR, history=10 * MINUTE))
        upsert = Command(Mode.UPSERT, b"p", b"k", Draft(b"v"))
        for _ in range(VERSIONS):
            await engine.write(made.id, upsert, HOUR)
        await engine.definitions.replace(made.id, lambda node: Definition({}, HOUR, history=history), HOUR)
        clock.set(HOUR + at)
        reaping = asyncio.create_task(engine.reaper.run())
        async with asyncio.timeout(PATIENCE):
            while len(told := await store.read(History(made.id, 0, 9))) > 1:
                assert not reaping.done()
                await asyncio.sleep(0)
        assert [version.kind for version in told] == [Kind.GAP]
        reaping.cancel()
        await asyncio.wait({reaping})
        await store.close()

    asyncio.run(check())
