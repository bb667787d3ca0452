"""Lifecycle settings: what Mayfly does about a container's expiries beyond the protocols. Data, stored in the catalogue."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from mayflydb.expiry.guard import GuardLimits
from mayflydb.model.instant import DAY, Instant

Shred: TypeAlias = Literal["off", "day", "container"]
"""The keys of a container whose records are sealed: one for each day of writes, or one for all. `off`: they are not sealed."""

UNDATED: Final = 0
"""The number of a segment that is of no day."""


class Lifecycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lifecycle settings of one container.

    `guard`: the limits of its guard; `off`: it has no guard; None: the limits of the server's settings. `grace`: seconds for
    which expired records are kept before they are purged; they are hidden meanwhile, and can be undeleted. `touch`: a read by
    key or index gives a record a new life, at most once in so many seconds; 0: only writes do. `shred`: the keys of its records.
    """

    guard: GuardLimits | Literal["off"] | None = None
    grace: int = 0
    touch: int = 0
    shred: Shred = "off"


def segment_number(shred: Shred, now: Instant) -> int:
    """Return the number of the segment to which a write at an instant belongs: the day, counted from 1970, or UNDATED.

    Where a container has no keys of its own, what is sealed for others counts in days.
    """
    return UNDATED if shred == "container" else max(UNDATED + 1, now // DAY)
