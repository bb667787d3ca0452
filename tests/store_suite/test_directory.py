"""The directory of a SQLite store: what a large sweep leaves in it, and the rounds that remove that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.errors import Corrupt, OutOfSpace
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Change,
    ClearDropped,
    Decision,
    DroppedContainers,
    DropRow,
    Get,
    KnownDamage,
    Outcome,
    Purge,
    Purged,
    Scan,
)
from mayflydb.store.rows import SEQ_BITS
from mayflydb.store.sqlite import directory, directory_rounds
from mayflydb.store.sqlite.page_checksums import VFS
from mayflydb.store.sqlite.store import SqliteStore
from store_suite.subject import Subject

BEYOND = 1 << 60
FEW = 10


@pytest.fixture(params=["file", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return str(tmp_path / "store.db") if request.param == "file" else None


@pytest.fixture
def store(path: str | None, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    """A store in which a sweep of FEW records leaves their places, and a round begins only when a test makes one."""
    monkeypatch.setattr(directory, "FEWEST_STALE", FEW)
    monkeypatch.setattr(directory_rounds, "IDLE_SECONDS", 3600)
    monkeypatch.setattr(directory_rounds, "STEP", 7)
    monkeypatch.setattr(directory_rounds, "LONGEST_STEP", 7)
    monkeypatch.setattr(directory_rounds, "LONGEST_STEP_ON_LOOP", 7)
    subject = Subject(runner.run(SqliteStore.open(path)), runner)
    yield subject
    if not subject.closed:
        runner.run(subject.store.close())


def sqlite(store: Subject) -> SqliteStore:
    assert isinstance(store.store, SqliteStore)
    return store.store


def number(store: Subject, source: str) -> int:
    return int(sqlite(store)._transaction.connection.execute(f"SELECT count(*) FROM {source}").get)


def make_round(store: Subject, container: int) -> None:
    store.run(sqlite(store)._rounds.make_round(container))


def fill(store: Subject, container: int, many: int, chance: Random | None = None) -> list[Record]:
    """Records of two partitions, one after the other; with `chance`, they die in another order than they came."""
    lives = list(range(many))
    if chance is not None:
        chance.shuffle(lives)
    return [
        store.put(container, b"k%d" % n, partition=b"p%d" % (n % 2), anchor=life, entries=(Entry(20, b"e%d" % n),))
        for n, life in enumerate(lives)
    ]


def purge(store: Subject, container: int, many: int) -> None:
    assert store.purge(container, BEYOND, DuePath.ANCHOR, many).purged == (Purged(many, many),)


def check(store: Subject, container: int, living: list[Record], gone: list[Record]) -> None:
    """Every way to the records leads to the living ones alone."""
    for record in living:
        assert store.read(Get(container, record.partition, record.key)) == record
    for record in gone:
        assert store.read(Get(container, record.partition, record.key)) is None
    by_place = sorted(living, key=lambda record: (record.partition, record.seq))
    for partition in (b"p0", b"p1"):
        page = store.read(Scan(container, partition, partition + b"\0", Order.HASHED, None, 1000))
        assert page == [record for record in by_place if record.partition == partition]
    assert walk(store, container, 1000) == by_place
    assert walk(store, container, 2) == by_place


def walk(store: Subject, container: int, limit: int) -> list[Record]:
    found: list[Record] = []
    after: Position | None = None
    while page := store.read(Scan(container, b"", None, Order.HASHED, after, limit)):
        found += page
        after = Position(page[-1].partition, page[-1].seq)
    return found


@pytest.mark.parametrize(("many", "stale"), [(FEW - 1, 0), (FEW, 2 * FEW), (3 * FEW, 6 * FEW)])
@pytest.mark.parametrize("order", ["in turn", "mixed"])
def test_a_large_sweep_leaves_places_and_a_round_removes_them(
    store: Subject, many: int, stale: int, order: str, chance: Random
) -> None:
    container, other = store.container("c"), store.container("d")
    records = fill(store, container, 4 * FEW, chance if order == "mixed" else None)
    elsewhere = fill(store, other, 5)
    gone = sorted(records, key=lambda record: record.anchor or 0)[:many]
    living = [record for record in records if record not in gone]
    purge(store, container, many)
    assert number(store, "directory") == 2 * (len(living) + len(elsewhere)) + stale
    assert number(store, "entry") == len(living) + len(elsewhere)
    check(store, container, living, gone)
    assert (container in sqlite(store)._transaction.stale.numbers) is bool(stale)
    make_round(store, container)
    assert number(store, "directory") == 2 * (len(living) + len(elsewhere))
    assert number(store, "purged") == 0
    assert not sqlite(store)._transaction.stale.numbers
    check(store, container, living, gone)
    check(store, other, elsewhere, [])


def test_a_key_that_died_may_be_used_again(store: Subject) -> None:
    """Its stale place lies beside the new one, under the same number."""
    container = store.container("c")
    gone: list[Record] = []
    records: list[Record] = []
    for turn in range(3):
        records = fill(store, container, FEW)
        check(store, container, records, [])
        if turn < 2:
            purge(store, container, FEW)
            gone = records
    assert number(store, "directory") == 6 * FEW
    assert {record.seq for record in gone}.isdisjoint(record.seq for record in records)
    store.delete(container, records.pop())
    make_round(store, container)
    check(store, container, records, [])
    assert number(store, "directory") == 2 * (FEW - 1)


def test_what_dies_during_a_round_is_left_to_the_next(store: Subject, chance: Random) -> None:
    container = store.container("c")
    records = fill(store, container, 6 * FEW, chance)
    purge(store, container, FEW)

    async def both() -> None:
        rounds = asyncio.create_task(sqlite(store)._rounds.make_round(container))
        for _ in range(4):
            await asyncio.sleep(0)
            await store.store.write(
                lambda: deciding(Purge(container, DuePath.ANCHOR, BEYOND, FEW, 0, None, "x", 1, 9, "x"))
            )
        await rounds

    store.run(both())
    left = sqlite(store)._transaction.stale.numbers[container]
    assert 0 < left <= 4 * FEW
    assert number(store, "purged") == left
    living = sorted(records, key=lambda record: record.anchor or 0)[5 * FEW :]
    check(store, container, living, [record for record in records if record not in living])
    make_round(store, container)
    assert number(store, "directory") == 2 * FEW and number(store, "purged") == 0
    check(store, container, living, [])


def test_a_round_ends_when_the_tables_are_replaced(store: Subject, chance: Random) -> None:
    """A restore brings records back to the ids that the round takes for purged."""
    container = store.container("c")
    fill(store, container, 6 * FEW, chance)
    purge(store, container, 3 * FEW)
    sqlite_store = sqlite(store)
    step = sqlite_store._rounds._step

    async def replace_then_step(work: Any) -> Any:
        sqlite_store._rounds._step = step  # type: ignore[method-assign]
        sqlite_store._transaction.stale.reload(sqlite_store._transaction.connection)
        return await step(work)

    sqlite_store._rounds._step = replace_then_step  # type: ignore[method-assign]
    places = number(store, "directory")
    with pytest.raises(directory_rounds.Replaced):
        make_round(store, container)
    assert number(store, "directory") == places
    make_round(store, container)
    assert number(store, "directory") == 6 * FEW and number(store, "purged") == 0


def deciding(*changes: Change) -> Decision[None]:
    return Outcome(changes, None)
    yield


def test_a_map_covers_a_part_of_the_ids(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_rounds, "MAP_IDS", 25)
    container = store.container("c")
    fill(store, container, 6 * FEW)
    for _ in range(6):
        purge(store, container, FEW)
    left = []
    while container in sqlite(store)._transaction.stale.numbers:
        make_round(store, container)
        left.append(number(store, "directory"))
    assert left == [8 * FEW, 4 * FEW, 0]


@pytest.mark.parametrize("path", ["file"], indirect=True)
def test_places_that_were_left_are_removed_after_a_restart(store: Subject, path: str, runner: asyncio.Runner) -> None:
    container = store.container("c")
    records = fill(store, container, 3 * FEW)
    purge(store, container, 2 * FEW)
    runner.run(store.store.close())
    again = Subject(runner.run(SqliteStore.open(path)), runner)
    check(again, container, records[2 * FEW :], records[: 2 * FEW])
    assert sqlite(again)._transaction.stale.numbers == {container: 1}
    assert sqlite(again)._rounds.choose(directory_rounds.IDLE_SHARE, 1) == container
    make_round(again, container)
    assert number(again, "directory") == 2 * FEW and number(again, "purged") == 0
    check(again, container, records[2 * FEW :], [])
    runner.run(again.store.close())
    store.closed = True


def test_a_round_begins_by_itself(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is other work, when a share is stale; else after a while."""
    container = store.container("c")
    monkeypatch.setattr(directory_rounds, "FEWEST", 2 * FEW)
    fill(store, container, 4 * FEW)
    purge(store, container, FEW)

    rounds, ends = sqlite(store)._rounds, asyncio.Event()
    make = rounds.make_round

    async def made(container: int) -> None:
        await make(container)
        ends.set()

    monkeypatch.setattr(rounds, "make_round", made)
    assert number(store, "directory") == 8 * FEW
    purge(store, container, FEW)
    store.run(ends.wait())
    assert number(store, "directory") == 4 * FEW
    ends.clear()
    monkeypatch.setattr(directory_rounds, "IDLE_SECONDS", 0)
    purge(store, container, FEW)
    store.run(ends.wait())
    assert number(store, "directory") == 2 * FEW


def test_the_first_round_too_waits_for_a_share(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The living are estimated from the first places: a walk over all of them would remove few."""
    container, half = store.container("c"), 10 * FEW
    monkeypatch.setattr(directory_rounds, "FEWEST", FEW)
    monkeypatch.setattr(directory_rounds, "SAMPLE", half)
    monkeypatch.setattr(directory_rounds, "SHARE", 1)
    records = fill(store, container, 2 * half)
    rounds, counted, made = sqlite(store)._rounds, asyncio.Event(), asyncio.Event()
    count, make = rounds._count_living, rounds.make_round

    async def note_count(container: int) -> None:
        await count(container)
        counted.set()

    async def note_round(container: int) -> None:
        await make(container)
        made.set()

    monkeypatch.setattr(rounds, "_count_living", note_count)
    monkeypatch.setattr(rounds, "make_round", note_round)
    purge(store, container, FEW)
    store.run(counted.wait())
    assert 0.7 * len(records) < rounds._left[container] < 1.3 * len(records)
    assert rounds.choose(directory_rounds.SHARE, FEW) is None and not made.is_set()
    for gone in range(2 * FEW, len(records) + 1, FEW):
        purge(store, container, FEW)
        if rounds._left[container] <= gone:
            break
    store.run(made.wait())
    assert number(store, "directory") == 2 * (len(records) - gone) and number(store, "purged") == 0
    check(store, container, records[gone:], records[:gone])


@pytest.mark.parametrize("many", [0, 2 * FEW - 1, 2 * FEW, 20 * FEW])
def test_records_are_estimated_from_the_first_places(
    store: Subject, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_rounds, "SAMPLE", 2 * FEW)
    container = store.container("c")
    fill(store, store.container("d"), 3 * FEW)
    fill(store, container, many)
    found = directory_rounds.estimate_places(sqlite(store)._transaction.connection, container)
    assert found == 0 if many < 2 * FEW else 0.4 * many < found < 2.5 * many


def test_a_round_that_failed_begins_anew(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    container = store.container("c")
    fill(store, container, 4 * FEW)
    purge(store, container, FEW)
    failing = [True]
    remove = directory_rounds.remove_stale

    def fail(*given: Any) -> Any:
        done = remove(*given)
        if failing:
            raise OutOfSpace("planted")
        return done

    monkeypatch.setattr(directory_rounds, "remove_stale", fail)
    with pytest.raises(OutOfSpace):
        make_round(store, container)
    assert sqlite(store)._transaction.stale.numbers == {container: FEW}
    failing.clear()
    make_round(store, container)
    assert number(store, "directory") == 6 * FEW and not sqlite(store)._transaction.stale.numbers


def test_a_dropped_container_leaves_nothing(store: Subject) -> None:
    container = store.container("c")
    fill(store, container, 3 * FEW)
    store.change(DropRow(container))
    for _ in range(3):
        assert store.change(ClearDropped(container, FEW)).purged == (Purged(FEW, FEW),)
    store.change(ClearDropped(container, FEW))
    assert store.read(DroppedContainers()) == []
    make_round(store, container)
    assert (number(store, "directory"), number(store, "purged"), number(store, "entry")) == (0, 0, 0)
    make_round(store, container)
    assert not sqlite(store)._transaction.stale.numbers


def test_a_place_without_a_record_is_damage_unless_it_is_stale(store: Subject) -> None:
    container = store.container("c")
    records = fill(store, container, 3 * FEW)
    purge(store, container, FEW)
    lost = records[2 * FEW]
    connection = sqlite(store)._transaction.connection
    connection.execute("DELETE FROM record WHERE id = ?", (container << SEQ_BITS | lost.seq,))
    sqlite(store)._transaction.recent.clear()
    store.run(store.store.read(Get(container, records[-1].partition, records[-1].key)))
    assert store.run(store.store.read(Get(container, records[0].partition, records[0].key))) is None
    with pytest.raises(Corrupt, match="is not there, and the directory names it"):
        store.run(store.store.read(Get(container, lost.partition, lost.key)))
    with pytest.raises(Corrupt, match="is not there, and the directory names it"):
        store.run(store.store.read(Scan(container, b"", None, Order.HASHED, None, 1000)))


def test_a_row_without_its_values_is_damage(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite takes a part of a page that it could not read for zeros, so that a column that is never NULL can be."""
    container = store.container("c")
    dead = fill(store, container, 3 * FEW)[0]
    purge(store, container, FEW)
    monkeypatch.setattr(directory, "_COVERING", "SELECT first, NULL FROM purged WHERE first <= ?")
    request = Get(container, dead.partition, dead.key)

    def read() -> Decision[Record | None]:
        return Outcome((), (yield request))

    for attempt in (store.store.read(request), store.store.write(read)):
        with pytest.raises(Corrupt, match="a row is not as it was written"):
            store.run(attempt)
    assert "a row is not as it was written" in str(store.read(KnownDamage()))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("stale", [False, True])
def test_a_scan_over_many_stale_places_lets_others_have_their_turn(store: Subject, stale: bool, single: bool) -> None:
    container = store.container("c")
    fill(store, container, 600)
    if stale:
        purge(store, container, 590)
    upper = b"p0\0" if single else None
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def scan() -> list[Record]:
        task = asyncio.create_task(count())
        try:
            return await store.store.read(Scan(container, b"p0", upper, Order.HASHED, None, 5))
        finally:
            task.cancel()

    assert len(store.run(scan())) == 5
    assert turns[0] == int(stale)


@pytest.mark.parametrize("many", [1, FEW - 1, FEW, 4 * FEW])
def test_the_work_of_a_sweep_does_not_grow_with_the_living(store: Subject, many: int) -> None:
    steps: list[int] = []

    def count() -> bool:
        steps[-1] += 1
        return False

    for living in (FEW, 60 * FEW):
        container = store.container(f"c{living}")
        fill(store, container, many + living)
        steps.append(0)
        sqlite(store)._transaction.connection.set_progress_handler(count, 1)
        purge(store, container, many)
        sqlite(store)._transaction.connection.set_progress_handler(None)
    assert steps[1] < 1.2 * steps[0] + 50


def test_a_file_of_format_4(tmp_path: Path, runner: asyncio.Runner) -> None:
    path = str(tmp_path / "store.db")
    store = Subject(runner.run(SqliteStore.open(path)), runner)
    container = store.container("c")
    records = fill(store, container, 3 * FEW, Random(1))
    runner.run(store.store.close())
    connection = apsw.Connection(path, vfs=VFS)
    places = connection.execute("SELECT * FROM directory").fetchall()
    new = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
    connection.execute(TO_FORMAT_4)
    connection.close()
    store = Subject(runner.run(SqliteStore.open(path)), runner)
    check(store, container, records, [])
    assert sqlite(store)._transaction.connection.execute("SELECT * FROM directory").fetchall() == places
    runner.run(store.store.close())
    connection = apsw.Connection(path, vfs=VFS)
    made = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
    assert made == new
    connection.close()


TO_FORMAT_4 = """
DROP TABLE sealing;
DROP TABLE directory;
DROP TABLE purged;
CREATE INDEX record_identity ON record(container, identity);
CREATE INDEX record_hash ON record(container, hash);
PRAGMA user_version = 4;
"""
"""Statements that make a file one of format 4."""
