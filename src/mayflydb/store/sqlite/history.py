"""Histories of containers: each version of a record, and its end, in the order of changes."""

from __future__ import annotations

import apsw

from mayflydb.model.record import Kind, Version
from mayflydb.store import interface
from mayflydb.store.rows import HISTORY_COLUMNS, SEQ_MASK, fit, version_of, version_row
from mayflydb.store.sqlite.counters import Counters

_ADD = f"INSERT INTO history(container, {HISTORY_COLUMNS})"
_AFTER = f"SELECT {HISTORY_COLUMNS} FROM history WHERE container = ? AND lsn > ? ORDER BY lsn LIMIT ?"


def history(connection: apsw.Connection, request: interface.History) -> list[Version]:
    found: list[Version] = []
    size = 0
    for row in connection.execute(_AFTER, (request.container, fit(request.after), request.limit)):
        found.append(version_of(row))
        size += len(found[-1].value)
        if size > interface.PAGE_BYTES:
            break
    return found


def add_version(connection: apsw.Connection, counters: Counters, change: interface.AddVersion) -> None:
    connection.execute(f"{_ADD} VALUES(?,?,?,?,?,?,?,?,?,?)", (change.container, *version_row(change.version)))


def add_expired_versions(connection: apsw.Connection, change: interface.Purge, lsn: int) -> None:
    """Add a version for each record that this purge removes. The lsns follow `lsn`, as those of the events do."""
    connection.execute(
        f"{_ADD} SELECT container, ?1, ?2 + n, ?3, record.partition, record.key, id & {SEQ_MASK}, record.lsn,"
        " CASE WHEN ?4 IS NULL THEN x'' ELSE CAST(?4 || value AS BLOB) END, NULL"
        " FROM temp.chosen JOIN main.record USING (id) ORDER BY n",
        (Kind.EXPIRE.value, lsn, change.purged, change.stamp),
    )


def trim_history(connection: apsw.Connection, counters: Counters, change: interface.TrimHistory) -> None:
    # One more than the limit: the last of these versions is not removed but becomes the GAP.
    last = connection.execute(
        "SELECT max(lsn) FROM (SELECT lsn, written FROM history WHERE container = ? ORDER BY lsn LIMIT ?)"
        " WHERE written <= ? OR lsn <= ?",
        (change.container, change.limit + 1, fit(change.upto), fit(change.upto_lsn)),
    ).get
    if last is not None:
        connection.execute("DELETE FROM history WHERE container = ? AND lsn < ?", (change.container, last))
        connection.execute(
            "UPDATE history SET kind = ?, partition = x'', key = x'', seq = 0, previous = 0, value = x'', checksum = NULL"
            " WHERE container = ? AND lsn = ?",
            (Kind.GAP.value, change.container, last),
        )


def clear_history(connection: apsw.Connection, container: int, limit: int) -> interface.Purged:
    """Remove the oldest versions of a dropped container."""
    oldest = "FROM history WHERE container = ?1 ORDER BY lsn LIMIT ?2"
    size = f"SELECT count(*), coalesce(sum(size), 0) FROM (SELECT length(value) AS size {oldest})"
    ((records, value_bytes),) = connection.execute(size, (container, limit))
    connection.execute(f"DELETE FROM history WHERE id IN (SELECT id {oldest})", (container, limit))
    return interface.Purged(records, value_bytes)
