"""Reads as of a later instant: which records will be left then. Pure.

Deadlines are computed from rules, so those of a later instant are known now. A record whose deadline has come by then is left
out, whether its rule hides it at once or a pass removes it somewhat later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant, from_rfc3339, to_rfc3339


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
    """Return the instant of a read. Raise BadRequest if it lies before `now`."""
    if at < now:
        raise BadRequest(
            f"Reads as of the past are not supported by Mayfly: {to_rfc3339(at)} is before its time, {to_rfc3339(now)}."
        )
    return at
