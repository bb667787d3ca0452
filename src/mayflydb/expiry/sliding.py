"""Sliding expiry: a read gives a record a new life, at most once in an interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND, Instant, floor_to_second
from mayflydb.model.record import Dates, Record


def needs_touch(record: Record, rules: Sequence[Rule], read: Instant, interval: int) -> bool:
    """Return whether a read at an instant gives a record a new life. `interval`: seconds between two of its lives."""
    before = read - interval * SECOND
    for rule in rules:
        if rule.slot is None:
            if record.anchor is not None and record.anchor <= before:
                return True
        elif rule.after and any(slot == rule.slot and date <= before for slot, date in record.dates):
            return True
    return False


def touch(record: Record, rules: Sequence[Rule], read: Instant) -> tuple[Instant | None, Dates]:
    """Return the anchor and the dates of a record that was read: its rules count from the read. No life becomes shorter.

    A rule without a span expires a record at its date itself: a read does not move that.
    """
    sliding = {rule.slot for rule in rules if rule.after}
    dates = tuple([(slot, max(date, read) if slot in sliding else date) for slot, date in record.dates])
    anchor = record.anchor if record.anchor is None else max(record.anchor, floor_to_second(read))
    return anchor, dates
