"""Schedules of single containers: ticks, intervals, and what is kept from one schedule to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expiry.golden import T
from mayflydb.expiry.passes import Schedule, add_pass, end_schedule, following
from mayflydb.model.instant import HOUR, MINUTE, SECOND

S = SECOND


@pytest.mark.parametrize(
    ("now", "interval", "tick", "first", "second"),
    [
        (0, HOUR, MINUTE, MINUTE, HOUR + MINUTE),
        (1, HOUR, MINUTE, MINUTE, HOUR + MINUTE),
        (59_999_999, HOUR, MINUTE, MINUTE, HOUR + MINUTE),
        (MINUTE, HOUR, MINUTE, 2 * MINUTE, HOUR + 2 * MINUTE),
        (0, 15 * MINUTE, MINUTE, MINUTE, 16 * MINUTE),
        (0, 100 * S, MINUTE, MINUTE, 3 * MINUTE),
        (0, 1 * S, MINUTE, MINUTE, 2 * MINUTE),
        (0, 1 * S, 1 * S, 1 * S, 2 * S),
        (0, 100 * S, 7 * S, 7 * S, 112 * S),
    ],
)
def test_the_first_pass_is_at_the_next_tick(now: int, interval: int, tick: int, first: int, second: int) -> None:
    schedule = following(None, interval, T + now, tick)
    base = T if MINUTE % tick == 0 else T - T % tick
    assert schedule.next(T + now) - base == first
    assert schedule.last_of_all(T + now) is None
    assert schedule.next(base + first + 1) - base == second
    assert schedule.last(base + first) == base + first


# (what happens, after so many seconds), then when passes are made in the first three hours, in seconds.
HISTORIES: list[tuple[list[tuple[str, int, int]], list[int]]] = [
    ([("set", 0, 3600)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("set", 30, 3600)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("set", 61, 3600)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("set", 61, 1800)], [60, 1860, 3660, 5460, 7260, 9060]),
    ([("set", 0, 3600), ("set", 3000, 900)], [60, 3060, 3960, 4860, 5760, 6660, 7560, 8460, 9360, 10260]),
    ([("set", 0, 900), ("set", 100, 3600)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("reset", 50, 0)], []),
    ([("set", 0, 3600), ("reset", 70, 0), ("set", 80, 3600)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("reset", 70, 0), ("set", 9000, 3600)], [60, 9060]),
    ([("set", 0, 3600), ("reset", 50, 0), ("set", 130, 3600)], [180, 3780, 7380]),
    ([("set", 0, 3600), ("reset", 70, 0), ("reset", 4000, 0), ("set", 4010, 3600)], [60, 4020, 7620]),
    ([("set", 0, 3600), ("run", 90, 0)], [60, 90, 3720, 7320]),
    ([("set", 0, 3600), ("run", 30, 0), ("set", 40, 3600)], [30, 3660, 7260]),
    ([("set", 0, 3600), ("run", 60, 0)], [60, 3660, 7260]),
    ([("set", 0, 3600), ("run", 90, 0), ("run", 95, 0)], [60, 90, 95, 3720, 7320]),
]


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_passes_are_an_interval_apart_whatever_happens(number: int) -> None:
    """Only those on demand come earlier, and count."""
    events, expected = HISTORIES[number]
    made: set[int] = set()
    schedule: Schedule | None = None
    runs = False
    for at in range(3 * 3600):
        now = T + at * S
        if schedule is not None and runs and schedule.last(now) == now:
            made.add(at)
        for what, when, interval in events:
            if when != at:
                continue
            if what == "set":
                schedule, runs = following(schedule, interval * S, now), True
            elif schedule is not None and what == "reset":
                schedule, runs = end_schedule(schedule, now), False
            elif schedule is not None:
                schedule = add_pass(schedule, now)
                made.add(at)
        if schedule is not None:
            assert schedule.last_of_all(now) == (T + max(made) * S if made else None)
    assert sorted(made) == expected


@given(
    st.integers(0, 2**50), st.integers(1, 2**40), st.integers(1, 2**30), st.integers(0, 2**41), st.integers(1, 2**40)
)
def test_the_next_schedule_never_comes_too_early(now: int, interval: int, tick: int, later: int, other: int) -> None:
    first = following(None, interval, now, tick)
    assert now < first.next(now) <= now + tick
    assert first.next(now) % tick == 0
    second = following(first, other, now + later, tick)
    last = first.last_of_all(now + later)
    assert second.last_of_all(now + later) == last
    ahead = second.next(now + later)
    assert now + later < ahead
    assert ahead % tick == 0
    if last is not None:
        assert ahead - last >= other
        assert ahead - max(last + other, now + later) <= tick


def test_a_clock_that_was_set_back_does_not_wait_for_what_it_has_not_seen() -> None:
    schedule = add_pass(following(None, HOUR, T), T + 10 * HOUR)
    again = following(schedule, HOUR, T + HOUR)
    assert again.next(T + HOUR) == T + HOUR + MINUTE
    assert again.last_of_all(T + HOUR) is None
