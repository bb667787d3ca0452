"""Time zones, for the types that carry the name of one. A value is a moment in UTC and that name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from mayflydb.query.yql import moments
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.types import TIMESTAMP, Type

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = 86_400


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo | None:
    """A zone by its IANA name; None if there is none of that name."""
    if not name or name.startswith(("/", ".")):
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def offset_at(zone: ZoneInfo, seconds: int) -> int:
    """Seconds that clocks of the zone are ahead of UTC, at a moment in seconds since the epoch."""
    offset = zone.utcoffset((_EPOCH + timedelta(seconds=seconds)).astimezone(zone))
    return offset // _SECOND if offset is not None else 0


def to_utc(zone: ZoneInfo, local: int) -> int:
    """The moment at which clocks of the zone show `local`, both in seconds: the first of two, or as if not yet moved."""
    there = (_EPOCH + timedelta(seconds=local)).replace(tzinfo=zone)
    offset = zone.utcoffset(there)
    return local - (offset // _SECOND if offset is not None else 0)


def day_of(micros: int, name: str) -> int:
    """The value of the TzDate of a moment: the day of UTC in which the zone's day begins that the moment lies in.

    `micros`: since the epoch, in UTC. Faults: that day begins before the epoch
    (https://ydb.tech/docs/en/yql/reference/types/cast).
    """
    zone = zone_of(name)
    seconds = micros // moments.SECOND
    if zone is None:
        return seconds // _DAY
    local = seconds + offset_at(zone, seconds)
    found = to_utc(zone, local // _DAY * _DAY) // _DAY
    if found < 0:
        shown = moments.local_text(TIMESTAMP, local * moments.SECOND)
        raise fault(f"Timestamp {shown}.{micros % moments.SECOND:06},{name} cannot be casted to TzDate")
    return found


def parse(type: Type, text: str) -> tuple[int, str] | None:
    """`2020-01-01T00:00:00,Europe/Moscow`; None for another text, another zone or what the type cannot hold."""
    local, comma, name = text.partition(",")
    zone = zone_of(name) if comma else None
    shown = None if zone is None else moments.parse_local(moments.UNZONED[type], local)
    if zone is None or shown is None:
        return None
    if moments.SCALES[type] == moments.DAY:
        # A day is kept as the one of UTC in which it begins in the zone.
        value = to_utc(zone, shown * _DAY) // _DAY
    else:
        per_second = moments.SECOND // moments.SCALES[type]
        seconds, rest = divmod(shown, per_second)
        value = to_utc(zone, seconds) * per_second + rest
    return (value, name) if moments.fits(type, value) else None


def to_text(type: Type, value: tuple[int, str]) -> str:
    """The same back: what clocks of the zone show, and its name."""
    moment, name = value
    zone = zone_of(name)
    if zone is not None:
        if moments.SCALES[type] == moments.DAY:
            last = moment * _DAY + _DAY - 1
            moment = (last + offset_at(zone, last)) // _DAY
        else:
            per_second = moments.SECOND // moments.SCALES[type]
            moment += offset_at(zone, moment // per_second) * per_second
    return f"{moments.local_text(moments.UNZONED[type], moment)},{name}"
