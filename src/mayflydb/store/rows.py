"""What stores with tables have in common: records as rows, with a checksum, since a database does not notice every rotten page.

Integer columns have 64 bits. Anchors are clamped to fit them with any span added; an exact one beyond that is kept as text. What
is found by partition or by identity is found through 64-bit numbers and then compared in full: narrow index entries halve the
pages that a random insert or delete touches.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import groupby
from struct import Struct
from typing import Any
from zlib import crc32

from mayflydb.model.errors import Corrupt
from mayflydb.model.instant import Instant
from mayflydb.model.order import HASH_BYTES
from mayflydb.model.record import Dates, Entry, Expiry, Kind, Record, Version

SEQ_BITS = 40
SEQ_MASK = (1 << SEQ_BITS) - 1
"""The largest seq of a container."""

ANCHOR_LIMIT = 1 << 62
"""Anchors are clamped to this on the due paths; within any clock's range a clamp changes no answer."""

INTEGER_LIMIT = (1 << 63) - 1

_NUMBERS = Struct("<qqqq").pack
_ABSENT = -(1 << 63)


def clamp(instant: Instant) -> Instant:
    """An instant that fits a column, and still does with any span added."""
    if -ANCHOR_LIMIT <= instant <= ANCHOR_LIMIT:
        return instant
    return ANCHOR_LIMIT if instant > 0 else -ANCHOR_LIMIT


def fit(bound: Instant) -> Instant:
    """A bound to compare columns with: beyond what a column can hold it is beyond all of them."""
    return max(-INTEGER_LIMIT - 1, min(INTEGER_LIMIT, bound))


def column_anchor(record: Record) -> int | None:
    """The anchor as its column holds it."""
    return None if record.anchor is None else clamp(record.anchor)


def exact_anchor(record: Record) -> str | None:
    """What the anchor's column cannot say: the anchor in decimal where it had to be clamped, and `;slot=date` for each date."""
    anchor = record.anchor
    exact = None if anchor is None or clamp(anchor) == anchor else str(anchor)
    if not record.dates:
        return exact
    return (exact or "") + "".join(f";{slot}={date}" for slot, date in record.dates)


def _read_exact(exact: str, anchor: Instant | None) -> tuple[Instant | None, Dates]:
    decimal, *dates = exact.split(";")
    pairs = (date.split("=") for date in dates)
    return int(decimal) if decimal else anchor, tuple((int(slot), int(date)) for slot, date in pairs)


def checksum(record: Record) -> int:
    """CRC-32 over everything that decides what the record says and when it dies."""
    anchor, override = record.anchor, record.override
    numbers = _NUMBERS(
        record.written,
        _ABSENT if anchor is None else clamp(anchor),
        _ABSENT if override is None else override,
        record.lsn,
    )
    exact = exact_anchor(record) if record.dates else None
    return _checksum(numbers, record.partition, record.key, record.value, exact)


def _checksum(numbers: bytes, partition: bytes, key: bytes, value: bytes, exact: str | None) -> int:
    found = crc32(value, crc32(numbers + partition + key))
    # Where there are dates. The anchor alone was never part of it, but for its column.
    return crc32(exact.encode(), found) if exact is not None and ";" in exact else found


def record_of(row: tuple[Any, ...]) -> Record:
    """A record from (partition, key, value, written, anchor, override, lsn, rowid, exact anchor, checksum).

    `rowid`: the seq, with anything above its bits. Corrupt if the row is not what was written.
    """
    partition, key, value, written, anchor, override, lsn, rowid, exact, stored = row
    numbers = _NUMBERS(written, _ABSENT if anchor is None else anchor, _ABSENT if override is None else override, lsn)
    if _checksum(numbers, partition, key, value, exact) != stored:
        raise Corrupt(f"record {rowid} does not match its checksum")
    dates: Dates = ()
    if exact is not None:
        anchor, dates = _read_exact(exact, anchor)
    return Record(partition, key, value, written, anchor, override, lsn, rowid & SEQ_MASK, dates)


def by_owner(rows: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, tuple[Entry, ...]]]:
    """(seq, entries) from rows of (seq, index, key) that are in this order."""
    return [
        (seq, tuple(Entry(index, key) for _, index, key in owned))
        for seq, owned in groupby(rows, key=lambda row: row[0])
    ]


EXPIRY_COLUMNS = (
    "id, container, partition, key, version, lsn, anchor, override, cause, rule_version, deadline, purged, how"
)


def expiry_of(row: tuple[Any, ...]) -> Expiry:
    """A row of EXPIRY_COLUMNS as an event."""
    return Expiry(*row)


HISTORY_COLUMNS = "kind, lsn, written, partition, key, seq, previous, value, checksum"


def version_row(version: Version) -> tuple[Any, ...]:
    """A version as its HISTORY_COLUMNS."""
    place = (version.partition, version.key, version.seq, version.previous)
    return (version.kind.value, version.lsn, version.written, *place, version.value, _version_checksum(version))


def _version_checksum(version: Version) -> int | None:
    """CRC-32 over what a version says; None for one without a value, and for the dead, whom sweeps write down in SQL."""
    if not version.value or version.kind is Kind.EXPIRE:
        return None
    numbers = _NUMBERS(version.lsn, version.written, version.seq, version.previous)
    return crc32(version.value, crc32(version.key, crc32(version.partition, crc32(numbers))))


def version_of(row: tuple[Any, ...]) -> Version:
    """From HISTORY_COLUMNS. Corrupt if the row is not what was written."""
    kind, *said, stored = row
    version = Version(Kind(kind), *said)
    if _version_checksum(version) != stored:
        raise Corrupt(f"version {version.lsn} does not match its checksum")
    return version


def hash_number(partition: bytes) -> int:
    """The first bytes of a partition as a signed number with the same order."""
    return int.from_bytes(partition[:HASH_BYTES].ljust(HASH_BYTES, b"\0"), "big") - (1 << 63)


def identity_number(partition: bytes, key: bytes) -> int:
    """A number that hardly any two identities share, and nobody can choose to share."""
    digest = blake2b(key, digest_size=8, salt=b"record", key=partition[-64:])
    return int.from_bytes(digest.digest(), "big", signed=True)
