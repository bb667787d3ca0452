"""The columns of a record, an event and a version, for stores with tables. Rows carry a checksum, since a database does not
notice every damaged page.

Integer columns have 64 bits. An anchor is clamped so that it still fits with any span added; where that changes it, the exact one
is kept as text. Lookups by partition or by identity go by 64-bit numbers and then compare in full: narrow index entries halve the
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

# SQLite's rowid is (container << SEQ_BITS | seq): 23 bits are left for the ids of containers.
SEQ_BITS = 40
SEQ_MASK = (1 << SEQ_BITS) - 1
"""The largest seq of a container."""

ANCHOR_LIMIT = 1 << 62
"""Anchors on the due paths are clamped to this. The limit lies beyond the range of any clock, so a clamp changes no answer."""

INTEGER_LIMIT = (1 << 63) - 1

_NUMBERS = Struct("<qqqq").pack
_ABSENT = -(1 << 63)


def clamp(instant: Instant) -> Instant:
    """Clamp an instant so that it fits a column, and still does with any span added."""
    if -ANCHOR_LIMIT <= instant <= ANCHOR_LIMIT:
        return instant
    return ANCHOR_LIMIT if instant > 0 else -ANCHOR_LIMIT


def fit(bound: Instant) -> Instant:
    """Clamp a bound to the range of a column. A bound beyond the range compares with every column as the unclamped one would."""
    return max(-INTEGER_LIMIT - 1, min(INTEGER_LIMIT, bound))


def exact_anchor(record: Record) -> str | None:
    """The text of the column `exact_anchor`; None where the other columns say everything.

    "-9300000000000000000"        the anchor in decimal, where it had to be clamped
    ";16=1700000000000000"        `;slot=date` for each date of the record
    "93...;16=17...;17=18..."     both
    """
    anchor = record.anchor
    exact = None if anchor is None or clamp(anchor) == anchor else str(anchor)
    if not record.dates:
        return exact
    return (exact or "") + "".join(f";{slot}={date}" for slot, date in record.dates)


def _read_exact(exact: str, anchor: Instant | None) -> tuple[Instant | None, Dates]:
    decimal, *dates = exact.split(";")
    pairs = (date.split("=") for date in dates)
    return int(decimal) if decimal else anchor, tuple((int(slot), int(date)) for slot, date in pairs)


def state_columns(record: Record) -> tuple[Any, ...]:
    """The columns (written, anchor, override, lsn, exact anchor, checksum, value) of a record."""
    anchor, override = record.anchor, record.override
    column = None if anchor is None else clamp(anchor)
    # Nearly every record has neither dates nor an anchor beyond the column.
    exact = None if column == anchor and not record.dates else exact_anchor(record)
    numbers = _NUMBERS(
        record.written,
        _ABSENT if column is None else column,
        _ABSENT if override is None else override,
        record.lsn,
    )
    found = crc32(record.value, crc32(numbers + record.partition + record.key))
    if exact is not None:
        found = _include_dates(exact, found)
    return record.written, column, override, record.lsn, exact, found, record.value


def _include_dates(exact: str, checksum: int) -> int:
    """Return the checksum of a row with a text in the column `exact_anchor`."""
    # Only a text with dates is included: rows from before there were dates keep the checksum that they were written with.
    return crc32(exact.encode(), checksum) if ";" in exact else checksum


def record_of(row: tuple[Any, ...]) -> Record:
    """Build a record from (partition, key, value, written, anchor, override, lsn, rowid, exact anchor, checksum).

    `rowid` holds the seq in its lowest SEQ_BITS. Corrupt if the row is not as it was written.
    """
    partition, key, value, written, anchor, override, lsn, rowid, exact, stored = row
    numbers = _NUMBERS(written, _ABSENT if anchor is None else anchor, _ABSENT if override is None else override, lsn)
    # The checksum of the usual row is computed here and in `state_columns`: each row of a scan passes.
    found = crc32(value, crc32(numbers + partition + key))
    dates: Dates = ()
    if exact is not None:
        found = _include_dates(exact, found)
    if found != stored:
        raise Corrupt(f"record {rowid} does not match its checksum")
    if exact is not None:
        anchor, dates = _read_exact(exact, anchor)
    return Record(partition, key, value, written, anchor, override, lsn, rowid & SEQ_MASK, dates)


def by_owner(rows: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, tuple[Entry, ...]]]:
    """Group rows of (seq, index, key), which are in this order, into (seq, entries)."""
    return [
        (seq, tuple(Entry(index, key) for _, index, key in owned))
        for seq, owned in groupby(rows, key=lambda row: row[0])
    ]


EXPIRY_COLUMNS = (
    "id, container, partition, key, version, lsn, anchor, override, cause, rule_version, deadline, purged, how"
)


def expiry_of(row: tuple[Any, ...]) -> Expiry:
    """Build an event from a row of EXPIRY_COLUMNS."""
    return Expiry(*row)


HISTORY_COLUMNS = "kind, lsn, written, partition, key, seq, previous, value, checksum"


def version_row(version: Version) -> tuple[Any, ...]:
    """The HISTORY_COLUMNS of a version."""
    place = (version.partition, version.key, version.seq, version.previous)
    return (version.kind.value, version.lsn, version.written, *place, version.value, _version_checksum(version))


def _version_checksum(version: Version) -> int | None:
    """The CRC-32 of a version; None for a version without a value, and for an expiry, which a sweep writes in SQL."""
    if not version.value or version.kind is Kind.EXPIRE:
        return None
    numbers = _NUMBERS(version.lsn, version.written, version.seq, version.previous)
    return crc32(version.value, crc32(version.key, crc32(version.partition, crc32(numbers))))


def version_of(row: tuple[Any, ...]) -> Version:
    """Build a version from HISTORY_COLUMNS. Corrupt if the row is not as it was written."""
    kind, *said, stored = row
    version = Version(Kind(kind), *said)
    if _version_checksum(version) != stored:
        raise Corrupt(f"version {version.lsn} does not match its checksum")
    return version


def hash_number(partition: bytes) -> int:
    """The first HASH_BYTES of a partition as a signed number with the same order."""
    return int.from_bytes(partition[:HASH_BYTES].ljust(HASH_BYTES, b"\0"), "big") - (1 << 63)


def identity_number(partition: bytes, key: bytes) -> int:
    """A 64-bit number of an identity, for lookups. Collisions are rare; the caller compares the identity in full.

    The hash is a cryptographic one: a client cannot make long runs of keys with one number, which would make lookups linear.
    """
    # The partition is the key of BLAKE2b, which takes at most 64 bytes; records that differ before these are told apart in full.
    digest = blake2b(key, digest_size=8, salt=b"record", key=partition[-64:])
    return int.from_bytes(digest.digest(), "big", signed=True)
