"""Undelete: which expired records come back, and with which life. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.expiry.deadline import cause_of, due_at, earliest_expiry, visible_at
from mayflydb.expiry.ranges import lanes
from mayflydb.expiry.rules import Cause, Rule
from mayflydb.model.due import Path
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Dates, Record


class Undelete(msgspec.Struct, frozen=True, omit_defaults=True):
    """An undelete of hidden records in one container.

    `at`: the instant at which they are hidden. `after`, `upto`: only deadlines in (after, upto]; None: any. `causes`: only these
    causes of expiry; none: any. `life`: seconds until the new deadline of records that expire by a date; None: as long as their
    rule counts from a date.
    """

    at: Instant
    after: Instant | None = None
    upto: Instant | None = None
    causes: tuple[Cause, ...] = ()
    life: int | None = None


def takes_life(rules: Sequence[Rule]) -> bool:
    """Return whether an undelete under these rules may say how long records live."""
    return any(rule.slot is not None for rule in rules)


def needs_life(rules: Sequence[Rule]) -> bool:
    """Return whether an undelete under these rules has to say how long records live: some expire at their date itself."""
    return any(rule.slot is not None and not rule.after for rule in rules)


def check_life(rules: Sequence[Rule], life: int | None) -> None:
    """Raise BadRequest if an undelete needs a life and has none, or has one that no rule can use."""
    if life is None and needs_life(rules):
        raise BadRequest("records of this container expire at their own date: say how long they live from now on")
    if life is not None and not takes_life(rules):
        raise BadRequest(
            "records of this container live as long as their ttl says; only those that expire by a date have a life"
        )


def is_selected(record: Record, rules: Sequence[Rule], wanted: Undelete) -> bool:
    """Return whether an undelete brings a stored record back."""
    expiry = earliest_expiry(record, rules)
    if expiry is None or visible_at(record, rules, wanted.at):
        return False
    deadline, rule = expiry
    if wanted.after is not None and deadline <= wanted.after:
        return False
    if wanted.upto is not None and deadline > wanted.upto:
        return False
    return not wanted.causes or cause_of(record, rule) in wanted.causes


class Search(msgspec.Struct, frozen=True):
    """A part of a due path: values up to `upto`, from a place (value, seq) on; `after` None: from its start."""

    path: Path
    upto: Instant
    after: tuple[int, int] | None


def searches(rules: Sequence[Rule], wanted: Undelete) -> list[Search]:
    """Return the searches that find each selected record at least once. They find others too: ask `is_selected`."""
    end = wanted.at if wanted.upto is None else min(wanted.at, wanted.upto)
    found = []
    for lane in lanes(rules):
        upto = lane.highest_due(end)
        # Under a notice that ended later, records with older values have that end as their deadline.
        before = None if wanted.after is None else lane.highest_due(wanted.after)
        if upto is not None:
            found.append(Search(lane.path, upto, None if before is None else (before + 1, 0)))
    return found


def renew_dates(record: Record, rules: Sequence[Rule], now: Instant, life: int | None) -> Dates:
    """Return the dates with which no date rule is due for a record: as if its date were now, or such that it lives for `life`.

    The value of the record keeps its date.
    """
    dates = dict(record.dates)
    for rule in rules:
        if rule.slot is not None and due_at(record, (rule,), now):
            dates[rule.slot] = now if life is None else now + (life - (rule.after or 0)) * SECOND
    return tuple(sorted(dates.items()))
