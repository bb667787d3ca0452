"""The decisions behind every write of a record: pure functions from the stored state to the new state, or to a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import ANY_VERSION, Command, Draft, Merge, Mode
from mayflydb.expiry.deadline import anchor_under, cause_of, earliest_expiry, visible_at
from mayflydb.expiry.rules import CASCADE, Rule
from mayflydb.model.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from mayflydb.model.instant import Instant, floor_to_second
from mayflydb.model.record import Dates, Entry, Expiry, Record

MISSING = "there is no such record"
TAKEN = "there is a record with this key already"
NOT_UNIQUE = "another record has this unique value"
STALE = "the record has another version"
"""Texts of refusals: each names one fact. Front ends with texts of their own look them up by these."""

_CREATE, _UPSERT = Mode.CREATE, Mode.UPSERT
"""Before Python 3.12, looking up a member in its class takes ten times as long as this."""


def check_target(command: Command, current: Record | None, rules: Sequence[Rule], now: Instant) -> Record | None:
    """Return the visible record of a command, after checking existence and version as the command demands.

    Hidden records are invisible to writes: they neither block a create nor fail a precondition.
    """
    # Without rules nothing expires, which is decided here without a call.
    visible = current if current is not None and (not rules or visible_at(current, rules, now)) else None
    if visible is None:
        # Existence comes before the version: a hidden record is missing, and never fails a precondition.
        if command.mode is _UPSERT or command.mode is _CREATE:
            return None
        raise NotFound(MISSING)
    if command.seq is not None and command.seq != visible.seq:
        raise NotFound(MISSING)  # Another record with the same key.
    if command.mode is _CREATE:
        raise Conflict(TAKEN)
    if command.if_match is not None and command.if_match not in (ANY_VERSION, visible.lsn):
        raise PreconditionFailed(STALE)
    return visible


def resolve_draft(command: Command, visible: Record | None, rules: Sequence[Rule]) -> Draft:
    """Return the new state. BadRequest for an invalid own ttl while the container has a rule."""
    draft = command.draft
    if draft is None:
        raise BadRequest("a write without a new state")
    if not isinstance(draft, Draft):
        if visible is None and command.mode is not _UPSERT:
            raise NotFound("a change needs a record to change")
        draft = cast(Merge, draft)(visible)
    if rules and draft.refusal is not None:
        raise BadRequest(draft.refusal)
    return draft


def check_key_free(holder: Record | None, rules: Sequence[Rule], now: Instant) -> list[Record]:
    """Return the hidden record, if any, that holds a key and must be purged first. Conflict if the record is visible."""
    if holder is not None and visible_at(holder, rules, now):
        raise Conflict(TAKEN)
    return [] if holder is None else [holder]


def split_holders(
    holders: Sequence[Record], visible: Record | None, rules: Sequence[Rule], now: Instant
) -> tuple[list[Record], list[Record]]:
    """Split the other holders of unique values into hidden ones, which must be purged first, and visible ones, which forbid
    the write.
    """
    hidden: list[Record] = []
    taken: list[Record] = []
    for holder in holders:
        if visible is None or holder.seq != visible.seq:
            (taken if visible_at(holder, rules, now) else hidden).append(holder)
    return hidden, taken


def not_unique(entry: Entry, holder: Record) -> Conflict:
    """Build the error for an entry that a visible record already owns."""
    return Conflict(NOT_UNIQUE, index=entry.index, key=entry.key, holder=holder)


def resolve_dates(draft: Draft, definition: Definition) -> Dates:
    """Return the dates of a draft under its container's definition."""
    return draft.dates(definition) if callable(draft.dates) else draft.dates


def build_record(command: Command, draft: Draft, dates: Dates, now: Instant, lsn: int, seq: int) -> Record:
    """Build the record to store."""
    # Whole seconds: clients see the time of a write in seconds, and add the ttl to it.
    anchor = floor_to_second(now) if draft.anchor is None else draft.anchor
    return Record(command.partition, command.key_after, draft.value, now, anchor, draft.override, lsn, seq, dates)


def expiry_event(container: int, record: Record, rules: Sequence[Rule], now: Instant, lsn: int, how: str) -> Expiry:
    """Build the event for an expired record that is removed now; the store gives its `id`."""
    expiry = earliest_expiry(record, rules)
    anchor = None if expiry is None else anchor_under(record, expiry[1])
    if expiry is None or anchor is None:
        raise ValueError("a record without a deadline does not expire")
    deadline, rule = expiry
    return Expiry(
        id=0,
        container=container,
        partition=record.partition,
        key=record.key,
        version=record.lsn,
        lsn=lsn,
        anchor=anchor,
        override=record.override,
        cause=cause_of(record, rule),
        rule_version=rule.version,
        deadline=deadline,
        purged=now,
        how=how,
    )


def cascade_event(
    container: int, record: Record, deadline: Instant, rule: int, now: Instant, lsn: int, how: str
) -> Expiry:
    """Build the event for a record that leaves with another one, which expired at a deadline by a rule (its version)."""
    return Expiry(
        id=0,
        container=container,
        partition=record.partition,
        key=record.key,
        version=record.lsn,
        lsn=lsn,
        anchor=deadline,
        override=None,
        cause=CASCADE,
        rule_version=rule,
        deadline=deadline,
        purged=now,
        how=how,
    )
