"""The ordered access paths of expiry, which every store keeps so that no deadline is ever stored."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from mayflydb.model.instant import Instant

DATE_LIMIT: Instant = 1 << 62
"""Access paths hold instants clamped to plus or minus this, so that any span can be added."""

_BIAS = 1 << 63


class DuePath(Enum):
    """ANCHOR orders by anchor the records that follow the default; DEADLINE by anchor + own ttl those with a positive own one.

    A record whose own ttl is NEVER, or without an anchor, is on neither.
    """

    ANCHOR = "anchor"
    DEADLINE = "deadline"


Path: TypeAlias = DuePath | int
"""One of the two, or a slot: its date index, with an entry for each record that has a date there, in the order of the dates."""


def instant_key(instant: Instant) -> bytes:
    """8 bytes in the order of the instants; beyond 64 bits, the first or the last of them."""
    return (max(0, min(2 * _BIAS - 1, instant + _BIAS))).to_bytes(8, "big")


def date_key(date: Instant) -> bytes:
    """The entry key of a record with this date in a slot."""
    return instant_key(max(-DATE_LIMIT, min(DATE_LIMIT, date)))


def date_of(key: bytes) -> Instant:
    """The date, clamped, that an entry key stands for."""
    return int.from_bytes(key, "big") - _BIAS
