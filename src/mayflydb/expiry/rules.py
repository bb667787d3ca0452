"""Rules: how a container turns the anchors of its records into deadlines. Data, kept in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mayflydb.model.instant import Instant

RuleCause = Literal["default", "index", "column"]
Cause = Literal["default", "item", "index", "column"]
"""Why a record died: by the container's default, its own ttl, a date index, a TTL column."""


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way to die.

    `after`: seconds from anchor to deadline; None: on, without a default. `overrides`: a record's own ttl counts.
    `hides`: due records are returned by no path; else they show until purged. `not_before`: nobody dies earlier under this
    rule. `version` tells the rule apart from all others the container has or had. `slot`: counts from the record's date there;
    None: from its anchor. `passes`: purged by passes at intervals rather than at the deadline.
    """

    cause: RuleCause
    after: int | None
    overrides: bool = False
    hides: bool = False
    not_before: Instant | None = None
    version: int = 0
    slot: int | None = None
    passes: bool = False

    def __post_init__(self) -> None:
        if self.slot is not None and (self.overrides or self.after is None):
            raise ValueError("a rule of a slot has a span, and no own ttl counts under it")


def default_rule(after: int | None) -> Rule:
    """The rule of a container whose records may have a ttl of their own. `after`: seconds for those without; None: no end."""
    return Rule("default", after, overrides=True, hides=True)


def index_rule(after: int, slot: int, hides: bool) -> Rule:
    """The rule of a date index. `after`: seconds from a record's date in the slot. Passes purge what shows until then."""
    return Rule("index", after, hides=hides, slot=slot, passes=not hides)


def column_rule(after: int, slot: int, hides: bool) -> Rule:
    """The rule of a TTL column. `after`: seconds from a record's date in the slot. Passes purge, even what hides."""
    return Rule("column", after, hides=hides, slot=slot, passes=True)


def with_notice(rules: Sequence[Rule], not_before: Instant | None) -> tuple[Rule, ...]:
    """The same rules, under which nobody dies before that instant; None: as they are."""
    if not_before is None:
        return tuple(rules)
    return tuple(msgspec.structs.replace(rule, not_before=not_before) for rule in rules)
