"""Reads as of a later instant: which records will be left then. Pure.

Deadlines are computed from rules, so those of a later instant are known now. A record whose deadline has come by then is left
out, whether its rule hides it at once or a pass removes it somewhat later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.durations import parse_instant
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import LAST_INSTANT, Instant, to_rfc3339


def rules_as_of(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules for a read as of a later instant: each of them hides."""
    return tuple(rule if rule.hides else msgspec.structs.replace(rule, hides=True) for rule in rules)


def parse_as_of(text: str, now: Instant) -> Instant:
    """Parse the instant of a read, at `now`. Raise BadRequest for text that is none, and as `check_as_of` does."""
    try:
        return check_as_of(parse_instant(text), now)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def check_as_of(at: Instant, now: Instant) -> Instant:
    """Return the instant of a read. Raise BadRequest if it lies before `now`, or beyond the year 9999."""
    if at < now:
        raise BadRequest(f"Reads as of the past are not supported by Mayfly, whose time is {to_rfc3339(now)}.")
    if at > LAST_INSTANT:
        raise BadRequest("Reads are not possible as of an instant beyond the year 9999.")
    return at
