"""The tables of a store file, and its format version.

The rowid of a record is the id of its container and its seq in one number, so that a container lies together in the order of
creation:

     63          40 39                    0
    +--------------+-----------------------+
    |  container   |          seq          |
    +--------------+-----------------------+

Two partial indexes are the due paths: no deadline is stored, so a change of a rule touches no record. Rows and indexes of
`record` lie in the order of writes, which is about that of purges. Lookups by partition or by identity go through `directory`, by
64-bit numbers, and then compare in full: narrow places halve the pages that a random insert touches. `purged` has the ranges of
ids of purged records whose places in the directory are still there. `sealing` has the segments of containers whose values are
sealed, with the serial numbers and marks of their keys (`key_file`).
"""

from __future__ import annotations

from mayflydb.store.rows import SEQ_BITS
from mayflydb.store.segments import SegmentState

FORMAT = 6
SEALING_FORMAT = 6
"""The format from which on there is the table `sealing`. Copies of the one before can be restored."""

COLUMNS = "partition, key, value, written, anchor, override, lsn, id, exact_anchor, checksum"
"""The columns that `record_of` takes."""

# A record follows the container's default if it has no own ttl, or one that counts as absent (IGNORED, 0). Queries must repeat
# these terms to the letter, or SQLite will not use the partial indexes.
HAS_DEFAULT_TTL = "anchor IS NOT NULL AND (override IS NULL OR override = 0)"
HAS_OWN_TTL = "anchor IS NOT NULL AND override > 0"
DEADLINE = "(anchor + override * 1000000)"

DATE = "((('0x' || hex(substr({0}, 1, 4))) ->> '$') - 2147483648) * 4294967296 + (('0x' || hex(substr({0}, 5, 4))) ->> '$')"
"""The date that an entry's key encodes, as `due.date_of`. Each half is read as a JSON5 number, so that nothing exceeds 64
bits.
"""

_HISTORY = """CREATE TABLE history(
    id INTEGER PRIMARY KEY, container INTEGER NOT NULL, lsn INTEGER NOT NULL, kind TEXT NOT NULL, written INTEGER NOT NULL,
    partition BLOB NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, previous INTEGER NOT NULL, checksum INTEGER,
    value BLOB NOT NULL, UNIQUE(container, lsn))"""

_DATES = "SELECT 1"
"""Format 3 has dates in `exact_anchor`, and rules that count from them. The tables are the same; older versions must not
open it.
"""

_PAGES = "SELECT 1"
"""Format 4 has page checksums, which older versions would not keep up, and eras (`log_origin`)."""

IDENTITY, HASH = 0, 1
"""Kinds of places in the directory."""

_DIRECTORY = """CREATE TABLE directory(
    container INTEGER NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY(container, kind, number, record)) WITHOUT ROWID;
CREATE TABLE purged(first INTEGER PRIMARY KEY, last INTEGER NOT NULL)"""

# The old indexes give the order of the new tree, so that it is filled from its first page to its last.
_PLACES = f"""{_DIRECTORY};
INSERT INTO directory(container, kind, number, record)
    SELECT container, {IDENTITY}, identity, id FROM record INDEXED BY record_identity ORDER BY container, identity, id;
DROP INDEX record_identity;
INSERT INTO directory(container, kind, number, record)
    SELECT container, {HASH}, hash, id FROM record INDEXED BY record_hash ORDER BY container, hash, id;
DROP INDEX record_hash"""
"""Format 5 has the directory in the place of two indexes of `record`."""

LIVE, PLAIN, GONE, UNDONE = 0, 1, 2, 3
STATES: dict[int, SegmentState] = {LIVE: "live", PLAIN: "plain", GONE: "gone", UNDONE: "undone"}
"""States of a segment."""

_SEALING = """CREATE TABLE sealing(
    id INTEGER PRIMARY KEY, container INTEGER NOT NULL, first INTEGER NOT NULL, number INTEGER NOT NULL, state INTEGER NOT NULL,
    serial INTEGER NOT NULL, mark INTEGER NOT NULL)"""
"""Format 6 has segments, whose values may be sealed: older versions would serve these as they are."""

MIGRATIONS = {1: _HISTORY, 2: _DATES, 3: _PAGES, 4: _PLACES, 5: _SEALING}
"""Format -> the statements that make it the next format."""

TABLES = f"""
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE setting(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE catalog(
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
    lsn INTEGER NOT NULL, seq INTEGER NOT NULL, UNIQUE(parent, name));
CREATE TABLE dropped(container INTEGER PRIMARY KEY);
CREATE TABLE record(
    id INTEGER PRIMARY KEY, container INTEGER NOT NULL, hash INTEGER NOT NULL, identity INTEGER NOT NULL,
    partition BLOB NOT NULL, key BLOB NOT NULL,
    written INTEGER NOT NULL, anchor INTEGER, override INTEGER, lsn INTEGER NOT NULL,
    exact_anchor TEXT, checksum INTEGER NOT NULL, value BLOB NOT NULL);
CREATE INDEX record_lsn ON record(container, lsn);
CREATE INDEX record_anchor ON record(container, anchor) WHERE {HAS_DEFAULT_TTL};
CREATE INDEX record_deadline ON record(container, {DEADLINE}) WHERE {HAS_OWN_TTL};
CREATE INDEX record_ignored ON record(container) WHERE override = 0;
{_DIRECTORY};
CREATE TABLE entry(
    container INTEGER NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY(container, number, key, record)) WITHOUT ROWID;
CREATE INDEX entry_record ON entry(record);
CREATE TABLE expiry(
    id INTEGER PRIMARY KEY AUTOINCREMENT, container INTEGER NOT NULL, partition BLOB NOT NULL, key BLOB NOT NULL,
    version INTEGER NOT NULL, lsn INTEGER NOT NULL, anchor INTEGER NOT NULL, override INTEGER, cause TEXT NOT NULL,
    rule_version INTEGER NOT NULL, deadline INTEGER NOT NULL, purged INTEGER NOT NULL, how TEXT NOT NULL,
    UNIQUE(container, version));
{_HISTORY};
{_SEALING};
"""

# The records that one sweep removes, in the order of their expiry. A temporary table stays in memory (temp_store).
CHOSEN = (
    "CREATE TEMP TABLE chosen(n INTEGER PRIMARY KEY, id INTEGER NOT NULL, size INTEGER NOT NULL, anchor INTEGER,"
    " partition BLOB, key BLOB, lsn INTEGER, override INTEGER)"
)


def row_id(container: int, seq: int) -> int:
    """The rowid of a record."""
    return container << SEQ_BITS | seq
