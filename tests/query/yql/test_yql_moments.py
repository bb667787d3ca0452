"""Dates and times as text, the limits of their types, the calendar, and zones."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from mayflydb.query import calendar
from mayflydb.query.yql import moments, texts
from mayflydb.query.yql.types import (
    DATE,
    DATE32,
    DATETIME,
    DATETIME64,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE,
    TZ_DATE32,
    TZ_DATETIME,
    TZ_DATETIME64,
    TZ_TIMESTAMP,
    TZ_TIMESTAMP64,
    Type,
    Value,
)

READ: list[tuple[Type, str, Value]] = [
    (DATE, "1970-01-01", 0),
    (DATE, "2017-11-27", 17_497),
    (DATE, "2020-2-9", 18_301),
    (DATE, "2105-12-31", 49_672),
    (DATE, "2000-02-29", 11_016),
    (DATETIME, "2017-11-27T13:24:00Z", 1_511_789_040),
    (DATETIME, "2017-11-27T13:24:00+03:00", 1_511_778_240),
    (DATETIME, "2017-11-27T13:24:00-08:00", 1_511_817_840),
    (DATETIME, "2105-12-31T23:59:59Z", 4_291_747_199),
    (TIMESTAMP, "2017-11-27T13:24:00.123456Z", 1_511_789_040_123_456),
    (TIMESTAMP, "2017-11-27T13:24:00Z", 1_511_789_040_000_000),
    (TIMESTAMP, "2017-11-27T13:24:00.5Z", 1_511_789_040_500_000),
    (TIMESTAMP, "2017-11-27T13:24:00.1234567890Z", 1_511_789_040_123_456),
    (TIMESTAMP, "1970-01-01T01:00:00+01:00", 0),
    (DATE32, "-144169-01-01", -53_375_809),
    (DATE32, "148107-12-31", 53_375_807),
    (DATE32, "1969-12-31", -1),
    (DATE32, "+2020-01-01", 18_262),
    (DATE32, "1-01-01", -719_162),
    (DATE32, "-1-12-31", -719_163),
    (DATE32, "-1-02-29", -719_469),
    (DATETIME64, "1969-12-31T23:59:59Z", -1),
    (TIMESTAMP64, "1969-12-31T23:59:59.999999Z", -1),
    (TIMESTAMP64, "148107-12-31T23:59:59.999999Z", 4_611_669_811_199_999_999),
    (TZ_DATETIME, "2017-11-27T13:24:00,America/Los_Angeles", (1_511_817_840, "America/Los_Angeles")),
    (TZ_TIMESTAMP, "2017-11-27T13:24:00.123456,GMT", (1_511_789_040_123_456, "GMT")),
    (TZ_DATE, "2017-11-27,Europe/Moscow", (17_496, "Europe/Moscow")),
    (TZ_DATE, "2017-11-27,America/Los_Angeles", (17_497, "America/Los_Angeles")),
    # Before the epoch on the clocks of the zone, after it in UTC.
    (TZ_DATETIME, "1969-12-31T20:00:00,America/New_York", (3_600, "America/New_York")),
    # The hour that is shown twice is the first one; the hour that is never shown is as if clocks had not moved yet.
    (TZ_DATETIME, "2020-10-25T02:30:00,Europe/Berlin", (1_603_585_800, "Europe/Berlin")),
    (TZ_DATETIME, "2020-03-29T02:30:00,Europe/Berlin", (1_585_445_400, "Europe/Berlin")),
]


@pytest.mark.parametrize(("type", "text", "value"), READ)
def test_parse(type: Type, text: str, value: Value) -> None:
    assert texts.from_text(type, text) == value


REFUSED: list[tuple[Type, str]] = [
    (DATE, "1969-12-31"),
    (DATE, "2106-01-01"),
    (DATE, "2019-02-29"),
    (DATE, "2020-13-01"),
    (DATE, "2020-00-01"),
    (DATE, "2020-01-00"),
    (DATE, "2020-01-01 "),
    (DATE, "2020-01-01T00:00:00Z"),
    (DATE, "20200101"),
    (DATE, "12020-01-01"),
    (DATE, "2020-001-01"),
    (DATE, ""),
    (DATE, "\u0662020-01-01"),
    (DATETIME, "2017-11-27"),
    (DATETIME, "2017-11-27T13:24:00"),
    (DATETIME, "2017-11-27 13:24:00Z"),
    (DATETIME, "2017-11-27T24:00:00Z"),
    (DATETIME, "2017-11-27T23:60:00Z"),
    (DATETIME, "2017-11-27T23:59:60Z"),
    (DATETIME, "2017-11-27T13:24:00.5Z"),
    (DATETIME, "2017-11-27T13:24:00+0300"),
    (DATETIME, "1970-01-01T00:00:00+01:00"),
    (DATETIME, "1969-12-31T23:00:00-05:00"),
    (DATETIME, "2105-12-31T23:59:59-01:00"),
    (TIMESTAMP, "2017-11-27T13:24:00.Z"),
    (TIMESTAMP, "2017-11-27T13:24:00.5"),
    (DATE32, "0-01-01"),
    (DATE32, "148108-01-01"),
    (DATE32, "-144170-12-31"),
    (DATE32, "1900-02-29"),
    (TZ_DATETIME, "2017-11-27T13:24:00"),
    (TZ_DATETIME, "2017-11-27T13:24:00Z,GMT"),
    (TZ_DATETIME, "2017-11-27T13:24:00,Mars/Olympus"),
    (TZ_DATETIME, "2017-11-27T13:24:00,"),
    (TZ_DATETIME, "2017-11-27T13:24:00,../../etc/passwd"),
    (TZ_DATETIME, "1969-12-31T10:00:00,America/New_York"),
]


@pytest.mark.parametrize(("type", "text"), REFUSED)
def test_refused_texts(type: Type, text: str) -> None:
    assert texts.from_text(type, text) is None


WRITTEN: list[tuple[Type, Value, str]] = [
    (DATE, 18_262, "2020-01-01"),
    (DATETIME, 1_577_836_800, "2020-01-01T00:00:00Z"),
    (TIMESTAMP, 1_577_836_800_000_000, "2020-01-01T00:00:00Z"),
    (TIMESTAMP, 1_577_836_800_500_000, "2020-01-01T00:00:00.500000Z"),
    (TIMESTAMP, 1_577_836_800_000_001, "2020-01-01T00:00:00.000001Z"),
    (DATE32, -719_163, "-1-12-31"),
    (DATE32, -53_375_809, "-144169-01-01"),
    (DATETIME64, -1, "1969-12-31T23:59:59Z"),
    (TIMESTAMP64, -1, "1969-12-31T23:59:59.999999Z"),
    (TZ_DATE, (17_496, "Europe/Moscow"), "2017-11-27,Europe/Moscow"),
    (TZ_DATETIME, (1_603_585_800, "Europe/Berlin"), "2020-10-25T02:30:00,Europe/Berlin"),
    (TZ_TIMESTAMP, (500_000, "America/New_York"), "1969-12-31T19:00:00.500000,America/New_York"),
    # Days begin within a day of UTC: the same one west of Greenwich, the one before east of it.
    (TZ_DATE32, (-53_375_809, "UTC"), "-144169-01-01,UTC"),
    (TZ_DATE32, (-53_375_809, "Europe/Moscow"), "-144169-01-02,Europe/Moscow"),
    (TZ_DATE32, (-53_375_809, "America/Los_Angeles"), "-144169-01-01,America/Los_Angeles"),
    (TZ_DATE32, (53_375_807, "UTC"), "148107-12-31,UTC"),
    (TZ_DATE32, (53_375_807, "Europe/Moscow"), "148108-01-01,Europe/Moscow"),
    (TZ_DATE32, (53_375_807, "America/Los_Angeles"), "148107-12-31,America/Los_Angeles"),
    (TZ_DATE32, (-719_163, "UTC"), "-1-12-31,UTC"),
    # Before the first rule of a zone its local mean time is in force, to the second.
    (TZ_DATETIME64, (-4_611_669_897_600, "Europe/Moscow"), "-144169-01-01T02:30:17,Europe/Moscow"),
    (TZ_DATETIME64, (-4_611_669_897_600, "America/Los_Angeles"), "-144170-12-31T16:07:02,America/Los_Angeles"),
    (TZ_DATETIME64, (-62_135_596_801, "Europe/Moscow"), "1-01-01T02:30:16,Europe/Moscow"),
    (TZ_DATETIME64, (4_611_669_811_199, "Europe/Moscow"), "148108-01-01T02:59:59,Europe/Moscow"),
    (TZ_DATETIME64, (253_418_061_600, "Europe/Berlin"), "10000-07-01T12:00:00,Europe/Berlin"),
    (TZ_TIMESTAMP64, (-1, "UTC"), "1969-12-31T23:59:59.999999,UTC"),
    (
        TZ_TIMESTAMP64,
        (4_611_669_811_199_999_999, "America/Los_Angeles"),
        "148107-12-31T15:59:59.999999,America/Los_Angeles",
    ),
]


@pytest.mark.parametrize(("type", "value", "text"), WRITTEN)
def test_format(type: Type, value: Value, text: str) -> None:
    assert texts.to_text(type, value) == text


@pytest.mark.parametrize("type", moments.ZONED)
def test_the_limits_of_types_with_a_zone(type: Type) -> None:
    low, high = moments.LIMITS[type]
    for value in (low, high):
        assert texts.from_text(type, texts.to_text(type, (value, "UTC"))) == (value, "UTC")
    for value in (low - 1, high + 1):
        assert texts.from_text(type, texts.to_text(type, (value, "UTC"))) is None


@pytest.mark.parametrize("type", moments.WIDE_ZONED)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Moscow", "America/Los_Angeles", "Asia/Kathmandu"])
def test_texts_with_a_zone_parse_back_in_every_year(type: Type, zone: str, chance: random.Random) -> None:
    low, high = moments.LIMITS[type]
    for _ in range(200):
        value = (chance.randint(low, high), zone)
        text = texts.to_text(type, value)
        # A local time that occurs twice is the first one.
        found = texts.from_text(type, text)
        assert found is not None and texts.to_text(type, found) == text


def test_the_last_rule_of_a_zone_holds_in_all_years_to_come() -> None:
    for years in (400, 8_000, 140_000):
        for text in ("2044-03-27T03:00:00,Europe/Berlin", "2044-10-30T01:59:59,Europe/Berlin"):
            near = texts.from_text(TZ_DATETIME64, text)
            far = texts.from_text(TZ_DATETIME64, f"{2044 + years}{text[4:]}")
            assert near is not None and far == (near[0] + years // 400 * calendar.CYCLE * 86_400, "Europe/Berlin")


@pytest.mark.parametrize("type", [*moments.NARROW, *moments.WIDE])
def test_the_limits_read_back_and_nothing_beyond(type: Type) -> None:
    low, high = moments.LIMITS[type]
    for value in (low, high):
        assert texts.from_text(type, texts.to_text(type, value)) == value
    for value in (low - 1, high + 1):
        assert texts.from_text(type, texts.to_text(type, value)) is None


@pytest.mark.parametrize("type", [*moments.NARROW, *moments.WIDE])
def test_formatted_texts_parse_back(type: Type, chance: random.Random) -> None:
    low, high = moments.LIMITS[type]
    for _ in range(500):
        value = chance.randint(low, high)
        assert texts.from_text(type, texts.to_text(type, value)) == value


def test_the_calendar_is_that_of_the_standard_library(chance: random.Random) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    epoch = (datetime(1970, 1, 1, tzinfo=UTC) - first).days
    for _ in range(2000):
        days = chance.randrange((datetime(9999, 12, 31, tzinfo=UTC) - first).days + 1)
        there = first + timedelta(days=days)
        assert moments.date_of(days - epoch) == (there.year, there.month, there.day)
        assert moments.days_of(there.year, there.month, there.day) == days - epoch


def test_every_day_has_a_date_and_every_date_its_day(chance: random.Random) -> None:
    low, high = moments.LIMITS[DATE32]
    for days in [*range(-720_000, -718_000), *(chance.randint(low, high) for _ in range(2000))]:
        assert moments.days_of(*moments.date_of(days)) == days
