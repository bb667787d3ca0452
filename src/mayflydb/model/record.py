"""The record: the unit that is written and expires as a whole."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from mayflydb.model.instant import Instant

NEVER = -1
"""An override that keeps its record for ever."""

IGNORED = 0
"""An own ttl that is present but not valid: it counts as absent, and explanations show it."""


Dates: TypeAlias = tuple[tuple[int, Instant], ...]
"""(slot, instant) pairs, ascending by slot: the dates that the container's date indexes found in a record."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored item, document or row.

    `partition` names the logical partition by bytes whose order is the order of its hash; `key` is the identity within it.
    `value` is the protocol's own encoding. `written` is the instant of the last write, `anchor` the instant from which the
    default rule counts (None: none), `override` the record's own ttl in seconds (None: absent; NEVER; IGNORED). `lsn` orders
    all changes of a container and names this version of the record; `seq` is the place in creation order and survives
    updates. `dates` are further instants from which rules count.
    """

    partition: bytes
    key: bytes
    value: bytes
    written: Instant
    anchor: Instant | None
    override: int | None
    lsn: int
    seq: int
    dates: Dates = ()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One index entry of a record: `key` under the container's index number `index`, in byte order."""

    index: int
    key: bytes


class Expiry(msgspec.Struct, frozen=True):
    """One expiry event, written by the transaction that removed the record.

    `lsn` is the event's own place in the container's change order, `version` the lsn of the expired version, `how` is
    `sweep`, `run now` or `replaced`; `id` orders the events of the whole store.
    """

    id: int
    container: int
    partition: bytes
    key: bytes
    version: int
    lsn: int
    anchor: Instant
    override: int | None
    cause: str
    rule_version: int
    deadline: Instant
    purged: Instant
    how: str


class Kind(Enum):
    """The kind of a history's line. EXPIRE: the record was removed by age. GAP: lines before it, if any, are not kept. NOTE:
    a note about the container itself, in its front end's words.
    """

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    EXPIRE = "expire"
    GAP = "gap"
    NOTE = "note"


class Version(msgspec.Struct, frozen=True, gc=False):
    """One line of a container's history: a new version of a record, or its removal.

    `lsn` is the change's own, `previous` that of the version before (0: none). `written` is the instant of the change, for
    expired records that of their removal. `value` is empty after a removal. In an ordered history it begins with the change's
    stamp, and after a removal continues with the value of the removed version.
    """

    kind: Kind
    lsn: int
    written: Instant
    partition: bytes = b""
    key: bytes = b""
    seq: int = 0
    previous: int = 0
    value: bytes = b""


class Totals(msgspec.Struct, frozen=True):
    """`records` in all; `own` with a positive own ttl, `ignored` with an own ttl that counts as absent, `never` that are on
    no due path; `value_bytes` the size of all values."""

    records: int
    own: int
    ignored: int
    never: int
    value_bytes: int
