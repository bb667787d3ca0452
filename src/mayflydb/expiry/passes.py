"""Passes: the instants at which records of some rules are purged, whatever died meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.deadline import Mortal, deadline_under
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import Instant, Span


class Schedule(msgspec.Struct, frozen=True):
    """A pass at `since` + `every`, and again each `every` (> 0)."""

    since: Instant
    every: Span

    def last(self, now: Instant) -> Instant | None:
        """The latest pass up to `now`; None: there was none yet."""
        count = self.count(now)
        return self.since + count * self.every if count else None

    def next(self, instant: Instant) -> Instant:
        """The first pass at this instant or after it."""
        return self.since + max(1, -(-(instant - self.since) // self.every)) * self.every

    def count(self, now: Instant) -> int:
        """How many passes there were up to `now`."""
        return max(0, (now - self.since) // self.every)


def horizon_of(rule: Rule, now: Instant, schedule: Schedule | None) -> Instant | None:
    """The instant up to which a rule may purge at `now`; None: not yet. Without a schedule nobody waits for a pass."""
    return schedule.last(now) if rule.passes and schedule is not None else now


def purge_instant(deadline: Instant, rule: Rule, schedule: Schedule | None) -> Instant:
    """When a record with this deadline under a rule may be purged."""
    return schedule.next(deadline) if rule.passes and schedule is not None else deadline


class Upcoming(msgspec.Struct, frozen=True):
    """What lies ahead: the earliest deadline, and the earliest instant at which something may be purged."""

    deadline: Instant
    purge: Instant

    def sooner(self, other: Upcoming | None) -> Upcoming:
        """The earlier of each."""
        if other is None:
            return self
        return Upcoming(min(self.deadline, other.deadline), min(self.purge, other.purge))


def upcoming(record: Mortal, rules: Sequence[Rule], schedule: Schedule) -> Upcoming | None:
    """When a record dies, and when it may be purged; None: never."""
    earliest: Upcoming | None = None
    for rule in rules:
        ends = deadline_under(record, rule)
        if ends is not None:
            earliest = Upcoming(ends, purge_instant(ends, rule, schedule)).sooner(earliest)
    return earliest
