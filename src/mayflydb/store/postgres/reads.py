"""Answers to store reads: one statement each, so that one request is one consistent view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import asyncpg

from mayflydb.model.due import DuePath, date_of, instant_key
from mayflydb.model.instant import Instant
from mayflydb.model.order import FIRST_ORDERED, Identity, Order
from mayflydb.model.record import Entry, Expiry, Record, Totals
from mayflydb.store import interface
from mayflydb.store.postgres.history import history
from mayflydb.store.postgres.schema import DATE, DEADLINE, HAS_DEFAULT_TTL, HAS_OWN_TTL, RECORD
from mayflydb.store.rows import (
    EXPIRY_COLUMNS,
    INTEGER_LIMIT,
    by_owner,
    expiry_of,
    fit,
    hash_number,
    identity_number,
    record_of,
)
from mayflydb.store.segments import KeySegment

Connection = Any
"""asyncpg's connection, or one lent by its pool: they share no type."""

PATHS = {DuePath.ANCHOR: ("anchor", HAS_DEFAULT_TTL), DuePath.DEADLINE: (DEADLINE, HAS_OWN_TTL)}
"""Due path -> its ordered expression, and the condition of its partial index."""

NOT_SPARED = "identity <> ALL({}::bigint[])"
"""The condition of a record that a purge does not leave out."""

LOWEST = -INTEGER_LIMIT - 1
_ROW = "id, parent, name, data, lsn, seq"
LOCK_ROW = f"SELECT {_ROW} FROM mayfly.catalog WHERE id = {{}} FOR NO KEY UPDATE"
"""Locks a catalogue row until the end of the transaction, and reads it."""


_GETS = (
    f"SELECT {', '.join(f'r.{column}' for column in RECORD.split(', '))}, wanted.n"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[]) WITH ORDINALITY"
    " AS wanted(container, identity, partition, key, n)"
    " JOIN mayfly.record r ON r.container = wanted.container AND r.identity = wanted.identity"
    " AND r.partition = wanted.partition AND r.key = wanted.key"
)

_ROUTED_GETS = f"{_GETS} AND r.hash = ANY($5::bigint[])"
"""For Citus, which asks only the workers that hold these hashes. On a plain database the planner might choose the index of
hashes, which finds a whole partition, instead of that of identities.
"""


def row_of(found: Iterable[Any]) -> interface.CatalogRow:
    """Build a catalogue row."""
    id, parent, name, data, lsn, seq = found
    return interface.CatalogRow(id, parent, name.decode("utf-8", "surrogatepass"), data, lsn, seq)


def encode_name(name: str) -> bytes:
    """Encode a name for its column: bytes, since PostgreSQL's text cannot hold zeros and lone surrogates."""
    return name.encode("utf-8", "surrogatepass")


def digest(key: bytes) -> int:
    """A 64-bit number of an entry's key, for lookups: a key of a unique value may be longer than an index takes."""
    return int.from_bytes(blake2b(key, digest_size=8, salt=b"entry").digest(), "big", signed=True)


GUESS = (
    f"locked AS MATERIALIZED (SELECT {_ROW} FROM mayfly.catalog WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE),"
    " guess AS MATERIALIZED (SELECT count(*) = cardinality($1::bigint[]) AS holds FROM locked"
    " JOIN unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])"
    f" AS guessed({_ROW}) USING ({_ROW}))"
)
"""Parts of a statement that lock catalogue rows, by the columns of `guess_columns`, and compare them.

The snapshot of the statement may be older than the lock that it waits for. But every write of a record moves the lsn of its
container: if the locked row has the lsn that this node left there, no other node has written since, and the records are current.
"""

GUESS_HOLDS = "(SELECT holds FROM guess)"


def guess_columns(rows: Sequence[interface.CatalogRow]) -> list[list[Any]]:
    """The arguments of GUESS."""
    columns = zip(
        *((row.id, row.parent, encode_name(row.name), row.data, row.lsn, row.seq) for row in rows), strict=True
    )
    return [list(column) for column in columns]


async def get_many(connection: Connection, requests: Sequence[interface.Get], distributed: bool) -> list[Record | None]:
    """Read many records by identity in one statement, which costs little more than one."""
    columns = _identities(requests)
    if distributed:
        columns.append([hash_number(request.partition) for request in requests])
    rows = await connection.fetch(_ROUTED_GETS if distributed else _GETS, *columns)
    answers: list[Record | None] = [None] * len(requests)
    for row in rows:
        *found, n = row
        answers[n - 1] = record_of(tuple(found))
    return answers


def _identities(requests: Sequence[interface.Get]) -> list[list[Any]]:
    return [
        [request.container for request in requests],
        [identity_number(request.partition, request.key) for request in requests],
        [request.partition for request in requests],
        [request.key for request in requests],
    ]


def _page(condition: str, order: str, limit: str) -> str:
    """A statement for rows in order, up to the one that takes the page over PAGE_BYTES. Sizes are known without reading the
    values.
    """
    return (
        f"SELECT {RECORD} FROM (SELECT *, sum(octet_length(value)) OVER (ORDER BY {order}) - octet_length(value) AS before"
        f" FROM (SELECT {RECORD}, hash, {DEADLINE} AS deadline FROM mayfly.record WHERE container = $1 AND {condition}"
        f" ORDER BY {order.replace('deadline', DEADLINE)} LIMIT {limit}) AS first) AS sized"
        f" WHERE before <= {interface.PAGE_BYTES} ORDER BY {order}"
    )


_WITHIN = "partition >= $2 AND ($3::bytea IS NULL OR partition < $3)"
_CREATED = _page(f"{_WITHIN} AND seq > $4", "seq", "$5")
_CHANGED = _page(f"{_WITHIN} AND lsn > $4", "lsn", "$5")
_HASHED = _page(f"{_WITHIN} AND (hash, seq) > ($4, $5) AND hash <= $6", "hash, seq", "$7")
_ONE_PARTITION = _page("hash = $2 AND partition = $3 AND seq > $4", "seq", "$5")


def _records(rows: Iterable[asyncpg.Record]) -> list[Record]:
    return [record_of(tuple(row)) for row in rows]


async def scan(connection: Connection, request: interface.Scan) -> list[Record]:
    container, lower, upper, after, limit = (
        request.container,
        request.lower,
        request.upper,
        request.after,
        request.limit,
    )
    if request.order is not Order.HASHED:
        statement = _CREATED if request.order is Order.CREATED else _CHANGED
        number = 0 if after is None else after.number
        return _records(await connection.fetch(statement, container, lower, upper, number, limit))
    place, number = hash_number(lower), -1
    if after is not None:
        place, number = max((place, number), (hash_number(after.partition), after.number))
    if upper == lower + b"\0":
        # No byte string lies between `lower` and `lower + b"\0"`: the range is exactly one partition.
        if place != hash_number(lower):
            return []
        return _records(await connection.fetch(_ONE_PARTITION, container, place, lower, number, limit))
    last = INTEGER_LIMIT if upper is None else hash_number(upper)
    return _records(await connection.fetch(_HASHED, container, lower, upper, place, number, last, limit))


_HOLDERS = (
    f"SELECT {RECORD} FROM mayfly.record WHERE container = $1 AND (hash, seq) IN (SELECT e.hash, e.record FROM mayfly.entry e"
    " JOIN unnest($2::integer[], $3::bigint[], $4::bytea[]) AS wanted(number, digest, key)"
    " ON e.container = $1 AND e.number = wanted.number AND e.digest = wanted.digest AND e.key = wanted.key) ORDER BY seq"
)


def entry_columns(entries: Sequence[Entry]) -> tuple[list[int], list[int], list[bytes]]:
    """Entries as columns: number, digest, key."""
    return [each.index for each in entries], [digest(each.key) for each in entries], [each.key for each in entries]


async def entry_owners(connection: Connection, request: interface.EntryOwners) -> list[Record]:
    return _records(await connection.fetch(_HOLDERS, request.container, *entry_columns(request.entries)))


# Only ordered indexes have keys in a B-tree, and the condition repeats that of the partial index `entry_range`. Keys of unique
# values may be longer than an index takes, and are found by their digest.
_ORDERED = f"e.container = $1 AND e.number = $2 AND e.number >= {FIRST_ORDERED}"

_SEEK = f"SELECT e.record FROM mayfly.entry e WHERE {_ORDERED} AND e.key >= $3 AND e.key < $4 LIMIT $5"
_SEEKS = (
    "SELECT e.record FROM unnest($3::bytea[], $4::bytea[]) AS wanted(lower, upper)"
    f" JOIN mayfly.entry e ON {_ORDERED} AND e.key >= wanted.lower AND e.key < wanted.upper LIMIT $5"
)


async def seek_index(connection: Connection, request: interface.SeekIndex) -> tuple[int, ...] | None:
    lowers, uppers = [each.lower for each in request.ranges], [each.upper for each in request.ranges]
    statement, bounds = (_SEEK, (lowers[0], uppers[0])) if len(lowers) == 1 else (_SEEKS, (lowers, uppers))
    rows = await connection.fetch(statement, request.container, request.index, *bounds, request.limit + 1)
    return None if len(rows) > request.limit else tuple(sorted({row[0] for row in rows}))


_FETCH = _page("seq = ANY($2::bigint[])", "seq", "$3")


async def fetch(connection: Connection, request: interface.Fetch) -> list[Record]:
    seqs = request.seqs
    return _records(await connection.fetch(_FETCH, request.container, seqs, max(1, len(seqs))))


def _walk(descending: bool) -> str:
    order = "entry_key DESC, seq DESC" if descending else "entry_key, seq"
    columns = ", ".join(f"r.{column}" for column in RECORD.split(", "))
    return (
        f"SELECT entry_key, {RECORD} FROM (SELECT *, sum(octet_length(value)) OVER (ORDER BY {order}) - octet_length(value)"
        f" AS before FROM (SELECT e.key AS entry_key, {columns} FROM mayfly.entry e JOIN mayfly.record r"
        " ON r.container = e.container AND r.hash = e.hash AND r.seq = e.record"
        f" WHERE {_ORDERED} AND e.key >= $3 AND e.key < $4 AND (e.key, e.record) {'<' if descending else '>'} ($5, $6)"
        f" ORDER BY {'e.key DESC, e.record DESC' if descending else 'e.key, e.record'} LIMIT $7) AS first) AS sized"
        f" WHERE before <= {interface.PAGE_BYTES} ORDER BY {order}"
    )


_WALKS = {descending: _walk(descending) for descending in (False, True)}


async def scan_index(connection: Connection, request: interface.ScanIndex) -> list[tuple[bytes, Record]]:
    lower, upper = request.range.lower, request.range.upper
    key, seq = request.after or ((upper, 0) if request.descending else (b"", 0))
    # The bound of the range, where the place behind it is the nearer one, would have the database step over the entries between.
    if request.descending:
        upper = min(upper, key + b"\0")
    else:
        lower = max(lower, key)
    bounds = (lower, upper, key, seq)
    rows = await connection.fetch(_WALKS[request.descending], request.container, request.index, *bounds, request.limit)
    return [(row[0], record_of(tuple(row)[1:])) for row in rows]


async def fetch_range(connection: Connection, request: interface.FetchRange) -> list[Record] | None:
    scan = interface.ScanIndex(request.container, request.index, request.range, False, None, request.limit + 1)
    found = await scan_index(connection, scan)
    size = sum([len(record.value) for _, record in found])
    # A page that is full in bytes may lack entries.
    if len(found) > request.limit or size > interface.PAGE_BYTES:
        return None
    return sorted({record.seq: record for _, record in found}.values(), key=lambda record: record.seq)


_ENTRIES = (
    "SELECT record, number, key FROM mayfly.entry WHERE container = $1 AND record IN (SELECT DISTINCT record"
    " FROM mayfly.entry WHERE container = $1 AND record > $2 ORDER BY record LIMIT $3) ORDER BY record, number, key"
)


async def entries(connection: Connection, request: interface.Entries) -> list[tuple[int, tuple[Entry, ...]]]:
    rows = await connection.fetch(_ENTRIES, request.container, request.after_seq, request.limit)
    return by_owner(tuple(row) for row in rows)


_DUE = {
    path: _page(f"{condition} AND {value} <= $2 AND ({value}, seq) > ($3, $4)", order, "$5")
    for (path, (value, condition)), order in zip(PATHS.items(), ("anchor, seq", "deadline, seq"), strict=True)
}


_JOINED = ", ".join(f"r.{column}" for column in RECORD.split(", "))
_DUE_IN_SLOT = (
    f"SELECT {RECORD} FROM (SELECT *, sum(octet_length(value)) OVER (ORDER BY entry_key, seq) - octet_length(value) AS before"
    f" FROM (SELECT e.key AS entry_key, {_JOINED} FROM mayfly.entry e JOIN mayfly.record r"
    f" ON r.container = e.container AND r.hash = e.hash AND r.seq = e.record WHERE {_ORDERED} AND e.key <= $3"
    " AND (e.key, e.record) > ($4, $5) ORDER BY e.key, e.record LIMIT $6) AS first) AS sized"
    f" WHERE before <= {interface.PAGE_BYTES} ORDER BY entry_key, seq"
)


async def due(connection: Connection, request: interface.Due) -> list[Record]:
    if isinstance(request.path, int):
        place = (b"", -1) if request.after is None else (instant_key(request.after[0]), request.after[1])
        bounds = (instant_key(request.upto), *place, request.limit)
        return _records(await connection.fetch(_DUE_IN_SLOT, request.container, request.path, *bounds))
    value, seq = (LOWEST, -1) if request.after is None else (fit(request.after[0]), request.after[1])
    rows = await connection.fetch(_DUE[request.path], request.container, fit(request.upto), value, seq, request.limit)
    return _records(rows)


FIRST_DUE = {
    path: f"SELECT min({value}) FROM mayfly.record WHERE container = $1 AND {condition}"
    for path, (value, condition) in PATHS.items()
}
_NEXT_DUE = {path: f"{FIRST_DUE[path]} AND {value} > $2" for path, (value, _) in PATHS.items()}

_NEXT_IN_SLOT = f"SELECT e.key FROM mayfly.entry e WHERE {_ORDERED} AND e.key > $3 ORDER BY e.key LIMIT 1"
_NEXT_UNSPARED_IN_SLOT = (
    "SELECT e.key FROM mayfly.entry e JOIN mayfly.record r"
    f" ON r.container = e.container AND r.hash = e.hash AND r.seq = e.record WHERE {_ORDERED} AND e.key > $3"
    f" AND {NOT_SPARED.format('$4')} ORDER BY e.key LIMIT 1"
)


async def next_due(connection: Connection, request: interface.NextDue) -> Instant | None:
    spared = [spared_numbers(request.spared)] if request.spared else []
    if isinstance(request.path, int):
        below = b"" if request.after is None else instant_key(request.after)
        statement = _NEXT_UNSPARED_IN_SLOT if spared else _NEXT_IN_SLOT
        key = await connection.fetchval(statement, request.container, request.path, below, *spared)
        return None if key is None else date_of(key)
    after = [] if request.after is None else [fit(request.after)]
    statement = (_NEXT_DUE if after else FIRST_DUE)[request.path]
    if spared:
        statement = f"{statement} AND {NOT_SPARED.format('$3' if after else '$2')}"
    found: Instant | None = await connection.fetchval(statement, request.container, *after, *spared)
    return found


def spared_numbers(spared: Iterable[Identity]) -> list[int]:
    """The argument of NOT_SPARED. Another record with the same identity number is spared too; a later sweep removes it."""
    return [identity_number(*identity) for identity in spared]


_COUNT_DUE = {
    path: f"SELECT width_bucket({value}, $2::bigint[]), count(*) FROM mayfly.record"
    f" WHERE container = $1 AND {condition} AND {value} < $3 GROUP BY 1"
    for path, (value, condition) in PATHS.items()
}


_COUNT_IN_SLOT = (
    f"SELECT width_bucket({DATE.format('e.key')}, $3::bigint[]), count(*) FROM mayfly.entry e"
    f" WHERE {_ORDERED} AND e.key <= $4 GROUP BY 1"
)


async def count_due(connection: Connection, request: interface.CountDue) -> tuple[int, ...]:
    if not request.upto:
        return ()
    if isinstance(request.path, int):
        bounds = [fit(upto + 1) for upto in request.upto]
        last = instant_key(request.upto[-1])
        found = await connection.fetch(_COUNT_IN_SLOT, request.container, request.path, bounds, last)
        return _counts(found, len(bounds))
    # Bucket n holds the values from the n-th bound, which is the first instant too late, to the next.
    bounds = [fit(upto + 1) for upto in request.upto]
    found = await connection.fetch(_COUNT_DUE[request.path], request.container, bounds, bounds[-1])
    return _counts(found, len(bounds))


def _counts(found: Iterable[asyncpg.Record], bounds: int) -> tuple[int, ...]:
    counts = dict(tuple(row) for row in found)
    return tuple(accumulate(counts.get(bucket, 0) for bucket in range(bounds)))


async def count(connection: Connection, request: interface.Count) -> Totals:
    size = "coalesce(sum(octet_length(value)), 0)" if request.with_bytes else "0"
    records, own, following, ignored, size_of_all = await connection.fetchrow(
        f"SELECT count(*), count(*) FILTER (WHERE {HAS_OWN_TTL}), count(*) FILTER (WHERE {HAS_DEFAULT_TTL}),"
        f" count(*) FILTER (WHERE override = 0), {size} FROM mayfly.record WHERE container = $1",
        request.container,
    )
    return Totals(records, own, ignored, records - own - following, int(size_of_all))


async def find(connection: Connection, request: interface.FindRow) -> interface.CatalogRow | None:
    statement = f"SELECT {_ROW} FROM mayfly.catalog WHERE parent = $1 AND name = $2"
    found = await connection.fetchrow(statement, request.parent, encode_name(request.name))
    return None if found is None else row_of(found)


async def load(connection: Connection, request: interface.LoadRow) -> interface.CatalogRow | None:
    found = await connection.fetchrow(f"SELECT {_ROW} FROM mayfly.catalog WHERE id = $1", request.id)
    return None if found is None else row_of(found)


async def children(connection: Connection, request: interface.ChildRows) -> list[interface.CatalogRow]:
    statement = f"SELECT {_ROW} FROM mayfly.catalog WHERE parent = $1 ORDER BY id"
    return [row_of(found) for found in await connection.fetch(statement, request.parent)]


async def lock_rows(connection: Connection, ids: Iterable[int], wait: bool = True) -> list[interface.CatalogRow]:
    """Lock catalogue rows until this transaction ends, in order of their ids.

    Without `wait`: LockNotAvailableError of the driver if another transaction has one of them.
    """
    statement = f"SELECT {_ROW} FROM mayfly.catalog WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE"
    found = await connection.fetch(statement if wait else f"{statement} NOWAIT", list(ids))
    return [row_of(row) for row in found]


async def read_dropped(connection: Connection, request: interface.DroppedContainers) -> list[int]:
    return [row[0] for row in await connection.fetch("SELECT container FROM mayfly.dropped ORDER BY container")]


async def last_expiry(connection: Connection, request: interface.LastExpiry) -> int:
    return int(await connection.fetchval("SELECT coalesce(max(id), 0) FROM mayfly.expiry"))


async def expiries(connection: Connection, request: interface.Expiries) -> list[Expiry]:
    rows = await connection.fetch(
        f"SELECT {EXPIRY_COLUMNS} FROM mayfly.expiry WHERE id > $1 AND ($2::bigint IS NULL OR container = $2)"
        " ORDER BY id LIMIT $3",
        min(request.after, INTEGER_LIMIT),
        request.container,
        request.limit,
    )
    return [expiry_of(tuple(row)) for row in rows]


async def setting(connection: Connection, request: interface.NamedNumber) -> int | None:
    found: int | None = await connection.fetchval("SELECT value FROM mayfly.setting WHERE name = $1", request.name)
    return found


async def segments(connection: Connection, request: interface.KeySegments) -> list[KeySegment]:
    return []  # Keys in this database would be in the backups of what they seal.


async def key_bytes(connection: Connection, request: interface.KeyBytes) -> tuple[int, ...]:
    where = "container = $1 AND number = ANY($2)"
    statement = f"SELECT number, sum(octet_length(key)) FROM mayfly.entry WHERE {where} GROUP BY number"
    found = dict(tuple(row) for row in await connection.fetch(statement, request.container, list(request.indexes)))
    return tuple(int(found.get(index, 0)) for index in request.indexes)


async def count_plain(connection: Connection, request: interface.CountPlain) -> int:
    return (await count(connection, interface.Count(request.container))).records


ANSWERS: dict[type[interface.Read[Any]], Callable[[Connection, Any], Awaitable[Any]]] = {
    interface.Scan: scan,
    interface.EntryOwners: entry_owners,
    interface.Entries: entries,
    interface.SeekIndex: seek_index,
    interface.Fetch: fetch,
    interface.FetchRange: fetch_range,
    interface.ScanIndex: scan_index,
    interface.Due: due,
    interface.NextDue: next_due,
    interface.CountDue: count_due,
    interface.Count: count,
    interface.FindRow: find,
    interface.LoadRow: load,
    interface.ChildRows: children,
    interface.DroppedContainers: read_dropped,
    interface.Expiries: expiries,
    interface.LastExpiry: last_expiry,
    interface.History: history,
    interface.NamedNumber: setting,
    interface.KeySegments: segments,
    interface.CountPlain: count_plain,
    interface.KeyBytes: key_bytes,
}
"""Every read but that of records by identity, which `get_many` answers."""


async def answer(connection: Connection, request: interface.Read[Any]) -> Any:
    """Answer a read as this connection sees the database."""
    return await ANSWERS[type(request)](connection, request)
