"""One look at a file, where the file itself can be locked and where it cannot."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path
from typing import Any

import pytest

from mayflydb.model.errors import Unavailable
from mayflydb.store.sqlite.data_file import DataFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=["other systems", "other file systems"])
def without_inode_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "other systems":
        monkeypatch.setattr(sys, "platform", "darwin")
        return

    def refuse(*arguments: Any) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)


@pytest.mark.usefixtures("without_inode_locks")
def test_where_a_file_cannot_be_locked_its_lock_is_watched(path: Path) -> None:
    file = DataFile.take(str(path))
    with pytest.raises(Unavailable, match="in use"):
        DataFile.take(str(path))
    assert "lock" not in str(file.find_change())
    Path(f"{path}-lock").unlink()
    assert file.find_change() == f"the lock {path}-lock was removed"
    Path(f"{path}-lock").touch()
    assert file.find_change() == f"the lock {path}-lock was replaced"
    file.close()


def test_a_locked_file_does_not_need_its_lock_file(path: Path) -> None:
    file = DataFile.take(str(path))
    Path(f"{path}-lock").unlink()
    with pytest.raises(Unavailable, match="in use"):
        DataFile.take(str(path))
    assert "lock" not in str(file.find_change())
    file.close()
    DataFile.take(str(path)).close()


def test_what_is_refused_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DataFile.take(str(tmp_path / "missing" / "store.db"))
    with pytest.raises(Unavailable, match="is not a file"):
        DataFile.take(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_files_that_do_not_stay(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # As if each look gave another number: that is no rename, and must not end a server.
    file = DataFile.take(str(path))
    Path(f"{path}-wal").touch()
    path.rename(path.with_name("another number"))
    path.touch()
    file.watch(frozenset())
    assert "a rename will not be noticed" in caplog.text
    assert "renamed" not in str(file.find_change())
    file.close()
