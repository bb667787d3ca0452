"""Every call of the disk fails once, in every way that it can: while transactions run, and while a store is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from reliability.disk.judging import workbench
from reliability.faults.sweep import AFTERMATHS, FAILURES, TRANSACTIONS, recover, sweep

SCENARIOS = 8
"""Of TRANSACTIONS each: 40 transactions."""

WRITES = ("write error", "full", "half a write", "stays full")
RESERVED = ("full beside a reserve", "half a write beside a reserve", "stays full beside a reserve")
READS = ("read error", "short read")
SEEN = {
    WRITES: ("unknown", "stopped"),
    RESERVED: ("done", "OutOfSpace"),
    ("sync error",): ("stopped",),
    ("truncate error",): ("stopped",),
    READS: ("Unavailable",),
}
"""Ways to fail that take turns -> what they must have led to."""

PARTS = 2
"""The scenarios are swept in so many parts."""

POINTS = {WRITES: 160, RESERVED: 160, ("sync error",): 18, ("truncate error",): 3, READS: 80}
"""Calls that must have failed in each part: five standard deviations under the usual number."""


def test_the_sweep_covers_forty_transactions() -> None:
    assert SCENARIOS * TRANSACTIONS >= 40
    assert {kind for kinds in SEEN for kind in kinds} == FAILURES.keys()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kinds", SEEN, ids=lambda kinds: kinds[0])
def test_a_failing_call_loses_nothing(
    kinds: tuple[str, ...], part: int, seed: int, figure: Callable[[str], None]
) -> None:
    began = monotonic()
    with workbench() as directory:
        found = sweep(range(seed + part, seed + SCENARIOS, PARTS), kinds, AFTERMATHS, directory)
    assert not found.wrong, f"{len(found.wrong)} of {found.points}: {found.wrong[:5]}"
    assert found.points >= POINTS[kinds], f"only {found.points} points"
    missing = [outcome for outcome in SEEN[kinds] if not found.outcomes[outcome]]
    assert not missing, f"never {missing}: {found.outcomes}"
    if kinds == RESERVED:
        # What makes the store grow is refused, all else is done at the second attempt: nothing is unknown.
        assert found.outcomes.keys() <= {"done", "refused", "OutOfSpace"}, found.outcomes
    figure(f"N={found.points} points, {found.points / (monotonic() - began):.0f}/s, {dict(found.outcomes)}")


@pytest.mark.parametrize(
    "failure", ["write error", "full", "stays full beside a reserve", "sync error", "truncate error", "read error"]
)
def test_a_call_failing_at_start_is_refused_or_survived(failure: str, seed: int, figure: Callable[[str], None]) -> None:
    points, wrong = 0, []
    with workbench() as directory:
        for scenario in range(seed, seed + 2):
            sprung, n = True, 0
            while sprung:
                n += 1
                sprung, finding = recover(scenario, failure, n, directory)
                wrong += [] if finding is None else [f"seed {scenario}: {finding}"]
                points += sprung
    assert not wrong, wrong[:5]
    figure(f"N={points} points")


@pytest.mark.soak
def test_failing_calls_for_hours(
    seed: int, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    total = 0
    with workbench() as directory:
        for number in soaking(0.1):
            for kind in FAILURES:
                for aftermath in AFTERMATHS:
                    found = sweep((seed + number,), (kind,), (aftermath,), directory)
                    assert not found.wrong, found.wrong[:5]
                    total += found.points
            figure(f"N={total} points")
