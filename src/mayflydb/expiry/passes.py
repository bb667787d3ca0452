"""Passes: instants at which the records of some rules are purged together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.deadline import Expirable, deadline_under
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import MINUTE, SECOND, Instant, Span


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pass at `since` + `every`, and again each `every` (> 0).

    `before`: the last pass of the schedule that this one replaced. `until`: no pass is made after it; None: no end.
    """

    since: Instant
    every: Span
    before: Instant | None = None
    until: Instant | None = None

    def last(self, now: Instant) -> Instant | None:
        """Return the latest pass up to `now`; None: no pass yet."""
        # `since` itself is no pass: the first interval counts from it.
        count = self.count(now if self.until is None else min(now, self.until))
        return self.since + count * self.every if count else None

    def last_of_all(self, now: Instant) -> Instant | None:
        """Return the latest pass up to `now`, including passes of earlier schedules."""
        last = self.last(now)
        if last is not None or self.before is None:
            return last
        # After the clock was set back, that pass lies in the future.
        return self.before if self.before <= now else None

    def next(self, instant: Instant) -> Instant:
        """Return the first pass at or after an instant."""
        # Rounded up: a pass is its own next pass. At least 1, since `since` is none.
        return self.since + max(1, -(-(instant - self.since) // self.every)) * self.every

    def count(self, now: Instant) -> int:
        """Return the number of passes up to `now`."""
        return max(0, (now - self.since) // self.every)


def horizon_of(rule: Rule, now: Instant, schedule: Schedule | None) -> Instant | None:
    """Return the latest deadline that a rule may purge at `now`; None: none yet. Without a schedule and grace, that is `now`."""
    horizon = schedule.last(now) if rule.passes and schedule is not None else now
    return None if horizon is None else horizon - rule.grace * SECOND


def purge_instant(deadline: Instant, rule: Rule, schedule: Schedule | None) -> Instant:
    """Return the instant from which a record with this deadline under a rule may be purged."""
    ends = end_of_grace(deadline, rule)
    return schedule.next(ends) if rule.passes and schedule is not None else ends


def end_of_grace(deadline: Instant, rule: Rule) -> Instant:
    """Return the instant up to which an expired record is kept in any case."""
    return deadline + rule.grace * SECOND


TICK: Span = MINUTE
"""The interval of instants at which a container's own passes may begin: every full minute of the clock."""


def following(before: Schedule | None, interval: Span, now: Instant, tick: Span = TICK) -> Schedule:
    """Return the schedule of a container from `now` on: passes at least an interval apart, the first at the next tick.

    If the container had another schedule, the first pass is also at least an interval after its last one, so that no sequence
    of changes brings passes nearer to each other.
    """
    # Rounded up to whole ticks, so that no two passes are nearer than the interval.
    every = max(1, -(-interval // tick)) * tick
    # Strictly after `now`, even if `now` is a tick.
    first = (now // tick + 1) * tick
    last = None if before is None else before.last_of_all(now)
    if last is not None:
        first = max(first, -(-(last + interval) // tick) * tick)
    return Schedule(first - every, every, last)


def end_schedule(schedule: Schedule, now: Instant) -> Schedule:
    """Return a schedule without passes after `now`."""
    return msgspec.structs.replace(schedule, until=now if schedule.until is None else min(schedule.until, now))


def add_pass(schedule: Schedule, now: Instant, tick: Span = TICK) -> Schedule:
    """Return a schedule with an additional pass at `now`; the next one is `every` later."""
    # The additional pass stands as `before`, so that the next one is a whole interval after it.
    return following(Schedule(now, schedule.every, now), schedule.every, now, tick)


class Upcoming(msgspec.Struct, frozen=True):
    """The purges ahead in a container. `ends`: the earliest deadline, with its grace; `purge`: the earliest instant at which a
    record may be purged, later if passes purge it.
    """

    ends: Instant
    purge: Instant

    def sooner(self, other: Upcoming | None) -> Upcoming:
        """Return the earlier of each."""
        if other is None or (self.ends <= other.ends and self.purge <= other.purge):
            return self
        return Upcoming(min(self.ends, other.ends), min(self.purge, other.purge))


def upcoming(record: Expirable, rules: Sequence[Rule], schedule: Schedule) -> Upcoming | None:
    """Return the end of a record with its grace, and its purge instant; None: never."""
    earliest: Upcoming | None = None
    for rule in rules:
        deadline = deadline_under(record, rule)
        if deadline is not None:
            earliest = upcoming_of(deadline, rule, schedule).sooner(earliest)
    return earliest


def upcoming_of(deadline: Instant, rule: Rule, schedule: Schedule | None) -> Upcoming:
    """Return the same for a deadline under one rule."""
    # Each write asks this, so it calls as little as it can.
    ends = deadline + rule.grace * SECOND if rule.grace else deadline
    return Upcoming(ends, schedule.next(ends) if rule.passes and schedule is not None else ends)
