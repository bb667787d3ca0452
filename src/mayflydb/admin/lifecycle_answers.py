"""The shapes of the admin API's answers about the lifecycle of containers. `answers` has the others, and the rules for all."""

from __future__ import annotations

from typing import Literal

from mayflydb.admin.answers import Answer, Count, Target, Time
from mayflydb.admin.roll_ups import HeldRollUp, RollUpSpec
from mayflydb.expiry.guard import GuardLimits, Reason
from mayflydb.expiry.lifecycle import Shred


class CascadeSettings(Answer, frozen=True):
    """Records that leave with another one. `to` null: their container was dropped. `indexed` false: the index over the path is
    gone, and nothing is purged until it is there again.
    """

    to: Target | None
    path: str
    indexed: bool


class LifecycleSettings(Answer, frozen=True):
    """The lifecycle settings of one container. `guard` null: the limits of the server. Times: seconds.

    `history_since`: the first instant as of which the container can be read; null: none. `held_roll_up`: why its purge waits for
    its roll-up; null: it does not. `keys`: the keys of its records; `unsealed`: the stored records that were written before it
    was set to shred them, or after it was ended; null: it has no keys.
    """

    target: Target
    guard: GuardLimits | Literal["off"] | None
    grace: Count
    touch: Count
    last_image: Count
    history: Count
    history_since: Time | None
    archive: str | None
    roll_up: RollUpSpec | None
    held_roll_up: HeldRollUp | None
    shred: Shred
    keys: Count
    unsealed: Count | None
    cascade: list[CascadeSettings]


class LifecycleList(Answer, frozen=True):
    """The lifecycle settings of containers."""

    now: Time
    targets: list[LifecycleSettings]


class ChangedLifecycle(Answer, frozen=True):
    """The lifecycle settings after a change."""

    now: Time
    target: Target
    guard: GuardLimits | Literal["off"] | None
    grace: Count
    touch: Count
    last_image: Count
    history: Count
    history_since: Time | None
    archive: str | None
    roll_up: RollUpSpec | None
    held_roll_up: HeldRollUp | None
    shred: Shred
    keys: Count
    unsealed: Count | None
    cascade: list[CascadeSettings]


class UndeleteProgress(Answer, frozen=True):
    """The undelete of a container. `undeleted`: records so far; `done` false: it goes on, and nothing is purged meanwhile."""

    now: Time
    target: Target
    undeleted: Count
    done: bool


class HeldPurge(Answer, frozen=True):
    """A purge that waits for confirmation. `unexpected`: at least so many records expired unexpectedly; `due`, `records`: due and
    stored ones when it was held.
    """

    target: Target
    since: Time
    reason: Reason
    text: str
    unexpected: Count
    due: Count
    records: Count
    token: str


class HeldPurges(Answer, frozen=True):
    """The purges that wait for confirmation."""

    now: Time
    held: list[HeldPurge]


class ConfirmedPurge(Answer, frozen=True):
    """A purge that goes on."""

    now: Time
    target: Target
    reason: Reason
    due: Count
