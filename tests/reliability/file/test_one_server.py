"""One file, one server, by whatever name a second one comes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reliability.kill9.process import Server


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """A running server, and another one that is not started yet."""
    with Server(tmp_path_factory.mktemp("first")) as first, Server(tmp_path_factory.mktemp("second")) as second:
        first.start()
        yield first, second
        assert first.pid
        first.stop()


def same(file: Path, place: Path) -> Path:
    return file


def relative(file: Path, place: Path) -> Path:
    return place / ".." / file.parent.name / file.name


def link(file: Path, place: Path) -> Path:
    (place / "link.db").symlink_to(file)
    return place / "link.db"


def chain(file: Path, place: Path) -> Path:
    (place / "chain.db").symlink_to(place / "further.db")
    (place / "further.db").symlink_to(file)
    return place / "chain.db"


def directory(file: Path, place: Path) -> Path:
    (place / "directory").symlink_to(file.parent)
    return place / "directory" / file.name


def without_lock(file: Path, place: Path) -> Path:
    Path(f"{file}-lock").unlink()
    return file


def mount(file: Path, place: Path) -> Path:
    bound = place / "bound"
    bound.mkdir()
    if subprocess.run(["mount", "--bind", file.parent, bound], capture_output=True, check=False).returncode:
        pytest.skip("NOT RUN: binding a directory needs rights")
    return bound / file.name


NAMES = (same, relative, link, chain, directory, without_lock, mount)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.__name__)
def test_a_second_server_is_refused(
    pair: tuple[Server, Server], name: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    first, second = pair
    second.file = name(first.file, tmp_path)
    try:
        said = second.start_refused()
    finally:
        if name is mount:
            subprocess.run(["umount", tmp_path / "bound"], check=True)
    # By whatever name it came, the real one is named.
    assert "is in use by another Mayfly process" in said
    assert name is mount or str(first.file) in said


def test_a_hard_link_is_refused_by_name(pair: tuple[Server, Server], tmp_path: Path) -> None:
    first, second = pair
    second.file = tmp_path / "hard.db"
    second.file.hardlink_to(first.file)
    try:
        assert "has 2 names (hard links)" in second.start_refused()
    finally:
        second.file.unlink()


def test_log_and_lock_lie_beside_the_real_file(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    (other / "link.db").symlink_to(real / "mayfly.db")
    with Server(tmp_path) as server:
        server.file = other / "link.db"
        server.start()
        assert {each.name for each in real.iterdir()} >= {f"mayfly.db{end}" for end in ("", "-wal", "-shm", "-lock")}
        assert [each.name for each in other.iterdir()] == ["link.db"]
        server.kill()
        # Recovered by the other name.
        server.file = real / "mayfly.db"
        server.start()
        server.stop()


@pytest.mark.parametrize("kind", ["directory", "device"])
def test_what_is_not_a_file_is_refused(tmp_path: Path, pair: tuple[Server, Server], kind: str) -> None:
    _, second = pair
    second.file = tmp_path if kind == "directory" else Path("/dev/null")
    assert "is not a file" in second.start_refused()
