"""Removal against concurrent changes, over the real engine; and races that are planted, which have to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

import planted
from mayflydb.engine.part import Part
from mayflydb.engine.past import Past
from reliability.model.interleaved import Interleaved
from reliability.mutants.bugs import purge_without_recheck

STEPS = 12_000


@pytest.mark.parametrize("number", range(4))
def test_whoever_is_moved_out_of_reach_survives(seed: int, number: int, figure: Callable[[str], None]) -> None:
    world = Interleaved(seed + number)
    world.steps(STEPS)
    assert min(world.tally[what] for what in ("commits", "conflicts", "deaths", "looks", "runs")) > 5
    figure(f"{STEPS} steps, {dict(sorted(world.tally.items()))}")


def _nothing(*_: Any) -> Iterator[Any]:
    return
    yield


RACES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "picked, then deleted": purge_without_recheck,
    "reads are not checked": lambda: patch.object(Part, "check_reads", _nothing),
    "ranges are not checked": lambda: patch.object(Part, "_read_spans", lambda self: iter(())),
    "the purged are forgotten": lambda: patch.object(Past, "wants_deaths", False),
    "the replaced are forgotten": lambda: patch.object(Past, "noted", lambda self, container, after: ([], after)),
    "new rows are seen": lambda: patch.object(Part, "is_new", lambda self, stored: False),
}


@pytest.mark.parametrize("race", RACES)
def test_a_planted_race_is_found(race: str, figure: Callable[[str], None]) -> None:
    with RACES[race]():
        found = planted.found(lambda seed: Interleaved(seed).steps(STEPS // 4))
    assert found, f"{race}: nothing was found"
    figure(f"{race}: {found}")
