"""Removal against concurrent changes, over the real engine; and races that are planted, which have to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

import planted
from mayflydb.engine.container_snapshot import ContainerSnapshot
from mayflydb.engine.locks import Locks
from mayflydb.engine.snapshot import Snapshot
from mayflydb.engine.version_cache import VersionCache
from reliability.model.interleaved import Interleaved
from reliability.mutants.bugs import (
    lock_during_a_purge,
    plain_write_does_not_wait,
    purge_of_what_is_locked,
    purge_without_recheck,
)

STEPS = 12_000


@pytest.mark.parametrize("number", range(4))
def test_whoever_is_moved_out_of_reach_survives(seed: int, number: int, figure: Callable[[str], None]) -> None:
    world = Interleaved(seed + number)
    world.steps(STEPS)
    expected = ("commits", "conflicts", "deaths", "looks", "runs", "owned", "plain", "waits")
    assert min(world.tally[what] for what in expected) > 5
    figure(f"{STEPS} steps, {dict(sorted(world.tally.items()))}")


def _nothing(*_: Any) -> Iterator[Any]:
    return
    yield


def _early() -> AbstractContextManager[object]:
    commit = Snapshot.commit

    async def committed(self: Snapshot, now: int) -> Any:
        self._engine.locks.release(self._holder)
        return await commit(self, now)

    return patch.object(Snapshot, "commit", committed)


RACES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "picked, then deleted": purge_without_recheck,
    "reads are not checked": lambda: patch.object(ContainerSnapshot, "check_reads", _nothing),
    "ranges are not checked": lambda: patch.object(ContainerSnapshot, "_ranges_read", lambda self: iter(())),
    "the purged are forgotten": lambda: patch.object(VersionCache, "wants_purged", False),
    "the replaced are forgotten": lambda: patch.object(
        VersionCache, "replaced_since", lambda self, container, after: ([], after)
    ),
    "locks are not spared": purge_of_what_is_locked,
    "a lock waits for no purge": lock_during_a_purge,
    "plain writes look for no lock": plain_write_does_not_wait,
    "no transaction looks for a lock": lambda: patch.object(Locks, "_exclusive_holders", lambda *_: []),
    "locks end before the commit": _early,
    "new rows are seen": lambda: patch.object(ContainerSnapshot, "is_new", lambda self, stored: False),
}


@pytest.mark.parametrize("race", RACES)
def test_a_planted_race_is_found(race: str, figure: Callable[[str], None]) -> None:
    with RACES[race]():
        found = planted.found(lambda seed: Interleaved(seed).steps(STEPS // 4))
    assert found, f"{race}: nothing was found"
    figure(f"{race}: {found}")
