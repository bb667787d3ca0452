"""An undelete of many records."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

from figures import Figure, microseconds, rate
from filling import load, many
from signed import item

from mayflydb.clock import SystemClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.instant import DAY, HOUR, SECOND
from mayflydb.model.order import Order, Position
from mayflydb.serving.process import loop_factory
from mayflydb.store.interface import Scan
from mayflydb.store.sqlite import SqliteStore

SMALL = os.environ.get("BENCH_SMALL") == "1"
RECORDS = int(os.environ.get("BENCH_RECORDS") or (100_000 if SMALL else 1_000_000))
BYTES = 300
TTL = 3_600
PAGE = 1_000


def undeleting(place: Path) -> Iterator[Figure]:
    """Bring all records of a container back. BENCH_RECORDS: their number."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        taken, used = runner.run(_undelete(str(place / "undelete.db")))
    how = (
        f"{RECORDS:,} records of {BYTES} B in a file in {taken:.1f} s, all of them: each was read afterwards with the value, the"
        " number and the place that it had; the selection is stored before it begins, and a new process would end it"
    )
    yield rate("undelete", RECORDS / taken, None, how, microseconds(used / RECORDS * 1e6))


async def _undelete(path: str) -> tuple[float, float]:
    store = await SqliteStore.open(path)
    engine = await open_engine(store, SystemClock())
    now = await engine.now()
    space = await engine.definitions.space("cosmos", now)
    definition = Definition({}, now, rules=(default_rule(TTL),), lifecycle=Lifecycle(grace=7 * DAY // SECOND))
    container = await engine.definitions.create(space.id, "c", definition)
    await load(store, container.id, many(RECORDS, item("n", BYTES), now - 3 * HOUR, 1))
    node = await engine.node_by_id(container.id)
    assert node is not None
    before = await _digest(engine, node)
    worked, began = process_time(), perf_counter()
    await engine.undeletes.begin(container.id, Undelete(now))
    await engine.undeletes.wait(container.id, None)
    taken, worked = perf_counter() - began, process_time() - worked
    await _check(engine, container.id, before)
    await store.close()
    return taken, worked


async def _digest(engine: Engine, node: Node) -> int:
    """A sum over all records, of what an undelete must not change."""
    found, place = 0, Position(b"", 0)
    while records := await engine.store.read(Scan(node.id, b"", None, Order.CREATED, place, PAGE)):
        for record in records:
            found ^= hash((record.partition, record.key, record.value, record.seq))
        place = Position(b"", records[-1].seq)
    return found


async def _check(engine: Engine, container: int, before: int) -> None:
    progress = engine.undeletes.progress(container)
    node = await engine.node_by_id(container)
    if progress is None or node is None or not progress.is_done or progress.undeleted != RECORDS:
        raise RuntimeError(f"the undelete ended with {progress}")
    if await _digest(engine, node) != before:
        raise RuntimeError("a record came back changed")
    ahead = await engine.next_deadline(container)
    if ahead is None or ahead < await engine.now():
        raise RuntimeError("a record was left")
