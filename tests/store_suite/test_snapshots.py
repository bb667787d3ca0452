"""Snapshots of a SQLite store go from one store to another as bytes; what is none changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path

import apsw
import pytest
import uvloop

from mayflydb.model.errors import BadRequest, NotFound, OutOfSpace, Overloaded, TooLarge
from mayflydb.store.interface import (
    CatalogRow,
    ChildRows,
    Decision,
    NamedNumber,
    NewId,
    Outcome,
    PutRow,
    SetNumber,
    ask,
)
from mayflydb.store.sqlite import SqliteStore

Opener = Callable[[], Coroutine[None, None, SqliteStore]]


async def facts() -> bytes:
    return b"facts"


def take(facts: bytes, rows: Sequence[CatalogRow]) -> None:
    assert facts == b"facts"


async def in_parts(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for first in range(0, len(data), size):
        yield data[first : first + size]


async def put_row(store: SqliteStore, name: str) -> int:
    def decide() -> Decision[int]:
        id = yield from ask(NewId())
        return Outcome((PutRow(CatalogRow(id, 0, name, b"x")), SetNumber("n", id), SetNumber("own", id)), id)

    return (await store.write(decide)).reply


async def names(store: SqliteStore) -> list[str]:
    return [row.name for row in await store.read(ChildRows(0))]


@pytest.mark.parametrize("back", [True, False])
def test_bytes_of_one_store_are_a_snapshot_of_another(tmp_path: Path, back: bool) -> None:
    async def run() -> None:
        memory, file = await SqliteStore.open(None), await SqliteStore.open(str(tmp_path / "a.db"))
        source, target = (file, memory) if back else (memory, file)
        try:
            await put_row(source, "a")
            snapshots, others = source.snapshots(), target.snapshots()
            await snapshots.save("one", facts)
            data = b"".join([part async for part in snapshots.read("one")])
            last = [await put_row(target, f"t{number}") for number in range(3)][-1]
            taken = await others.receive("two", in_parts(data), len(data), take)
            assert (taken.name, taken.size, taken.facts) == ("two", len(data), b"facts")
            told: list[bool] = []
            await others.restore("two", ("own",), (), lambda: told.append(True))
            assert (await names(target), told) == (["a"], [True])
            # Ids go on, numbers are those of the snapshot, except those that stay.
            assert await target.read(NamedNumber("n")) == 1
            assert await target.read(NamedNumber("own")) == last
            assert await put_row(target, "b") == last + 1
            await others.delete("two")
            with pytest.raises(NotFound):
                await others.restore("two", (), (), lambda: None)
            assert await names(target) == ["a", "b"]
        finally:
            await memory.close()
            await file.close()

    uvloop.run(run())


def foreign(path: Path, *statements: str) -> bytes:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_bytes_that_are_no_snapshot(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        store = await SqliteStore.open(None if kind == "memory" else str(tmp_path / "a.db"))
        try:
            await put_row(store, "a")
            snapshots = store.snapshots()
            await snapshots.save("one", facts)
            whole = b"".join([part async for part in snapshots.read("one")])
            tables = foreign(tmp_path / "t.db", "CREATE TABLE t(a)")
            torn = whole[: len(whole) // 2]
            flipped = bytearray(whole)
            flipped[-4096:] = b"\xff" * 4096
            (tmp_path / "c.db").write_bytes(whole)
            columns = foreign(tmp_path / "c.db", "ALTER TABLE dropped ADD COLUMN more")
            for data, word in (
                (b"", "no snapshot"), (b"x" * 10_000, "no snapshot"), (tables, "no snapshot"), (torn, "."),
                (bytes(flipped), "."), (columns, "other columns" if kind == "memory" else "no snapshot"),
            ):  # fmt: skip
                with pytest.raises(BadRequest, match=word):
                    await snapshots.receive("two", in_parts(data), len(data), take)

            def refuse(facts: bytes, rows: Sequence[CatalogRow]) -> None:
                assert [row.name for row in rows] == ["a"]
                raise BadRequest("refused")

            with pytest.raises(BadRequest, match="refused"):
                await snapshots.receive("two", in_parts(whole), 0, refuse)
            with pytest.raises(OutOfSpace):
                await snapshots.receive("two", in_parts(whole), 1 << 62, take)
            monkeypatch.setattr(type(snapshots._places), "room", lambda self: 5000)
            with pytest.raises(TooLarge):
                await snapshots.receive("two", in_parts(whole), 0, take)
            assert [each.name for each in await snapshots.list_all()] == ["one"]
            assert await names(store) == ["a"]
        finally:
            await store.close()

    uvloop.run(run())


def test_a_client_that_is_slow_holds_up_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        store = await SqliteStore.open(str(tmp_path / "a.db"))
        try:
            await put_row(store, "a")
            snapshots, goes_on = store.snapshots(), asyncio.Event()
            await snapshots.save("one", facts)
            whole = b"".join([part async for part in snapshots.read("one")])

            async def slowly() -> AsyncIterator[bytes]:
                yield whole[:1000]
                begun.set()
                await goes_on.wait()
                yield whole[1000:]

            begun = asyncio.Event()
            task = asyncio.create_task(snapshots.receive("two", slowly(), 0, take))
            await begun.wait()
            with pytest.raises(Overloaded):
                await snapshots.receive("three", in_parts(whole), 0, take)
            await snapshots.save("four", facts)
            assert [each.name for each in await snapshots.list_all()] == ["four", "one"]
            goes_on.set()
            assert (await task).size == len(whole)
            assert [each.name for each in await snapshots.list_all()] == ["four", "one", "two"]

            async def failing() -> AsyncIterator[bytes]:
                yield whole[:1000]
                raise BadRequest("left")

            with pytest.raises(BadRequest, match="left"):
                await snapshots.receive("three", failing(), 0, take)
            assert sorted(each.name for each in Path(f"{tmp_path}/a.db-snapshots").iterdir()) == [
                "four.snapshot",
                "one.snapshot",
                "two.snapshot",
            ]
        finally:
            await store.close()

    uvloop.run(run())
