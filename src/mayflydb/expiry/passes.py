"""Passes: the instants at which records of some rules are purged, whatever died meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.deadline import Expirable, deadline_under
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import MINUTE, Instant, Span


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pass at `since` + `every`, and again each `every` (> 0).

    `before`: the last pass that was made by another schedule, which this one follows. `until`: no pass is made after it; None:
    they go on for ever.
    """

    since: Instant
    every: Span
    before: Instant | None = None
    until: Instant | None = None

    def last(self, now: Instant) -> Instant | None:
        """The latest pass up to `now`; None: there was none yet."""
        count = self.count(now if self.until is None else min(now, self.until))
        return self.since + count * self.every if count else None

    def last_of_all(self, now: Instant) -> Instant | None:
        """The same, with those of the schedules before it."""
        last = self.last(now)
        if last is not None or self.before is None:
            return last
        # A clock that was set back has not seen what comes after it.
        return self.before if self.before <= now else None

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


TICK: Span = MINUTE
"""How far the instants are apart at which a container's own passes may begin: every full minute, as the clock has it."""


def following(before: Schedule | None, interval: Span, now: Instant, tick: Span = TICK) -> Schedule:
    """The schedule of a container whose passes are at least an interval apart, from `now` on: the first at the next tick.

    Where it had another one, the first is also an interval after the last pass of that one at least, so that no sequence of
    changes brings passes nearer to each other.
    """
    every = max(1, -(-interval // tick)) * tick
    first = (now // tick + 1) * tick
    last = None if before is None else before.last_of_all(now)
    if last is not None:
        first = max(first, -(-(last + interval) // tick) * tick)
    return Schedule(first - every, every, last)


def end_schedule(schedule: Schedule, now: Instant) -> Schedule:
    """A schedule of which no pass after `now` is made."""
    return msgspec.structs.replace(schedule, until=now if schedule.until is None else min(schedule.until, now))


def add_pass(schedule: Schedule, now: Instant, tick: Span = TICK) -> Schedule:
    """A schedule in which a pass is made at `now`, which is none of its own: the next one is `every` later."""
    return following(Schedule(now, schedule.every, now), schedule.every, now, tick)


class Upcoming(msgspec.Struct, frozen=True):
    """What lies ahead: the earliest deadline, and the earliest instant at which something may be purged."""

    deadline: Instant
    purge: Instant

    def sooner(self, other: Upcoming | None) -> Upcoming:
        """The earlier of each."""
        if other is None:
            return self
        return Upcoming(min(self.deadline, other.deadline), min(self.purge, other.purge))


def upcoming(record: Expirable, rules: Sequence[Rule], schedule: Schedule) -> Upcoming | None:
    """When a record dies, and when it may be purged; None: never."""
    earliest: Upcoming | None = None
    for rule in rules:
        ends = deadline_under(record, rule)
        if ends is not None:
            earliest = Upcoming(ends, purge_instant(ends, rule, schedule)).sooner(earliest)
    return earliest
