"""The shapes of the admin API's answers about legal holds. `answers` has the others, and the rules for all."""

from __future__ import annotations

from typing import Any, Literal

from mayflydb.admin.answers import Answer, Count, Target, Time
from mayflydb.engine.lifecycle.retired_versions import End


class HoldAnswer(Answer, frozen=True):
    """A hold. `where` null: every record. `versions`: the originals of edits are preserved, too. `released`: the instant of the
    release, while what it preserved is being removed; null: it is in force.
    """

    name: str
    target: Target
    where: str | None
    versions: bool
    why: str
    by: str
    matter: str | None
    added: Time
    released: Time | None


class HoldList(Answer, frozen=True):
    """The holds on containers."""

    now: Time
    holds: list[HoldAnswer]


class AddedHold(Answer, frozen=True):
    """A hold that is in force. With `dry_run` it is none, and `matching` counts the stored records that match, `exact` or from a
    sample; both are null otherwise.
    """

    now: Time
    hold: HoldAnswer
    dry_run: bool
    matching: Count | None
    exact: bool | None


class ShownHold(Answer, frozen=True):
    """A hold and the versions that it preserves. `first`, `last`: the instants at which the first and last of them left. `exact`
    false: there are more than were counted, and `last` is null.
    """

    now: Time
    hold: HoldAnswer
    preserved: Count
    exact: bool
    first: Time | None
    last: Time | None


class HoldRelease(Answer, frozen=True):
    """The release of a hold. `removed`: versions that are gone since this process began with it; `expired`: those of them that
    had expired, each with its event; `done` false: it goes on.
    """

    now: Time
    name: str
    removed: Count
    expired: Count
    done: bool


class HoldRecordLine(Answer, frozen=True):
    """An addition or a release. `where` and `versions` are those of the addition."""

    action: Literal["added", "released"]
    name: str
    target: str
    at: Time
    by: str
    why: str
    matter: str | None
    where: str | None
    versions: bool | None


class HoldRecord(Answer, frozen=True):
    """A page of the record of holds, oldest line first. `last`: the place behind which the next page begins."""

    now: Time
    lines: list[HoldRecordLine]
    last: Count


class PreservedRecord(Answer, frozen=True):
    """A version that left its container. `end`: it expired, or a client deleted or replaced it, at `left`.

    `deadline`, `reason`: of an expiry. `version`, `written`: its number in the container, and the instant of its write. `holds`:
    the holds that preserve it; `undecided`: those whose filter could not be decided.
    """

    target: Target
    id: str
    pk: Any
    end: End
    left: Time
    deadline: Time | None
    reason: str | None
    version: Count
    written: Time
    holds: list[str]
    undecided: list[str]
    record: Any


class PreservedRecords(Answer, frozen=True):
    """A page of what a hold preserves, in the order in which it left; a page may be empty before the end.

    `last`: the place behind which the next page begins; null: this is the end.
    """

    now: Time
    records: list[PreservedRecord]
    last: Count | None
