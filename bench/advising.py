"""Advice on a TTL: what a read takes longer while the ages of accesses are sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from time import process_time

from figures import Figure
from signed import PARTITION, item

from mayflydb.clock import SystemClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import default_rule
from mayflydb.serving.process import loop_factory
from mayflydb.store.sqlite import SqliteStore

STEP = 128
"""One in so many accesses is sampled, as by default."""

RECORDS, TIMES, ROUNDS = 100, 20, 301
SETTLING = 2_000
"""Reads of each record before: afterwards a container is sampled by the step alone."""


def advising(place: Path) -> Iterator[Figure]:
    """Point reads of the engine in this process, since those of a server take so long that the difference drowns in them."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        found = runner.run(_read(str(place / "advising.db")))
    for step, name in (
        (STEP, "sampling for the advice, each read"),
        (1, "the same, each of a container's first reads"),
    ):
        differences = [(one - other) * 1e3 for one, other in zip(found[step], found[0], strict=True)]
        low, value, high = quantiles(differences, n=4)
        sampled = f"one in {step} sampled" if step > 1 else "all sampled"
        how = (
            f"processor time of point reads in the engine, {sampled} against none; {RECORDS * TIMES:,} reads of 1 KB a round; the"
            f" middle half of {ROUNDS} rounds {low:+,.0f} to {high:+,.0f} ns"
        )
        used = f"{median(found[step]):.2f} us against {median(found[0]):.2f} us"
        yield Figure(name, f"{value:+,.0f} ns", "", None, how, value, used)


async def _read(path: str) -> dict[int, list[float]]:
    """Return the microseconds of a read by rounds, while one in so many is sampled: STEP, 1, and 0 for none."""
    store = await SqliteStore.open(path)
    engine = await open_engine(store, SystemClock())
    space = await engine.definitions.space("site", await engine.now())
    definition = Definition({}, await engine.now(), rules=(default_rule(86_400),))
    container = await engine.definitions.create(space.id, "c", definition)
    partition, keys = PARTITION.encode(), [b"i%d" % number for number in range(RECORDS)]
    commands = [Command(Mode.CREATE, partition, key, Draft(item(key.decode()))) for key in keys]
    await engine.write_all(container.id, commands, await engine.now())
    node = await engine.node_by_id(container.id)
    assert node is not None

    async def measure(step: int, times: int = TIMES) -> float:
        engine.accesses.sample(step)
        now = await engine.now()
        began = process_time()
        for _ in range(times):
            for key in keys:
                await engine.get(node, partition, key, now)
        return (process_time() - began) / (times * RECORDS) * 1e6

    await measure(STEP, SETTLING)
    found: dict[int, list[float]] = {STEP: [], 1: [], 0: []}
    for turn in range(ROUNDS):
        for step in found if turn % 2 else reversed(found):
            found[step].append(await measure(step))
    seen = engine.accesses.ages.uses[container.id].sampled
    await store.close()
    if not seen:
        raise RuntimeError("no read was sampled")
    return found
