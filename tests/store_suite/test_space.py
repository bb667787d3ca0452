"""The free space of a file's disk: when writes are refused, which of them, and what the reserve is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import apsw
import pytest

from mayflydb.model.errors import OutOfSpace
from mayflydb.model.order import Order
from mayflydb.model.record import Entry, Kind, Record, Version
from mayflydb.store.interface import (
    AddVersion,
    CatalogRow,
    Change,
    Decision,
    Delete,
    DropRow,
    NamedNumber,
    Outcome,
    Put,
    PutRow,
    ReplaceEntries,
    Scan,
    SetNumber,
    TrimEvents,
)
from mayflydb.store.sqlite.checkpoint import RESERVE_SHARE
from mayflydb.store.sqlite.space import LOOK_BYTES, LOOK_US, RECORD_OVERHEAD, Space, SpaceLimits, grows, is_full
from mayflydb.store.sqlite.store import SqliteStore
from mayflydb.store.sqlite.volume import FileVolume

C = 7
RESERVE, LEAST = 1 << 20, 1 << 20


class Disk:
    """A file system whose free space is given."""

    def __init__(self, free: int) -> None:
        self.left = free
        self.kept = 0

    def free(self) -> int:
        return self.left - self.kept

    def reserve_size(self) -> int:
        return self.kept

    def reserve(self, size: int) -> None:
        self.kept = size

    def release(self) -> None:
        self.kept = 0


@pytest.mark.parametrize(
    ("free", "reserve", "least", "short", "kept"),
    [
        (RESERVE + LEAST, RESERVE, LEAST, False, RESERVE),
        (RESERVE + LEAST - 1, RESERVE, LEAST, True, 0),
        (LEAST, 0, LEAST, False, 0),
        (LEAST - 1, 0, LEAST, True, 0),
        (RESERVE, RESERVE, 0, False, RESERVE),
        (RESERVE - 1, RESERVE, 0, True, 0),
        (0, 0, 0, False, 0),
    ],
)
def test_a_disk_is_short_below_its_limits(free: int, reserve: int, least: int, short: bool, kept: int) -> None:
    disk = Disk(free)
    space = Space(disk, SpaceLimits(reserve, least), count().__next__)
    space.look()
    assert (space.is_short, disk.kept) == (short, kept)
    facts = space.facts()
    assert (facts.short, facts.reserve, facts.reserve_wanted, facts.least) == (short, kept, reserve, least)


def test_the_reserve_is_rebuilt_when_there_is_room_for_it_and_for_writes() -> None:
    disk = Disk(RESERVE + LEAST)
    space = Space(disk, SpaceLimits(RESERVE, LEAST), count().__next__)
    space.look()
    space.release()
    assert space.is_short and disk.kept == 0
    for free, short in ((RESERVE + LEAST - 1, True), (RESERVE + LEAST, False), (RESERVE + LEAST - 1, True)):
        disk.left = free
        space.look()
        assert space.is_short is short
    assert disk.kept == RESERVE  # Only a full disk takes it away.


def test_looks_are_rare() -> None:
    times = iter((0, LOOK_US - 1, LOOK_US, LOOK_US))
    space = Space(Disk(1 << 30), SpaceLimits(RESERVE, 1 << 30), times.__next__)
    assert space.is_due(0)
    space.look()
    assert not space.is_due(0)
    assert space.is_due(0)
    assert not Space(Disk(1), SpaceLimits(0, 0), lambda: 0).is_short
    space = Space(Disk(1 << 30), SpaceLimits(RESERVE, 1 << 30), lambda: 0)
    space.look()
    assert [space.is_due(written) for written in (LOOK_BYTES - 1, LOOK_BYTES, LOOK_BYTES + 1)] == [False, True, False]
    space.hurry()
    assert space.is_due(LOOK_BYTES + 1)


def record(size: int, seq: int = 1) -> Record:
    return Record(b"", b"k%d" % seq, b"x" * (size - 2), 0, 0, None, 1, seq)


@pytest.mark.parametrize(
    ("changes", "growing"),
    [
        ((), False),
        ((Put(C, record(10), True),), True),
        ((Put(C, record(10), False),), True),
        ((Delete(C, record(10)),), False),
        # What a deletion leaves behind: a line of the history, and the outcome for a client that asks again.
        ((Delete(C, record(9000)), AddVersion(C, Version(Kind.DELETE, 2, 0, value=b"x" * 9000))), False),
        ((Delete(C, record(10)), Put(C, record(10 + RECORD_OVERHEAD, 2), True)), False),
        ((Delete(C, record(10)), Put(C, record(11 + RECORD_OVERHEAD, 2), True)), True),
        ((Delete(C, record(10)), Put(C, record(10 + RECORD_OVERHEAD, 2), True, (Entry(0, b"e"),))), True),
        ((ReplaceEntries(C, 4, ((record(10), (b"e",)),)),), True),
        ((ReplaceEntries(C, 4, ((record(10), ()),)),), False),
        ((PutRow(CatalogRow(C, 1, "c", b"{}")),), False),
        ((PutRow(CatalogRow(C + 1, 1, "d", b"")),), True),
        ((PutRow(CatalogRow(C + 1, 1, "kept", b"{}")), DropRow(C)), False),
        ((SetNumber("clock_mark", 1), TrimEvents(1, 1)), False),
    ],
)  # fmt: skip
def test_growing_writes_are_told_from_deletes(changes: Sequence[Change], growing: bool) -> None:
    assert grows(changes, lambda id: id == C) is growing


def test_a_file_is_allocated_and_given_back(tmp_path: Path) -> None:
    volume = FileVolume(tmp_path / "x.db")
    file = tmp_path / "x.db-reserve"
    assert volume.reserve_size() == 0
    volume.release()
    volume.reserve(RESERVE)
    assert volume.reserve_size() == RESERVE == file.stat().st_blocks * 512
    assert file.stat().st_mode & 0o777 == 0o600
    volume.reserve(RESERVE // 2)
    assert volume.reserve_size() == RESERVE // 2
    volume.release()
    assert volume.reserve_size() == 0
    with file.open("r+b") as holes:
        holes.truncate(RESERVE)
    assert volume.reserve_size() == 0
    volume.reserve(0)
    assert volume.reserve_size() == 0
    assert volume.free() > 0


def full(code: int) -> apsw.Error:
    error = apsw.IOError("simulated")
    vars(error).update(extendedresult=code)
    return error


def test_which_errors_say_that_the_disk_is_full() -> None:
    assert is_full(apsw.FullError())
    assert is_full(full(apsw.SQLITE_IOERR_SHMSIZE))
    assert not is_full(full(apsw.SQLITE_IOERR_WRITE))
    assert not is_full(apsw.BusyError())


def test_a_store_on_a_short_disk_refuses_what_makes_it_grow(tmp_path: Path) -> None:
    def one(*changes: Change) -> Decision[None]:
        return Outcome(changes, None)
        yield

    async def run() -> None:
        disk = Disk(RESERVE + LEAST)
        ticks = count(0, LOOK_US)
        limits = SpaceLimits(RESERVE, LEAST)
        store = await SqliteStore.open(
            str(tmp_path / "x.db"), limits=limits, volume=disk, stopwatch=lambda: next(ticks)
        )
        kept = record(5000)
        await store.write(lambda: one(PutRow(CatalogRow(C, 0, "c", b"{}")), Put(C, kept, True)))
        disk.left -= 1
        # A look may be under way. The next one comes before the next write but one.
        await store.write(lambda: one(SetNumber("mark", 4)))
        before = store._transaction.commit_seq
        for growing in (Put(C, record(5000, 2), True), PutRow(CatalogRow(C + 1, 0, "d", b"{}"))):
            with pytest.raises(OutOfSpace):
                await store.write(lambda growing=growing: one(growing))  # type: ignore[misc]
        # Refusals alone are no commit: they would need space.
        assert store._transaction.commit_seq == before
        await store.write(lambda: one(SetNumber("mark", 5)))
        assert await store.read(NamedNumber("mark")) == 5
        await store.write(lambda: one(Delete(C, kept)))
        assert not await store.read(Scan(C, b"", None, Order.CREATED, None, 10))
        facts = await store.disk()
        assert (facts.short, facts.refused) == (True, 2)
        disk.left += 1
        await store.write(lambda: one(SetNumber("mark", 6)))
        await store.write(lambda: one(Put(C, record(5000, 2), True)))
        await store.close()

    asyncio.run(run())


def test_the_log_is_copied_before_it_outgrows_the_reserve(tmp_path: Path) -> None:
    async def run() -> None:
        limits = SpaceLimits(RESERVE, 0)
        store = await SqliteStore.open(str(tmp_path / "x.db"), limits=limits, volume=Disk(1 << 40))
        value = b"x" * 50_000

        def put(seq: int) -> Decision[None]:
            row = PutRow(CatalogRow(C, 0, "c", b"{}"))
            return Outcome((row, Put(C, Record(b"", b"%d" % seq, value, 0, 0, None, 1, seq), True)), None)
            yield

        for seq in range(1, 80):
            await store.write(lambda seq=seq: put(seq))  # type: ignore[misc]
        assert (tmp_path / "x.db-wal").stat().st_size < RESERVE // RESERVE_SHARE + 10 * len(value)
        await store.close()

    asyncio.run(run())
