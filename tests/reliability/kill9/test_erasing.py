"""Killed between an expiry and its line, or amid secure erase: no line is lost or doubled, and no secret stays."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from mayflydb.clock import VirtualClock
from mayflydb.engine.lifecycle.scrubbing import Scrubber
from mayflydb.engine.open import open_engine
from mayflydb.expiry.erasure_chain import Verifier
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.store.interface import Expiries
from mayflydb.store.sqlite.store import SqliteStore
from reliability.kill9 import erasing

KILLS = 3


def run_until_killed(path: Path, turns: int) -> None:
    with subprocess.Popen([sys.executable, erasing.__file__, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(turns)]
        process.kill()
    assert lines[-1].strip() == b"%d" % (turns - 1)


def test_lines_and_secrets_after_kills(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "store.db"
    for _ in range(KILLS):
        run_until_killed(path, chance.randint(1, 12))

    async def look() -> None:
        store = await SqliteStore.open(str(path), secure=True)
        engine = await open_engine(store, VirtualClock(erasing.START))
        log = engine.erasure_log
        log.turn_on(bytes)
        # Of the process before, what was due is purged with its events; what was not yet due is left, and dies now.
        await engine.reaper.sweep_due(PurgeRequest(10**12, 10**12, "sweep"))
        await log.catch_up()
        assert await Scrubber(store, engine.reaper.notifier, log, store.scrub).scrub_now()
        verifier, place, logged = Verifier(), 0, []
        while segments := await log.segments(place):
            place = segments[-1].place
            logged += [verifier.add(line) for segment in segments for line in segment.lines]
        verifier.finish((await log.progress()).head)
        events = [event.id for event in await store.read(Expiries(None, 0, 10**6))]
        assert [line.event for line in logged if line.kind == "erased"] == events
        assert events and sum(line.kind == "start" for line in logged) == 1
        await store.close()

    asyncio.run(look())
    found = {each.name: each.read_bytes().count(b"secret ") for each in tmp_path.iterdir()}
    assert set(found.values()) == {0}
