"""Dates as milliseconds since 1970: their parts, ISO weeks, time zones, and arithmetic by units.
Every int64 is a date here. Rules of time zones are known for the years 1 to 9999; beyond, they repeat every 400 years.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from mayflydb.query.calendar import CYCLE, date_of, days_of, month_length, weekday
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_CYCLE: Final = CYCLE * DAY
"""Milliseconds in 400 years."""

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIXED_UNITS: Final[Mapping[str, int]] = {"millisecond": 1, "second": SECOND, "minute": MINUTE, "hour": HOUR}
MONTH_UNITS: Final[Mapping[str, int]] = {"month": 1, "quarter": 3, "year": 12}
UNITS: Final = frozenset({*FIXED_UNITS, "day", "week", *MONTH_UNITS})


class Parts(msgspec.Struct, frozen=True):
    """The fields of a local time. `days`: days since 1970-01-01."""

    days: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    millisecond: int

    @property
    def weekday(self) -> int:
        """Return 1 for Monday to 7 for Sunday."""
        return weekday(self.days)

    @property
    def day_of_year(self) -> int:
        """Return the day of the year, from 1."""
        return self.days - days_of(self.year, 1, 1) + 1

    @property
    def week(self) -> int:
        """Return the week of the year. Weeks begin on Sundays; days before the first Sunday are in week 0."""
        # `weekday % 7` is 0 on Sundays.
        return (self.day_of_year + 6 - self.weekday % 7) // 7

    def iso_week(self) -> tuple[int, int]:
        """Return (year, week) by ISO 8601: week 1 holds the year's first Thursday."""
        # An ISO week belongs to the year of its Thursday.
        thursday = self.days + 4 - self.weekday
        year = date_of(thursday)[0]
        return year, (thursday - days_of(year, 1, 1)) // 7 + 1


def parts_of(local: int) -> Parts:
    """Split a local time into its fields. `local`: milliseconds since 1970 on the local clock."""
    days, rest = divmod(local, DAY)
    hour, rest = divmod(rest, HOUR)
    minute, rest = divmod(rest, MINUTE)
    second, millisecond = divmod(rest, SECOND)
    return Parts(days, *date_of(days), hour, minute, second, millisecond)


def iso_days(year: int, week: int, day: int) -> int:
    """Return the days since 1970 of a day of an ISO week."""
    # January 4 always lies in week 1.
    fourth = days_of(year, 1, 4)
    return fourth - weekday(fourth) + 7 * (week - 1) + day


def check_range(milliseconds: int, name: str) -> int:
    """Return `milliseconds`, or raise MqlError 15 if they do not fit an int64. `name`: the operator."""
    if not INT64_MIN <= milliseconds <= INT64_MAX:
        raise MqlError(15, f"date overflow in {name}")
    return milliseconds


# --- zones -----------------------------------------------------------------------------------------------------------

_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  Local times are counted from it.
# A year away from both ends of `datetime`, because the offset of a time zone may move a date into the next year.
_FIRST_WITH_RULES: Final = (datetime(2, 1, 1) - _EPOCH) // timedelta(milliseconds=1)  # noqa: DTZ001
_LAST_WITH_RULES: Final = (datetime(9998, 1, 1) - _EPOCH) // timedelta(milliseconds=1)  # noqa: DTZ001


class Zone(msgspec.Struct, frozen=True):
    """A time zone. Instants and local times are milliseconds since 1970.

    `rules`: the rules of a named time zone. Without them the local time is ahead of UTC by `fixed` milliseconds, which may
    exceed a day.
    """

    rules: ZoneInfo | None = None
    fixed: int = 0

    @property
    def is_utc(self) -> bool:
        """Return whether local time equals UTC."""
        return self.rules is None and not self.fixed

    def offset(self, instant: int) -> int:
        """Return the offset of local time from UTC at an instant, in milliseconds."""
        if self.rules is None:
            return self.fixed
        moment = _EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=_shift_into_range(instant))
        return _milliseconds(moment.astimezone(self.rules).utcoffset())

    def local(self, instant: int) -> int:
        """Return the local time of an instant."""
        return instant + self.offset(instant)

    def instant(self, local: int) -> int:
        """Return the instant of a local time: the first of two where clocks go back, shifted by the gap where clocks
        go forward.
        """
        if self.rules is None:
            return local - self.fixed
        # `replace` leaves `fold` at 0, for which `utcoffset` is the offset before the change of the clocks.
        moment = (_EPOCH + timedelta(milliseconds=_shift_into_range(local))).replace(tzinfo=self.rules)
        return local - _milliseconds(moment.utcoffset())


def _shift_into_range(milliseconds: int) -> int:
    # Whole cycles of 400 years keep dates and weekdays, and so the rules of a time zone.
    if milliseconds < _FIRST_WITH_RULES:
        return milliseconds + (_FIRST_WITH_RULES - milliseconds + _CYCLE - 1) // _CYCLE * _CYCLE
    if milliseconds > _LAST_WITH_RULES:
        return milliseconds - (milliseconds - _LAST_WITH_RULES + _CYCLE - 1) // _CYCLE * _CYCLE
    return milliseconds


def _milliseconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(milliseconds=1)


UTC_ZONE: Final = Zone()


@lru_cache(maxsize=256)
def zone_of(name: str) -> Zone:
    """Return the zone of an Olson name or of an offset (`+02:00`, `-0330`, `+05`, up to `+99:99`). MqlError 40485 for
    other names.
    """
    if name in ("UTC", "GMT", "Z"):
        return UTC_ZONE
    match = _OFFSET.fullmatch(name)
    if match is not None:
        sign, hours, minutes = match.groups()
        offset = int(hours) * HOUR + int(minutes or 0) * MINUTE
        return Zone(fixed=-offset if sign == "-" else offset)
    try:
        return Zone(ZoneInfo(name))
    # ValueError: the name looks like a path. OSError: it is a directory of the database, such as `Europe`.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise MqlError(40485, f'unrecognized time zone identifier: "{name}"') from None


# --- arithmetic ------------------------------------------------------------------------------------------------------


def check_unit(name: str, unit: str) -> str:
    """Return `unit`, or raise MqlError 9 if it is no unit of time. `name`: the operator."""
    if unit not in UNITS:
        raise failed_to_parse(f"{name} parameter 'unit' value cannot be recognized as a time unit: {unit}")
    return unit


def parse_weekday(name: str, day: str) -> int:
    """Return 1 for Monday to 7 for Sunday from `monday`, `Mon`, ... MqlError 9 for another text. `name`: the operator."""
    lowered = day.lower()
    for index, each in enumerate(WEEKDAYS):
        if lowered in (each, each[:3]):
            return index + 1
    raise failed_to_parse(f"{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {day}")


def add_units(instant: int, unit: str, amount: int, zone: Zone) -> int:
    """Return `instant` plus `amount` units. Days and months are added in local time; a day past the end of a month
    becomes its last day.
    """
    if unit in FIXED_UNITS:
        # Hours and less are spans of time, which a change of the clocks neither skips nor repeats.
        return instant + amount * FIXED_UNITS[unit]
    days, of_day = divmod(zone.local(instant), DAY)
    if unit in MONTH_UNITS:
        year, month, day = date_of(days)
        months = year * 12 + month - 1 + amount * MONTH_UNITS[unit]
        year, month = months // 12, months % 12 + 1
        days = days_of(year, month, min(day, month_length(year, month)))
    else:
        days += amount * (7 if unit == "week" else 1)
    return zone.instant(days * DAY + of_day)


def count_boundaries(start: int, end: int, unit: str, zone: Zone, first_day: int = 7) -> int:
    """Return the number of boundaries of the unit between two instants. Weeks begin on `first_day`."""
    if unit in ("millisecond", "second", "minute"):
        return end // FIXED_UNITS[unit] - start // FIXED_UNITS[unit]
    one, other = zone.local(start), zone.local(end)
    if unit == "hour":
        # Local hours, corrected by the whole hours that the clocks were changed in between.
        moved = (zone.offset(start) - zone.offset(end)) / HOUR
        return other // HOUR - one // HOUR + int(moved)
    if unit in MONTH_UNITS:
        return _month_number(other) // MONTH_UNITS[unit] - _month_number(one) // MONTH_UNITS[unit]
    if unit == "week":
        return _week_number(other // DAY, first_day) - _week_number(one // DAY, first_day)
    return other // DAY - one // DAY


def _month_number(local: int) -> int:
    year, month, _ = date_of(local // DAY)
    return year * 12 + month - 1


def _week_number(days: int, first_day: int) -> int:
    # Day 0, 1970-01-01, was a Thursday, which is day 4.
    return (days + 4 - first_day) // 7


_BIN_ORIGIN: Final = days_of(2000, 1, 1)


def start_of_bin(instant: int, unit: str, size: int, zone: Zone, first_day: int = 7) -> int:
    """Return the start of the bin of `size` units that contains the instant. Bins are counted from 2000-01-01."""
    if unit in FIXED_UNITS:
        start = zone.instant(_BIN_ORIGIN * DAY)
        width = size * FIXED_UNITS[unit]
        return start + (instant - start) // width * width
    local = zone.local(instant)
    if unit in MONTH_UNITS:
        width = size * MONTH_UNITS[unit]
        # 24000 is the number of the month January 2000.
        months = 24000 + (_month_number(local) - 24000) // width * width
        return zone.instant(days_of(months // 12, months % 12 + 1, 1) * DAY)
    # Bins of weeks are counted from the first `first_day` on or after 2000-01-01.
    first = _BIN_ORIGIN if unit == "day" else _BIN_ORIGIN + (first_day - weekday(_BIN_ORIGIN)) % 7
    width = size * (7 if unit == "week" else 1)
    return zone.instant((first + (local // DAY - first) // width * width) * DAY)


PARTS_BY_OPERATOR: Final[Mapping[str, Callable[[Parts], int]]] = {
    "$year": lambda parts: parts.year,
    "$month": lambda parts: parts.month,
    "$week": lambda parts: parts.week,
    "$dayOfMonth": lambda parts: parts.day,
    "$dayOfWeek": lambda parts: parts.weekday % 7 + 1,
    "$dayOfYear": lambda parts: parts.day_of_year,
    "$hour": lambda parts: parts.hour,
    "$minute": lambda parts: parts.minute,
    "$second": lambda parts: parts.second,
    "$millisecond": lambda parts: parts.millisecond,
    "$isoWeekYear": lambda parts: parts.iso_week()[0],
    "$isoWeek": lambda parts: parts.iso_week()[1],
    "$isoDayOfWeek": lambda parts: parts.weekday,
}
"""The parts of a date that have an operator of their own."""
