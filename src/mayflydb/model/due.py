"""The due paths: ordered access paths of expiry, which every store keeps so that no deadline is ever stored."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from mayflydb.model.instant import Instant

# About 146,000 years. The largest span of a rule, 2^32 s, still fits 64 bits on top of it.
DATE_LIMIT: Instant = 1 << 62
"""Due paths hold instants clamped to plus or minus this, so that any span can be added."""

# Added to an instant, it makes negative instants sort below positive ones as unsigned bytes.
_BIAS = 1 << 63


class DuePath(Enum):
    """ANCHOR orders the records that follow the default by anchor; DEADLINE orders those with a positive own ttl by anchor +
    ttl.

    A record whose own ttl is NEVER, or without an anchor, is on neither.
    """

    ANCHOR = "anchor"
    DEADLINE = "deadline"


Path: TypeAlias = DuePath | int
"""A DuePath, or a slot: its date index, with an entry for each record that has a date there, in the order of the dates."""


def instant_key(instant: Instant) -> bytes:
    """Encode an instant in 8 bytes of the same order; beyond 64 bits, as the first or last key."""
    return (max(0, min(2 * _BIAS - 1, instant + _BIAS))).to_bytes(8, "big")


def date_key(date: Instant) -> bytes:
    """Return the entry key of a record with this date in a slot."""
    return instant_key(max(-DATE_LIMIT, min(DATE_LIMIT, date)))


def date_of(key: bytes) -> Instant:
    """Return the date, clamped, of an entry key."""
    return int.from_bytes(key, "big") - _BIAS
