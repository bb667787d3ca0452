"""Time zones, for the types with a zone name. A value is an instant in UTC and the name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from mayflydb.query.calendar import CYCLE
from mayflydb.query.yql import moments
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.types import TIMESTAMP, Type, format_type

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = 86_400
_CYCLE: Final = CYCLE * _DAY
# Seconds of the years 5 to 9987, within which Python's datetime has room for any offset of a zone.
_FIRST, _LAST = -62_000_000_000, 253_000_000_000


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo | None:
    """The zone of an IANA name; None if there is none."""
    # ZoneInfo looks a name up as a path; no zone has a path that begins so.
    if not name or name.startswith(("/", ".")):
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def _move_near(seconds: int) -> int:
    """A time with the same offset in each zone, in a year that Python's datetime knows.

    Before the year 5, as on every day before a zone's first rule, its local mean time is in force. After 9987 the last rule is,
    which repeats with the calendar: years that are 400 apart begin on the same weekday.
    """
    if seconds < _FIRST:
        return _FIRST
    return seconds if seconds < _LAST else _LAST - _CYCLE + (seconds - _LAST) % _CYCLE


def offset_at(zone: ZoneInfo, seconds: int) -> int:
    """The offset of a zone from UTC in seconds, at an instant in seconds since 1970."""
    offset = zone.utcoffset((_EPOCH + timedelta(seconds=_move_near(seconds))).astimezone(zone))
    return offset // _SECOND if offset is not None else 0


def to_utc(zone: ZoneInfo, local: int) -> int:
    """The instant at which clocks in the zone show `local`, both in seconds.

    A local time that occurs twice is the first one. A local time that is skipped counts as if the clocks had not
    changed.
    """
    # With fold=0, the default, Python takes the first of two equal local times, and in a gap the offset before the
    # change.
    there = (_EPOCH + timedelta(seconds=_move_near(local))).replace(tzinfo=zone)
    offset = zone.utcoffset(there)
    return local - (offset // _SECOND if offset is not None else 0)


def day_of(type: Type, micros: int, name: str) -> int:
    """The TzDate or TzDate32 of an instant: the UTC day in which the day of the zone begins.

    `micros`: since 1970, in UTC. Faults: that day begins before the first day of the type
    (https://ydb.tech/docs/en/yql/reference/types/cast).
    """
    found = find_day(micros, name)
    if found < moments.LIMITS[type][0]:
        seconds = micros // moments.SECOND
        zone = zone_of(name)
        local = seconds if zone is None else seconds + offset_at(zone, seconds)
        shown = moments.local_text(TIMESTAMP, local * moments.SECOND)
        raise fault(f"Timestamp {shown}.{micros % moments.SECOND:06},{name} cannot be casted to {format_type(type)}")
    return found


def find_day(micros: int, name: str) -> int:
    """The UTC day in which the day of the zone begins."""
    zone = zone_of(name)
    seconds = micros // moments.SECOND
    if zone is None:
        return seconds // _DAY
    return to_utc(zone, (seconds + offset_at(zone, seconds)) // _DAY * _DAY) // _DAY


def parse(type: Type, text: str) -> tuple[int, str] | None:
    """Parse `2020-01-01T00:00:00,Europe/Moscow`; None for another text, an unknown zone or a value beyond the limits."""
    local, comma, name = text.partition(",")
    zone = zone_of(name) if comma else None
    shown = None if zone is None else moments.parse_local(moments.UNZONED[type], local)
    if zone is None or shown is None:
        return None
    if moments.SCALES[type] == moments.DAY:
        # The value is the UTC day in which the day begins in the zone.
        value = to_utc(zone, shown * _DAY) // _DAY
    else:
        per_second = moments.SECOND // moments.SCALES[type]
        seconds, rest = divmod(shown, per_second)
        value = to_utc(zone, seconds) * per_second + rest
    return (value, name) if moments.fits(type, value) else None


def to_text(type: Type, value: tuple[int, str]) -> str:
    """Format the local time of the zone and the zone's name."""
    moment, name = value
    zone = zone_of(name)
    if zone is not None:
        if moments.SCALES[type] == moments.DAY:
            # The local day begins within this UTC day, so the zone shows that day at the last second.
            last = moment * _DAY + _DAY - 1
            moment = (last + offset_at(zone, last)) // _DAY
        else:
            per_second = moments.SECOND // moments.SCALES[type]
            moment += offset_at(zone, moment // per_second) * per_second
    return f"{moments.local_text(moments.UNZONED[type], moment)},{name}"
