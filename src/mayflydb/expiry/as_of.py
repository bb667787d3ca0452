"""Reads as of a later instant: which records will be left then. Pure.

Deadlines are computed from rules, so those of a later instant are known now. A record whose deadline has come by then is left
out, whether its rule hides it at once or a pass removes it somewhat later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant, from_rfc3339, to_rfc3339

LATEST: Final[Instant] = from_rfc3339("9999-12-31T23:59:59.999999Z")
"""The last instant of a read: stores take no instants beyond 64 bits, and texts none beyond this year."""


def rules_as_of(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules for a read as of a later instant: each of them hides."""
    return tuple(rule if rule.hides else msgspec.structs.replace(rule, hides=True) for rule in rules)


def parse_as_of(text: str, now: Instant) -> Instant:
    """Parse the RFC 3339 instant of a read, at `now`. Raise BadRequest for another text and for an instant of the past."""
    try:
        at = from_rfc3339(text)
    except (ValueError, OverflowError):
        raise BadRequest(f"'{text[:64]}' is no instant: it is written as in 2030-01-01T00:00:00Z.") from None
    return check_as_of(at, now)


def check_as_of(at: Instant, now: Instant) -> Instant:
    """Return the instant of a read. Raise BadRequest if it lies before `now`, or beyond the year 9999."""
    if at < now:
        raise BadRequest(f"Reads as of the past are not supported by Mayfly, whose time is {to_rfc3339(now)}.")
    if at > LATEST:
        raise BadRequest("Reads are not possible as of an instant beyond the year 9999.")
    return at
