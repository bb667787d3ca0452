"""The grammar of intervals, the limits of the types, and their texts."""

from __future__ import annotations

import random

import pytest

from mayflydb.model.durations import format_iso
from mayflydb.model.instant import DAY, SECOND
from mayflydb.query.yql import intervals

READ = [
    ("P1W", 604_800 * SECOND),
    ("P2W3D", 17 * DAY),
    ("P1DT2H30M15S", 95_415 * SECOND),
    ("PT90M", 5_400 * SECOND),
    ("PT3600S", 3_600 * SECOND),
    ("PT1000000000S", 10**9 * SECOND),
    ("P0D", 0),
    ("PT0S", 0),
    ("PT1.5S", 1_500_000),
    ("PT0.000001S", 1),
    ("PT1H", 3_600 * SECOND),
    ("PT1H1.25S", 3_601_250_000),
    ("P1WT1S", 604_801 * SECOND),
    ("P49672DT23H59M59S", 4_291_747_199 * SECOND),
    ("P49672DT23H59M59.999999S", intervals.MAX_INTERVAL),
    ("-P1D", -DAY),
    ("+P1D", DAY),
    ("-PT0.5S", -500_000),
    ("P1W2DT2H3M4.567890S", 9 * DAY + 7_384_567_890),
]


@pytest.mark.parametrize(("text", "microseconds"), READ)
def test_parse(text: str, microseconds: int) -> None:
    assert intervals.parse(text) == microseconds


REFUSED = [
    *("P1M", "P1Y", "p1d", "P1D ", " P1D", "P", "PT", "P1DT", "PT1H1H", "P1D1W", "P1.5D", "P49673D", "30 days"),
    *("", "-", "1", "PT1M1H", "PT1S1M", "PT1.S", "PT.5S", "PT1.1234567S", "PT1.5M", "P1D1D", "P1W1W", "P-1D", "--P1D"),
    *(
        "PT1H P1D",
        "P1DT1D",
        "PT1D",
        "P1H",
        "P\u0661D",
        "P1D\n",
        "P9999999999D",
        "PT1,5S",
        "P1DT1HT1M",
        "-P49673D",
        "P7096W1D",
    ),
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_texts(text: str) -> None:
    assert intervals.parse(text) is None


WRITTEN = [
    (604_800 * SECOND, "P7D"),
    (10**9 * SECOND, "P11574DT1H46M40S"),
    (0, "PT0S"),
    (3_600 * SECOND, "PT1H"),
    (DAY, "P1D"),
    (DAY + 1, "P1DT0.000001S"),
    (60 * SECOND, "PT1M"),
    (1_500_000, "PT1.5S"),
    (-DAY, "-P1D"),
    (-500_000, "-PT0.5S"),
    (5_400 * SECOND, "PT1H30M"),
]


@pytest.mark.parametrize(("microseconds", "text"), WRITTEN)
def test_format(microseconds: int, text: str) -> None:
    assert format_iso(microseconds) == text


def test_the_wide_type_reaches_further() -> None:
    assert intervals.parse("P106751616D") is None
    assert intervals.parse("P106751616D", intervals.MAX_INTERVAL_64) == 106_751_616 * DAY
    assert intervals.parse("P106751617D", intervals.MAX_INTERVAL_64) is None


def test_formatted_texts_parse_back(chance: random.Random) -> None:
    for _ in range(2000):
        value = chance.randint(-intervals.MAX_INTERVAL, intervals.MAX_INTERVAL) // 10 ** chance.randrange(14)
        assert intervals.parse(format_iso(value)) == value


def test_parts_add_up_in_any_selection(chance: random.Random) -> None:
    for _ in range(500):
        weeks, days, hours, minutes, seconds, fraction = (chance.choice([None, chance.randrange(60)]) for _ in range(6))
        if seconds is None:
            fraction = None
        date = "".join(f"{part}{unit}" for part, unit in ((weeks, "W"), (days, "D")) if part is not None)
        time = "".join(f"{part}{unit}" for part, unit in ((hours, "H"), (minutes, "M")) if part is not None)
        if seconds is not None:
            time += f"{seconds}S" if fraction is None else f"{seconds}.{fraction:06}S"
        expected = ((weeks or 0) * 7 + (days or 0)) * DAY + (fraction or 0)
        expected += ((hours or 0) * 3600 + (minutes or 0) * 60 + (seconds or 0)) * SECOND
        text = f"P{date}{'T' if time else ''}{time}"
        assert intervals.parse(text) == (expected if date or time else None), text
