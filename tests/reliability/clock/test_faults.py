"""Faults of the clock under a server that is asked over three wires, on every store: nothing early, nothing dead readable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import stores
from reliability.clock.faults import FAULTS, stopped_process


@pytest.fixture(autouse=True)
def own_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.mark.parametrize("store", ["memory", "file", "postgres"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_clock_at_fault(
    fault: str, store: str, request: pytest.FixtureRequest, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    if store == "memory" and "start" in fault:
        pytest.skip("what is in memory ends with its server")
    place = stores.place(store, request, tmp_path)
    place.pop("scheme", None)
    measured = FAULTS[fault](place)
    figure(f"{store}: {measured}")
    assert (measured.early, measured.dead, measured.purged_early) == (0, 0, 0)
    assert measured.alarm
    assert measured.mark_ahead <= 2
    assert measured.starts_again == (store != "memory")


def test_a_stopped_process_goes_on_in_the_present(tmp_path: Path, figure: Callable[[str], None]) -> None:
    measured = stopped_process(tmp_path)
    figure(str(measured))
    assert (measured.early, measured.dead, measured.alarm) == (0, 0, False)
