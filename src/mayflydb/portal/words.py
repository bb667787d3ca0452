"""Formats numbers, spans and settings for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.admin import formats
from mayflydb.admin.requests import parse_moment
from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, Span

DUE: Final = "due"
"""The time until a deadline that has come. The record waits for its purge."""

CAUSES: Final[Mapping[str, str]] = {
    "default": "default TTL",
    "item": "own ttl",
    "index": "TTL index",
    "column": "TTL column",
    "cascade": "left with a record that it names",
}
"""The causes of an expiry."""

_UNITS: tuple[tuple[str, Span], ...] = (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND))


def count(value: int, exact: bool) -> str:
    """Return a count as text; that of an estimate says so."""
    return number(value) if exact else f"about {number(value)}"


def number(value: int) -> str:
    """`1,204`."""
    return f"{value:,}"


def items(count: int, exact: bool = True) -> str:
    """`1 item`, `about 1,204 items`."""
    return f"{'' if exact else 'about '}{number(count)} {'item' if count == 1 else 'items'}"


def span(length: Span) -> str:
    """`1 h 30 min`. Milliseconds are shown only below one second."""
    if abs(length) < SECOND:
        return f"{length // 1000} ms" if length else "0 s"
    sign, rest, parts = ("-" if length < 0 else ""), abs(length), []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{number(count)} {unit}")
    return sign + " ".join(parts)


def seconds(count: int) -> str:
    """Format a number of seconds as a span."""
    return span(count * SECOND)


def moment(instant: Instant) -> str:
    """`2026-11-20 23:31:10Z`: in UTC, to the second."""
    return formats.time(instant - instant % SECOND).replace("T", " ")


def short_span(length: Span) -> str:
    """Format a span in its two largest units, without the rest."""
    # Each unit is two words, its number and its name.
    return " ".join(span(length).split(" ")[:4])


def format_wait(time: str, now: str) -> str:
    """Return the span from `now` to a time of a page: `in 59 s`; `due` for a time that has come."""
    left = parse_moment(time.replace(" ", "T")) - parse_moment(now.replace(" ", "T"))
    return f"in {short_span(left)}" if left > 0 else DUE


def ttl_index(index: Mapping[str, Any]) -> str:
    """`at_1: 90 s after the date`."""
    after = index["expire_after_seconds"]
    how = "own ttl only" if after == -1 else f"{seconds(after)} after {index['counts_from']}"
    return f"{index['name']}: {how}"


def time_to_live(default: int | None) -> str:
    """Format a container's default as its settings page does."""
    if default is None:
        return "Off"
    return "On (no default)" if default == -1 else f"On: {seconds(default)}"


def deadline(time: str) -> str:
    """`2026-11-20 23:31:10.500000Z`: a time of the admin API whose fraction of a second decides what is alive."""
    return time.replace("T", " ")


def readable(time: str) -> str:
    """`2026-11-20 23:31:10Z`: a time of the admin API, with its fraction of a second cut off."""
    date, _, rest = time.partition("T")
    return f"{date} {rest.split('.')[0].rstrip('Z')}Z" if rest else time
