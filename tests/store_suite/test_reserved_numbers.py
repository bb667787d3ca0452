"""The lsns and seqs that the row of a container in a file reserves ahead."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from mayflydb.model.errors import Unavailable
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Decision,
    DropRow,
    Get,
    LoadRow,
    NewId,
    Outcome,
    Put,
    PutRow,
    ask,
)
from mayflydb.store.rows import SEQ_MASK
from mayflydb.store.sqlite.catalog import AHEAD
from mayflydb.store.sqlite.store import SqliteStore


def _row(lsn: int = 0, seq: int = 0) -> Decision[int]:
    id = yield from ask(NewId())
    return Outcome((PutRow(CatalogRow(id, 0, f"c{id}", b"", lsn, seq)),), id)


def _put(container: int, key: bytes) -> Decision[tuple[int, int]]:
    before = yield from ask(Get(container, b"p", key))
    lsn, seq = yield from ask(Allocate(container, before is None))
    record = Record(b"p", key, b"v", 0, 0, None, lsn, seq if before is None else before.seq)
    return Outcome((Put(container, record, before is None),), (lsn, record.seq))


def _stored(path: Path) -> list[tuple[int, int]]:
    connection = apsw.Connection(str(path))
    found = [(lsn, seq) for lsn, seq in connection.execute("SELECT lsn, seq FROM catalog ORDER BY id")]
    connection.close()
    return found


def _copy(path: Path, to: Path) -> Path:
    """A copy of a file that is open, as a crash at this moment leaves it."""
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{to}{end}")
    return to


def _with(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await SqliteStore.open(str(path))
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(main())


async def _numbers(store: SqliteStore, container: int) -> tuple[int, int]:
    row = await store.read(LoadRow(container))
    assert row is not None
    return row.lsn, row.seq


def test_a_write_updates_the_row_only_where_the_reserved_numbers_are_used_up(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def work(store: SqliteStore) -> None:
        container = (await store.write(_row)).reply
        for number in range(3):
            assert (await store.write(partial(_put, container, b"%d" % number))).reply == (number + 1, number + 1)
            assert _stored(path) == [(1 + AHEAD, 1 + AHEAD)]
            assert await _numbers(store, container) == (number + 1, number + 1)
        for _ in range(AHEAD - 2):
            await store.write(lambda: _put(container, b"0"))
        assert _stored(path) == [(1 + AHEAD, 1 + AHEAD)]
        assert (await store.write(lambda: _put(container, b"0"))).reply == (AHEAD + 2, 1)
        assert _stored(path) == [(2 * AHEAD + 2, 3 + AHEAD)]

    _with(path, work)


def test_a_clean_stop_gives_the_rest_back_and_a_crash_leaves_a_gap(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.db", tmp_path / "copy.db"

    async def work(store: SqliteStore) -> None:
        container = (await store.write(_row)).reply
        await store.write(lambda: _put(container, b"a"))
        await store.write(lambda: _put(container, b"a"))
        _copy(path, copy)

    def go_on(first: tuple[int, int]) -> Callable[[SqliteStore], Awaitable[None]]:
        async def work(store: SqliteStore) -> None:
            assert await _numbers(store, 1) == (first[0] - 1, first[1] - 1)
            assert (await store.write(lambda: _put(1, b"b"))).reply == first
            assert await store.read(Get(1, b"p", b"a")) is not None

        return work

    _with(path, work)
    assert _stored(path) == [(2, 1)]
    _with(path, go_on((3, 2)))
    assert _stored(path) == [(3, 2)]
    _with(copy, go_on((2 + AHEAD, 2 + AHEAD)))
    assert _stored(copy) == [(2 + AHEAD, 2 + AHEAD)]


def test_a_reservation_that_was_rolled_back_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def work(store: SqliteStore) -> None:
        container = (await store.write(_row)).reply

        def broken() -> Decision[None]:
            yield from _put(container, b"a")
            # An insert of a seq that is there already fails in SQLite, and with it the whole group.
            record = Record(b"p", b"x", b"v", 0, 0, None, 1, 1)
            return Outcome((Put(container, record, True), Put(container, record, True)), None)

        with pytest.raises(Unavailable):
            await store.write(broken)
        assert _stored(path) == [(0, 0)]
        assert (await store.write(lambda: _put(container, b"a"))).reply == (1, 1)
        assert _stored(path) == [(1 + AHEAD, 1 + AHEAD)]

    _with(path, work)


def test_the_last_seqs_are_reserved_and_given_out(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def work(store: SqliteStore) -> None:
        container = (await store.write(lambda: _row(5, SEQ_MASK - 2))).reply
        for number in (1, 2):
            assert (await store.write(partial(_put, container, b"%d" % number))).reply[1] == SEQ_MASK - 2 + number
            assert _stored(path) == [(6 + AHEAD, SEQ_MASK)]
        with pytest.raises(Unavailable, match="all its record numbers"):
            await store.write(lambda: _put(container, b"3"))

    _with(path, work)


def test_a_container_that_is_dropped_reserves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    def drop(container: int) -> Decision[None]:
        yield from _put(container, b"b")
        return Outcome((DropRow(container),), None)

    async def work(store: SqliteStore) -> None:
        container = (await store.write(_row)).reply
        await store.write(lambda: _put(container, b"a"))
        await store.write(lambda: drop(container))
        assert not store._transaction.catalog.has_reserved
        await store.write(_row)
        await store.reset()
        assert not store._transaction.catalog.has_reserved

    _with(path, work)
    assert _stored(path) == []


def test_a_store_whose_writer_has_ended_does_not_wait_for_its_last_write(tmp_path: Path) -> None:
    async def main() -> None:
        store = await SqliteStore.open(str(tmp_path / "x.db"))
        container = (await store.write(_row)).reply
        await store.write(lambda: _put(container, b"a"))
        store._writer._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(store.close(), 20)

    asyncio.run(main())
