"""What a front end asks the engine to write, in words that all protocols share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from mayflydb.engine.catalog import Definition, Index
from mayflydb.model.instant import Instant
from mayflydb.model.record import Dates, Entry, Record

ANY_VERSION = -1
"""`if_match` for "whatever version, but it must exist"."""


class Mode(Enum):
    """What must be there before: CREATE nothing, REPLACE and DELETE a visible record, UPSERT either. READ changes nothing."""

    CREATE = "create"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"
    READ = "read"


DatesUnder = Callable[[Definition], Dates]
"""The dates of a record, by the date indexes of its container as they are in the transaction that writes it; pure."""


class Draft(msgspec.Struct, frozen=True):
    """A record to be: `override` as in Record, `anchor` None = the second it is written in, `entries` what it alone may own
    (None: its container has no unique keys), `indexed` gives its entries of ordered indexes, any number for each, each once.
    `dates` are those it has for the container's date indexes; their entries follow from them.
    `remembered`: what the container's history keeps as the value of this version, not empty; None: the value itself.

    `refusal` says why its own ttl is not valid; it counts only while the container has a rule.
    """

    value: bytes
    override: int | None = None
    anchor: Instant | None = None
    entries: tuple[Entry, ...] | None = None
    refusal: str | None = None
    indexed: Callable[[Sequence[Index]], tuple[Entry, ...]] | None = None
    dates: Dates | DatesUnder = ()
    remembered: bytes | None = None


Change = Callable[[Record], Draft]
"""Makes the new state from the visible one; pure, and may refuse by raising."""

Merge = Callable[[Record | None], Draft]
"""Makes the new state from the visible one, or from nothing where there is none; pure, and may refuse by raising."""


class Command(msgspec.Struct, frozen=True):
    """One write of one record. `draft` may be a Change where the mode demands a visible record, and a Merge in an UPSERT.

    `if_match`: the version (lsn) the visible record must have, or ANY_VERSION; None: no condition. `renamed`: the key that a
    REPLACE gives its record from now on; None: the one it has. `seq`: the number the visible record must have, where somebody
    named it by that and `key` is only where it was seen; None: any.
    """

    mode: Mode
    partition: bytes
    key: bytes
    draft: Draft | Change | Merge | None = None
    if_match: int | None = None
    renamed: bytes | None = None
    seq: int | None = None

    @property
    def key_after(self) -> bytes:
        """The key its record has once it is done."""
        return self.key if self.renamed is None else self.renamed


class Written(msgspec.Struct, frozen=True):
    """What a command did. `record` is the state after it, or the one that was deleted; `now` its instant."""

    mode: Mode
    record: Record
    created: bool
    now: Instant


Step = Callable[[Sequence[Written]], Command]
"""A command that depends on what those before it in its transaction have done; pure."""
