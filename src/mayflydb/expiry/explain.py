"""The time and cause of a record's expiry, or the reason for its absence, as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from mayflydb.expiry.deadline import Expirable, anchor_under, cause_of, due_at, earliest_expiry, visible_at
from mayflydb.expiry.rules import Cause, Rule
from mayflydb.model.durations import format_iso
from mayflydb.model.instant import SECOND, Instant, to_rfc3339
from mayflydb.model.record import IGNORED, NEVER

State = Literal["alive", "hidden", "due"]
"""`hidden`: expired and returned by no read. `due`: expired, and returned until purged."""

WhyNot = Literal["off", "never", "no-anchor", "invalid-override", "wrong-type"]


class Explanation(msgspec.Struct, frozen=True):
    """`reason`: the cause of expiry or, without a `deadline`, the reason for its absence. `text` says the same to people."""

    state: State
    reason: Cause | WhyNot
    text: str
    deadline: Instant | None = None


CAUSES: Mapping[Cause, str] = {
    "default": "default ttl {} s after the last write",
    "item": "own ttl {} s after the last write",
    "index": "{name} ({} s)",
    "column": "{name} + {}",
}
"""Texts with a place for the span, and for the name of the date index or column. A front end may have its own for some causes."""


def explain(
    record: Expirable,
    rules: Sequence[Rule],
    now: Instant,
    names: Mapping[int, str] | None = None,
    causes: Mapping[Cause, str] = CAUSES,
) -> Explanation:
    """Explain the rules' verdict on a record at `now`, by the rule with the earliest deadline. `names` of date indexes, by
    slot.

    `causes`: a front end's texts for causes of expiry, as in CAUSES.
    """
    expiry = earliest_expiry(record, rules)
    if expiry is None:
        reason, text = _why_not(record, rules)
        return Explanation("alive", reason, text)
    deadline, rule = expiry
    return Explanation(
        _state(record, rules, now), cause_of(record, rule), _how(record, rule, names or {}, causes), deadline
    )


def _state(record: Expirable, rules: Sequence[Rule], now: Instant) -> State:
    if not visible_at(record, rules, now):
        # Asked first, since a hidden record is due as well.
        return "hidden"
    return "due" if due_at(record, rules, now) else "alive"


def _how(record: Expirable, rule: Rule, names: Mapping[int, str], causes: Mapping[Cause, str]) -> str:
    cause = cause_of(record, rule)
    name = None if rule.slot is None else names.get(rule.slot)
    span: object = record.override if cause == "item" else rule.after
    if cause == "column":
        span, name = format_iso((rule.after or 0) * SECOND), name or "column"
    else:
        name = "index" if name is None else f"index {name}"
    text = causes.get(cause, CAUSES[cause]).format(span, name=name)
    if rule.overrides and record.override == IGNORED:
        text += "; the item's own ttl is not valid and counts as absent"
    if rule.not_before is not None:
        text += f"; not before {to_rfc3339(rule.not_before)}"
    return text


def _why_not(record: Expirable, rules: Sequence[Rule]) -> tuple[WhyNot, str]:
    override = record.override
    if not rules:
        ignored = "" if override is None else "; an item's own ttl counts only while it is on"
        return "off", f"ttl is off for the container{ignored}"
    if all(anchor_under(record, rule) is None for rule in rules):
        return "no-anchor", "there is no instant to count from"
    if any(rule.overrides for rule in rules):
        if override == NEVER:
            return "never", "item ttl -1: lives for ever"
        if override == IGNORED:
            return "invalid-override", "the item's own ttl is not valid, and there is no default"
    return "never", "ttl is on without a default, and the item has no ttl of its own"
