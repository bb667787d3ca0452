"""From one store into another: the same rows, records and entries, whatever interrupts it, and never over anything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition, catalogue
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.history import HistoryLost
from mayflydb.engine.open import open_engine
from mayflydb.engine.timekeeper import MARK
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict, Corrupt, NotFound, WriteConflict
from mayflydb.model.instant import HOUR, SECOND
from mayflydb.model.record import Expiry, Kind, Record
from mayflydb.moving.copy import UNFINISHED, CopyResult, copy, find_last_seq, is_unfinished
from mayflydb.moving.source import StoreSource
from mayflydb.store.interface import (
    CatalogRow,
    Committed,
    Decision,
    Delete,
    DropRow,
    Expiries,
    NamedNumber,
    Put,
    PutRow,
    Read,
    SetNumber,
    Store,
    Urgency,
)
from mayflydb.store.postgres import PostgresStore
from mayflydb.store.sqlite import SqliteStore
from moving.conftest import Run
from moving.contents import MARKED, Everything, change, everything, fill, new_id
from postgres_cluster import Cluster
from store_suite.contract import Contract
from store_suite.reference import ReferenceStore

T = TypeVar("T")
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else [1, 2, 3]


async def move(source: Store, target: Store, told: Callable[[int, int], None] = lambda done, total: None) -> CopyResult:
    return await copy(await StoreSource.open(source), target, told)


async def filled(seed: int = 1, records: int = 60) -> Store:
    store = Contract(ReferenceStore())
    await fill(store, seed, records)
    return store


class NoFilters:
    """The language of holds that have none."""

    def record_reader(self, container: object) -> Callable[[Record], Any]:
        return lambda record: record

    def compile_condition(self, container: object, text: str) -> Callable[[Any], bool]:
        raise AssertionError("a hold without a filter compiles none")


class Interrupted(Exception):
    """The process is gone."""


class Mortal:
    """A store whose user is gone at the n-th write: before it, or after its commit but before he hears of it."""

    def __init__(self, store: Store, at: int, late: bool) -> None:
        self._store = store
        self._left = at
        self._late = late
        self.description, self.durable = store.description, store.durable

    @property
    def catalog_version(self) -> int:
        return self._store.catalog_version

    async def read(self, request: Read[T]) -> T:
        return await self._store.read(request)

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        self._left -= 1
        if self._left == 0 and not self._late:
            raise Interrupted
        committed = await self._store.write(decide, urgency)
        if self._left == 0:
            raise Interrupted
        return committed

    async def reset(self) -> None:
        await self._store.reset()

    async def close(self) -> None:
        await self._store.close()


def tables(path: Path) -> list[Any]:
    """What a file holds in its tables, but for its counters."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        statements = [
            "SELECT * FROM catalog ORDER BY id",
            "SELECT * FROM record ORDER BY id",
            "SELECT * FROM entry ORDER BY container, number, key, record",
            f"SELECT * FROM setting WHERE name <> '{UNFINISHED}' ORDER BY name",
        ]
        return [list(connection.execute(statement)) for statement in statements]
    finally:
        connection.close()


# --- the same ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("small")
def test_from_a_file_to_postgres_and_back(run: Run, tmp_path: Path, postgres: Cluster, seed: int) -> None:
    """Byte by byte, and no id is given twice."""
    print(f"SEED={seed}")
    first, last = tmp_path / "first.db", tmp_path / "last.db"

    async def there_and_back() -> list[Everything]:
        stores: list[Store] = [
            await SqliteStore.open(str(first)),
            await PostgresStore.open(postgres.fresh(), alone=True),
            await SqliteStore.open(str(last)),
        ]
        used = await fill(stores[0], seed, 200)
        for source, target in pairwise(stores):
            moving = await move(source, target)
            assert moving.before == 0
        found = [await everything(store) for store in stores]
        assert min([await new_id(store) for store in stores]) > used
        for store in stores:
            await store.close()
        return found

    everywhere = run(there_and_back())
    assert everywhere[0] == everywhere[1] == everywhere[2]
    assert everywhere[0].mark == MARKED
    assert {len(moved) > 4 for moved in everywhere[0].records.values()} >= {True}
    assert tables(first) == tables(last)
    assert all(tables(first))


@pytest.mark.usefixtures("small")
def test_progress_is_told(run: Run) -> None:
    async def told() -> list[tuple[int, int]]:
        heard: list[tuple[int, int]] = []
        await move(await filled(), ReferenceStore(), lambda done, total: heard.append((done, total)))
        return heard

    heard = run(told())
    total = heard[0][1]
    assert heard[0] == (0, total)
    assert heard[-1] == (total, total)
    assert heard == sorted(set(heard))
    assert len(heard) > 5


def test_a_target_that_is_complete_is_left_alone(run: Run) -> None:
    async def twice() -> None:
        source, target = await filled(), ReferenceStore()
        moved = await move(source, target)
        assert await move(source, Mortal(target, 1, late=False)) == CopyResult(moved.records, moved.records)

    run(twice())


@pytest.mark.parametrize("seqs", [[], [1], [7], [1, 2, 3], [2, 3, 5, 8, 13, 21], [1, 40], [40], list(range(1, 41))])
def test_how_far_a_container_has_come(run: Run, seqs: list[int]) -> None:
    async def found() -> int:
        source = await filled(records=1)
        sample = next(iter((await everything(source)).records.values()))[0][0]
        store, row = ReferenceStore(), CatalogRow(9, 0, "c", b"", 50, 40)
        await change(store, PutRow(row))
        for seq in seqs:
            await change(store, Put(9, msgspec.structs.replace(sample, key=b"%d" % seq, seq=seq), True))
        return await find_last_seq(store, row)

    assert run(found()) == max(seqs, default=0)


# --- interrupted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.usefixtures("small")
def test_interrupted_anywhere_it_goes_on(run: Run, late: bool) -> None:
    async def at_every_write() -> int:
        source = await filled()
        wanted = await everything(source)
        for at in range(1, 1000):
            target = Contract(ReferenceStore())
            try:
                await move(source, Mortal(target, at, late))
            except Interrupted:
                finished = await target.read(NamedNumber(MARK)) is not None
                assert await is_unfinished(target) is not (finished or (at == 1 and not late))
            else:
                return at
            before = sum(map(len, (await _records_of(target)).values()))
            moving = await move(source, target)
            assert moving.before == before
            assert await everything(target) == wanted
            assert await new_id(target) > max(row.id for row in wanted.rows)
        raise AssertionError("it never came to its end")

    assert run(at_every_write()) > 10


async def _records_of(target: Store) -> dict[int, list[Any]]:
    """What is there by now, of a target that may be unfinished."""
    begun = await target.read(NamedNumber(UNFINISHED))
    await change(target, SetNumber(UNFINISHED, 0))
    found = (await everything(target)).records
    await change(target, SetNumber(UNFINISHED, begun or 0))
    return found


@pytest.mark.usefixtures("small")
def test_one_step_at_a_time(run: Run, tmp_path: Path) -> None:
    """Each run gets one step further than the one before."""

    async def step_by_step() -> int:
        source = await filled()
        for step in range(1, 1000):
            store = await SqliteStore.open(str(tmp_path / "target.db"))
            try:
                with suppress(Interrupted):
                    await move(source, Mortal(store, 1, late=True))
                    assert await everything(store) == await everything(source)
                    return step
            finally:
                await store.close()
        raise AssertionError("it never came to its end")

    assert run(step_by_step()) > 10


@pytest.mark.usefixtures("small")
def test_a_source_that_changed_meanwhile_is_not_gone_on_with(run: Run) -> None:
    async def changed() -> None:
        source, target = await filled(), ReferenceStore()
        with pytest.raises(Interrupted):
            await move(source, Mortal(target, 6, late=True))
        await fill(source, 2, 1)
        with pytest.raises(Conflict, match="beginning of a copy of something else, or of memory before it was changed"):
            await move(source, target)
        assert await is_unfinished(target)

    run(changed())


@pytest.mark.usefixtures("small")
def test_a_source_that_changes_under_the_move(run: Run) -> None:
    """The copy is not called complete."""

    async def changing() -> None:
        source, target = await filled(), ReferenceStore()
        beginning = await StoreSource.open(source)
        await fill(source, 2, 1)
        with pytest.raises(WriteConflict, match="changed meanwhile"):
            await copy(beginning, target, lambda done, total: None)
        assert await is_unfinished(target)

    run(changing())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("lost", ["record", "row"])
def test_a_target_that_lost_something_is_not_called_complete(run: Run, lost: str) -> None:
    async def losing() -> None:
        source, target = await filled(), ReferenceStore()
        with pytest.raises(Interrupted):
            await move(source, Mortal(target, 12, late=True))
        container, records = next(iter((await _records_of(target)).items()))
        if lost == "record":
            await change(target, Delete(container, records[0][0]))
        else:
            row = (await catalogue(target))[0]
            await change(target, DropRow(row.id), PutRow(msgspec.structs.replace(row, data=b"other")))
        with pytest.raises(Corrupt if lost == "record" else Conflict):
            await move(source, target)
        assert await is_unfinished(target)

    run(losing())


# --- refused -------------------------------------------------------------------------------------------------------------


def test_nothing_to_move(run: Run) -> None:
    with pytest.raises(NotFound, match="memory holds nothing"):
        run(move(ReferenceStore(), ReferenceStore()))


async def _other_rows(store: Store) -> None:
    await change(store, PutRow(CatalogRow(await new_id(store), 0, "cosmos", b"")))


async def _same_rows_but_one(store: Store) -> None:
    await fill(store, 1)
    await change(store, PutRow(CatalogRow(await new_id(store), 0, "more", b"")))


async def _events(store: Store) -> None:
    await fill(store, 1, 1)
    found = await everything(store)
    ((container, [(record, _)]),) = found.records.items()
    event = Expiry(0, container, record.partition, record.key, record.lsn, 90, 5, None, "default", 1, 15, 16, "sweep")
    await change(store, Delete(container, record, event), *(DropRow(row.id) for row in found.rows))
    await change(store, SetNumber(UNFINISHED, 0))


async def _time(store: Store) -> None:
    await change(store, SetNumber(MARK, 5))


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (_other_rows, "holds 'cosmos'"),
        (_same_rows_but_one, "is not empty"),
        (_events, "has been served before"),
        (_time, "has been served before"),
    ],
)
def test_a_target_that_holds_something_else(
    run: Run, prepare: Callable[[Store], Coroutine[Any, Any, None]], reason: str
) -> None:
    async def refused() -> None:
        source, target = await filled(records=3), ReferenceStore()
        await prepare(target)
        before = await everything(target)
        with pytest.raises(Conflict, match=f"memory .*{reason}"):
            await move(source, target)
        assert await everything(target) == before

    run(refused())


# --- histories -----------------------------------------------------------------------------------------------------------


def test_a_history_stays_behind_and_a_new_one_begins(run: Run) -> None:
    """Nobody who goes on where he was in the source's is led over what was not copied."""

    async def check() -> None:
        source, target = ReferenceStore(), await SqliteStore.open(None)
        engine = await open_engine(source, VirtualClock(HOUR))
        space = await engine.definitions.space("cosmos", HOUR)
        kept = await engine.definitions.create(space.id, "kept", Definition({}, HOUR, history=HOUR))
        create = Command(Mode.CREATE, b"p", b"k", Draft(b"v"))
        first = (await engine.write(kept.id, create, HOUR)).record
        assert [version.lsn for version in await engine.versions(kept, 0, HOUR)] == [first.lsn]
        await move(source, target)
        engine = await open_engine(target, VirtualClock(HOUR))
        with pytest.raises(HistoryLost):
            await engine.versions(kept, 0, HOUR)
        assert await engine.versions(kept, first.lsn, HOUR) == []
        await engine.write(kept.id, Command(Mode.DELETE, b"p", b"k"), HOUR)
        told = await engine.versions(kept, first.lsn, HOUR)
        assert [(version.kind, version.previous) for version in told] == [(Kind.DELETE, first.lsn)]
        await target.close()

    run(check())


def test_holds_and_what_they_preserve_are_copied(run: Run) -> None:
    async def work() -> None:
        source, target, clock = ReferenceStore(), ReferenceStore(), VirtualClock(HOUR)
        engine = await open_engine(source, clock)
        space = await engine.definitions.space("site", HOUR)
        container = (await engine.definitions.create(space.id, "c", Definition({}, HOUR, rules=(default_rule(1),)))).id
        await engine.write(container, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), HOUR)
        await engine.holds.add(container, "site:c", LegalHold(0, "h", "site", "a case", "Ada", HOUR))
        # Filters need no language where there is none.
        engine.nodes.hold_filters.use({"site": NoFilters()})
        clock.set(2 * HOUR)
        await engine.reaper.sweep_due(PurgeRequest(2 * HOUR, 2 * HOUR, "sweep"))
        await move(source, target)
        there = await open_engine(target, VirtualClock(3 * HOUR))
        for each in (engine, there):
            node, hold = await each.holds.find("h")
            (kept,) = await each.holds.page(node, 0, 10)
            assert (hold.by, kept.version.record.value) == ("Ada", b"v")
        await there.holds.release("h", "site:c", "over", "Bob", 3 * HOUR)
        await there.holds.releases.wait("h", None)
        (event,) = await target.read(Expiries(container, 0, 10))
        assert (event.deadline, event.purged) == (HOUR + SECOND, 3 * HOUR)
        for each in (engine, there):
            each.evaluators.close()

    run(work())
