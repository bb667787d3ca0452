"""Rules: the mapping from the anchors of a container's records to deadlines. Data, stored in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from mayflydb.model.instant import Instant

RuleCause = Literal["default", "index", "column"]
Cause = Literal["default", "item", "index", "column"]
"""The cause of an expiry: the container's default, the record's own ttl, a date index, a TTL column."""

EventCause = Literal["default", "item", "index", "column", "cascade"]
"""The cause in an expiry event. `cascade`: the record named another one that expired, and left with it."""

CASCADE: Final = "cascade"


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way in which records expire.

    `after`: seconds from anchor to deadline; None: on, without a default. `overrides`: a record's own ttl counts. `hides`:
    expired records are returned by no read; else they show until purged. `not_before`: no record expires earlier under this
    rule. `version` tells the rule apart from all others the container has or had. `slot`: counts from the record's date
    there; None: from its anchor. `passes`: purged by passes at intervals rather than at the deadline. `since`: the instant of
    the change that brought the rule; None: it came with its container. `grace`: seconds for which expired records are kept.
    """

    cause: RuleCause
    after: int | None
    overrides: bool = False
    hides: bool = False
    not_before: Instant | None = None
    version: int = 0
    slot: int | None = None
    passes: bool = False
    since: Instant | None = None
    grace: int = 0

    def __post_init__(self) -> None:
        # The entries of a slot are in the order of dates alone. With spans of their own, due records would not be one range.
        if self.slot is not None and (self.overrides or self.after is None):
            raise ValueError("a rule of a slot has a span, and no own ttl counts under it")


def without_stamps(rule: Rule) -> Rule:
    """Return the rule as its constructor makes it, without the fields that the catalogue sets when a change brings a rule."""
    return msgspec.structs.replace(rule, version=0, not_before=None, since=None)


def default_rule(after: int | None) -> Rule:
    """Build the rule of a container whose records may have an own ttl. `after`: seconds for records without one; None: no end."""
    return Rule("default", after, overrides=True, hides=True)


def index_rule(after: int, slot: int, hides: bool) -> Rule:
    """Build the rule of a date index. `after`: seconds from a record's date in the slot. Passes purge records that show until
    then.
    """
    return Rule("index", after, hides=hides, slot=slot, passes=not hides)


def column_rule(after: int, slot: int, hides: bool) -> Rule:
    """Build the rule of a TTL column. `after`: seconds from a record's date in the slot. Passes purge, even hidden records."""
    return Rule("column", after, hides=hides, slot=slot, passes=True)


def with_grace(rules: Sequence[Rule], grace: int) -> tuple[Rule, ...]:
    """Return the rules of a container that keeps expired records for so many seconds. Each rule hides them meanwhile."""
    return tuple(msgspec.structs.replace(rule, hides=True, grace=grace) for rule in rules)


def with_notice(rules: Sequence[Rule], not_before: Instant | None) -> tuple[Rule, ...]:
    """Return the rules such that no record expires before an instant; None: unchanged."""
    if not_before is None:
        return tuple(rules)
    return tuple(msgspec.structs.replace(rule, not_before=not_before) for rule in rules)
