"""Dates as text: the formats of `$dateToString` and `$dateFromString`, and the date forms that are parsed without a format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from mayflydb.query.calendar import days_of, month_length
from mayflydb.query.mongo.dates import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    UTC_ZONE,
    Parts,
    Zone,
    iso_days,
    parts_of,
    zone_of,
)
from mayflydb.query.mongo.faults import MqlError

ISO: Final = "%Y-%m-%dT%H:%M:%S.%LZ"
ISO_LOCAL: Final = "%Y-%m-%dT%H:%M:%S.%L"

MONTH_NAMES: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

_FORMATTERS: Final[Mapping[str, Callable[[Parts], str]]] = {
    "b": lambda parts: MONTH_NAMES[parts.month - 1][:3],
    "B": lambda parts: MONTH_NAMES[parts.month - 1],
    "d": lambda parts: f"{parts.day:02}",
    "G": lambda parts: f"{parts.iso_week()[0]:04}",
    "H": lambda parts: f"{parts.hour:02}",
    "j": lambda parts: f"{parts.day_of_year:03}",
    "L": lambda parts: f"{parts.millisecond:03}",
    "m": lambda parts: f"{parts.month:02}",
    "M": lambda parts: f"{parts.minute:02}",
    "S": lambda parts: f"{parts.second:02}",
    "u": lambda parts: str(parts.weekday),
    "U": lambda parts: f"{parts.week:02}",
    "V": lambda parts: f"{parts.iso_week()[1]:02}",
    "w": lambda parts: str(parts.weekday % 7 + 1),
    "Y": lambda parts: f"{parts.year:04}",
}


_SPECIFIER: Final = re.compile("%(.?)", re.DOTALL)
_FORMAT_SPECIFIERS: Final = frozenset((*_FORMATTERS, "%", "z", "Z"))
_PERCENT: Final = "%\0"
"""A placeholder for `%%` while the other specifiers are replaced. A format never contains it, because a zero byte is
no letter.
"""
_MAX_CACHED_FORMAT: Final = 1024
"""Formats longer than this many characters are parsed each time and not cached."""


def _count_specifiers(layout: str, known: frozenset[str]) -> Mapping[str, int]:
    """Count each specifier in a format. MqlError 18535 for a trailing `%`, 18536 for an unknown specifier."""
    # Operations on the whole text instead of a loop over its characters: a client may send a format of megabytes.
    rest = layout.replace("%%", "")
    counts = {letter: count for letter in known - {"%"} if (count := rest.count(f"%{letter}"))}
    if rest.count("%") != sum(counts.values()):
        wrong = next(letter for match in _SPECIFIER.finditer(layout) if (letter := match[1]) not in known)
        if not wrong:
            raise MqlError(18535, "Unmatched '%' at end of format string")
        raise MqlError(18536, f"Invalid format character '%{wrong}' in format string")
    return counts


_cached_specifiers = lru_cache(maxsize=256)(_count_specifiers)


def format_date(instant: int, layout: str, zone: Zone) -> str:
    """Return a date as text. `instant` is milliseconds since 1970. MqlError 18537 for a year outside 0 to 9999."""
    letters = (_cached_specifiers if len(layout) <= _MAX_CACHED_FORMAT else _count_specifiers)(
        layout, _FORMAT_SPECIFIERS
    )
    offset = zone.offset(instant)
    parts = parts_of(instant + offset)
    if not 0 <= parts.year <= 9999:
        raise MqlError(18537, f"$dateToString is only defined on year 0-9999, tried to use year {parts.year}")
    text = layout.replace("%%", _PERCENT)
    for letter in letters:
        text = text.replace(
            f"%{letter}", _format_offset(letter, offset) if letter in "zZ" else _FORMATTERS[letter](parts)
        )
    return text.replace(_PERCENT, "%")


def _format_offset(letter: str, offset: int) -> str:
    sign, minutes = "-" if offset < 0 else "+", abs(offset) // MINUTE
    if letter == "z":
        return f"{sign}{minutes // 60:02}{minutes % 60:02}"
    return str(-minutes if offset < 0 else minutes)


def format_iso(instant: int) -> str:
    """Return a date in ISO 8601, as `$toString` writes it."""
    return format_date(instant, ISO, UTC_ZONE)


# --- reading ---------------------------------------------------------------------------------------------------------


class DateParseError(Exception):
    """A text that cannot be parsed as a date; the message gives the reason."""


_MONTH_NUMBERS: Final = {name[:3].lower(): index for index, name in enumerate(MONTH_NAMES, 1)}
_OFFSET: Final = r"[+-]\d\d(?::?\d\d)?"

_PATTERNS: Final[Mapping[str, str]] = {
    "b": r"(?P<b>[A-Za-z]{3})",
    "B": r"(?P<B>[A-Za-z]+)",
    "d": r"(?P<d>\d{1,2})",
    "G": r"(?P<G>\d{4})",
    "H": r"(?P<H>\d{1,2})",
    "j": r"(?P<j>\d{1,3})",
    "L": r"(?P<L>\d{1,3})",
    "m": r"(?P<m>\d{1,2})",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "u": r"(?P<u>[1-7])",
    "V": r"(?P<V>\d{1,2})",
    "Y": r"(?P<Y>\d{4})",
    "z": rf"(?P<z>{_OFFSET}|[A-Za-z]+(?:/[A-Za-z_]+)*)",
    "Z": r"(?P<Z>[+-]\d+)",
    "%": "%",
}
_PARSE_SPECIFIERS: Final = frozenset(_PATTERNS)
_FORMAT_PARTS: Final = re.compile("%.|[^%]+", re.DOTALL)

_DATE: Final = r"(?P<Y>\d{4})-?(?P<m>\d{2})(?:-?(?P<d>\d{2}))?"
_TIME: Final = r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<L>\d{1,9}))?)?"
_COMPACT: Final = r"(?P<H>\d{2})(?P<M>\d{2})(?:(?P<S>\d{2})(?:[.,](?P<L>\d{1,9}))?)?"
_ZONE: Final = rf"\s*(?P<z>{_OFFSET}|[A-Za-z]+(?:/[A-Za-z_]+)*)"
_WEEKDAY: Final = r"(?:[A-Za-z]{3,9},?\s+)?"

_COMMON_FORMATS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_DATE}(?:(?:T|t|\s+){_TIME}(?:{_ZONE})?)?",
        rf"{_DATE}[Tt]{_COMPACT}(?:{_ZONE})?",
        rf"(?P<m>\d{{1,2}})/(?P<d>\d{{1,2}})/(?P<Y>\d{{4}})(?:\s+{_TIME}(?:{_ZONE})?)?",
        rf"{_WEEKDAY}(?P<d>\d{{1,2}})[ -](?P<b>[A-Za-z]{{3,9}})[ -](?P<Y>\d{{4}})(?:\s+{_TIME}(?:{_ZONE})?)?",
        rf"{_WEEKDAY}(?P<b>[A-Za-z]{{3,9}})\s+(?P<d>\d{{1,2}}),?\s+(?P<Y>\d{{4}})(?:,?\s+{_TIME}(?:{_ZONE})?)?",
    )
)
"""The date forms that need no format, each with an optional time and time zone."""


def _compile_format(layout: str) -> re.Pattern[str]:
    # The specifiers are names of groups, which may occur only once in a pattern.
    if any(count > 1 for count in _count_specifiers(layout, _PARSE_SPECIFIERS).values()):
        raise MqlError(18536, f"a format specifier is used twice in '{layout}'")
    return re.compile(
        "".join(_PATTERNS[part[1]] if part[0] == "%" else re.escape(part) for part in _FORMAT_PARTS.findall(layout))
    )


_cached_pattern = lru_cache(maxsize=256)(_compile_format)


def parse_date(text: str, layout: str | None, zone: Zone | None) -> int:
    """Parse a text into milliseconds since 1970. `zone` applies where the text names no time zone. DateParseError on
    failure.
    """
    stripped = text.strip() if layout is None else text
    patterns = (
        _COMMON_FORMATS
        if layout is None
        else ((_cached_pattern if len(layout) <= _MAX_CACHED_FORMAT else _compile_format)(layout),)
    )
    for pattern in patterns:
        match = pattern.fullmatch(stripped)
        if match is not None:
            return _instant_of_fields(
                {name: part for name, part in match.groupdict().items() if part is not None}, zone
            )
    raise DateParseError("an unexpected character, or an incomplete date")


def _instant_of_fields(found: Mapping[str, str], zone: Zone | None) -> int:
    local = _days_of_fields(found) * DAY
    for letter, unit, limit in (("H", HOUR, 23), ("M", MINUTE, 59), ("S", SECOND, 59)):
        number = int(found.get(letter, 0))
        if number > limit:
            raise DateParseError(f"{number} is out of range")
        local += number * unit
    # .5 is 500 ms. Digits behind the third are cut, not rounded.
    local += int(found.get("L", "0").ljust(3, "0")[:3])
    own = _zone_in_text(found)
    if own is None:
        return (zone or UTC_ZONE).instant(local)
    # The server refuses two time zones even if they are equal.
    if zone is not None:
        raise DateParseError(
            "you cannot pass in a date/time string with time zone information together with a timezone argument"
        )
    return own.instant(local)


def _zone_in_text(found: Mapping[str, str]) -> Zone | None:
    if "Z" in found:
        # `%Z` counts minutes: +90 is +01:30.
        minutes = int(found["Z"])
        return zone_of(f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}")
    if "z" not in found:
        return None
    name = found["z"]
    try:
        return zone_of("UTC" if name in ("z", "Z") else name)
    except MqlError as error:
        raise DateParseError(str(error)) from None


def _days_of_fields(found: Mapping[str, str]) -> int:
    if "G" in found:
        week = int(found.get("V", 1))
        if not 1 <= week <= 53:
            raise DateParseError(f"there is no week {week}")
        return iso_days(int(found["G"]), week, int(found.get("u", 1)))
    if "Y" not in found:
        raise DateParseError("an incomplete date/time string has been found, with elements missing")
    year = int(found["Y"])
    if "j" in found:
        if not 1 <= int(found["j"]) <= days_of(year + 1, 1, 1) - days_of(year, 1, 1):
            raise DateParseError("the day of the year is out of range")
        return days_of(year, 1, 1) + int(found["j"]) - 1
    name = found.get("b") or found.get("B")
    month = _MONTH_NUMBERS.get(name[:3].lower(), 0) if name else int(found.get("m", 1))
    day = int(found.get("d", 1))
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise DateParseError("the month or the day is out of range")
    return days_of(year, month, day)
