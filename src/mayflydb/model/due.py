"""The two ordered access paths of expiry, which every store keeps so that no deadline is ever stored."""

from __future__ import annotations

from enum import Enum


class DuePath(Enum):
    """ANCHOR orders by anchor the records that follow the default; DEADLINE by anchor + own ttl those with a positive own one.

    A record whose own ttl is NEVER, or without an anchor, is on neither.
    """

    ANCHOR = "anchor"
    DEADLINE = "deadline"
