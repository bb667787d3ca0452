"""Changes of a write transaction: those of single records are gathered and written by one statement of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mayflydb.model.instant import SECOND
from mayflydb.model.record import Entry, Expiry, Record
from mayflydb.store import interface as ask
from mayflydb.store.postgres.reads import PATHS, Connection, entry_columns
from mayflydb.store.rows import (
    ANCHOR_LIMIT,
    INTEGER_LIMIT,
    checksum,
    clamp,
    column_anchor,
    exact_anchor,
    fit,
    hash_number,
    identity_number,
)

_STATE = "written, anchor, override, lsn, exact_anchor, checksum, value"
_STATE_TYPES = "bigint[], {0}::bigint[], {1}::bigint[], {2}::bigint[], {3}::text[], {4}::bigint[], {5}::bytea[]"
_INSERT = (
    f"INSERT INTO mayfly.record(container, seq, hash, identity, partition, key, {_STATE})"
    " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[],"
    f" $7::{_STATE_TYPES.format('$8', '$9', '$10', '$11', '$12', '$13')})"
)
_UPDATE = (
    f"UPDATE mayfly.record r SET {', '.join(f'{name} = n.{name}' for name in _STATE.split(', '))}"
    f" FROM unnest($1::bigint[], $2::bigint[], $3::{_STATE_TYPES.format('$4', '$5', '$6', '$7', '$8', '$9')})"
    f" AS n(container, seq, {_STATE}) WHERE r.container = n.container AND r.seq = n.seq"
)
_THESE = "(SELECT * FROM unnest($1::bigint[], $2::bigint[]))"
_EVENT = (
    "INSERT INTO mayfly.expiry(id, container, partition, key, version, lsn, anchor, override, cause, rule_version,"
    " deadline, purged, how)"
)

Place = tuple[int, int]
"""A record's container and seq."""


class Gathered:
    """What single records have become since the last `flush`, and the events of those that died."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inserted: dict[Place, Record] = {}
        self._updated: dict[Place, Record] = {}
        self._deleted: dict[Place, None] = {}
        self._entries: dict[Place, tuple[Entry, ...]] = {}
        self._known: dict[tuple[int, bytes, bytes], Record | None] = {}
        self._events: list[Expiry] = []

    def remember(self, requests: Sequence[ask.Get], found: Sequence[Record | None]) -> None:
        """These have been read, under the lock of their containers."""
        for request, record in zip(requests, found, strict=True):
            self._known[request.container, request.partition, request.key] = record

    def get(self, request: ask.Get) -> Record | None:
        """The record as it is by now; KeyError if that is not known."""
        return self._known[request.container, request.partition, request.key]

    def put(self, change: ask.Put) -> None:
        record = change.record
        place = change.container, record.seq
        written = self._inserted if change.insert or place in self._inserted else self._updated
        written[place] = record
        if change.entries is not None:
            self._entries[place] = change.entries
        self._known[change.container, record.partition, record.key] = record

    def delete(self, change: ask.Delete) -> None:
        record = change.record
        place = change.container, record.seq
        self._updated.pop(place, None)
        self._entries.pop(place, None)
        if self._inserted.pop(place, None) is None:
            self._deleted[place] = None
        self._known[change.container, record.partition, record.key] = None
        if change.expiry is not None:
            self._events.append(change.expiry)

    async def flush(self, forget: bool = True) -> None:
        """Write it all. `forget`: what is known of records may change next in ways that are not seen here."""
        connection = self._connection
        if self._deleted:
            places = _columns(self._deleted)
            await connection.execute(f"DELETE FROM mayfly.record WHERE (container, seq) IN {_THESE}", *places)
            await connection.execute(f"DELETE FROM mayfly.entry WHERE (container, record) IN {_THESE}", *places)
        if self._inserted:
            rows = [
                (*place, hash_number(r.partition), identity_number(r.partition, r.key), r.partition, r.key, *_state(r))
                for place, r in self._inserted.items()
            ]
            await connection.execute(_INSERT, *_columns(rows))
        if self._updated:
            await connection.execute(_UPDATE, *_columns([(*place, *_state(r)) for place, r in self._updated.items()]))
        if self._entries:
            await self._write_entries()
        if self._events:
            await write_events(connection, self._events)
        for gathered in (self._deleted, self._inserted, self._updated, self._entries):
            gathered.clear()
        self._events.clear()
        if forget:
            self._known.clear()

    async def _write_entries(self) -> None:
        replaced = _columns(self._entries)
        await self._connection.execute(f"DELETE FROM mayfly.entry WHERE (container, record) IN {_THESE}", *replaced)
        owners = [place for place, entries in self._entries.items() for _ in entries]
        if owners:
            entries = [entry for entries in self._entries.values() for entry in entries]
            await self._connection.execute(
                "INSERT INTO mayfly.entry(container, record, number, digest, key)"
                " SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::bytea[])",
                *_columns(owners),
                *entry_columns(entries),
            )


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _state(record: Record) -> tuple[Any, ...]:
    life = (record.written, column_anchor(record), record.override, record.lsn)
    return (*life, exact_anchor(record), checksum(record), record.value)


async def _event_ids(connection: Connection, count: int) -> int:
    """The number before the first of these ids; others who write events wait for this transaction's end."""
    statement = "UPDATE mayfly.meta SET value = value + $1 WHERE name = 'events' RETURNING value - $1"
    return int(await connection.fetchval(statement, count))


async def write_events(connection: Connection, events: Sequence[Expiry]) -> None:
    """Expiry events in this order; their ids are given here."""
    first = await _event_ids(connection, len(events))
    rows = [
        (
            first + n, e.container, e.partition, e.key, e.version, e.lsn, clamp(e.anchor), e.override, e.cause,
            e.rule_version, clamp(e.deadline), e.purged, e.how,
        )
        for n, e in enumerate(events, 1)
    ]  # fmt: skip
    await connection.execute(
        f"{_EVENT} SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[],"
        " $7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[])",
        *_columns(rows),
    )


_PURGE = {
    path: "WITH due AS MATERIALIZED (SELECT ctid AS place, seq, octet_length(value) AS size,"
    f" row_number() OVER (ORDER BY {value}, seq) AS n FROM mayfly.record"
    f" WHERE container = $1 AND {condition} AND {value} <= $2 ORDER BY {value}, seq LIMIT $3),"
    " numbered AS (UPDATE mayfly.meta SET value = value + (SELECT count(*) FROM due) WHERE name = 'events'"
    " RETURNING value - (SELECT count(*) FROM due) AS before),"
    " gone AS (DELETE FROM mayfly.record r USING due WHERE r.ctid = due.place"
    " RETURNING r.seq, r.partition, r.key, r.lsn, r.anchor, r.override, due.n, due.size),"
    " unlinked AS (DELETE FROM mayfly.entry e USING gone WHERE e.container = $1 AND e.record = gone.seq),"
    f" told AS ({_EVENT} SELECT numbered.before + n, $1, partition, key, lsn, $4 + n, anchor, override, $5, $6,"
    f" greatest(least(anchor::numeric + coalesce($7::bigint, override * {SECOND}), {INTEGER_LIMIT})::bigint, $8),"
    " $9, $10 FROM gone, numbered)"
    " SELECT count(*), coalesce(sum(size), 0) FROM gone"
    for path, (value, condition) in PATHS.items()
}
"""One statement: nothing of a record that dies passes through Python."""


async def purge(connection: Connection, change: ask.Purge, lsn: int) -> ask.Purged:
    """`lsn`: the container's last one; the events take those that follow."""
    records, size = await connection.fetchrow(
        _PURGE[change.path],
        change.container,
        fit(change.upto),
        change.limit,
        lsn,
        change.cause,
        change.rule_version,
        None if change.span is None else clamp(change.span),
        -ANCHOR_LIMIT * 2 if change.not_before is None else clamp(change.not_before),
        change.purged,
        change.how,
    )
    return ask.Purged(records, int(size))


_CLEAR = (
    "WITH oldest AS MATERIALIZED (SELECT ctid AS place, seq, octet_length(value) AS size FROM mayfly.record"
    " WHERE container = $1 ORDER BY seq LIMIT $2),"
    " gone AS (DELETE FROM mayfly.record r USING oldest WHERE r.ctid = oldest.place RETURNING r.seq, oldest.size),"
    " unlinked AS (DELETE FROM mayfly.entry e USING gone WHERE e.container = $1 AND e.record = gone.seq)"
    " SELECT count(*), coalesce(sum(size), 0) FROM gone"
)


async def clear(connection: Connection, change: ask.Clear) -> ask.Purged:
    # The list of dropped containers is also the lock: two nodes do not clear the same one together.
    await connection.execute("SELECT 1 FROM mayfly.dropped WHERE container = $1 FOR UPDATE", change.container)
    records, size = await connection.fetchrow(_CLEAR, change.container, change.limit)
    await connection.execute(
        "DELETE FROM mayfly.dropped WHERE container = $1"
        " AND NOT EXISTS (SELECT 1 FROM mayfly.record WHERE container = $1)",
        change.container,
    )
    return ask.Purged(records, int(size))


async def set_number(connection: Connection, change: ask.Set) -> None:
    await connection.execute(
        "INSERT INTO mayfly.setting AS s(name, value) VALUES($1, $2) ON CONFLICT(name) DO UPDATE"
        " SET value = CASE WHEN $3 THEN greatest(s.value, excluded.value) ELSE excluded.value END",
        change.name,
        change.value,
        change.rising,
    )


async def trim(connection: Connection, change: ask.Trim) -> None:
    await connection.execute(
        "DELETE FROM mayfly.expiry WHERE id IN (SELECT id FROM mayfly.expiry WHERE id <= $1 ORDER BY id LIMIT $2)",
        min(change.upto, INTEGER_LIMIT),
        change.limit,
    )
