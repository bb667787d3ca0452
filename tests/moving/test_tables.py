"""Tables with a TTL column, moved: rule, dates, schedule, the account of the last run, indexes, and when rows go."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Definition, Index, Run
from mayflydb.engine.clock_mover import ClockMover
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.dates import with_slot
from mayflydb.engine.open import open_engine
from mayflydb.expiry.passes import following
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND
from mayflydb.model.order import FIRST_ORDERED, KeyRange
from mayflydb.model.record import Entry
from mayflydb.moving.copy import copy
from mayflydb.moving.source import PausedSource, StoreSource
from mayflydb.store.interface import Store
from mayflydb.store.sqlite import SqliteStore
from moving.conftest import Run as Runs
from moving.contents import everything
from moving.test_files import quiet, read, write
from postgres_cluster import Cluster
from store_suite.contract import Contract
from store_suite.reference import ReferenceStore

pytestmark = pytest.mark.usefixtures("small")

START = 1_000 * SECOND
PARTITION = b"p" * 8
KEYS = (b"a", b"b", b"c", b"d")


async def table(store: Store) -> int:
    """A table whose next run is at 4620 s, with four rows: those that are there after a first run at 1020 s."""
    clock = VirtualClock(START)
    engine = await open_engine(store, clock)
    space = await engine.definitions.space("ydb", START)
    home = await engine.definitions.create(space.id, "local", Definition({}, START))
    primary = Index(FIRST_ORDERED, (), "ready", spec={"primary": True})
    definition, slot = with_slot(Definition({}, START, indexes=(primary,)))
    rule = Rule("column", 10, slot=slot, passes=True)
    definition = msgspec.structs.replace(definition, rules=(rule,), schedule=following(None, 3600 * SECOND, START))
    node = await engine.definitions.create(home.id, "carts", definition)
    for number, key in enumerate((b"gone", *KEYS)):
        dates = ((slot, (1000 + 1000 * number) * SECOND),) if key != KEYS[-1] else ()

        def indexed(indexes: Any, key: bytes = key) -> tuple[Entry, ...]:
            return tuple(entry(each, key, PARTITION) for each in indexes)

        command = Command(Mode.CREATE, PARTITION, key, Draft(key, dates=dates, indexed=indexed))
        await engine.write(node.id, command, clock.now())
    await ClockMover(engine, clock).advance(30 * SECOND, [node])
    return node.id


async def check(store: Store, id: int, paused: bool = False) -> None:
    """The rows are there, in order, and die by the schedule that the table had."""
    clock = VirtualClock(START + 30 * SECOND)
    engine = await open_engine(store, clock)
    node = await engine.node_by_id(id)
    assert node is not None
    definition = node.definition
    assert definition.schedule is not None
    assert definition.schedule.next(clock.now()) == 4620 * SECOND
    assert definition.run == Run(1020 * SECOND, 5, 1)
    assert definition.slots[0].number == definition.rules[0].slot
    walk = engine.indexes.walk(node, definition.indexes[0], KeyRange(b"", b"\xff"), False, clock.now(), 3)
    assert [key async for stretch in walk for key, _ in stretch] == list(KEYS)
    clock_mover = ClockMover(engine, clock)
    assert (await clock_mover.advance(3589 * SECOND, [node])).purged == {}
    done = await clock_mover.advance(SECOND, [node])
    assert done.purged == ({} if paused else {id: 3})


Open = Callable[[Path, pytest.FixtureRequest], Coroutine[Any, Any, Store]]


async def _memory(path: Path, request: pytest.FixtureRequest) -> Store:
    return Contract(ReferenceStore())


async def _file(path: Path, request: pytest.FixtureRequest) -> Store:
    return await SqliteStore.open(str(path / "target.db"))


@pytest.mark.parametrize("open_target", [_memory, _file], ids=["memory", "file"])
@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_table_goes_on_as_it_was(
    run: Runs, tmp_path: Path, request: pytest.FixtureRequest, open_target: Open, through_a_file: bool
) -> None:
    async def work() -> None:
        source, target = await SqliteStore.open(str(tmp_path / "source.db")), await open_target(tmp_path, request)
        id = await table(source)
        if through_a_file:
            await write(source, tmp_path / "all.mayfly")
            await read(tmp_path / "all.mayfly", target)
        else:
            await copy(await StoreSource.open(source), target, quiet)
        assert (await everything(target)).records == (await everything(source)).records
        await check(target, id)
        await source.close()
        await target.close()

    run(work())


def test_to_postgres(run: Runs, tmp_path: Path, postgres: Cluster) -> None:
    from mayflydb.store.postgres import PostgresStore

    async def work() -> None:
        source, target = ReferenceStore(), await PostgresStore.open(postgres.fresh())
        id = await table(source)
        await copy(await StoreSource.open(source), target, quiet)
        await check(target, id)
        await target.close()

    run(work())


def test_paused_on_arrival(run: Runs) -> None:
    async def work() -> None:
        source, target = ReferenceStore(), Contract(ReferenceStore())
        id = await table(source)
        await copy(PausedSource(await StoreSource.open(source)), target, quiet)
        await check(target, id, paused=True)

    run(work())
