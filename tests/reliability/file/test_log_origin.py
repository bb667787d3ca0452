"""A log that was left by another database, or by another state of this one, is refused; the file's own is recovered."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.config import StorageSettings
from mayflydb.model.errors import MayflyError, Unavailable
from mayflydb.serving.stores import open_alone
from mayflydb.store.interface import Decision, NamedNumber, Outcome, SetNumber
from mayflydb.store.sqlite.log_origin import META_PAGE, PAGE, Origin, find_mismatch, origin_of_log, read_meta
from mayflydb.store.sqlite.store import SqliteStore

A, B = 11, 22

TABLE = {
    # The file, the log, and whether the log is the file's own.
    "no log": (Origin(5, A, None), None, True),
    "neither": (None, None, True),
    "the making of the tables": (None, Origin(0, None, None), True),
    "a file that was emptied": (None, Origin(1, A, None), False),
    "the next commit": (Origin(5, A, None), Origin(6, A, None), True),
    "all of it in the file": (Origin(9, A, None), Origin(6, A, None), True),
    "a gap of one": (Origin(5, A, None), Origin(7, A, None), False),
    "another database": (Origin(5, A, None), Origin(6, B, None), False),
    "the first commit of the next era": (Origin(5, A, None), Origin(6, B, A), True),
    "a later commit of the next era": (Origin(5, A, None), Origin(7, B, A), False),
    "the same commit in the next era": (Origin(5, A, None), Origin(5, B, A), False),
    "a file from before eras": (Origin(5, None, None), Origin(6, None, None), True),
    "the first era of an old file": (Origin(5, None, None), Origin(6, A, None), True),
    "an old file, and another's log": (Origin(5, None, None), Origin(6, A, B), False),
}


@pytest.mark.parametrize("case", TABLE)
def test_which_logs_are_the_files_own(case: str) -> None:
    file, log, own = TABLE[case]
    assert (find_mismatch(file, log) is None) is own


async def write(store: SqliteStore, value: int) -> None:
    def decide() -> Decision[None]:
        return Outcome((SetNumber("value", value),), None)
        yield

    await store.write(decide)


async def killed(path: Path, *values: int, into: Path) -> None:
    """What a kill after these writes leaves: the file and its log, copied into a directory."""
    store = await SqliteStore.open(str(path))
    for value in values:
        await write(store, value)
    for each in (path, Path(f"{path}-wal")):
        shutil.copy(each, into)
    await store.close()


async def value_of(path: Path) -> int | None:
    store = await SqliteStore.open(str(path))
    try:
        return await store.read(NamedNumber("value"))
    finally:
        await store.close()


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A directory where one.db was killed with three commits in its log, and two.db with two."""
    (tmp_path / "left").mkdir()
    for name, values in (("one", (1, 2, 3)), ("two", (7, 8))):
        asyncio.run(killed(tmp_path / f"{name}.db", *values, into=tmp_path / "left"))
    return tmp_path / "left"


def test_a_rightful_log_is_recovered(left: Path) -> None:
    assert asyncio.run(value_of(left / "one.db")) == 3
    assert asyncio.run(value_of(left / "two.db")) == 8


@pytest.mark.parametrize("file", ["two's", "empty", "missing"])
def test_the_log_of_another_database_is_refused(left: Path, file: str) -> None:
    one = left / "one.db"
    if file == "two's":
        shutil.copy(left / "two.db", one)
    else:
        one.unlink()
    if file == "empty":
        one.touch()
    there = sorted(left.iterdir())
    log = Path(f"{one}-wal").read_bytes()
    with pytest.raises(Unavailable, match=r"one\.db-wal does not belong to the file beside it") as refused:
        asyncio.run(value_of(one))
    assert "remove the log" in str(refused.value.detail["hint"])
    # Nothing was touched: the operator still has both.
    assert Path(f"{one}-wal").read_bytes() == log
    assert {*left.iterdir()} - {*there} <= {Path(f"{one}-lock"), Path(f"{one}-shm")}
    Path(f"{one}-wal").unlink()
    assert asyncio.run(value_of(one)) is None


def test_a_copy_of_the_same_database_parts_with_its_next_opening(left: Path, tmp_path: Path) -> None:
    # one.db was closed, copied, and both copies went on: the log of one is not the other's.
    one, copy = tmp_path / "one.db", tmp_path / "copy.db"
    shutil.copy(one, copy)
    for path, value in ((one, 40), (copy, 50)):
        (tmp_path / path.stem).mkdir()
        asyncio.run(killed(path, value, into=tmp_path / path.stem))
    shutil.copy(tmp_path / "copy" / "copy.db-wal", tmp_path / "one" / "one.db-wal")
    with pytest.raises(Unavailable, match="another copy of this one"):
        asyncio.run(value_of(tmp_path / "one" / "one.db"))


async def _checkpointed(path: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """The file before and after a checkpoint within one era, and the log that was begun after it."""
    store = await SqliteStore.open(str(path))
    older, newer, log = tmp_path / "older.db", tmp_path / "newer.db", tmp_path / "later-wal"
    await write(store, 1)
    shutil.copy(path, older)
    shutil.copy(f"{path}-wal", tmp_path / "earlier-wal")
    await write(store, 2)
    assert store._log is not None
    store._log.checkpoint(3)  # SQLITE_CHECKPOINT_TRUNCATE
    shutil.copy(path, newer)
    await write(store, 3)
    shutil.copy(f"{path}-wal", log)
    await store.close()
    return older, newer, log


@pytest.mark.parametrize(
    ("file", "log", "says"),
    [
        ("older", "later", "the log begins with commit"),
        ("newer", "earlier", "it ends before commit"),
        ("newer", "later", ""),
        ("older", "earlier", ""),
    ],
)
def test_other_states_of_one_era(tmp_path: Path, file: str, log: str, says: str) -> None:
    asyncio.run(_checkpointed(tmp_path / "store.db", tmp_path))
    path = tmp_path / f"{file}.db"
    shutil.copy(tmp_path / f"{log}-wal", f"{path}-wal")
    if says:
        with pytest.raises(Unavailable, match=says):
            asyncio.run(value_of(path))
        # Refused again: the first refusal has not put the log into the file.
        with pytest.raises(Unavailable, match=says):
            asyncio.run(value_of(path))
    else:
        assert asyncio.run(value_of(path)) == (3 if log == "later" else 1)


def test_a_log_that_breaks_off_is_recovered_up_to_there(left: Path, tmp_path: Path) -> None:
    whole = (left / "one.db-wal").read_bytes()
    first = origin_of_log(str(left / "one.db-wal"))
    assert first is not None
    found = []
    for size in range(0, len(whole) + 1, 1024):
        directory = tmp_path / str(size)
        directory.mkdir()
        shutil.copy(left / "one.db", directory)
        (directory / "one.db-wal").write_bytes(whole[:size])
        assert origin_of_log(str(directory / "one.db-wal")) in (None, first)
        found.append(asyncio.run(value_of(directory / "one.db")) or 0)
    assert found == sorted(found) and {*found} >= {0, 1, 2}


def test_a_page_that_is_not_of_meta(left: Path) -> None:
    content = (left / "one.db").read_bytes()
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    assert [number for number, page in enumerate(pages, 1) if read_meta(page)] == [META_PAGE]
    for cut in range(0, PAGE, 97):
        page = pages[META_PAGE - 1]
        read_meta(page[:cut])
        read_meta(page[:cut] + b"\xff" * (PAGE - cut))


@pytest.mark.parametrize("why", ["foreign log", "hard links", "damage"])
def test_a_start_is_refused_for_safety(left: Path, why: str) -> None:
    file = left / "one.db"
    match why:
        case "foreign log":
            shutil.copy(left / "two.db", file)
        case "hard links":
            (left / "link.db").hardlink_to(file)
        case _:
            Path(f"{file}-wal").unlink()
            content = bytearray(file.read_bytes())
            content[(META_PAGE - 1) * PAGE + 2000] ^= 1
            file.write_bytes(content)
    with pytest.raises(StartFailed) as refused:
        asyncio.run(open_alone(StorageSettings(f"sqlite:///{file}"), create=False))
    assert (refused.value.exit_code, refused.value.setting) == (4, "storage.url")
    assert {"foreign log": "remove the log", "hard links": "find -samefile", "damage": "mayfly doctor"}[why] in (
        refused.value.hint
    )


def test_errors_are_of_the_store(left: Path) -> None:
    (left / "one.db").write_bytes(b"no database" * 1000)
    with pytest.raises(MayflyError):
        asyncio.run(value_of(left / "one.db"))
