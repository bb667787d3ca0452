"""The suite is trusted only while it catches these: each planted bug fails the named check, which passes without it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

import planted
from mayflydb.frontends.cosmos.values import own_ttl
from mayflydb.model.record import IGNORED
from reliability.clock import test_verdicts
from reliability.clock.host import MINUTE, YEAR
from reliability.clock.test_fence import test_a_step_forward_hides_nothing_at_first_and_purges_nothing_early
from reliability.clock.test_high_water import test_power_cuts_between_reading_time_and_committing
from reliability.disk.judging import workbench
from reliability.disk.test_power_loss import cut
from reliability.faults.sweep import AFTERMATHS, sweep
from reliability.model.interleaved import Interleaved
from reliability.model.stores import Direct
from reliability.model.test_concurrent import test_a_late_write_does_not_revive_what_a_reader_was_told_is_gone
from reliability.model.test_walk import walk
from reliability.mutants.bugs import BUGS

SEEDS = range(3)
"""By which a bug must be caught: by the first of them, nearly always."""

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


def _verdict(seed: int) -> None:
    test_verdicts.test_a_jump_forward_is_decided("reject", YEAR, MINUTE)


def _fence(seed: int) -> None:
    test_a_step_forward_hides_nothing_at_first_and_purges_nothing_early(YEAR)


def _failing_syncs(seed: int) -> None:
    with workbench() as directory:
        found = sweep(range(seed, seed + 3), ("sync error",), AFTERMATHS, directory)
    assert not found.wrong, found.wrong


def _full_disk(seed: int) -> None:
    with workbench() as directory:
        found = sweep(range(seed, seed + 2), ("full",), AFTERMATHS, directory)
    assert not found.wrong, found.wrong


def _reserve(seed: int) -> None:
    with workbench() as directory:
        found = sweep(range(seed, seed + 1), ("stays full beside a reserve",), ("continue",), directory)
    assert not found.wrong, found.wrong
    assert not found.outcomes["unknown"], found.outcomes


def _open_transactions(seed: int) -> None:
    for number in range(5):
        Interleaved(seed + number).steps(6_000)


CHECKS: dict[str, Callable[[int], None]] = {
    "walk": _walk,
    "power cuts": _power_cuts,
    "time over power cuts": test_power_cuts_between_reading_time_and_committing,
    "ttl values": _ttl_values,
    "fence": _fence,
    "verdict": _verdict,
    "failing syncs": _failing_syncs,
    "full disk": _full_disk,
    "reserve": _reserve,
    "open transactions": _open_transactions,
    "late write": lambda seed: test_a_late_write_does_not_revive_what_a_reader_was_told_is_gone(),
}


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_caught_where_there_is_no_bug(check: str, seed: int) -> None:
    CHECKS[check](seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str, figure: Callable[[str], None]) -> None:
    plant, check = BUGS[name]
    began = monotonic()
    with plant():
        found = planted.found(CHECKS[check], SEEDS)
    assert found, f"{name} passes the check {check!r}"
    figure(f"caught by {check} in {monotonic() - began:.1f} s, {found}")


def test_every_check_has_a_bug() -> None:
    assert {check for _, check in BUGS.values()} == CHECKS.keys()
