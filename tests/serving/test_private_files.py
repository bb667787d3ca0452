"""What Mayfly writes belongs to its owner alone, from the moment at which a file exists, whatever the umask allows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from mayflydb.cli.ydb.profiles import Profiles, read_profiles, write_profiles
from mayflydb.embedded import serve
from mayflydb.serving.private_files import write_private
from mayflydb.serving.stores import repair_file


@pytest.fixture(autouse=True)
def no_umask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is taken from the modes that are asked for, and no mode is changed afterwards."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a mode is changed after the file was created")

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    before = os.umask(0)
    yield
    os.umask(before)


def mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


def test_the_files_of_a_store(file: Path) -> None:
    with serve(file, port=0) as server:
        server.cosmos.client().create_database("shop")
        modes = {each.name: mode(each) for each in file.parent.glob("*.db*")}
        assert {file.name + end for end in ("", "-lock", "-wal", "-shm")} <= {*modes}
        assert set(modes.values()) == {0o600}


def test_a_store_that_exists_keeps_its_mode(file: Path) -> None:
    file.touch(0o640)
    with serve(file, port=0):
        assert mode(file) == 0o640


def test_a_repaired_store(file: Path) -> None:
    with serve(file, port=0) as server:
        shop = server.cosmos.client().create_database("shop")
        shop.create_container("carts", PartitionKey("/id")).create_item({"id": "a"})
    target = file.with_name("mended.db")
    modes: dict[str, int] = {}

    def note_modes(*_: object) -> None:
        modes.update((each.name, mode(each)) for each in file.parent.glob("mended.db*"))

    repair_file(file, target, note_modes)
    note_modes()
    assert {target.name, f"{target.name}.unfinished", f"{target.name}.unfinished-wal"} <= {*modes}
    assert set(modes.values()) == {0o600}


def test_profiles_with_passwords_in_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write_profiles(Profiles({"here": {"user": "root"}}))
    write_profiles(Profiles({"there": {"user": "root"}}))
    place = tmp_path / "mayfly" / "ydb-profiles.json"
    assert (mode(place), mode(place.parent)) == (0o600, 0o700)
    assert read_profiles().profiles == {"there": {"user": "root"}}
    assert list(place.parent.iterdir()) == [place]


def test_the_first_secret_stays_unless_it_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "secrets" / "key"
    write_private(place, b"first")
    write_private(place, b"second")
    assert (place.read_bytes(), mode(place)) == (b"first", 0o600)
    write_private(place, b"third", replace=True)
    assert (place.read_bytes(), mode(place)) == (b"third", 0o600)
    assert list(place.parent.iterdir()) == [place]


def test_secrets_that_are_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(memory=True, port=0, generate_key=True, mongo_auth=True, ydb_auth=True, ydb_tls_port=0):
        modes = {each.name: mode(each) for each in (tmp_path / "mayfly").iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert {"cosmos.key", "mongo.password", "ydb.password", "ca.key"} <= {*modes}
    assert set(modes.values()) == {0o600}
