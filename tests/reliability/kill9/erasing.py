"""A process in which secrets expire, with the erasure log and secure erase, until it is killed. Its argument is a file."""

from __future__ import annotations

import asyncio
import sys
from os import urandom

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.lifecycle.scrubbing import Scrubber
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.store.sqlite.store import SqliteStore

START = 1_000 * SECOND


async def write_lines(log: ErasureLog) -> None:
    """As its loop does, without pauses."""
    while True:
        await log.catch_up()
        await asyncio.sleep(0)


async def run(path: str) -> None:
    store = await SqliteStore.open(path, secure=True)
    clock = VirtualClock(START)
    engine = await open_engine(store, clock)
    clock.set(max(START, await engine.now()) + SECOND)
    engine.erasure_log.turn_on(urandom)
    logging = asyncio.create_task(write_lines(engine.erasure_log))
    scrubber = Scrubber(store, engine.reaper.notifier, engine.erasure_log, store.scrub)
    space = await engine.definitions.space("site", clock.now())
    rules = (Rule("default", None, overrides=True, hides=True),)
    name = f"it{clock.now()}"
    it = (await engine.definitions.create(space.id, name, Definition({}, clock.now(), rules=rules))).id
    for turn in range(10_000):
        commands = [
            Command(Mode.CREATE, b"p%08d" % (n % 7), b"%d %d" % (turn, n), Draft(b"secret %d;" % n * (1 + n * 9), 1))
            for n in range(20)
        ]
        await engine.write_all(it, commands, clock.now())
        clock.set(clock.now() + 2 * SECOND)
        await engine.reaper.sweep_due(PurgeRequest(clock.now(), clock.now(), "sweep"))
        if turn % 3 == 0:
            await scrubber.scrub_now()
        assert not logging.done(), logging
        print(turn, flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
