"""Exports: what went in comes out, an interrupted one is gone on with, and a torn one is refused as a whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mayflydb.model.errors import Conflict, Corrupt, MayflyError, Unsupported, WriteConflict
from mayflydb.moving import files
from mayflydb.moving.copy import CopyResult, copy
from mayflydb.moving.files import FileSource, export, unfinished_path
from mayflydb.moving.frames import _HEAD, MAGIC, End, FileRow, Frames, Header, decode_row, encode_row
from mayflydb.moving.source import StoreSource
from mayflydb.store.interface import CatalogRow, Read, Store
from moving.conftest import Run
from moving.contents import everything, fill, new_id
from moving.test_copy import Interrupted, Mortal, filled
from store_suite.contract import Contract
from store_suite.reference import ReferenceStore

pytestmark = pytest.mark.usefixtures("small")


def quiet(done: int, total: int) -> None:
    """Nobody listens."""


async def write(store: Store, path: Path) -> CopyResult:
    return await export(await StoreSource.open(store), path, "test", quiet)


async def read(path: Path, target: Store) -> CopyResult:
    with FileSource.open(path) as source:
        return await copy(source, target, quiet)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "all.mayfly"


def frames(content: bytes) -> list[bytes]:
    """The first line, then each frame as it is in the file."""
    found, place = [content[: len(MAGIC)]], len(MAGIC)
    while place < len(content):
        length = _HEAD.size + _HEAD.unpack_from(content, place)[0]
        found.append(content[place : place + length])
        place += length
    return found


# --- the same ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_out_and_in(run: Run, path: Path, seed: int) -> None:
    async def through_a_file() -> None:
        source, target = Contract(ReferenceStore()), Contract(ReferenceStore())
        used = await fill(source, seed)
        moved = await write(source, path)
        assert await read(path, target) == moved
        assert await everything(target) == await everything(source)
        assert await new_id(target) > used

    run(through_a_file())
    assert not unfinished_path(path).exists()
    assert path.stat().st_mode & 0o777 == 0o600


def test_any_name(tmp_path: Path) -> None:
    row = CatalogRow(1, 0, "\ud800\0ü", b"")
    with (tmp_path / "one").open("w+b") as file:
        writing = Frames(file, "one")
        writing.begin()
        writing.append(encode_row(row))
        (found,) = Frames(file, "one").read()
    assert isinstance(found, FileRow)
    assert decode_row(found) == row


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_import_goes_on(run: Run, path: Path, late: bool) -> None:
    async def at_every_write() -> int:
        source = await filled()
        wanted = await everything(source)
        await write(source, path)
        for at in range(1, 1000):
            target = ReferenceStore()
            try:
                await read(path, Mortal(target, at, late))
            except Interrupted:
                await read(path, target)
                assert await everything(target) == wanted
            else:
                return at
        raise AssertionError("it never came to its end")

    assert run(at_every_write()) > 10


# --- an export that was interrupted --------------------------------------------------------------------------------------


class Reader:
    """A store whose user is gone at the n-th read."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._left = at
        self.description = store.description

    async def read(self, request: Read[Any]) -> Any:
        self._left -= 1
        if self._left == 0:
            raise Interrupted
        return await self._store.read(request)

    async def write(self, *arguments: Any) -> Any:
        return await self._store.write(*arguments)


def test_an_interrupted_export_goes_on(run: Run, path: Path) -> None:
    """The file is the one that an export without interruption writes, but for the last id."""

    async def at_every_read() -> int:
        source = await filled()
        await write(source, path)
        whole = frames(path.read_bytes())
        gone_on_with = 0
        for at in range(1, 1000):
            path.unlink()
            reader: Any = Reader(source, at)
            try:
                await write(reader, path)
            except Interrupted:
                assert not path.exists()
                gone_on_with += (await write(source, path)).before > 0
                assert frames(path.read_bytes())[:-1] == whole[:-1]
            else:
                assert gone_on_with > 5
                return at
        raise AssertionError("it never came to its end")

    assert run(at_every_read()) > 20


def test_a_torn_beginning_is_gone_on_with(run: Run, path: Path) -> None:
    """Wherever the machine stopped: what is whole is kept, what is not is written again."""

    async def torn_anywhere() -> None:
        source = await filled()
        await write(source, path)
        with FileSource.open(path) as found:
            found_before = found.records
        content = path.read_bytes()
        whole, chance = frames(content), random.Random(1)
        ends = [len(b"".join(whole[: n + 1])) for n in range(len(whole))]
        cuts = {0, *ends, *(end + by for end in ends for by in (-1, 1, 5)), *chance.sample(range(len(content)), 50)}
        for cut in sorted(cut for cut in cuts if cut <= len(content)):
            for tail in (b"", bytes(100)):
                path.unlink()
                unfinished_path(path).write_bytes(content[:cut] + tail)
                await write(source, path)
                assert frames(path.read_bytes())[:-1] == whole[:-1]
                with FileSource.open(path) as found:
                    assert found.records == found_before

    run(torn_anywhere())


def test_the_beginning_of_another_export_is_not_gone_on_with(run: Run, path: Path) -> None:
    async def changed() -> None:
        source = await filled()
        await write(source, path)
        path.rename(unfinished_path(path))
        await fill(source, 2, 1)
        assert (await write(source, path)).before == 0
        target = ReferenceStore()
        await read(path, target)
        assert await everything(target) == await everything(source)

    run(changed())


def test_a_source_that_changes_under_the_export(run: Run, path: Path) -> None:
    async def changing() -> None:
        source = await filled()
        beginning = await StoreSource.open(source)
        await fill(source, 2, 1)
        with pytest.raises(WriteConflict, match="changed meanwhile"):
            await export(beginning, path, "test", quiet)

    run(changing())
    assert not path.exists()


def test_what_is_there_is_not_overwritten(run: Run, path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(Conflict, match="exists"):
        run(write(run(filled()), path))
    path.rename(unfinished_path(path))
    with pytest.raises(Corrupt, match="no export"):
        run(write(run(filled()), path))
    assert unfinished_path(path).read_bytes() == b"precious"


def test_two_exports_at_once(run: Run, path: Path) -> None:
    source = run(filled())
    with unfinished_path(path).open("w+b") as other:
        files._lock(other, path)
        with pytest.raises(Conflict, match="another export is writing"):
            run(write(source, path))
    run(write(source, path))


# --- refused -------------------------------------------------------------------------------------------------------------


def refused(path: Path, content: bytes) -> MayflyError:
    path.write_bytes(content)
    with pytest.raises((Corrupt, Unsupported)) as caught, FileSource.open(path):
        pass
    assert str(path) in str(caught.value)
    return caught.value


def test_a_torn_file_is_refused_wherever_it_is_torn(run: Run, path: Path) -> None:
    run(write(run(filled()), path))
    content = path.read_bytes()
    ends = [len(b"".join(frames(content)[:count])) for count in range(len(frames(content)))]
    for cut in sorted({*range(40), *ends, *range(0, len(content), 997), len(content) - 1}):
        assert "torn" in str(refused(path, content[:cut]))


def test_a_damaged_file_is_refused(run: Run, path: Path) -> None:
    run(write(run(filled()), path))
    content, chance = path.read_bytes(), random.Random(1)
    for place in [*range(60), *chance.sample(range(len(content)), 300)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        refused(path, bytes(damaged))


def test_a_file_whose_frames_are_not_its_own_is_refused(run: Run, path: Path) -> None:
    run(write(run(filled()), path))
    first, header, *rest = frames(path.read_bytes())
    end = rest[-1]
    for others in (
        [header, *rest[1:]],
        [header, *rest[:-2], end],
        [header, rest[1], rest[0], *rest[2:]],
        [header, *rest[:-3], rest[-2], rest[-3], end],
        [header, *rest[:-1], rest[-2], end],
        [header, *rest, end],
        [header, *rest, rest[-2]],
        [header, header, *rest],
        rest,
        [header, end],
    ):
        refused(path, b"".join([first, *others]))
    refused(path, b"".join([first, header, *rest]) + b"x")


def test_an_end_counts(run: Run, path: Path) -> None:
    """An end that fits the bytes before it and still does not count what they hold."""
    with path.open("w+b") as file:
        writing = Frames(file, "one")
        writing.begin()
        writing.append(Header(0, 0, 1, "test"))
        writing.append(End(0, 1, 5, None, writing.checksum))
    assert "End" in str(refused(path, path.read_bytes()))


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"mayfly export 3\n....", Unsupported, "form 3"),
        (b"mayfly export 12\n...", Unsupported, "form 12"),
        (b"SQLite format 3\0....", Corrupt, "no export"),
        (b"mayfly export x\n....", Corrupt, "no export"),
        (b"", Corrupt, "torn"),
    ],
)
def test_other_files(path: Path, content: bytes, kind: type[MayflyError], reason: str) -> None:
    error = refused(path, content)
    assert isinstance(error, kind)
    assert reason in str(error)
