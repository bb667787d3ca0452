"""Purges backlogs: prints a ready document, and for each line of input the processor time of a purged record, in microseconds.

python backlog.py PATH COUNT [log] [secure]

It runs on other versions too, so it uses little of Mayfly. `log`: each expiry gets a line of the erasure log, which is a part of
the time. `secure`: secure erase is on, and its work is a part of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from time import process_time
from typing import Any

from filling import load, many
from signed import item

from mayflydb.clock import SystemClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import HOUR
from mayflydb.serving.process import loop_factory
from mayflydb.store.sqlite import SqliteStore

BYTES = 1024


async def serve(path: str, count: int, options: list[str]) -> None:
    """Until the input ends."""
    # Other versions know no secure erase.
    secure: dict[str, Any] = {"secure": True} if "secure" in options else {}
    store = await SqliteStore.open(path, **secure)
    engine = await open_engine(store, SystemClock())
    logs: list[Any] = []
    if "log" in options:
        engine.erasure_log.turn_on(os.urandom)
        logs.append(engine.erasure_log)
    scrub = store.scrub if "secure" in options else None
    now = await engine.now()
    space = await engine.definitions.space("cosmos", now)
    rule = Rule("default", 3600, overrides=True, hides=True)
    database = await engine.definitions.create(space.id, "d", Definition({}, now))
    container = await engine.definitions.create(database.id, "c", Definition({}, now, rules=(rule,)))
    print(json.dumps({"pid": os.getpid(), "port": 0}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        now = await engine.now()
        await load(store, container.id, many(count, item("n", BYTES), now - 3 * HOUR, 20))
        engine.reaper.invalidate(container.id)
        # What the load leaves for later is no part of a purge.
        await asyncio.sleep(0.3)
        began = process_time()
        purged = await engine.reaper.sweep_due(PurgeRequest(now, now, "bench"))
        for log in logs:
            await log.catch_up()
        if scrub is not None:
            await scrub(True)
        # The store works on after its answer: the directory of identities, its own log.
        await asyncio.sleep(0.3)
        used = process_time() - began
        if purged[container.id] != count:
            raise RuntimeError(f"{purged[container.id]} of {count} records were purged")
        print(json.dumps(used / count * 1e6), flush=True)
    await store.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
