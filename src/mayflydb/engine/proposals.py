"""A change of a container's rules that has not been made: what is wanted, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.record import Record


class Change(msgspec.Struct, frozen=True):
    """The container's default, or the index of this name, or over this field, with other seconds.

    `seconds` None: off; -1: on, without a default. `unit`: what the numbers of the field are, SECONDS and the like; None: as it
    is set, or what is usual. `run_interval`: seconds between the container's own passes; None: as it is set.
    """

    seconds: int | None
    index: str | None = None
    field: str | None = None
    unit: str | None = None
    run_interval: int | None = None

    @property
    def of_default(self) -> bool:
        """Whether it is the default that is meant."""
        return self.index is None and self.field is None


class Proposal(msgspec.Struct, frozen=True):
    """The rules that a change comes to; `current`: the seconds in force, `index`: whose they are.

    `statements`: the change as clients of its protocol write it, as far as they can.
    `dated`: gives a record the date that a date index would find which is not there yet; None: there is none to be made.
    """

    rules: tuple[Rule, ...]
    current: int | None
    index: str | None = None
    dated: Callable[[Record], Record] | None = None
    statements: tuple[str, ...] = ()
