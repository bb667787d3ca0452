"""Broken-down time: local time in a zone, which the functions of `DateTime::` pass to one another.

A value is never stored or sent. `Resource<'DateTime2.TM'>` is the type for instants of 1970..2105, `TM64` for the wide types.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.query.calendar import month_length, weekday
from mayflydb.query.yql.moments import MOMENTS, SCALES, ZONED, date_of, days_of, fits, is_wide
from mayflydb.query.yql.types import (
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE,
    TZ_DATE32,
    TZ_TIMESTAMP,
    TZ_TIMESTAMP64,
    Primitive,
    Type,
    Value,
    bare,
)
from mayflydb.query.yql.zones import day_of, offset_at, to_utc, zone_of

TM: Final = Primitive("Resource<'DateTime2.TM'>")
TM64: Final = Primitive("Resource<'DateTime2.TM64'>")
SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
UTC: Final = "GMT"


class LocalTime(msgspec.Struct, frozen=True):
    """Local time: `days` since the epoch, `of_day` microseconds of the day, in `zone`."""

    days: int
    of_day: int
    zone: str = UTC

    @property
    def date(self) -> tuple[int, int, int]:
        """Year, month, day."""
        return date_of(self.days)

    @property
    def weekday(self) -> int:
        """The day of the week, 1 for Monday to 7."""
        return weekday(self.days)

    @property
    def day_of_year(self) -> int:
        """The day of the year, counted from 1."""
        first = days_of(self.date[0], 1, 1)
        assert first is not None
        return self.days - first + 1


def is_moment(kind: Type) -> bool:
    """True for types of instants and for types of broken-down time."""
    return bare(kind) in (TM, TM64) or bare(kind) in MOMENTS


def broken_down_type(kind: Type) -> Primitive:
    """The type of the broken-down time of such an instant."""
    return TM64 if is_wide(bare(kind)) or bare(kind) == TM64 else TM


def from_instant(local: int, zone: str = UTC) -> LocalTime:
    """Break down microseconds since the epoch, as a clock of the zone shows them."""
    days, of_day = divmod(local, DAY)
    return LocalTime(days, of_day, zone)


def break_down(kind: Type, value: Value) -> LocalTime:
    """Break down a value of this type; NULL is not allowed."""
    if isinstance(value, LocalTime):
        return value
    if kind not in ZONED:
        return from_instant(value * SCALES[kind])
    moment, name = value
    utc = moment * SCALES[kind]
    zone = zone_of(name)
    if zone is None:
        return from_instant(utc, name)
    return from_instant(utc + offset_at(zone, utc // SECOND) * SECOND, name)


def to_instant(moment: LocalTime) -> int:
    """Microseconds since the epoch, in UTC."""
    local = moment.days * DAY + moment.of_day
    zone = None if moment.zone == UTC else zone_of(moment.zone)
    if zone is None:
        return local
    seconds, rest = divmod(local, SECOND)
    return to_utc(zone, seconds) * SECOND + rest


def build_value(kind: Type, moment: LocalTime) -> Value:
    """Return a value of this type, without the finer parts."""
    if kind in (TZ_DATE, TZ_DATE32):
        return (day_of(kind, to_instant(moment), moment.zone), moment.zone)
    if kind in ZONED:
        cut = moment if kind in (TZ_TIMESTAMP, TZ_TIMESTAMP64) else truncate_to(moment, SECOND)
        return (to_instant(cut) // SCALES[kind], moment.zone)
    return to_instant(moment) // SCALES[kind]


def truncate_to(moment: LocalTime, unit: int) -> LocalTime:
    return LocalTime(moment.days, moment.of_day // unit * unit, moment.zone)


def moment_in_range(moment: LocalTime, kind: Type) -> LocalTime | None:
    """Return the moment if it is within the range of its type, else None."""
    limit = TIMESTAMP64 if kind == TM64 else TIMESTAMP
    return moment if fits(limit, to_instant(moment)) else None


def with_date(moment: LocalTime, year: int, month: int, day: int) -> LocalTime | None:
    """The same time on another day; None for a day that the calendar does not have."""
    days = days_of(year, month, day)
    return None if days is None else LocalTime(days, moment.of_day, moment.zone)


def last_day(year: int, month: int) -> int:
    """The number of days in a month."""
    return month_length(year + (year < 0), month)
