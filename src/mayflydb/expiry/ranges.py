"""The ranges of a sweep: rules as lanes over the ordered due paths, and instants as bounds on them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.passes import Schedule, horizon_of
from mayflydb.expiry.rules import Cause, Rule
from mayflydb.model.due import DuePath, Path
from mayflydb.model.instant import SECOND, Instant, Span


class Lane(msgspec.Struct, frozen=True):
    """One due path under one rule: a value on the path plus `span` is a deadline (None: the value is the deadline)."""

    path: Path
    span: Span | None
    cause: Cause
    rule: Rule

    def deadline(self, value: Instant) -> Instant:
        """Return the deadline of a record with this value on the path."""
        return _deadline(value, self.span, self.rule)

    def highest_due(self, now: Instant) -> Instant | None:
        """Return the highest value that is due at `now`; None: no value can be."""
        # At not_before itself a record may be due: inclusive, as every boundary of expiry.
        if self.rule.not_before is not None and now < self.rule.not_before:
            return None
        # value + span <= now, solved for the value.
        return now - (self.span or 0)


class DueRange(msgspec.Struct, frozen=True):
    """All records on `path` at or below `upto` are due.

    `span`: added to an anchor it gives the deadline; None: the record's own ttl. `rule` is the rule of this range.
    """

    path: Path
    upto: Instant
    span: Span | None
    cause: Cause
    rule: Rule

    @property
    def lane(self) -> Lane:
        """The lane of this range."""
        return Lane(self.path, self.span, self.cause, self.rule)

    def deadline(self, value: Instant) -> Instant:
        """Return the deadline of a record with this value on the path."""
        return _deadline(value, self.span, self.rule)


def _deadline(value: Instant, span: Span | None, rule: Rule) -> Instant:
    deadline = value + (span or 0)
    return deadline if rule.not_before is None else max(deadline, rule.not_before)


def _range(lane: Lane, upto: Instant) -> DueRange:
    return DueRange(lane.path, upto, lane.span, lane.cause, lane.rule)


def lanes(rules: Sequence[Rule]) -> tuple[Lane, ...]:
    """Return the lanes in which records of a container can expire."""
    found: list[Lane] = []
    for rule in rules:
        if rule.after is not None:
            path = DuePath.ANCHOR if rule.slot is None else rule.slot
            found.append(Lane(path, rule.after * SECOND, rule.cause, rule))
        # Records with an own ttl are on another path than those without, so one rule may need two lanes.
        if rule.overrides:
            found.append(Lane(DuePath.DEADLINE, None, "item", rule))
    return tuple(found)


def due_ranges(rules: Sequence[Rule], now: Instant) -> tuple[DueRange, ...]:
    """Return the ranges that hold exactly the records due at `now` (several rules may name one record twice)."""
    return tuple(_range(lane, bound) for lane in lanes(rules) if (bound := lane.highest_due(now)) is not None)


def purge_ranges(rules: Sequence[Rule], now: Instant, schedule: Schedule | None = None) -> tuple[DueRange, ...]:
    """Return the ranges that hold exactly the records that may be purged at `now`: those whose grace has ended.

    `schedule`: rules with passes purge records whose grace had ended at its last pass.
    """
    return tuple(
        _range(lane, bound)
        for lane in lanes(rules)
        if (horizon := horizon_of(lane.rule, now, schedule)) is not None
        and (bound := lane.highest_due(horizon)) is not None
    )
