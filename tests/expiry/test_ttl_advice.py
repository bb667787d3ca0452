"""Ages of accesses become advice: each verdict just below and just above its boundary."""

from __future__ import annotations

import pytest

from mayflydb.expiry.access_ages import (
    LAST_WRITE,
    RUNGS,
    AgeCounts,
    Observations,
    ages_of,
    field_ages,
    slot_ages,
)
from mayflydb.expiry.ttl_advice import LEAST_SAMPLES, Growth, find_growth, judge, needed_watch
from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND
from mayflydb.model.record import IGNORED, NEVER, Record

LONG = 20 * 365 * DAY
ENOUGH = LEAST_SAMPLES


def ages(*found: tuple[int, int]) -> AgeCounts:
    """(age, number) pairs."""
    counts = AgeCounts()
    for age, number in found:
        for _ in range(number):
            counts.add(age)
    return counts


@pytest.mark.parametrize("rung", range(len(RUNGS)))
def test_an_access_at_the_very_span_comes_too_late(rung: int) -> None:
    span = RUNGS[rung]
    assert [ages((age, 1)).at_least(rung) for age in (span - 1, span, span + 1)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("found", "share", "wanted"),
    [
        ([], 0.5, None),
        ([(7 * SECOND, 1)], 0.5, 7 * SECOND),
        ([(7 * SECOND, 1), (25 * MINUTE, 1)], 0.5, 10 * SECOND),
        ([(7 * SECOND, 1), (25 * MINUTE, 1)], 0.51, 25 * MINUTE),
        ([(7 * SECOND, 99), (25 * MINUTE, 1)], 0.99, 10 * SECOND),
        ([(7 * SECOND, 98), (16 * MINUTE, 2), (LONG, 0)], 0.99, 16 * MINUTE),
        ([(LONG, 3)], 0.95, LONG),
        ([(-HOUR, 3)], 0.95, -HOUR),
    ],
)
def test_quantiles(found: list[tuple[int, int]], share: float, wanted: int | None) -> None:
    assert ages(*found).quantile(share) == wanted


@pytest.mark.parametrize(
    ("reads", "updates", "observed", "present", "verdict", "fitting"),
    [
        # Nothing, too few, enough.
        (ages(), ages(), LONG, None, "few", None),
        (ages((HOUR - 1, ENOUGH - 1)), ages(), LONG, None, "few", HOUR),
        (ages((HOUR - 1, ENOUGH)), ages(), LONG, None, "propose", HOUR),
        (ages((HOUR - 1, ENOUGH - 1)), ages((0, 1)), LONG, None, "propose", HOUR),
        # The very span comes too late, so the next one is proposed.
        (ages((HOUR, ENOUGH)), ages(), LONG, None, "propose", 2 * HOUR),
        (ages((0, ENOUGH)), ages(), LONG, None, "propose", 10 * SECOND),
        # One of a thousand may come too late, of fewer none; updates count as reads do.
        (ages((0, 998), (DAY - 1, 1)), ages(), LONG, None, "propose", DAY),
        (ages((0, 999), (DAY - 1, 1)), ages(), LONG, None, "propose", 10 * SECOND),
        (ages((0, 998)), ages((DAY - 1, 1)), LONG, None, "propose", DAY),
        (ages((0, 998)), ages((DAY - 1, 2)), LONG, None, "propose", DAY),
        # Watched for twice the span, and for a day.
        (ages((HOUR - 1, ENOUGH)), ages(), DAY - 1, None, "short", HOUR),
        (ages((HOUR - 1, ENOUGH)), ages(), DAY, None, "propose", HOUR),
        (ages((7 * DAY - 1, ENOUGH)), ages(), 14 * DAY - 1, None, "short", 7 * DAY),
        (ages((7 * DAY - 1, ENOUGH)), ages(), 14 * DAY, None, "propose", 7 * DAY),
        # No span of the table is long enough.
        (ages((LONG, ENOUGH)), ages(), LONG, None, "spread", None),
        # A ttl is in force.
        (ages((HOUR - 1, ENOUGH)), ages(), LONG, 2 * HOUR, "shorter", HOUR),
        (ages((HOUR - 1, ENOUGH)), ages(), HOUR, 2 * HOUR, "short", HOUR),
        (ages((HOUR - 1, ENOUGH)), ages(), LONG, HOUR + 1, "shorter", HOUR),
        (ages((0, 99), (45 * MINUTE, 1)), ages((0, 200)), LONG, HOUR, "keep", HOUR),
        (ages((0, 99), (45 * MINUTE, 4)), ages((0, 200)), LONG, HOUR, "to-the-end", HOUR),
        (ages((0, 296), (45 * MINUTE, 4)), ages(), LONG, HOUR, "to-the-end", HOUR),
        (ages((0, 297), (45 * MINUTE, 3)), ages(), LONG, HOUR, "keep", HOUR),
        (ages((HOUR - 1, ENOUGH - 1)), ages(), LONG, HOUR, "few", HOUR),
    ],
)
def test_verdicts(
    reads: AgeCounts, updates: AgeCounts, observed: int, present: int | None, verdict: str, fitting: int | None
) -> None:
    found = judge(reads, updates, observed, present, from_date=False)
    assert (found.kind, found.fitting) == (verdict, fitting)
    assert found.proposed == (fitting if verdict in ("propose", "shorter") else None)


def test_a_date_may_be_the_end_itself() -> None:
    ahead = ages((-1, ENOUGH))
    assert judge(ahead, ages(), LONG, None, from_date=True).proposed == 0
    assert judge(ahead, ages(), LONG, None, from_date=False).proposed == 10 * SECOND
    assert judge(ages((0, ENOUGH)), ages(), LONG, None, from_date=True).proposed == 10 * SECOND


def test_neighbours_have_their_costs() -> None:
    reads, updates = ages((MINUTE, 600), (20 * MINUTE, 200), (HOUR - 1, 100)), ages((40 * MINUTE, 100))
    found = judge(reads, updates, LONG, None, from_date=False)
    assert [(each.span, each.late_reads, each.late_updates, each.share) for each in found.costs] == [
        (15 * MINUTE, 300, 100, 0.4),
        (30 * MINUTE, 100, 100, 0.2),
        (HOUR, 0, 0, 0.0),
        (2 * HOUR, 0, 0, 0.0),
        (4 * HOUR, 0, 0, 0.0),
    ]
    assert [each.span for each in judge(ages((0, 1)), ages(), 0, None, from_date=False).costs] == list(RUNGS[1:4])
    assert [each.span for each in judge(ages((LONG, 1)), ages(), 0, None, from_date=False).costs] == list(RUNGS[-3:])


@pytest.mark.parametrize(("span", "wanted"), [(0, DAY), (12 * HOUR, DAY), (12 * HOUR + 1, DAY + 2), (DAY, 2 * DAY)])
def test_the_watch_is_twice_the_span(span: int, wanted: int) -> None:
    assert needed_watch(span) == wanted


NOW = 100 * DAY
GROWING = {"since": NOW - 10 * DAY, "created": 50, "created_bytes": 1000, "last_created": NOW}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, Growth(5, 100)),
        ({"deleted": 1}, None),
        ({"created": 0, "last_created": None}, None),
        ({"since": NOW - DAY}, Growth(50, 1000)),
        ({"since": NOW - DAY + 1}, None),
        ({"last_created": NOW - 2 * DAY}, Growth(5, 100)),
        ({"last_created": NOW - 2 * DAY - 1}, None),
        ({"since": NOW - 50 * DAY, "last_created": NOW - 5 * DAY}, Growth(1, 20)),
        ({"since": NOW - 50 * DAY, "last_created": NOW - 5 * DAY - 1}, None),
        ({"updates": {LAST_WRITE: ages((DAY - 1, 5))}}, Growth(5, 100)),
        ({"updates": {LAST_WRITE: ages((DAY, 1))}}, None),
        ({"reads": {LAST_WRITE: ages((DAY, 1))}}, Growth(5, 100)),
    ],
)
def test_what_only_grows(changed: dict[str, object], wanted: Growth | None) -> None:
    assert find_growth(Observations(**GROWING | changed), NOW) == wanted  # type: ignore[arg-type]


RECORD = Record(b"", b"k", b"", written=70, anchor=60, override=None, lsn=1, seq=1, dates=((20, 50), (21, 130)))


@pytest.mark.parametrize(
    ("anchor", "override", "wanted"),
    [
        (60, None, {LAST_WRITE: 40}),
        (None, None, {LAST_WRITE: 30}),
        (101, None, {LAST_WRITE: 0}),
        (60, IGNORED, {LAST_WRITE: 40}),
        (60, NEVER, {}),
        (60, 5, {}),
    ],
)
def test_each_instant_has_its_age(anchor: int | None, override: int | None, wanted: dict[str, int]) -> None:
    record = Record(b"", b"k", b"", 70, anchor, override, 1, 1, dates=RECORD.dates)
    others = {slot_ages(20): 50, slot_ages(21): -30, field_ages("at"): 90}
    assert dict(ages_of(record, {"at": 10}, 100)) == wanted | others


def test_observations_add_up() -> None:
    mine = Observations(50, {"a": ages((1, 2))}, own=1, created=2, created_bytes=20, last_created=60)
    mine.merge(Observations(40, {"a": ages((HOUR, 1)), "b": ages((0, 1))}, {"a": ages((5, 1))}, deleted=3))
    assert (mine.since, mine.own, mine.created, mine.created_bytes, mine.deleted, mine.last_created) == (
        40, 1, 2, 20, 3, 60,
    )  # fmt: skip
    assert (mine.reads["a"].count, mine.reads["a"].longest, mine.reads["b"].count) == (3, HOUR, 1)
    assert mine.updates["a"].longest == 5
    mine.merge(Observations(70, last_created=80))
    assert (mine.since, mine.last_created) == (40, 80)
