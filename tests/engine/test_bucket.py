"""The token bucket: a table, and what holds of every history."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayflydb.engine.bucket import SECOND, Bucket, amount, rate

MS = 1000
RU = 10**12


@pytest.mark.parametrize(
    ("spent", "later", "wait"),
    [
        # At 400 RU/s, when `spent` is taken of the full bucket, then `later` has passed.
        (0, 0, 0), (399.99, 0, 0), (400, 0, 1), (400, 1, 0), (401, 0, 2501), (401, 2500, 1), (401, 2501, 0),
        (800, 0, SECOND + 1), (800, SECOND, 1), (800, SECOND + 1, 0), (4400, 0, 10 * SECOND + 1), (4400, 9 * SECOND, SECOND + 1),
        (400, 3600 * SECOND, 0),
    ],
)  # fmt: skip
def test_wait(spent: float, later: int, wait: int) -> None:
    bucket = Bucket(rate(400), 7)
    bucket.spend(amount(spent), 7)
    assert bucket.wait(7 + later) == wait


@pytest.mark.parametrize(
    ("spent", "later", "spare"),
    [
        # What comes into a bucket that is full, one second's worth at most.
        (0, 0, 0), (0, 500 * MS, 200), (0, SECOND, 400), (0, 5 * SECOND, 400),
        (100, 250 * MS, 0), (100, 500 * MS, 100), (400, SECOND, 0), (400, 2 * SECOND, 400), (800, 2 * SECOND, 0),
    ],
)  # fmt: skip
def test_what_is_left_over(spent: float, later: int, spare: float) -> None:
    bucket = Bucket(rate(400), 0)
    bucket.spend(amount(spent), 0)
    assert bucket.spare(later) == amount(spare)


def test_taking_what_is_left_over_leaves_the_bucket_full() -> None:
    bucket = Bucket(rate(400), 0)
    bucket.take(bucket.spare(SECOND), SECOND)
    assert (bucket.spare(SECOND), bucket.wait(SECOND)) == (0, 0)
    bucket.spend(amount(399.9), SECOND)
    assert bucket.wait(SECOND) == 0


@pytest.mark.parametrize(("spent", "wanted", "wait"), [
    (0, 1, 2500), (0, 400, SECOND), (0, 900, SECOND), (100, 100, 500 * MS), (800, 4, 2 * SECOND + 10 * MS),
])  # fmt: skip
def test_waiting_for_what_is_left_over(spent: float, wanted: float, wait: int) -> None:
    bucket = Bucket(rate(400), 0)
    bucket.spend(amount(spent), 0)
    assert bucket.wait_for_spare(amount(wanted), 0) == wait
    assert bucket.spare(wait - 1) < min(amount(wanted), amount(400)) == bucket.spare(wait)


def test_a_lower_rate_keeps_no_more_than_its_second() -> None:
    bucket = Bucket(rate(1000), 0)
    bucket.set_rate(rate(400), 0)
    bucket.spend(amount(401), 0)
    assert bucket.wait(0) == 2501
    bucket.set_rate(rate(4000), 0)
    assert bucket.wait(0) == 251


def test_a_share_of_a_rate() -> None:
    assert rate(11000, 2) == 5500 * SECOND
    assert rate(400, 3) == 133_333_333


def test_a_clock_that_stands_still_or_falls_gives_nothing() -> None:
    bucket = Bucket(rate(400), SECOND)
    bucket.spend(amount(500), SECOND)
    assert bucket.wait(0) == bucket.wait(SECOND) == SECOND // 4 + 1


EVENTS = st.lists(
    st.tuples(st.integers(0, 3 * SECOND), st.floats(0.01, 1000, allow_nan=False), st.booleans()),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(st.integers(1, 1_000_000), EVENTS)
def test_no_more_is_granted_than_comes_in(units: int, events: list[tuple[int, float, bool]]) -> None:
    """To requests and purges together, whatever they cost: only the last request may go beyond what had come by then."""
    bucket, now, spent, taken, last = Bucket(rate(units), 0), 0, 0, 0, 0
    for pause, charge, purges in events:
        now += pause
        came = Fraction(units * RU * (SECOND + now), SECOND)
        if purges:
            spare = bucket.spare(now)
            bucket.take(spare, now)
            taken += spare
            assert spent + taken - last <= came
        elif not bucket.wait(now):
            assert spent + taken < came
            last = amount(charge)
            bucket.spend(last, now)
            spent += last


@settings(deadline=None)
@given(st.integers(1, 1_000_000), EVENTS)
def test_nobody_starves(units: int, events: list[tuple[int, float, bool]]) -> None:
    """Whoever waits as long as was said is granted his request, and not a microsecond before."""
    bucket, now = Bucket(rate(units), 0), 0
    for pause, charge, _ in events:
        now += pause
        wait = bucket.wait(now)
        if wait:
            assert bucket.wait(now + wait - 1) == 1
            now += wait
        assert bucket.wait(now) == 0
        bucket.spend(amount(charge), now)
