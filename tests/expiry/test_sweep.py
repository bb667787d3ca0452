"""The planner: fair turns, and batches as large as the writer's time allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayflydb.expiry.sweep import Limits, Sweep, SweepResult, Waiting, next_limit, next_sweep
from mayflydb.model.instant import MILLISECOND

LIMITS = Limits(most=256, duration=10 * MILLISECOND, fewest=16)
BY_RECORDS = Limits(most=256, duration=None)


def test_nothing_to_do() -> None:
    assert next_sweep({}, None, LIMITS) is None
    assert next_sweep({}, SweepResult(1, 8, 8, 5), LIMITS) is None


@pytest.mark.parametrize(
    ("backlog", "chosen"),
    [
        ({7: Waiting(50)}, 7),
        ({7: Waiting(50), 3: Waiting(60)}, 7),
        ({7: Waiting(50), 3: Waiting(50)}, 3),
        ({7: Waiting(50, turn=1), 3: Waiting(60)}, 3),
        ({7: Waiting(50, turn=2), 3: Waiting(60, turn=1)}, 3),
        ({7: Waiting(-50, turn=2), 3: Waiting(2**80, turn=1), 5: Waiting(9, turn=3)}, 3),
    ],
)
def test_whose_turn(backlog: dict[int, Waiting], chosen: int) -> None:
    """The longest without a turn; among equals the oldest deadline, then the lowest id."""
    assert next_sweep(backlog, None, BY_RECORDS) == Sweep(chosen, 256)
    assert next_sweep(dict(reversed(backlog.items())), None, BY_RECORDS) == Sweep(chosen, 256)


@given(
    st.dictionaries(st.integers(1, 8), st.integers(0, 30), min_size=1),
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 20)), max_size=40),
    st.integers(1, 5),
)
def test_nobody_twice(due: dict[int, int], arrivals: list[tuple[int, int]], batch: int) -> None:
    """Between two turns of one container, each that waited all the while had one; and the backlog ends."""
    left = {container: records for container, records in due.items() if records}
    turns: dict[int, int] = {}
    waiting_since = dict.fromkeys(left, 0)
    for turn in range(1, 1000):
        backlog = {container: Waiting(100 - left[container], turns.get(container, 0)) for container in left}
        sweep = next_sweep(backlog, None, Limits(most=batch, duration=None))
        if sweep is None:
            break
        before = turns.get(sweep.container)
        if before is not None:
            for other in left:
                if other != sweep.container and waiting_since[other] < before:
                    assert turns.get(other, 0) > before, f"{sweep.container} had two turns while {other} waited"
        turns[sweep.container] = turn
        left[sweep.container] -= min(sweep.limit, left[sweep.container])
        if not left[sweep.container]:
            del left[sweep.container]
        if arrivals:
            container, records = arrivals.pop()
            waiting_since.setdefault(container, turn)
            if container not in left:
                waiting_since[container] = turn
            left[container] = left.get(container, 0) + records
    assert not left


@pytest.mark.parametrize(
    ("limit", "records", "duration", "expected"),
    [
        (256, 256, 10 * MILLISECOND + 1, 128),
        (256, 3, 10 * MILLISECOND + 1, 128),
        (20, 20, 20 * MILLISECOND, 16),
        (16, 16, 20 * MILLISECOND, 16),
        (64, 64, 10 * MILLISECOND, 64),
        (64, 64, 5 * MILLISECOND, 64),
        (64, 64, 5 * MILLISECOND - 1, 128),
        (200, 200, 0, 256),
        (256, 256, 0, 256),
        (1, 1, 0, 2),
        (64, 63, 0, 64),
        (64, 0, 0, 64),
    ],
)
def test_next_limit(limit: int, records: int, duration: int, expected: int) -> None:
    """Half after too long; twice after a full sweep in less than half its time. A sweep that was not full proves nothing."""
    assert next_limit(SweepResult(1, limit, records, duration), LIMITS) == expected


@pytest.mark.parametrize("duration", [0, 1, 10**9])
def test_records_only(duration: int) -> None:
    """Without a bound on time, measured time changes nothing: the same sweeps each run."""
    assert next_limit(SweepResult(1, 256, 256, duration), BY_RECORDS) == 256


def test_first_limit() -> None:
    assert next_limit(None, LIMITS) == 256


def test_a_slow_disk_leaves_sweeps_large_enough_to_be_cheap() -> None:
    """A smaller sweep writes nearly as many pages, so that a busy disk would only become busier."""
    assert next_limit(SweepResult(1, 300, 300, 10**9), Limits()) == 256
    assert next_limit(SweepResult(1, 256, 256, 10**9), Limits()) == 256
    assert next_limit(SweepResult(1, 8, 8, 10**9), Limits(most=8)) == 8


@given(st.integers(1, 400), st.integers(0, 40))
def test_limit_settles(cost: int, sweeps: int) -> None:
    """At any cost per record it comes to fit the writer's time within nine sweeps, if one record does, and stays there."""
    last = None
    limits: list[int] = []
    for _ in range(9 + sweeps):
        limit = next_limit(last, LIMITS)
        limits.append(limit)
        last = SweepResult(1, limit, limit, limit * cost)
    assert limits[-1] * cost <= 10 * MILLISECOND
    assert all(1 <= limit <= 256 for limit in limits)
    settled = limits[8:]
    assert len(set(settled)) == 1
