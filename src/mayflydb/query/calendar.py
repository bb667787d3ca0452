"""The calendar: days since 1970-01-01 and dates, the Gregorian way, continued backwards, with a year 0 before year 1.

`datetime` ends at the years 1 and 9999; the types of MongoDB and YDB reach further.
"""

from __future__ import annotations

from typing import Final

CYCLE: Final = 146_097
"""Days in 400 years, after which the calendar repeats itself, weekdays included."""

_EPOCH: Final = 719_468
"""Days from March 1 of the year 0, where cycles begin, to 1970."""


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; months and days may lie outside their range and carry over."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    # Years begin in March here, so that the leap day is the last.
    cycle, within = divmod(year - (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * CYCLE + within * 365 + within // 4 - within // 100 + of_year - _EPOCH


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day."""
    cycle, of_cycle = divmod(days + _EPOCH, CYCLE)
    within = (of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * within + within // 4 - within // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + within + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def weekday(days: int) -> int:
    """1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def month_length(year: int, month: int) -> int:
    """Days of a month, 1 to 12."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
