"""The one definition of expiry: deadline, due, visible. Pure; no other module compares a deadline with a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

from mayflydb.expiry.rules import Cause, Rule
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import NEVER, Dates


class Expirable(Protocol):
    """A record as the rules see it."""

    @property
    def anchor(self) -> Instant | None: ...
    @property
    def override(self) -> int | None: ...
    @property
    def dates(self) -> Dates: ...


def anchor_under(record: Expirable, rule: Rule) -> Instant | None:
    """Return the instant from which a rule counts; None: the record has none."""
    if rule.slot is None:
        return record.anchor
    for slot, date in record.dates:
        if slot == rule.slot:
            return date
    return None


def span_under(record: Expirable, rule: Rule) -> int | None:
    """Return the seconds from anchor to deadline under one rule; None: no end."""
    if rule.overrides and record.override:  # None: absent; IGNORED (0): present, counts as absent
        return None if record.override == NEVER else record.override
    return rule.after


def deadline_under(record: Expirable, rule: Rule) -> Instant | None:
    """Return the first instant of expiry under one rule; None: never."""
    span = span_under(record, rule)
    anchor = record.anchor if rule.slot is None else anchor_under(record, rule)
    if span is None or anchor is None:
        return None
    # Whole numbers of any size: no deadline is rounded, and none overflows.
    deadline = anchor + span * SECOND
    # After a resume with notice no record expires before the notice ends.
    return deadline if rule.not_before is None else max(deadline, rule.not_before)


def deadline(record: Expirable, rules: Sequence[Rule]) -> Instant | None:
    """Return the earliest deadline over the rules; None: never."""
    earliest: Instant | None = None
    for rule in rules:
        ends = deadline_under(record, rule)
        if ends is not None and (earliest is None or ends < earliest):
            earliest = ends
    return earliest


def _has_passed(instant: Instant | None, now: Instant) -> bool:
    # The boundary, written once and inclusive under every rule: a record that lives for 10 s is expired when the clock shows
    # 10 s, not after it.
    return instant is not None and instant <= now


def has_passed(ends: Instant, now: Instant) -> bool:
    """Return whether the end of something other than a record has come, such as a token: the boundary is the same."""
    return _has_passed(ends, now)


def first_due(ends: Instant, instants: Sequence[Instant]) -> int:
    """Return the number of the first of ascending instants that reaches a deadline; their count: none does.

    So expiries between two instants are those in (earlier, later].
    """
    return bisect_left(instants, ends)


def due_at(record: Expirable, rules: Sequence[Rule], now: Instant) -> bool:
    """True from the deadline on: a fact about time, whether purged or not."""
    # A loop here and below: any() makes a generator, and every read of a record runs this.
    for rule in rules:  # noqa: SIM110
        if _has_passed(deadline_under(record, rule), now):
            return True
    return False


def visible_at(record: Expirable, rules: Sequence[Rule], now: Instant) -> bool:
    """False once a hiding rule is due: no read may return the record."""
    for rule in rules:  # noqa: SIM110
        if rule.hides and _has_passed(deadline_under(record, rule), now):
            return False
    return True


def visibility(rules: Sequence[Rule], now: Instant) -> Callable[[Expirable], bool] | None:
    """Return `visible_at` for many records under one set of rules at one instant; None: every record is visible."""
    # A rule whose notice has not ended hides nothing yet.
    hiding = [rule for rule in rules if rule.hides and (rule.not_before is None or _has_passed(rule.not_before, now))]
    if not hiding:
        return None
    only = hiding[0]
    if len(hiding) > 1 or only.slot is not None or only.after is None:
        return lambda record: visible_at(record, hiding, now)
    latest = now - only.after * SECOND

    def is_visible(record: Expirable) -> bool:
        # Without an own ttl, which most records have not, the anchor alone decides.
        if record.override is None and record.anchor is not None:
            return not _has_passed(record.anchor, latest)
        return visible_at(record, hiding, now)

    return is_visible


def cause_of(record: Expirable, rule: Rule) -> Cause:
    """Return the cause of expiry under a rule: the record's own ttl, or the rule's kind."""
    return "item" if rule.overrides and record.override and record.override != NEVER else rule.cause


def earliest_expiry(record: Expirable, rules: Sequence[Rule]) -> tuple[Instant, Rule] | None:
    """Return the earliest deadline and its rule; None: never expires."""
    # The position breaks ties, since rules have no order of their own: of equal deadlines the first rule is the cause.
    deadlines = ((d, n) for n, rule in enumerate(rules) if (d := deadline_under(record, rule)) is not None)
    first = min(deadlines, default=None)
    return None if first is None else (first[0], rules[first[1]])
