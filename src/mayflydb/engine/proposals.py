"""A proposed change of a container's rules, its resulting rules, and what rules may count from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mayflydb.expiry.rules import Rule
from mayflydb.model.record import Record


class Change(msgspec.Struct, frozen=True):
    """Other seconds for the container's default, for the index of this name, or for the index over this field.

    `seconds` None: off; -1: on, without a default. `unit`: the unit of the field's numbers, such as SECONDS; None: the
    present or usual one. `run_interval`: seconds between the container's own passes; None: the present ones.
    """

    seconds: int | None
    index: str | None = None
    field: str | None = None
    unit: str | None = None
    run_interval: int | None = None

    @property
    def of_default(self) -> bool:
        """Return whether the change concerns the default."""
        return self.index is None and self.field is None


class Anchors(msgspec.Struct, frozen=True):
    """The instants from which lives in a container may count: the last write, and dates in fields."""

    last_write: bool
    dates: bool


class Proposal(msgspec.Struct, frozen=True):
    """The rules that result from a change. `current`: the seconds in force; `index`: the index they belong to.

    `statements`: the change as clients of its protocol write it, as far as they can. `dated`: gives a record its date in a
    date index that does not exist yet; None: no index is to be built.
    """

    rules: tuple[Rule, ...]
    current: int | None
    index: str | None = None
    dated: Callable[[Record], Record] | None = None
    statements: tuple[str, ...] = ()
