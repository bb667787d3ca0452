"""Earlier states of a container: since when they are known, and the rules that were in force. Data, stored in the catalogue.

A state of the past is that of its own day: a record is shown as it was, by the rules of that day.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.expiry.deadline import has_passed
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND, Instant

MAX_CHANGES: Final = 100
"""Changes of rules that are remembered. Beyond them the oldest is forgotten, with the states before it."""


class FormerRules(msgspec.Struct, frozen=True):
    """The rules that were in force up to an instant, at which others came into force."""

    until: Instant
    rules: tuple[Rule, ...]


class Past(msgspec.Struct, frozen=True, omit_defaults=True):
    """The earlier states of a container that keeps them. `since`: the first instant that is known. `former`: by `until`."""

    since: Instant
    former: tuple[FormerRules, ...] = ()


def find_first_known(past: Past, history: int, now: Instant) -> Instant:
    """Return the first instant whose state is still kept at `now`. `history`: as in Lifecycle."""
    return max(past.since, now - history * SECOND)


def rules_at(past: Past, present: Sequence[Rule], at: Instant) -> tuple[Rule, ...]:
    """Return the rules that were in force at an instant. `present`: those of now."""
    return next((each.rules for each in past.former if not has_passed(each.until, at)), tuple(present))


def remember_rules(past: Past, before: tuple[Rule, ...], history: int, now: Instant) -> Past:
    """Return the past of a container in which other rules come into force now. `before`: those up to now."""
    kept = [each for each in past.former if not has_passed(each.until + history * SECOND, now)]
    if not kept or kept[-1].until < now:
        kept.append(FormerRules(now, before))
    if len(kept) > MAX_CHANGES:
        gone = kept.pop(0)
        past = msgspec.structs.replace(past, since=max(past.since, gone.until))
    return msgspec.structs.replace(past, former=tuple(kept))
