"""The reaper forgets what containers need not remember any more, by itself, however much it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine import catalog
from mayflydb.engine.budgets import Budgets
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.history import FORGET_BATCH
from mayflydb.engine.open import open_engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import HOUR, MINUTE
from mayflydb.model.record import Kind
from mayflydb.store.interface import CatalogRow, Count, DroppedContainers, History, Read
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


def test_a_history_survives_a_drop_that_is_committed_during_the_look_for_dropped_containers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        store, clock = await SqliteStore.open(None), VirtualClock(HOUR)
        engine = await open_engine(store, clock)
        space = await engine.definitions.space("mongo", HOUR)
        await engine.ordered_histories.begin(space.id, space.id, HOUR, lambda: HOUR, None)
        made = await engine.definitions.create(space.id, "c", Definition({}, HOUR, history=HOUR, ordered=space.id))
        await engine.write(made.id, Command(Mode.UPSERT, b"p", b"k", Draft(b"v")), HOUR)
        before = await engine.versions(made, 0, HOUR)
        read = store.read

        async def drop_first(request: Read[Any]) -> Any:
            if isinstance(request, DroppedContainers):
                await engine.definitions.drop(made.id, note_of=lambda node: b"dropped", now=HOUR)
            return await read(request)

        monkeypatch.setattr(store, "read", drop_first)
        await engine.reaper._housekeeping.clear_dropped()
        monkeypatch.undo()
        told = await store.read(History(made.id, 0, 9))
        assert told[:-1] == before and told[-1].value.endswith(b"dropped")
        assert not (await store.read(Count(made.id))).records
        await store.close()

    asyncio.run(check())


CONTAINERS = 30


def test_dropped_containers_leave_nothing_in_memory() -> None:
    """Neither those that are dropped alone, nor those of a database that is dropped; those that are left keep their counts."""

    async def check() -> None:
        store, clock = await SqliteStore.open(None), VirtualClock(HOUR)
        budgets = Budgets(lambda offer: 400)
        engine = await open_engine(store, clock, monitored="s", budgets=budgets)
        space = await engine.definitions.space("s", HOUR)

        async def use(database: Node, name: str) -> Node:
            made = await engine.definitions.create(
                database.id, name, Definition({}, HOUR, rules=(default_rule(1),), offer={"throughput": 400})
            )
            snapshot = await Snapshot.begin(engine, HOUR, [database.id])
            upsert = Command(Mode.UPSERT, b"p", b"k", Draft(b"v", anchor=HOUR))
            await engine.write(made.id, upsert, HOUR)
            await engine.write(made.id, upsert, HOUR)
            snapshot.close()
            engine.meter.charge(made.id, "create", 1)
            engine.meter.refuse(made.id)
            assert budgets.budget(made, database) is not None
            clock.set(clock.now() + MINUTE)
            await engine.reaper.sweep_due(PurgeRequest(clock.now(), clock.now(), "sweep"))
            assert engine.reaper.purge_counts[made.id] == 1
            return made

        left = await use(await engine.definitions.create(space.id, "left", Definition({}, HOUR)), "c")
        for n in range(CONTAINERS):
            database = await engine.definitions.create(space.id, f"d{n}", Definition({}, HOUR))
            made = await use(database, "c")
            await engine.definitions.drop(made.id if n % 2 else database.id)
        await engine.reaper.next_deadline()
        meter, versions = engine.meter, engine.version_cache
        for counts in (
            engine.reaper.purge_counts,
            meter.units,
            meter.throttled,
            meter._recent,
            engine.monitor._members,
            budgets._buckets,
        ):
            assert {*counts} == {left.id}
        assert not versions._log
        assert not versions._by_seq
        assert {*engine.nodes._nodes} <= {row.id for row in await catalog.catalogue(store)}
        await store.close()

    asyncio.run(check())


def test_decoded_rows_have_a_limit_and_those_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "MAX_NODES", 10)
    nodes, encoded = catalog.Nodes(), catalog.row_of(Node(1, 0, "c", Definition({}, HOUR)))
    used = nodes.of(encoded)
    for number in range(2, 100):
        nodes.of(CatalogRow(number, 0, "c", encoded.data))
        assert nodes.of(encoded) is used
        assert len(nodes) <= 10
