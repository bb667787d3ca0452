"""The log of slow requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logged import logged
from mayflydb.engine.slow_log import MAX_LINES, MAX_NAME, PERIOD, SlowLog
from mayflydb.model.instant import SECOND


@pytest.fixture
def lines() -> Iterator[list[str]]:
    with logged("mayflydb.slow") as texts:
        yield texts


@pytest.mark.parametrize(("took", "slow"), [(SECOND - 1, False), (SECOND, True), (SECOND + 1, True)])
def test_requests_are_slow_from_the_threshold_on(took: int, slow: bool) -> None:
    assert SlowLog(lambda: 1000 + took, SECOND).is_slow(1000) is slow
    assert not SlowLog(lambda: 1000 + took, None).is_slow(1000)


def test_a_line_says_which_request_and_what_it_read(lines: list[str]) -> None:
    SlowLog(lambda: 2 * SECOND, SECOND).note(0, "mongo", "7", "find", "3 documents")
    assert lines == ["slow request: mongo find, id 7, took 2000 ms, read 3 documents"]


def test_a_flood_is_cut(lines: list[str]) -> None:
    now = [0]
    slow_log = SlowLog(lambda: now[0], SECOND)
    now[0] = SECOND
    for _ in range(MAX_LINES + 5):
        slow_log.note(0, "ydb", "", "ExecuteQuery", "nothing")
    assert (len(lines), slow_log.slow) == (MAX_LINES, MAX_LINES + 5)
    now[0] = PERIOD
    slow_log.note(0, "ydb", "", "ExecuteQuery", "nothing")
    assert lines[MAX_LINES] == "5 further slow requests were not logged"
    assert len(lines) == MAX_LINES + 2


def test_long_names_are_cut(lines: list[str]) -> None:
    SlowLog(lambda: 2 * SECOND, SECOND).note(0, "mongo", "i" * 10_000, "find " + "x" * 10_000, "nothing")
    assert len(lines[0]) < 3 * MAX_NAME
