"""Histories of containers: each version of a record, and its end, in the order of changes."""

from __future__ import annotations

from typing import Any

from mayflydb.model.record import Kind, Version
from mayflydb.store import interface
from mayflydb.store.rows import HISTORY_COLUMNS, INTEGER_LIMIT, fit, hash_number, version_of, version_row

ADD = f"INSERT INTO mayfly.history(container, hash, {HISTORY_COLUMNS})"
REMEMBER = (
    f"{ADD} SELECT * FROM unnest({{0}}::bigint[], {{1}}::bigint[], {{2}}::text[], {{3}}::bigint[], {{4}}::bigint[],"
    " {5}::bytea[], {6}::bytea[], {7}::bigint[], {8}::bigint[], {9}::bytea[], {10}::bigint[]) WHERE true"
)
"""Adds versions, by the columns of `row`."""

# A page ends with the version that takes it over PAGE_BYTES. PostgreSQL knows the size of a value without reading the value.
_AFTER = (
    f"SELECT {HISTORY_COLUMNS} FROM (SELECT *, sum(octet_length(value)) OVER (ORDER BY lsn) - octet_length(value) AS before"
    f" FROM (SELECT {HISTORY_COLUMNS} FROM mayfly.history WHERE container = $1 AND lsn > $2 ORDER BY lsn LIMIT $3) AS first)"
    f" AS sized WHERE before <= {interface.PAGE_BYTES} ORDER BY lsn"
)
_LAST = (
    "SELECT max(lsn) FROM (SELECT lsn, written FROM mayfly.history WHERE container = $1 ORDER BY lsn LIMIT $2) AS oldest"
    " WHERE written <= $3 OR lsn <= $4"
)
_HOLLOW = (
    f"UPDATE mayfly.history SET kind = '{Kind.GAP.value}', partition = '', key = '', seq = 0, previous = 0, value = '',"
    " checksum = NULL WHERE container = $1 AND lsn = $2"
)
_CLEAR = (
    "DELETE FROM mayfly.history WHERE container = $1 AND lsn <= (SELECT max(lsn) FROM"
    " (SELECT lsn FROM mayfly.history WHERE container = $1 ORDER BY lsn LIMIT $2) AS oldest) RETURNING octet_length(value)"
)


def row(change: interface.AddVersion) -> tuple[Any, ...]:
    return change.container, hash_number(change.version.partition), *version_row(change.version)


async def history(connection: Any, request: interface.History) -> list[Version]:
    after = min(request.after, INTEGER_LIMIT)
    found = await connection.fetch(_AFTER, request.container, after, request.limit)
    return [version_of(tuple(each)) for each in found]


async def trim_history(connection: Any, change: interface.TrimHistory) -> None:
    last = await connection.fetchval(_LAST, change.container, change.limit + 1, fit(change.upto), fit(change.upto_lsn))
    if last is not None:
        await connection.execute("DELETE FROM mayfly.history WHERE container = $1 AND lsn < $2", change.container, last)
        await connection.execute(_HOLLOW, change.container, last)


async def clear_history(connection: Any, container: int, limit: int) -> interface.Purged:
    """Remove the oldest versions of a dropped container."""
    gone = await connection.fetch(_CLEAR, container, limit)
    return interface.Purged(len(gone), sum(length for (length,) in gone))
