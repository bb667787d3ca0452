"""Write requests of front ends, in terms that all protocols share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from mayflydb.engine.catalog import Definition, Index
from mayflydb.model.instant import Instant
from mayflydb.model.record import Dates, Entry, Kind, Record

ANY_VERSION = -1
"""`if_match` for "any version, but the record must exist"."""


class Mode(Enum):
    """The condition on the stored record: CREATE none, REPLACE and DELETE a visible one, UPSERT either. READ changes nothing."""

    CREATE = "create"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"
    READ = "read"


DatesUnder = Callable[[Definition], Dates]
"""The dates of a record for the date indexes of its container, as they are in the writing transaction; pure."""


class Draft(msgspec.Struct, frozen=True):
    """The new state of a record. `override` as in Record. `anchor` None: the second of the write. `entries`: entries that
    only this record may own (None: the container has no unique keys). `indexed` computes entries of ordered indexes, without
    duplicates. `dates`: the dates for the container's date indexes; their entries follow from them. `remembered`: the value
    of this version in the container's history, not empty; None: `value`.

    `refusal`: the reason why the record's own ttl is not valid; it applies only while the container has a rule.
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
"""Makes the new state from the visible record; pure, and may refuse by raising."""

Merge = Callable[[Record | None], Draft]
"""Makes the new state from the visible record, or from None if there is none; pure, and may refuse by raising."""


class Command(msgspec.Struct, frozen=True):
    """One write of one record. `draft` may be a Change if the mode demands a visible record, and a Merge in an UPSERT.

    `if_match`: the version (lsn) that the visible record must have, or ANY_VERSION; None: no condition. `renamed`: the new
    key that a REPLACE gives its record; None: the key stays. `seq`: the number that the visible record must have, if the
    client named the record by number and `key` is only its last known key; None: any.
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
        """The key of the record after the command."""
        return self.key if self.renamed is None else self.renamed


class Written(msgspec.Struct, frozen=True):
    """The result of a command. `record` is the state after it, or the deleted record; `now` is the command's instant."""

    mode: Mode
    record: Record
    created: bool
    now: Instant


class RecordChange(msgspec.Struct, frozen=True):
    """A change of a record, for the front end that publishes it. `before` None: a new record; `after` None: it is gone.

    `remembered`: as in the draft.
    """

    kind: Kind
    before: Record | None
    after: Record | None
    remembered: bytes | None = None


Step = Callable[[Sequence[Written]], Command]
"""A command that depends on the results of earlier commands of its transaction; pure."""
