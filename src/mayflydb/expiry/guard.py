"""The guard: tells expected expiries from unexpected ones, and how many unexpected ones are purged without a person's word. Pure.

A record expires unexpectedly if its deadline had passed already when it became known: by the rule that was changed, by the step
of the clock, or by the write that stored a date of the past. All other records had their time, and people had theirs to react.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import Instant, Span

Reason = Literal["rule", "clock", "writes"]
"""The reason of unexpected expiries: a rule was changed, the clock stepped, or dates of the past were written."""


class GuardLimits(msgspec.Struct, frozen=True):
    """The guard holds a purge of unexpected expiries if they are more than `records` and more than `percent` of the container."""

    records: int = 100_000
    percent: int = 25

    def most(self, stored: int) -> int:
        """Return the most unexpected expiries that are purged in a container with so many stored records."""
        return max(self.records, stored * self.percent // 100)


class ClockStep(msgspec.Struct, frozen=True):
    """A step of the clock: deadlines in (after, upto] passed without their time."""

    after: Instant
    upto: Instant


class HeldPurge(msgspec.Struct, frozen=True):
    """The purge of a container that waits for a person's confirmation.

    `at`: the instant from which it waits. `unexpected`: unexpected expiries that were counted before the count stopped; `due`:
    all due records, `records`: all stored ones, at that instant.
    """

    at: Instant
    reason: Reason
    unexpected: int
    due: int
    records: int


class Suspicion(msgspec.Struct, frozen=True):
    """The deadlines under one rule that are unexpected: those up to `known`, and those in the step.

    `confirmed`: a person has confirmed what was known up to then.
    """

    known: Instant | None
    step: ClockStep | None
    confirmed: Instant | None

    def reason(self, ends: Instant, written: Instant) -> Reason | None:
        """Return the reason for which a deadline is unexpected in a record written then; None: it is expected."""
        if self.known is not None and ends <= self.known:
            return "rule"
        # A write of before the confirmation is one of those that were confirmed.
        if ends <= written and (self.confirmed is None or written > self.confirmed):
            return "writes"
        return "clock" if self.step is not None and self.step.after < ends <= self.step.upto else None


def suspect(rule: Rule, step: ClockStep | None, confirmed: Instant | None) -> Suspicion:
    """Return which deadlines under a rule are unexpected."""
    known = rule.since if rule.since is not None and (confirmed is None or rule.since > confirmed) else None
    if step is not None and confirmed is not None and step.upto <= confirmed:
        step = None
    return Suspicion(known, step, confirmed)


def find_step(before: Instant, now: Instant, elapsed: Span, tolerance: Span) -> ClockStep | None:
    """Return the step of a clock that went from `before` to `now` in a span; None: it kept pace within the tolerance."""
    return ClockStep(before + elapsed, now) if now - before - elapsed > tolerance else None
