"""Records as table rows, with a checksum: SQLite itself does not notice a rotten page."""

from __future__ import annotations

from struct import Struct
from typing import Any
from zlib import crc32

from mayflydb.model.errors import Corrupt
from mayflydb.model.instant import Instant
from mayflydb.model.record import Expiry, Record
from mayflydb.store.sqlite.schema import SEQ_MASK

COLUMNS = "partition, key, value, written, anchor, override, lsn, id, exact_anchor, checksum"

ANCHOR_LIMIT = 1 << 62
"""Anchors are clamped to this on the due paths; within any clock's range a clamp changes no answer."""

_INTEGER_LIMIT = (1 << 63) - 1

_NUMBERS = Struct("<qqqq").pack
_ABSENT = -(1 << 63)


def clamp(instant: Instant) -> Instant:
    """An instant that fits a column, and still does with any span added."""
    if -ANCHOR_LIMIT <= instant <= ANCHOR_LIMIT:
        return instant
    return ANCHOR_LIMIT if instant > 0 else -ANCHOR_LIMIT


def fit(bound: Instant) -> Instant:
    """A bound to compare columns with: beyond what a column can hold it is beyond all of them."""
    return max(-_INTEGER_LIMIT - 1, min(_INTEGER_LIMIT, bound))


def checksum(record: Record) -> int:
    """CRC-32 over everything that decides what the record says and when it dies."""
    anchor, override = record.anchor, record.override
    numbers = _NUMBERS(
        record.written,
        _ABSENT if anchor is None else clamp(anchor),
        _ABSENT if override is None else override,
        record.lsn,
    )
    return crc32(record.value, crc32(record.key, crc32(record.partition, crc32(numbers))))


def record_of(row: tuple[Any, ...]) -> Record:
    """A row of COLUMNS as a record; Corrupt if it is not what was written."""
    partition, key, value, written, anchor, override, lsn, rowid, exact, stored = row
    numbers = _NUMBERS(written, _ABSENT if anchor is None else anchor, _ABSENT if override is None else override, lsn)
    if crc32(value, crc32(key, crc32(partition, crc32(numbers)))) != stored:
        raise Corrupt(f"record {rowid} does not match its checksum")
    if exact is not None:
        anchor = int(exact)
    return Record(partition, key, value, written, anchor, override, lsn, rowid & SEQ_MASK)


def exact_anchor(record: Record) -> str | None:
    """The anchor in decimal where the column had to clamp it."""
    anchor = record.anchor
    return None if anchor is None or clamp(anchor) == anchor else str(anchor)


EXPIRY_COLUMNS = (
    "id, container, partition, key, version, lsn, anchor, override, cause, rule_version, deadline, purged, how"
)


def expiry_of(row: tuple[Any, ...]) -> Expiry:
    """A row of EXPIRY_COLUMNS as an event."""
    return Expiry(*row)
