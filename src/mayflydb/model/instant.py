"""Instants and spans: whole numbers of UTC microseconds, never a float, a zone or a calendar month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Instant: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

Span: TypeAlias = int
"""A length of time in microseconds."""

MICROSECOND: Span = 1
MILLISECOND: Span = 1_000
SECOND: Span = 1_000_000
MINUTE: Span = 60 * SECOND
HOUR: Span = 60 * MINUTE
DAY: Span = 24 * HOUR

FIRST_INSTANT: Instant = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z: the first instant that RFC 3339 can write here."""

LAST_INSTANT: Instant = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z: the last instant that RFC 3339 can write, and the end of the clock."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_seconds(instant: Instant) -> int:
    """Whole seconds since the epoch, floored."""
    return instant // SECOND


def floor_to_second(instant: Instant) -> Instant:
    """The start of the second that holds `instant`."""
    return instant - instant % SECOND


def from_datetime(moment: datetime) -> Instant:
    """Convert an aware datetime to an instant; ValueError for a naive one, whose time zone is unknown."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a time zone is no instant")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: Instant) -> datetime:
    """An aware UTC datetime; OverflowError beyond the year 9999."""
    return _EPOCH + timedelta(microseconds=instant)


def to_rfc3339(instant: Instant) -> str:
    """`2030-01-01T00:00:00Z`, with a fraction only where there is one."""
    text = to_datetime(instant).isoformat()
    return text.removesuffix("+00:00") + "Z"


def from_rfc3339(text: str) -> Instant:
    """Parse `2030-01-01T00:00:00Z` (any offset, `T` or a space); ValueError without an offset."""
    return from_datetime(datetime.fromisoformat(text))
