"""Dates and times: the limits, the unit and the text of each type.

The wide types reach from 144169 BC to 148107 AD. Texts have no year 0: 1 BC is written as year -1.
Source: https://ydb.tech/docs/en/yql/reference/types/primitive#datetime
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mayflydb.query import calendar
from mayflydb.query.yql import intervals
from mayflydb.query.yql.types import (
    DATE,
    DATE32,
    DATETIME,
    DATETIME64,
    INTERVAL,
    INTERVAL64,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE,
    TZ_DATE32,
    TZ_DATETIME,
    TZ_DATETIME64,
    TZ_TIMESTAMP,
    TZ_TIMESTAMP64,
    Primitive,
    Type,
)

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND

NARROW: Final = (DATE, DATETIME, TIMESTAMP)
WIDE: Final = (DATE32, DATETIME64, TIMESTAMP64)
NARROW_ZONED: Final = (TZ_DATE, TZ_DATETIME, TZ_TIMESTAMP)
WIDE_ZONED: Final = (TZ_DATE32, TZ_DATETIME64, TZ_TIMESTAMP64)
ZONED: Final = (*NARROW_ZONED, *WIDE_ZONED)
MOMENTS: Final = (*NARROW, *WIDE, *ZONED)
INTERVALS: Final = (INTERVAL, INTERVAL64)

# 144169-01-01 BC and 148107-12-31 AD, in days since 1970.
_FIRST_DAY, _LAST_DAY = -53_375_809, 53_375_807
# Days from 1970-01-01 up to 2106-01-01, the first day behind the narrow types.
_DAYS: Final = 49_673

UNZONED: Final[Mapping[Type, Primitive]] = dict(zip(ZONED, (*NARROW, *WIDE), strict=True))

_LIMITS: Final[Mapping[Type, tuple[int, int]]] = {
    DATE: (0, _DAYS - 1),
    DATETIME: (0, _DAYS * 86_400 - 1),
    TIMESTAMP: (0, _DAYS * DAY - 1),
    INTERVAL: (-intervals.MAX_INTERVAL, intervals.MAX_INTERVAL),
    DATE32: (_FIRST_DAY, _LAST_DAY),
    DATETIME64: (-4_611_669_897_600, 4_611_669_811_199),
    TIMESTAMP64: (-4_611_669_897_600_000_000, 4_611_669_811_199_999_999),
    INTERVAL64: (-intervals.MAX_INTERVAL_64, intervals.MAX_INTERVAL_64),
}
LIMITS: Final = {**_LIMITS, **{zoned: _LIMITS[plain] for zoned, plain in UNZONED.items()}}
"""The limits of each type; for a type with a zone, those of the number beside the zone."""

_SCALES: Final[Mapping[Type, int]] = {
    DATE: DAY,
    DATE32: DAY,
    DATETIME: SECOND,
    DATETIME64: SECOND,
    TIMESTAMP: 1,
    TIMESTAMP64: 1,
    INTERVAL: 1,
    INTERVAL64: 1,
}
SCALES: Final = {**_SCALES, **{zoned: _SCALES[plain] for zoned, plain in UNZONED.items()}}
"""Microseconds in one unit of each type."""

_DAYS_OF: Final[Mapping[Type, Primitive]] = {**dict.fromkeys(NARROW, DATE), **dict.fromkeys(WIDE, DATE32)}


def is_wide(type: Type) -> bool:
    """True for the dates and times of 144169 BC to 148107 AD, with a zone or without."""
    return type in WIDE or type in WIDE_ZONED


def fits(type: Type, value: int) -> bool:
    """True if the number is within the limits of a type of dates, times or intervals."""
    low, high = LIMITS[type]
    return low <= value <= high


def rescale(value: int, source: Type, to: Type) -> int:
    """Convert a date or time to the unit of `to`, rounding towards the past. The result may lie beyond the limits of
    `to`."""
    return value * SCALES[source] // SCALES[to]


# --- the calendar ----------------------------------------------------------------------------------------------------


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01; None if the calendar has no such date. The year before 1 is -1."""
    counted = year + (year < 0)
    if not year or not 1 <= month <= 12 or not 1 <= day <= calendar.month_length(counted, month):
        return None
    return calendar.days_of(counted, month, day)


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01; the year before 1 is -1."""
    year, month, day = calendar.date_of(days)
    return year - (year <= 0), month, day


# --- texts -----------------------------------------------------------------------------------------------------------

_DATE: Final = r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})"
_WIDE_DATE: Final = r"([+-]?[0-9]{1,6})-([0-9]{1,2})-([0-9]{1,2})"
_TIME: Final = r"T([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})"
# Digits behind the microseconds are dropped.
_FRACTION: Final = r"(?:\.([0-9]{1,6})[0-9]*)?"
_OFFSET: Final = r"(?:Z|([+-])([0-9]{1,2}):([0-9]{1,2}))"

# The empty group of Datetime stands where Timestamp has its fraction, so that all have the same groups.
_GRAMMARS: Final[Mapping[Type, re.Pattern[str]]] = {
    DATE: re.compile(_DATE, re.ASCII),
    DATE32: re.compile(_WIDE_DATE, re.ASCII),
    DATETIME: re.compile(_DATE + _TIME + "()" + _OFFSET, re.ASCII),
    DATETIME64: re.compile(_WIDE_DATE + _TIME + "()" + _OFFSET, re.ASCII),
    TIMESTAMP: re.compile(_DATE + _TIME + _FRACTION + _OFFSET, re.ASCII),
    TIMESTAMP64: re.compile(_WIDE_DATE + _TIME + _FRACTION + _OFFSET, re.ASCII),
}
_LOCAL: Final[Mapping[Type, re.Pattern[str]]] = {
    DATE: _GRAMMARS[DATE],
    DATETIME: re.compile(_DATE + _TIME, re.ASCII),
    TIMESTAMP: re.compile(_DATE + _TIME + _FRACTION, re.ASCII),
    DATE32: _GRAMMARS[DATE32],
    DATETIME64: re.compile(_WIDE_DATE + _TIME, re.ASCII),
    TIMESTAMP64: re.compile(_WIDE_DATE + _TIME + _FRACTION, re.ASCII),
}


def parse(type: Type, text: str) -> int | None:
    """Parse a date or time without a zone name into the unit of its type; None for any other text and beyond the
    limits."""
    match = _GRAMMARS[type].fullmatch(text)
    if match is None:
        return None
    value, day = _to_units(type, match.groups()), _to_units(_DAYS_OF[type], match.groups()[:3])
    # A local date outside of the limits is refused even if its offset moves the instant inside.
    return value if value is not None and day is not None and fits(type, value) and fits(_DAYS_OF[type], day) else None


def parse_local(type: Type, text: str) -> int | None:
    """Parse the part before the zone name, which has no `Z` and no offset. The result may lie beyond the limits."""
    match = _LOCAL[type].fullmatch(text)
    return None if match is None else _to_units(type, match.groups())


def _to_units(type: Type, groups: tuple[str | None, ...]) -> int | None:
    year, month, day, *rest = groups
    days = days_of(int(year or 0), int(month or 0), int(day or 0))
    seconds = _seconds(rest)
    if days is None or seconds is None:
        return None
    fraction = int((rest[3] or "").ljust(6, "0")) if len(rest) > 3 else 0
    return (days * DAY + seconds * SECOND + fraction) // SCALES[type]


def _seconds(rest: list[str | None]) -> int | None:
    """Seconds of the time of day, minus the offset."""
    if not rest:
        return 0
    hours, minutes, seconds = (int(part or 0) for part in rest[:3])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    offset = 0
    if len(rest) > 4 and rest[4]:
        offset = (int(rest[5] or 0) * 60 + int(rest[6] or 0)) * 60
        offset = -offset if rest[4] == "-" else offset
    return hours * 3600 + minutes * 60 + seconds - offset


def to_text(type: Type, value: int) -> str:
    """Format as `2020-01-01`, `2020-01-01T00:00:00Z` or `2020-01-01T00:00:00.500000Z`."""
    return local_text(type, value) + ("" if SCALES[type] == DAY else "Z")


def local_text(type: Type, value: int) -> str:
    """Format without the `Z`."""
    days, rest = divmod(value * SCALES[type], DAY)
    year, month, day = date_of(days)
    date = f"{year}-{month:02}-{day:02}"
    if SCALES[type] == DAY:
        return date
    seconds, fraction = divmod(rest, SECOND)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date}T{time}" + (f".{fraction:06}" if fraction else "")
