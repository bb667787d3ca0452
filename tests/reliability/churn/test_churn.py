"""A server under a steady load of records that come and die keeps its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.churn.churning import Measured, churn
from reliability.conftest import HOURS

SHORT_SECONDS = 6.0
SOAK_SHARE = 0.125
"""Of HOURS: an hour of eight."""

MOST_GROWTH = 0.02


SHOWN = 12
"""Samples in a figure."""


def describe(found: Measured) -> str:
    rounds = ", ".join(f"{name} {count}" for name, count in found.rounds.items())
    return (
        f"rounds in {found.samples[-1].at:.0f} s: {rounds}; growth from the third quarter to the last: "
        f"resident {found.growth('resident'):+.1%}, file {found.growth('stored'):+.1%}; resident and file in MB: "
        + ", ".join(f"{each.resident:.1f} {each.stored:.1f} at {each.at:.0f} s" for each in found.spread(SHOWN))
    )


def test_clients_of_three_wires_work_side_by_side(tmp_path: Path, figure: Callable[[str], None]) -> None:
    found = churn(tmp_path, SHORT_SECONDS, every=1.0)
    figure(describe(found))
    assert not found.errors
    assert {*found.rounds} == {"cosmos", "mongo", "ydb"}


@pytest.mark.soak
def test_memory_and_file_are_flat(tmp_path: Path, figure: Callable[[str], None]) -> None:
    found = churn(tmp_path, HOURS * 3600 * SOAK_SHARE)
    figure(describe(found))
    assert not found.errors
    assert found.growth("resident") <= MOST_GROWTH, describe(found)
    assert found.growth("stored") <= MOST_GROWTH, describe(found)
