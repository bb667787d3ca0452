"""A disk that is full, or fails: nothing acknowledged is lost, nothing dead is readable, nothing is called done that is not."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mayflydb.store.sqlite import data_file
from mayflydb.store.sqlite.store import SqliteStore
from reliability.storage import scenarios
from reliability.storage.scenarios import MORTALS, Measured

ALONE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


@cache
def _why_not(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    tried = subprocess.run(command, capture_output=True, check=False)
    return None if tried.returncode == 0 else f"{' '.join(command)} is not allowed here"


def play(name: str, directory: Path) -> Measured:
    """Play a scenario by its command, in a name space of its own for what it mounts."""
    command = [*ALONE, sys.executable, "-m", scenarios.__name__, name, str(directory)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Measured(**json.loads(done.stdout))


def check(found: Measured) -> None:
    assert (found.lost, found.back, found.readable_dead) == (0, 0, 0), found
    assert found.acknowledged > 0 and found.resumed <= 5, found
    assert "Traceback" not in found.log


@pytest.fixture
def mountable() -> None:
    reason = _why_not(*ALONE, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt")
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")


@pytest.mark.usefixtures("mountable")
def test_a_full_disk(tmp_path: Path, figure: Callable[[str], None]) -> None:
    found = play("full_disk", tmp_path)
    check(found)
    # Every refusal is one of the disk, and every outcome is known.
    assert found.refusals.keys() == {"403"} and found.unknown == 0, found
    assert found.reads > 100 and found.failed == 0, found
    assert found.deleted > 50 and found.purged == MORTALS, found
    assert found.ready == ["True: full"] * 3
    figure(f"N={found.acknowledged} acknowledged, {found.refusals['403']} refused, resumed in {found.resumed:.2f} s")


@pytest.mark.usefixtures("mountable")
def test_commits_that_meet_the_end_of_the_disk_are_known(tmp_path: Path) -> None:
    found = play("sudden_end", tmp_path)
    check(found)
    assert found.refusals.keys() == {"403"} and found.unknown == 0, found
    assert found.reads > 100 and found.failed == 0 and found.deleted > 50, found


@pytest.fixture
def traced() -> None:
    reason = _why_not("strace", "-qq", "-o", "/dev/null", "true")
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")


@pytest.mark.usefixtures("traced")
def test_a_failed_sync_ends_the_process(tmp_path: Path) -> None:
    found = asyncio.run(scenarios.failed_sync(tmp_path))
    check(found)
    assert "fsync failed" in found.log
    assert (found.refusals, found.unknown) == ({}, 0)


@pytest.mark.usefixtures("traced")
def test_errors_of_writes_are_unknown_commits(tmp_path: Path) -> None:
    found = asyncio.run(scenarios.write_error(tmp_path))
    check(found)
    assert found.unknown > 0 and found.refusals == {}, found


@pytest.mark.usefixtures("traced")
def test_errors_of_reads_are_never_missing_items(tmp_path: Path) -> None:
    found = asyncio.run(scenarios.read_error(tmp_path))
    check(found)
    assert found.failures.keys() == {"500"} and found.refusals == {"500": 1}, found
    assert "the store file is damaged" in found.log


def test_a_file_that_cannot_be_read_is_watched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of one look says nothing about the file: it is looked at again, and the log is not copied meanwhile."""

    async def look() -> list[tuple[str | None, bool]]:
        store = await SqliteStore.open(str(tmp_path / "x.db"))
        file = store._file
        assert file is not None
        found = [(file.find_change(), file.is_own())]
        with monkeypatch.context() as broken:
            broken.setattr(data_file, "origin_of_file", fail)
            found += [(file.find_change(), file.is_own()) for _ in range(3)]
            store._watch()
            assert store._watching is not None and store._lost is None
        found.append((file.find_change(), file.is_own()))
        await store.close()
        return found

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "simulated")

    assert asyncio.run(look()) == [(None, True), *[(None, False)] * 3, (None, True)]
