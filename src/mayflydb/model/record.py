"""The record: what lives and dies as a whole."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from mayflydb.model.instant import Instant

NEVER = -1
"""An override that keeps its record for ever."""

IGNORED = 0
"""An own ttl that is present but not valid: it counts as absent and is shown where people look."""


Dates: TypeAlias = tuple[tuple[int, Instant], ...]
"""(slot, instant) pairs, ascending by slot: the date that each date index of the container has found in a record."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored item, document or row.

    `partition` names the logical partition by bytes whose order is the order of its hash; `key` is the identity within
    it. `value` is the protocol's own encoding. `written` is the instant of the last write, `anchor` the instant its life is
    counted from (None: never dies), `override` its own ttl in seconds (None: absent; NEVER; IGNORED). `lsn` orders all changes
    of a container and names this version of the record; `seq` is its place in creation order and survives updates. `dates` are
    further instants to count from.
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
    """One death, written by the transaction that removed the record.

    `lsn` is the event's own place in the container's change order, `version` the lsn of the record that died, `how` is `sweep`,
    `run now` or `replaced`; `id` orders the events of the whole store.
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
    """What a line of a history tells. EXPIRE: age removed the record. GAP: what came before it is not kept, if there was any.
    NOTE: something about the container itself, in its front end's words."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    EXPIRE = "expire"
    GAP = "gap"
    NOTE = "note"


class Version(msgspec.Struct, frozen=True, gc=False):
    """One line of a container's history: a version that a record got, or its end.

    `lsn` is the change's own, `previous` that of the version before (0: there was none). `written` is the instant of the change,
    for the dead that of their removal. `value` is empty unless the record is there after the change. In an ordered history it
    begins with the change's stamp, and is that of the record before where none is there after.
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
