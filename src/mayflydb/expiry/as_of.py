"""Reads as of another instant: which records will be left at a later one, and which were visible at an earlier one. Pure.

Deadlines are computed from rules, so those of a later instant are known now. A record whose deadline has come by then is left
out, whether its rule hides it at once or a pass removes it somewhat later. An earlier instant needs versions that were kept: see
`past.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.durations import parse_instant
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import LAST_INSTANT, Instant


def rules_as_of(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules for a read as of a later instant: each of them hides."""
    return tuple(rule if rule.hides else msgspec.structs.replace(rule, hides=True) for rule in rules)


def parse_as_of(text: str) -> Instant:
    """Parse the instant of a read. Raise BadRequest for text that is none, and as `check_as_of` does."""
    try:
        return check_as_of(parse_instant(text))
    except ValueError as error:
        raise BadRequest(str(error)) from None


def check_as_of(at: Instant) -> Instant:
    """Return the instant of a read. Raise BadRequest if it lies before the year 1970, or beyond the year 9999."""
    if not 0 <= at <= LAST_INSTANT:
        raise BadRequest("Reads are not possible as of an instant before the year 1970, or beyond the year 9999.")
    return at


def is_past(at: Instant, now: Instant) -> bool:
    """Return whether a read as of an instant is one of the past at `now`, and not of what will be left."""
    return at < now
