"""Lifecycle settings: what Mayfly does about a container's expiries beyond the protocols. Data, stored in the catalogue."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from mayflydb.expiry.guard import GuardLimits
from mayflydb.expiry.roll_up import RollUp
from mayflydb.model.instant import DAY, Instant

Shred: TypeAlias = Literal["off", "day", "container"]
"""The keys of a container whose records are sealed: one for each day of writes, or one for all. `off`: they are not sealed."""

UNDATED: Final = 0
"""The number of a segment that is of no day."""


class Cascade(msgspec.Struct, frozen=True):
    """The records of another container that leave with an expired record: they name its id at `path`.

    `container`: its number; `index`: the number of its index over the path. `space`: the front end of both containers.
    """

    container: int
    path: str
    index: int
    space: str


class Lifecycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lifecycle settings of one container.

    `guard`: the limits of its guard; `off`: it has no guard; None: the limits of the server's settings. `grace`: seconds for
    which expired records are kept before they are purged; they are hidden meanwhile, and can be undeleted. `touch`: a read by
    key or index gives a record a new life, at most once in so many seconds; 0: only writes do. `last_image`: seconds for which
    the last version of an expired record is kept for readers of its event, after the purge. `history`: seconds for which every
    version is kept after it has ended, so that the container can be read as of an earlier instant. `archive`: the name of the
    archive that gets records when they are purged; None: they are not archived. `roll_up`: what is kept of expired records in
    another container; None: nothing. `shred`: the keys of its records. `cascade`: the records that leave with an expired one.
    """

    guard: GuardLimits | Literal["off"] | None = None
    grace: int = 0
    touch: int = 0
    last_image: int = 0
    history: int = 0
    archive: str | None = None
    roll_up: RollUp | None = None
    shred: Shred = "off"
    cascade: tuple[Cascade, ...] = ()

    @property
    def keeps_versions(self) -> bool:
        """Return whether versions of records are kept after they have ended."""
        return bool(self.last_image or self.history) or self.archive is not None


NO_LIFECYCLE = Lifecycle()
"""The one of containers without such a setting."""


class HeldRollUp(msgspec.Struct, frozen=True):
    """A roll-up that fails, so that nothing is purged meanwhile: since when, and why."""

    since: Instant
    reason: str


def segment_number(shred: Shred, now: Instant) -> int:
    """Return the number of the segment to which a write at an instant belongs: the day, counted from 1970, or UNDATED.

    Where a container has no keys of its own, what is sealed for others counts in days.
    """
    return UNDATED if shred == "container" else max(UNDATED + 1, now // DAY)
