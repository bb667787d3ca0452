"""Schedules of passes, and what they make of deadlines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expiry.golden import Life, T
from mayflydb.expiry.explain import explain
from mayflydb.expiry.passes import Schedule, Upcoming, upcoming
from mayflydb.expiry.ranges import due_ranges, purge_ranges
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND

MINUTE = 60 * SECOND
EACH_MINUTE = Schedule(T, MINUTE)
DATED = Rule("index", 10, slot=16, passes=True)
OWN = Rule("default", 70, overrides=True, hides=True)


@pytest.mark.parametrize(
    ("now", "last", "following", "count"),
    [
        (-5, None, 60, 0),
        (0, None, 60, 0),
        (59.999999, None, 60, 0),
        (60, 60, 60, 1),
        (60.000001, 60, 120, 1),
        (119, 60, 120, 1),
        (120, 120, 120, 2),
        (3 * 10**8, 3 * 10**8, 3 * 10**8, 5 * 10**6),
    ],
)
def test_schedule(now: float, last: float | None, following: float, count: int) -> None:
    instant = T + round(now * SECOND)
    assert EACH_MINUTE.last(instant) == (None if last is None else T + round(last * SECOND))
    assert EACH_MINUTE.next(instant) == T + round(following * SECOND)
    assert EACH_MINUTE.count(instant) == count


@given(st.integers(-(2**70), 2**70), st.integers(1, 2**40), st.integers(-(2**75), 2**75))
def test_a_schedule_agrees_with_itself(since: int, every: int, now: int) -> None:
    schedule = Schedule(since, every)
    following, last = schedule.next(now), schedule.last(now)
    assert since < following
    assert now <= following
    assert schedule.last(following) == following
    assert schedule.last(following - 1) == (None if following == since + every else following - every)
    assert last is None or last <= now < last + every
    assert schedule.count(following) == schedule.count(following - 1) + 1


@pytest.mark.parametrize(
    ("life", "rules", "expected"),
    [
        (Life(T, dates=((16, T),)), (DATED,), (10, 60)),
        (Life(T, dates=((16, T + 50 * SECOND),)), (DATED,), (60, 60)),
        (Life(T, dates=((16, T + 51 * SECOND),)), (DATED,), (61, 120)),
        (Life(T, dates=((16, T - 10**9 * SECOND),)), (DATED,), (10 - 10**9, 60)),
        (Life(T, 30, ((16, T),)), (DATED, OWN), (10, 30)),
        (Life(T, None, ((16, T),)), (OWN, DATED), (10, 60)),
        (Life(T), (DATED, OWN), (70, 70)),
        (Life(T, dates=((17, T),)), (DATED,), None),
        (Life(T), (), None),
    ],
)
def test_what_lies_ahead(life: Life, rules: tuple[Rule, ...], expected: tuple[int, int] | None) -> None:
    """The earliest deadline, and the earliest instant of a purge."""
    wanted = None if expected is None else Upcoming(*(T + seconds * SECOND for seconds in expected))
    assert upcoming(life, rules, EACH_MINUTE) == wanted


@pytest.mark.parametrize("second", [0, 10, 59, 60, 61, 119, 120])
def test_ranges_of_rules_with_passes_end_at_the_last_one(second: int) -> None:
    now = T + second * SECOND
    ranges = purge_ranges((DATED, OWN), now, EACH_MINUTE)
    dated = [due.upto for due in ranges if due.path == 16]
    assert dated == [T + (second // 60 * 60 - 10) * SECOND] * (second >= 60)
    assert [due for due in ranges if due.path != 16] == list(due_ranges((OWN,), now))
    assert [due.upto for due in due_ranges((DATED,), now)] == [now - 10 * SECOND]


@pytest.mark.parametrize(
    ("life", "rules", "reason", "text"),
    [
        (Life(T, dates=((16, T),)), (DATED,), "index", "index (10 s)"),
        (Life(T), (DATED,), "no-anchor", "there is no instant to count from"),
        (Life(None, dates=((16, T),)), (OWN, DATED), "index", "index (10 s)"),
        (Life(T), (OWN, DATED), "default", "default ttl 70 s after the last write"),
    ],
)
def test_explanations_name_the_index(life: Life, rules: tuple[Rule, ...], reason: str, text: str) -> None:
    told = explain(life, rules, T)
    assert (told.reason, told.text) == (reason, text)


@pytest.mark.parametrize("rule", [{"overrides": True}, {"after": None}])
def test_a_slot_has_a_span_and_no_own_ttl(rule: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a rule of a slot"):
        Rule(**{"cause": "index", "after": 5, "slot": 16, **rule})  # type: ignore[arg-type]
