"""A process that is killed in the middle of a release: the next one ends it, and each expiry has exactly one event."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.open import open_engine
from mayflydb.model.instant import HOUR
from mayflydb.store.interface import Expiries
from mayflydb.store.sqlite import SqliteStore

RECORDS = 60

PROCESS = f"""
import asyncio, sys
from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.open import open_engine
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import HOUR
from mayflydb.store.sqlite import SqliteStore


class Language:
    def record_reader(self, container):
        return lambda record: record.value

    def compile_condition(self, container, text):
        return lambda value: text.encode() in value


async def work():
    clock = VirtualClock(HOUR)
    engine = await open_engine(await SqliteStore.open(sys.argv[1]), clock)
    engine.nodes.hold_filters.use({{"site": Language()}})
    space = await engine.definitions.space("site", HOUR)
    container = await engine.definitions.create(space.id, "c", Definition({{}}, HOUR, rules=(default_rule(1),)))
    await engine.holds.add(container.id, "site:c", LegalHold(0, "h", "site", "a case", "Ada", HOUR, "key"))
    for number in range({RECORDS}):
        draft = Draft(b"key" if number % 2 else b"other")
        await engine.write(container.id, Command(Mode.CREATE, b"p", b"%d" % number, draft), HOUR)
    clock.set(2 * HOUR)
    await engine.reaper.sweep_due(PurgeRequest(2 * HOUR, 2 * HOUR, "sweep"))
    releases = engine.holds.releases
    releases._batch = 1
    count = releases._count
    releases._count = lambda name, step: (count(name, step), print(container.id, flush=True))
    await engine.holds.release("h", "site:c", "over", "Bob", 2 * HOUR)
    await releases.wait("h", None)


asyncio.run(work())
"""


@pytest.mark.parametrize("batches", [1, 2, 17, RECORDS // 2])
def test_a_killed_release_is_ended_at_the_next_start(tmp_path: Path, batches: int) -> None:
    file = str(tmp_path / "store.db")
    process = subprocess.Popen([sys.executable, "-c", PROCESS, file], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(batches)]
        process.kill()
        process.wait()
    container = int(lines[-1])

    async def work() -> None:
        engine = await open_engine(await SqliteStore.open(file), VirtualClock(3 * HOUR))
        events = await engine.store.read(Expiries(container, 0, 1000))
        left = RECORDS - len(events)
        node = await engine.node_by_id(container)
        assert node is not None
        # Each batch took the version and wrote its event, or neither.
        assert await engine.holds.count_preserved(node) == left <= RECORDS // 2 - batches + 1
        await engine.holds.releases.resume()
        await engine.holds.releases.wait("h", None)
        assert await engine.holds.count_preserved(node) == 0
        events = await engine.store.read(Expiries(container, 0, 1000))
        assert len(events) == len({event.key for event in events}) == RECORDS
        engine.evaluators.close()
        await engine.store.close()

    asyncio.run(work())
