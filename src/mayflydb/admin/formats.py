"""Instants and spans as answers show them."""

from __future__ import annotations

from mayflydb.model.instant import SECOND, Instant, Span, to_rfc3339

LAST_INSTANT: Instant = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z: where the clock, and the way times are written, end."""


def time(instant: Instant) -> str:
    """RFC 3339 in UTC; `after 9999` for a deadline beyond all clocks."""
    return to_rfc3339(instant) if instant <= LAST_INSTANT else "after 9999"


def time_or_none(instant: Instant | None) -> str | None:
    """As `time`; null for none."""
    return None if instant is None else time(instant)


def seconds(span: Span) -> int | float:
    """Whole where it is whole."""
    return span // SECOND if span % SECOND == 0 else span / SECOND
