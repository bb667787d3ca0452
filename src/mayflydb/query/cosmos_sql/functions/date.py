"""Date and time functions. An instant here is a whole number of ticks of 100 ns since 1970-01-01T00:00:00Z."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from mayflydb.query.cosmos_sql.context import Context
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import to_whole
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

TICKS_PER_MICROSECOND: Final = 10
_MILLISECOND: Final = 10_000
_SECOND: Final = 10_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_TICK: Final = (1 - _EPOCH_DAY) * _DAY
_END_TICK: Final = (date.max.toordinal() + 1 - _EPOCH_DAY) * _DAY
_MONTHS: Final = 12

_TEXT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?)?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)

_PARTS: Final[dict[str, str]] = {
    spelling: names[0]
    for names in (
        ("year", "yyyy", "yy"),
        ("month", "mm", "m"),
        ("day", "dd", "d"),
        ("hour", "hh"),
        ("minute", "mi", "n"),
        ("second", "ss", "s"),
        ("millisecond", "ms"),
        ("microsecond", "mcs"),
        ("nanosecond", "ns"),
    )
    for spelling in names
}
_LENGTHS: Final[dict[str, int]] = {
    "day": _DAY, "hour": _HOUR, "minute": _MINUTE, "second": _SECOND, "millisecond": _MILLISECOND,
    "microsecond": TICKS_PER_MICROSECOND,
}  # fmt: skip
"""Parts of a fixed length, in ticks. A nanosecond is a hundredth of a tick; functions compute it apart."""

_NANOSECONDS: Final = 100


def to_ticks(text: str) -> int | None:
    """Parse an ISO 8601 text, UTC unless it has an offset, to ticks; None for any other text."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = found.groups(default="")
    clock = int(hour or 0), int(minute or 0), int(second or 0), int(fraction.ljust(7, "0") or 0)
    ticks = from_parts(int(year), int(month), int(day), *clock)
    if ticks is None or not sign:
        return ticks
    offset = int(offset_hours) * _HOUR + int(offset_minutes) * _MINUTE
    return _check_range(ticks - offset if sign == "+" else ticks + offset)


def _check_range(ticks: int) -> int | None:
    return ticks if _FIRST_TICK <= ticks < _END_TICK else None


def from_parts(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, fraction: int = 0
) -> int | None:
    """The ticks of a date and time; None if the calendar or the clock has no such instant."""
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= fraction < _SECOND):
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except (ValueError, OverflowError):
        return None
    return days * _DAY + hour * _HOUR + minute * _MINUTE + second * _SECOND + fraction


def to_text(ticks: int) -> str:
    """`2030-01-01T00:00:00.0000000Z`."""
    days, rest = divmod(ticks, _DAY)
    hour, rest = divmod(rest, _HOUR)
    minute, rest = divmod(rest, _MINUTE)
    second, fraction = divmod(rest, _SECOND)
    return f"{date.fromordinal(days + _EPOCH_DAY).isoformat()}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z"


def _text_value(ticks: int | None) -> Value:
    return UNDEFINED if ticks is None or _check_range(ticks) is None else to_text(ticks)


def _calendar(ticks: int) -> date:
    return date.fromordinal(ticks // _DAY + _EPOCH_DAY)


# Parts.

_PART_READERS: Final[dict[str, Callable[[int], int]]] = {
    "year": lambda ticks: _calendar(ticks).year,
    "month": lambda ticks: _calendar(ticks).month,
    "day": lambda ticks: _calendar(ticks).day,
    "hour": lambda ticks: ticks % _DAY // _HOUR,
    "minute": lambda ticks: ticks % _HOUR // _MINUTE,
    "second": lambda ticks: ticks % _MINUTE // _SECOND,
    "millisecond": lambda ticks: ticks % _SECOND // _MILLISECOND,
    "microsecond": lambda ticks: ticks % _SECOND // TICKS_PER_MICROSECOND,
    "nanosecond": lambda ticks: ticks % _SECOND * _NANOSECONDS,
}


def _part(name: str, text: str) -> Value:
    part, ticks = _PARTS.get(name.lower()), to_ticks(text)
    return UNDEFINED if part is None or ticks is None else _PART_READERS[part](ticks)


def _part_of(part: str) -> Callable[[str], Value]:
    return lambda text: _part(part, text)


def _add_months(ticks: int, months: int) -> int | None:
    """The same day of another month, or the last day of that month if it is shorter."""
    start = _calendar(ticks)
    year, month = divmod(start.year * _MONTHS + start.month - 1 + months, _MONTHS)
    # The shortest month has three days less than the longest.
    for day in range(start.day, start.day - 4, -1):
        moved = from_parts(year, month + 1, day)
        if moved is not None:
            return moved + ticks % _DAY
    return None


def _add(name: str, count: float, text: str) -> Value:
    part, ticks, amount = _PARTS.get(name.lower()), to_ticks(text), to_whole(count)
    if part is None or ticks is None or amount is None:
        return UNDEFINED
    if part in ("year", "month"):
        return _text_value(_add_months(ticks, amount * (_MONTHS if part == "year" else 1)))
    if part == "nanosecond":
        return _text_value(ticks + amount // _NANOSECONDS)
    return _text_value(ticks + amount * _LENGTHS[part])


def _boundaries(part: str, ticks: int) -> int:
    """The number of starts of the part before the instant, counted from an arbitrary but fixed origin."""
    if part == "year":
        return _calendar(ticks).year
    if part == "month":
        start = _calendar(ticks)
        return start.year * _MONTHS + start.month
    return ticks * _NANOSECONDS if part == "nanosecond" else ticks // _LENGTHS[part]


def _difference(name: str, start: str, end: str) -> Value:
    part, first, last = _PARTS.get(name.lower()), to_ticks(start), to_ticks(end)
    if part is None or first is None or last is None:
        return UNDEFINED
    return _boundaries(part, last) - _boundaries(part, first)


def _bin(text: str, name: str, size: float = 1, origin: str = "1970-01-01T00:00:00.0000000Z") -> Value:
    """The start of the bin that contains the instant; bins are counted from the origin, which is not before 1601."""
    part, ticks, count, start = _PARTS.get(name.lower()), to_ticks(text), to_whole(size), to_ticks(origin)
    if part in (None, "year", "month") or ticks is None or count is None or count <= 0 or start is None:
        return UNDEFINED
    if _calendar(start).year < 1601:
        return UNDEFINED
    assert part is not None
    if part == "nanosecond":
        moved = (ticks - start) * _NANOSECONDS // count * count // _NANOSECONDS
    else:
        width = count * _LENGTHS[part]
        moved = (ticks - start) // width * width
    return _text_value(start + moved)


def _from_parts(*parts: float) -> Value:
    numbers = [number for part in parts if (number := to_whole(part)) is not None]
    return _text_value(from_parts(*numbers)) if len(numbers) == len(parts) else UNDEFINED


def _to_ticks(text: str) -> Value:
    ticks = to_ticks(text)
    return UNDEFINED if ticks is None else ticks


def _to_timestamp(text: str) -> Value:
    ticks = to_ticks(text)
    return UNDEFINED if ticks is None else ticks // _MILLISECOND


def _from_unit(scale: int) -> Callable[[float], Value]:
    def evaluate(count: float) -> Value:
        number = to_whole(count)
        return UNDEFINED if number is None else _text_value(number * scale)

    return evaluate


# Formats.

_FORMAT: Final = re.compile(r"\\(.)|'([^']*)'|\"([^\"]*)\"|(y+|M+|d+|H+|h+|m+|s+|f+|F+|t+)", re.DOTALL)
_MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _pad(value: int, width: int) -> str:
    return str(value).zfill(min(width, 2))


def _year(ticks: int, width: int) -> str:
    year = _calendar(ticks).year
    return _pad(year % 100, width) if width <= 2 else str(year).zfill(width)


def _month(ticks: int, width: int) -> str:
    month = _calendar(ticks).month
    return _pad(month, width) if width <= 2 else _shorten_name(_MONTH_NAMES[month - 1], width)


def _day(ticks: int, width: int) -> str:
    day = _calendar(ticks)
    return _pad(day.day, width) if width <= 2 else _shorten_name(_DAY_NAMES[day.weekday()], width)


def _shorten_name(name: str, width: int) -> str:
    return name[:3] if width == 3 else name


def _fraction(ticks: int, width: int) -> str | None:
    return f"{ticks % _SECOND:07}"[:width] if width <= 7 else None


def _short_fraction(ticks: int, width: int) -> str | None:
    digits = _fraction(ticks, width)
    return None if digits is None else digits.rstrip("0")


_SPECIFIERS: Final[dict[str, Callable[[int, int], str | None]]] = {
    "y": _year,
    "M": _month,
    "d": _day,
    "H": lambda ticks, width: _pad(_PART_READERS["hour"](ticks), width),
    # Hours 0 and 12 are both shown as 12.
    "h": lambda ticks, width: _pad((_PART_READERS["hour"](ticks) + 11) % 12 + 1, width),
    "m": lambda ticks, width: _pad(_PART_READERS["minute"](ticks), width),
    "s": lambda ticks, width: _pad(_PART_READERS["second"](ticks), width),
    "f": _fraction,
    "F": _short_fraction,
    "t": lambda ticks, width: ("AM" if _PART_READERS["hour"](ticks) < 12 else "PM")[:width],
}


def _format(text: str, pattern: str) -> Value:
    """Format by .NET's custom date format: a repeated specifier is wider; a backslash or quotes keep text as it is."""
    ticks = to_ticks(text)
    if ticks is None:
        return UNDEFINED
    parts: list[str] = []
    position = 0
    for found in _FORMAT.finditer(pattern):
        parts.append(pattern[position : found.start()])
        position = found.end()
        specifier = found[4]
        kept = found[1] or found[2] or found[3] or ""
        shown = _SPECIFIERS[specifier[0]](ticks, len(specifier)) if specifier else kept
        if shown is None:
            return UNDEFINED
        parts.append(shown)
    parts.append(pattern[position:])
    return "".join(parts)


# The present.


def _now_text(context: Context) -> Value:
    return _text_value(context.now * TICKS_PER_MICROSECOND)


def _now_ticks(context: Context) -> Value:
    return context.now * TICKS_PER_MICROSECOND


def _now_timestamp(context: Context) -> Value:
    return context.now // 1000


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("DATETIMEADD", "sns", _add),
    function("DATETIMEBIN", "ss?ns", _bin),
    function("DATETIMEDIFF", "sss", _difference),
    function("DATETIMEFORMAT", "ss", _format),
    function("DATETIMEFROMPARTS", "nnn?nnnn", _from_parts),
    function("DATETIMEPART", "ss", _part),
    function("DATETIMETOTICKS", "s", _to_ticks),
    function("DATETIMETOTIMESTAMP", "s", _to_timestamp),
    function("DAY", "s", _part_of("day")),
    function("MONTH", "s", _part_of("month")),
    function("YEAR", "s", _part_of("year")),
    function("GETCURRENTDATETIME", "", _now_text, contextual=True),
    function("GETCURRENTDATETIMESTATIC", "", _now_text, contextual=True),
    function("GETCURRENTTICKS", "", _now_ticks, contextual=True),
    function("GETCURRENTTICKSSTATIC", "", _now_ticks, contextual=True),
    function("GETCURRENTTIMESTAMP", "", _now_timestamp, contextual=True),
    function("GETCURRENTTIMESTAMPSTATIC", "", _now_timestamp, contextual=True),
    function("TICKSTODATETIME", "n", _from_unit(1)),
    function("TIMESTAMPTODATETIME", "n", _from_unit(_MILLISECOND)),
)
