"""The shapes of the admin API's answers about the erasure log. `answers` has the others, and the rules for all."""

from __future__ import annotations

from typing import Literal

from mayflydb.admin.answers import Answer, Count, Target, Time


class ErasureStatus(Answer, frozen=True):
    """The state of the erasure log. `event`: the last expiry event with a line; `lag`: at most so many have none yet; null while
    the log is off. `scrubbed`: with secure erase, the last event whose record is overwritten; null: none since the start.
    """

    now: Time
    on: bool
    lines: Count
    head: str
    event: int
    lag: Count | None
    erase: Literal["normal", "secure"]
    scrubbed: int | None


class ErasureLines(Answer, frozen=True):
    """Lines of the erasure log. `last`: the place behind them."""

    lines: list[str]
    last: int


class ErasureKey(Answer, frozen=True):
    """The hashes that stand for a record in the erasure log: of each key that its id may mean. Empty: there is no log."""

    target: Target
    container: int
    keys: list[str]
