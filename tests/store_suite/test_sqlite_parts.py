"""What only the SQLite store has: records kept as objects, and a sense of how quick the disk is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import repeat
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import apsw
import msgspec
import pytest

from mayflydb.model.due import DuePath
from mayflydb.model.errors import Unavailable
from mayflydb.model.order import FIRST_ORDERED, KeyRange, Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Count,
    Decision,
    FetchRange,
    Get,
    NewId,
    NextDue,
    Outcome,
    Put,
    PutRow,
    Read,
    Scan,
    ScanIndex,
    SeekIndex,
    ask,
)
from mayflydb.store.sqlite import checkpoint, writer
from mayflydb.store.sqlite import store as store_module
from mayflydb.store.sqlite.commit_speed import SAMPLES, THREAD_SWITCH_US, CommitSpeed
from mayflydb.store.sqlite.reads import ANSWERS
from mayflydb.store.sqlite.record_cache import LARGE_TRANSACTION, LARGEST, OVERHEAD, PendingRecords, RecordCache
from mayflydb.store.sqlite.store import SqliteStore
from mayflydb.store.sqlite.transaction import STEP
from store_suite.subject import Subject

C, D = 1, 2
N = FIRST_ORDERED


def record(key: bytes, value: bytes = b"v", lsn: int = 1, seq: int = 1) -> Record:
    return Record(b"p", key, value, 0, 0, None, lsn, seq)


# --- pages of a walk ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [False, True], ids=["many keys", "one key"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_page_does_not_step_over_the_entries_before_it(descending: bool, same: bool) -> None:
    """The work of a page is that of its own entries, wherever in the range it begins."""
    with asyncio.Runner() as runner:
        store = runner.run(SqliteStore.open(None))
        subject = Subject(store, runner)
        container = subject.container("c")
        for number in range(600):
            subject.put(container, b"%03d" % number, entries=(Entry(N, b"k" if same else b"k%03d" % number),))
        steps: list[int] = []
        after: tuple[bytes, int] | None = None

        def count() -> bool:
            steps[-1] += 1
            return False

        while found := runner.run(store.read(ScanIndex(container, N, KeyRange(b"k", b"l"), descending, after, 50))):
            after = found[-1][0], found[-1][1].seq
            steps.append(0)
            # From the second page on: each step of SQLite's machine counts.
            store._reader.set_progress_handler(count, 1)
        store._reader.set_progress_handler(None)
        assert len(steps) == 12
        assert 0 < max(steps[:-1]) < 2 * min(steps[:-1])
        runner.run(store.close())


# --- statements ---------------------------------------------------------------------------------------------------------


STATEMENTS: dict[str, Callable[[int], Read[Any]]] = {
    "partition": lambda n: Scan(C, b"p%d" % n, b"p%d\0" % n, Order.HASHED, None, 5),
    "hashed": lambda n: Scan(C, b"p%d" % n, None, Order.HASHED, None, 5),
    "created": lambda n: Scan(C, b"a%d" % n, b"q", Order.CREATED, Position(b"", n), 5),
    "changed": lambda n: Scan(C, b"a%d" % n, b"q", Order.CHANGED, Position(b"", n), 5),
    "walk": lambda n: ScanIndex(C, N, KeyRange(b"k%d" % n, b"l"), False, None, 5),
    "seek": lambda n: SeekIndex(C, N, (KeyRange(b"k%d" % n, b"l"),), 5),
    "get": lambda n: Get(C, b"p%d" % n, b"k"),
    "due": lambda n: NextDue(C, DuePath.ANCHOR, n),
}


@pytest.mark.parametrize("read", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_statement_is_prepared_once_whatever_it_is_run_with(read: Callable[[int], Read[Any]]) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(SqliteStore.open(None))
        assert Subject(store, runner).container("c") == C
        compiled: list[int] = []

        def allow(action: int, *what: str | None) -> int:
            compiled.append(action)
            return apsw.SQLITE_OK

        store._reader.authorizer = allow
        counts = []
        for n in (1, 2, 3):
            ANSWERS[type(read(n))](store._reader, read(n))
            counts.append(len(compiled))
        assert counts[0] > 0
        assert counts[1:] == counts[:1] * 2
        store._reader.authorizer = None
        runner.run(store.close())


# --- records kept as objects -----------------------------------------------------------------------------------------


def test_what_is_kept_is_found_until_it_is_forgotten() -> None:
    recent = RecordCache()
    for container in (C, D):
        recent.keep(container, record(b"a", lsn=container))
    assert recent.get(C, b"p", b"a") == record(b"a", lsn=C)
    assert recent.get(C, b"p", b"b") is None
    assert recent.get(C, b"q", b"a") is None
    recent.forget(C, b"p", b"a")
    assert recent.get(C, b"p", b"a") is None
    assert recent.get(D, b"p", b"a") is not None
    recent.forget_container(D)
    assert recent.get(D, b"p", b"a") is None
    recent.keep(D, record(b"a", lsn=9))
    assert recent.get(D, b"p", b"a") == record(b"a", lsn=9)
    recent.clear()
    assert recent.get(D, b"p", b"a") is None


def test_records_are_found_by_their_numbers_as_long_as_they_are_kept() -> None:
    recent = RecordCache(limit=3 * (OVERHEAD + 1))
    assert recent.get_all(C, (1,)) == [None]
    first, second = record(b"a", b"x", seq=1), record(b"b", b"x", seq=2)
    recent.keep(C, first)
    recent.keep(C, second)
    assert recent.get_all(C, (1, 2, 3)) == [first, second, None]
    assert recent.get_all(D, (1,)) == [None]
    renamed = record(b"c", b"x", seq=1)
    recent.keep(C, renamed)  # Its old key is forgotten afterwards, in the same commit.
    recent.forget(C, b"p", b"a")
    assert recent.get_all(C, (1, 2)) == [renamed, second]
    again = record(b"b", b"x", seq=7)
    recent.keep(C, again)
    assert recent.get_all(C, (2, 7)) == [None, again]
    recent.keep(D, record(b"a", b"x", seq=1))
    assert recent.get_all(C, (1,)) == [renamed]  # Used, so no longer the oldest.
    recent.keep(D, record(b"b", b"x", seq=2))
    assert recent.get_all(C, (1, 7)) == [renamed, None]
    recent.forget_container(C)
    assert recent.get_all(C, (1,)) == [None]
    assert len(recent._places) == len(recent._records)


def test_the_oldest_make_room() -> None:
    size = OVERHEAD + 100
    recent = RecordCache(limit=3 * size)
    for key in (b"a", b"b", b"c"):
        recent.keep(C, record(key, b"x" * 100))
    assert recent.get(C, b"p", b"a") is not None  # Used, so no longer the oldest.
    recent.keep(C, record(b"d", b"x" * 100))
    assert [key for key in (b"a", b"b", b"c", b"d") if recent.get(C, b"p", key)] == [b"a", b"c", b"d"]
    recent.keep(C, record(b"a", b"x" * (100 + size)))  # Two of three rooms.
    assert [key for key in (b"a", b"c", b"d") if recent.get(C, b"p", key)] == [b"a", b"d"]


@pytest.mark.parametrize("count", [1, 7, 500])
def test_room_is_counted_right_through_every_change(count: int) -> None:
    recent = RecordCache()
    for number in range(count):
        recent.keep(C, record(b"%d" % (number % 5), b"x" * number))
        if number % 3 == 0:
            recent.forget(C, b"p", b"%d" % (number % 4))
        if number % 50 == 49:
            recent.forget_container(C)
    assert recent._size == sum(len(each.value) + OVERHEAD for each in recent._records.values())


def test_the_largest_are_not_kept() -> None:
    recent = RecordCache()
    recent.keep(C, record(b"a", b"x" * LARGEST))
    assert recent.get(C, b"p", b"a") is not None
    recent.keep(C, record(b"a", b"x" * (LARGEST + 1)))
    assert recent.get(C, b"p", b"a") is None
    assert recent._size == 0


def test_a_transaction_sees_its_own_changes_and_others_do_not() -> None:
    recent = RecordCache()
    recent.keep(C, record(b"a"))
    touched = PendingRecords(recent)
    touched.put(C, record(b"a", lsn=2))
    assert touched.get(C, b"p", b"a") == record(b"a", lsn=2)
    assert recent.get(C, b"p", b"a") == record(b"a")
    touched.delete(C, record(b"a", lsn=2))
    with pytest.raises(LookupError):
        touched.get(C, b"p", b"a")
    touched.put(C, record(b"a", lsn=3))
    touched.put(D, record(b"a", lsn=3))
    touched.sweep(C)
    assert touched.get(C, b"p", b"a") is None  # Only the tables know.
    touched.put(C, record(b"b", lsn=4))
    touched.commit()
    assert recent.get(C, b"p", b"a") is None
    assert recent.get(C, b"p", b"b") == record(b"b", lsn=4)
    assert recent.get(D, b"p", b"a") == record(b"a", lsn=3)


def test_a_large_transaction_leaves_its_first_records_to_the_tables() -> None:
    recent = RecordCache()
    recent.keep(C, record(b"0"))
    recent.keep(D, record(b"0"))
    touched = PendingRecords(recent)
    for number in range(LARGE_TRANSACTION):
        touched.put(C, record(b"%d" % number, lsn=2))
    assert touched.get(C, b"p", b"0") == record(b"0", lsn=2)
    touched.delete(C, record(b"last", lsn=2))
    assert touched.get(C, b"p", b"0") is None  # Only the tables know.
    with pytest.raises(LookupError):
        touched.get(C, b"p", b"last")
    assert touched.get(D, b"p", b"0") == record(b"0")
    touched.commit()
    assert recent.get(C, b"p", b"0") is None
    assert recent.get(D, b"p", b"0") == record(b"0")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_after_everything_is_gone_or_may_be_nothing_is_known(end: str) -> None:
    recent = RecordCache()
    recent.keep(C, record(b"a"))
    touched = PendingRecords(recent)
    if end == "commit":
        touched.remove_all()
        assert touched.get(C, b"p", b"a") is None
        touched.commit()
    else:
        touched.rollback()
    assert recent.get(C, b"p", b"a") is None


def _row() -> Decision[int]:
    row = CatalogRow((yield from ask(NewId())), 0, "c", b"")
    return Outcome((PutRow(row),), row.id)


def _put(container: int, key: bytes) -> Decision[int]:
    before = yield from ask(Get(container, b"p", key))
    lsn, seq = yield from ask(Allocate(container, before is None))
    made = Record(b"p", key, b"v", 0, 0, None, lsn, seq if before is None else before.seq)
    return Outcome((Put(container, made, before is None),), lsn)


def test_a_read_does_not_keep_what_a_commit_has_just_replaced(tmp_path: Path) -> None:
    """Readers ask all the time while commits are under way: whoever is told of a commit reads it, or something later."""

    async def main() -> None:
        store = await SqliteStore.open(str(tmp_path / "x.db"))
        container = (await store.write(_row)).reply
        done, told = False, 0

        async def read() -> None:
            while not done:
                before = told
                found = await store.read(Get(container, b"p", b"k"))
                assert before == 0 or (found is not None and found.lsn >= before)
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(4)]
        for _ in range(300):
            told = (await store.write(lambda: _put(container, b"k"))).reply
        done = True
        await asyncio.gather(*readers)
        await store.close()

    asyncio.run(main())


def _many(container: int, count: int) -> Decision[int]:
    lsn, puts = 0, []
    for number in range(count):
        lsn, seq = yield from ask(Allocate(container, True))
        puts.append(Put(container, Record(b"p", b"%d" % number, b"v", 0, 0, None, lsn, seq), True))
    return Outcome(tuple(puts), lsn)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_others_have_their_turn_while_much_is_decided_and_see_nothing_of_it(tmp_path: Path, place: str) -> None:
    """A memory database has one connection: while a write is half applied, reads of tables wait, and nothing else does."""
    now, count = 0, 40 * STEP

    def stopwatch() -> int:
        nonlocal now
        now += writer.SLICE_US
        return now

    async def main() -> None:
        path = str(tmp_path / "x.db") if place == "file" else None
        store = await SqliteStore.open(path, stopwatch=stopwatch)
        container = (await store.write(_row)).reply
        await store.write(lambda: _put(container, b"known"))
        turns = {"any": 0, "known": 0, "table": 0}
        work = asyncio.create_task(store.write(lambda: _many(container, count)))

        async def take_turns(kind: str) -> None:
            while not work.done():
                turns[kind] += 1
                if kind == "known":
                    assert await store.read(Get(container, b"p", b"known")) is not None
                elif kind == "table":
                    found = await store.read(Get(container, b"p", b"0"))
                    committed = await store.read(Get(container, b"p", b"%d" % (count - 1)))
                    assert found is None or committed is not None, "only a part is there"
                    if place == "memory":
                        assert (await store.read(Count(container))).records in (1, 1 + count)
                await asyncio.sleep(0)

        await asyncio.gather(*map(take_turns, turns))
        steps = count // STEP
        assert min(turns["any"], turns["known"]) >= steps
        assert turns["table"] >= steps // 2
        assert await store.read(Get(container, b"p", b"0")) is not None
        await store.close()

    asyncio.run(main())


# --- how quick the disk is -------------------------------------------------------------------------------------------

QUICK, SLOW = THREAD_SWITCH_US // 2, THREAD_SWITCH_US * 4


@pytest.mark.parametrize(
    ("took", "quick"),
    [
        ([], False),
        ([QUICK] * (SAMPLES - 1), False),
        ([QUICK] * SAMPLES, True),
        ([THREAD_SWITCH_US] * SAMPLES, True),
        ([THREAD_SWITCH_US + 1] * SAMPLES, False),
        ([SLOW] * (SAMPLES - 1) + [QUICK], True),
        ([SLOW] * SAMPLES * 3, False),
        # One slow commit among many may be chance; one that is very slow, or several, are not.
        ([QUICK] * SAMPLES + [SLOW], True),
        ([QUICK] * SAMPLES + [SLOW] * 4, False),
        ([QUICK] * SAMPLES + [THREAD_SWITCH_US * SAMPLES], False),
        ([QUICK] * SAMPLES + [SLOW] * 3 + [QUICK] * (SAMPLES - 1), False),
        ([QUICK] * SAMPLES + [SLOW] * 3 + [QUICK] * SAMPLES, True),
    ],
)
def test_pace(took: Sequence[int], quick: bool) -> None:
    speed = CommitSpeed()
    for each in took:
        speed.note(each)
    assert speed.is_quick is quick


@pytest.mark.parametrize("quick", [True, False])
def test_where_commits_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    """On the loop of a quick disk, on the writer's thread of a slow one; sweeps always on the thread."""
    where: list[str] = []
    step = QUICK if quick else SLOW
    ticks = iter(repeat(step))
    now = 0

    def stopwatch() -> int:
        nonlocal now
        now += next(ticks)
        return now

    def commit(self: Any) -> None:
        where.append("loop" if current_thread() is main_thread() else "thread")
        execute(self)

    execute = writer.Writer._execute_commit
    monkeypatch.setattr(writer.Writer, "_execute_commit", commit)
    with asyncio.Runner() as runner:

        async def opened() -> SqliteStore:
            return await SqliteStore.open(str(tmp_path / "x.db"), stopwatch=stopwatch)

        subject = Subject(runner.run(opened()), runner)
        container = subject.container()
        for number in range(SAMPLES):
            subject.put(container, b"%d" % number)
        subject.purge(container, -1)
        assert where == ["thread"] * SAMPLES + (["loop"] if quick else ["thread"]) + ["thread"]
        runner.run(subject.store.close())


def test_an_endless_read_does_not_keep_the_log_from_being_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted after the time for which the writer waits for others."""
    endless = "WITH RECURSIVE n(i) AS (SELECT count(*) FROM record UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    monkeypatch.setattr(
        store_module, "ANSWERS", ANSWERS | {Count: lambda connection, _: connection.execute(endless).get}
    )
    monkeypatch.setattr(store_module, "MOST_ON_LOOP", -1)
    monkeypatch.setattr(checkpoint, "PASSIVE_PAGES", 8)
    monkeypatch.setattr(checkpoint, "CAP_PAGES", 32)

    async def main() -> None:
        store = await SqliteStore.open(str(tmp_path / "x.db"))
        store._transaction.connection.set_busy_timeout(20)
        container = (await store.write(_row)).reply
        reading = asyncio.create_task(store.read(Count(container)))
        sizes = []
        while not reading.done():
            await store.write(lambda: _many(container, 20))
            sizes.append((tmp_path / "x.db-wal").stat().st_size)
        with pytest.raises(Unavailable, match="took so long"):
            await reading
        assert max(sizes) > 32 * 4096
        size = 0
        for _ in range(20):
            # On a busy machine the interrupted read may still hold the log while it is cut for the first time.
            await store.write(lambda: _many(container, 1))
            size = (tmp_path / "x.db-wal").stat().st_size
            if size <= 16 * 4096:
                break
        assert size <= 16 * 4096
        await store.close()

    asyncio.run(main())


# --- a range of an index, beside a commit -------------------------------------------------------------------------------


def test_a_range_is_read_at_once_while_a_commit_may_be_newer_than_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(SqliteStore.open(str(tmp_path / "store.db")))
        subject = Subject(store, runner)
        container = subject.container("c")
        for key in (b"a", b"b"):
            subject.put(container, key, entries=(Entry(FIRST_ORDERED, b"k"),))
        wanted = FetchRange(container, FIRST_ORDERED, KeyRange(b"", b"\xff"), 9)
        kept = runner.run(store.read(wanted))
        assert kept is not None
        # The cache is behind: as between a commit on the writer's thread and its publication.
        stale = [msgspec.structs.replace(each, value=b"stale") for each in kept]
        for each in stale:
            store._transaction.recent.keep(container, each)
        assert runner.run(store.read(wanted)) == stale
        monkeypatch.setattr(type(store._transaction), "is_published", False)
        assert runner.run(store.read(wanted)) == kept
        assert runner.run(store.read(FetchRange(container, FIRST_ORDERED, KeyRange(b"", b"\xff"), 1))) is None
        runner.run(store.close())
