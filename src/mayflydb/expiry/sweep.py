"""The sweep planner: requests for purges, the container to sweep next, and the size of the sweep. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from mayflydb.model.instant import MILLISECOND, Instant, Span

PassOverride = Literal["none", "monitor", "all", "demanded"]
"""The passes for which a purge does not wait: none; those of the monitor; all; all, even if the container is paused."""


class PurgeRequest(msgspec.Struct, frozen=True):
    """A request to purge all records that are due at `horizon`.

    `now`: the instant that expiry events state as that of the purge. `trigger`: what asked for it, for the events: `sweep` or
    `run now`. `containers`: only these; None: all. `within_budget`: purge only as much as budgets can pay for. `override`: the
    passes for which the purge does not wait.
    """

    horizon: Instant
    now: Instant
    trigger: str
    containers: frozenset[int] | None = None
    within_budget: bool = False
    override: PassOverride = "none"

    def overrides_pass(self, own: bool) -> bool:
        """Return whether a container, with its `own` schedule or without, is purged without waiting for a pass."""
        return self.override in ("all", "demanded") or (self.override == "monitor" and not own)


class Limits(msgspec.Struct, frozen=True):
    """Sizes of sweeps, in records: the largest, the first, and the smallest that is worth its commit. `by_record`: the largest of
    a container whose purges read each record.

    `duration` None: by records alone, so that virtual time is reproducible.
    """

    most: int = 4096
    duration: Span | None = 10 * MILLISECOND
    first: int = 256
    fewest: int = 256
    by_record: int = 96


class Waiting(msgspec.Struct, frozen=True):
    """A container with due records: its oldest deadline, and the number of its last turn (0: none yet)."""

    deadline: Instant
    turn: int = 0


class Sweep(msgspec.Struct, frozen=True):
    """The next sweep."""

    container: int
    limit: int


class SweepResult(msgspec.Struct, frozen=True):
    """The result of a sweep: its planned `limit`, the records `removed`, and the `duration` for which it held the writer.

    A budget may have allowed fewer records than planned; then `removed` is below the limit, as if no more had been due.
    """

    container: int
    limit: int
    removed: int
    duration: Span


def next_sweep(backlog: Mapping[int, Waiting], last: SweepResult | None, limits: Limits) -> Sweep | None:
    """Choose round-robin: no container has a second turn before each waiting one had one; among equals, the oldest deadline."""
    if not backlog:
        return None
    # The id comes last, so that the same backlog gives the same sweep in every run.
    container = min(backlog, key=lambda id: (backlog[id].turn, backlog[id].deadline, id))
    return Sweep(container, next_limit(last, limits))


def next_limit(last: SweepResult | None, limits: Limits) -> int:
    """Halve after a sweep that took too long; double after a full one that took less than half its time.

    `last`: the last sweep, of any container; None: none yet. Without a limit of time every sweep has the first size. Never
    less than the fewest: on a machine that is busy otherwise, smaller sweeps only cost more in all.
    """
    if last is None or limits.duration is None:
        return min(limits.first, limits.most)
    if last.duration > limits.duration:
        return min(limits.most, max(limits.fewest, last.limit // 2))
    # Less than half of the time, or the doubled sweep would be too long and be halved again.
    if last.removed == last.limit and last.duration * 2 < limits.duration:
        return min(limits.most, last.limit * 2)
    return last.limit
