"""The suite is trusted only while it catches these: each planted bug fails the named check, which passes without it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from mayflydb.frontends.cosmos.values import own_ttl
from mayflydb.model.record import IGNORED
from reliability.clock.test_fence import YEAR, test_a_step_forward_hides_at_once_and_purges_nothing_early
from reliability.clock.test_high_water import test_power_cuts_between_reading_time_and_committing
from reliability.disk.judging import workbench
from reliability.disk.test_power_loss import cut
from reliability.faults.sweep import AFTERMATHS, sweep
from reliability.model.stores import Direct
from reliability.model.test_concurrent import test_a_late_write_does_not_revive_what_a_reader_was_told_is_gone
from reliability.model.test_walk import walk
from reliability.mutants.bugs import BUGS, Bug

LIMIT = 60.0
"""Seconds in which a bug must be caught."""

NO_TTL: tuple[Any, ...] = (
    0,
    -0.0,
    -2,
    True,
    False,
    float("nan"),
    float("inf"),
    1.5,
    2**31,
    10**30,
    "5",
    None,
    [5],
    {"ttl": 5},
)


def _walk(seed: int) -> None:
    walk(Direct, seed, 6_000)


def _power_cuts(seed: int) -> None:
    findings = cut(seed, 2, 150)
    assert not findings.kinds, findings.wrong


def _ttl_values(seed: int) -> None:
    for value in NO_TTL:
        override, refusal = own_ttl({"ttl": value})
        assert override == IGNORED and refusal is not None, f"{value!r} became {override}"


def _fence(seed: int) -> None:
    test_a_step_forward_hides_at_once_and_purges_nothing_early(YEAR)


def _failing_syncs(seed: int) -> None:
    with workbench() as directory:
        found = sweep(range(seed, seed + 3), ("sync error",), AFTERMATHS, directory)
    assert not found.wrong, found.wrong


def _full_disk(seed: int) -> None:
    with workbench() as directory:
        found = sweep(range(seed, seed + 2), ("full",), AFTERMATHS, directory)
    assert not found.wrong, found.wrong


CHECKS: dict[str, Callable[[int], None]] = {
    "walk": _walk,
    "power cuts": _power_cuts,
    "time over power cuts": test_power_cuts_between_reading_time_and_committing,
    "ttl values": _ttl_values,
    "fence": _fence,
    "failing syncs": _failing_syncs,
    "full disk": _full_disk,
    "late write": lambda seed: test_a_late_write_does_not_revive_what_a_reader_was_told_is_gone(),
}


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_caught_where_there_is_no_bug(check: str, seed: int) -> None:
    CHECKS[check](seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str, seed: int, figure: Callable[[str], None]) -> None:
    plant, check = BUGS[name]
    began = monotonic()
    error = _caught(plant, CHECKS[check], seed)
    assert error is not None, f"{name} passes the check {check!r}"
    seconds = monotonic() - began
    assert seconds < LIMIT
    figure(f"caught by {check} in {seconds:.1f} s")


def _caught(plant: Bug, check: Callable[[int], None], seed: int) -> BaseException | None:
    try:
        with plant():
            check(seed)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
        # A bug may also show itself by what it raises elsewhere.
        print(f"caught: {type(error).__name__}: {str(error)[:500]}")
        return error
    return None


def test_every_check_has_a_bug() -> None:
    assert {check for _, check in BUGS.values()} == CHECKS.keys()
