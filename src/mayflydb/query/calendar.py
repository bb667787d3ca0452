"""The proleptic Gregorian calendar: conversions between days since 1970-01-01 and dates. The year before year 1 is year 0.
The standard `datetime` covers the years 1 to 9999 only; the types of MongoDB and YDB reach further.
"""

from __future__ import annotations

from typing import Final

CYCLE: Final = 146_097
"""The number of days in 400 years. After one cycle the calendar repeats itself, weekdays included."""

_EPOCH: Final = 719_468
"""Days from March 1 of the year 0, the origin of the cycles, to 1970-01-01."""


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date. A month or day outside its range carries over."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    # Years begin in March here, so that the leap day is the last.
    cycle, within = divmod(year - (month <= 2), 400)
    # From March on, months have 31 30 31 30 31 days, twice, then the rest: 153 days for each five months.
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * CYCLE + within * 365 + within // 4 - within // 100 + of_year - _EPOCH


def date_of(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of a number of days since 1970-01-01."""
    cycle, of_cycle = divmod(days + _EPOCH, CYCLE)
    # Without the leap days of 4, 100 and 400 years every year has 365 days.
    within = (of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * within + within // 4 - within // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + within + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def weekday(days: int) -> int:
    """Return the weekday of a number of days since 1970-01-01: 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def month_length(year: int, month: int) -> int:
    """Return the number of days in a month; `month` is 1 to 12."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
