"""Formats instants and spans for answers."""

from __future__ import annotations

from mayflydb.model.instant import LAST_INSTANT, SECOND, Instant, Span, to_rfc3339


def time(instant: Instant) -> str:
    """Format an instant as RFC 3339 in UTC; `after 9999` for a deadline beyond that."""
    return to_rfc3339(instant) if instant <= LAST_INSTANT else "after 9999"


def time_or_none(instant: Instant | None) -> str | None:
    """Format as `time` does; None stays None."""
    return None if instant is None else time(instant)


def seconds(span: Span) -> int | float:
    """Return a span in seconds, an integer where it has no fraction."""
    return span // SECOND if span % SECOND == 0 else span / SECOND
