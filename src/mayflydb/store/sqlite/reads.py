"""Answers to store reads, one function per request, in SQL over one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any

import apsw

from mayflydb.model.due import DuePath, Path, date_of, instant_key
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity, Order
from mayflydb.model.record import Entry, Expiry, Record, Totals
from mayflydb.store import interface
from mayflydb.store.rows import (
    EXPIRY_COLUMNS,
    SEQ_MASK,
    by_owner,
    expiry_of,
    fit,
    hash_number,
    identity_number,
    record_of,
)
from mayflydb.store.sqlite.history import history
from mayflydb.store.sqlite.schema import COLUMNS, DEADLINE, HAS_DEFAULT_TTL, HAS_OWN_TTL, row_id

PATHS = {
    DuePath.ANCHOR: ("record_anchor", "anchor", HAS_DEFAULT_TTL),
    DuePath.DEADLINE: ("record_deadline", DEADLINE, HAS_OWN_TTL),
}
"""Due path -> index, ordered expression, and the condition of that partial index."""

_SLOT = "entry.container = ?1 AND entry.number = ?2"
"""The condition of the entries of a date slot, whose keys are dates."""

_GET = (
    f"SELECT {COLUMNS} FROM record INDEXED BY record_identity"
    " WHERE container = ? AND identity = ? AND partition = ? AND key = ?"
)
_CREATED = f"SELECT {COLUMNS} FROM record NOT INDEXED WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
_CREATED_IN = (
    f"SELECT {COLUMNS} FROM record NOT INDEXED WHERE id > ? AND id <= ?"
    " AND partition >= ? AND (?4 IS NULL OR partition < ?4) ORDER BY id LIMIT ?5"
)
_HASHED = (
    f"SELECT {COLUMNS} FROM record INDEXED BY record_hash WHERE container = ?1 AND (hash, id) > (?2, ?3) AND hash <= ?4"
    " AND partition >= ?5 AND (?6 IS NULL OR partition < ?6) ORDER BY hash, id LIMIT ?7"
)
_PARTITION = (
    f"SELECT {COLUMNS} FROM record INDEXED BY record_hash"
    " WHERE container = ? AND hash = ? AND id > ? AND partition = ? ORDER BY id LIMIT ?"
)
_LAST_HASH = (1 << 63) - 1
_CHANGED = (
    f"SELECT {COLUMNS} FROM record INDEXED BY record_lsn WHERE container = ? AND lsn > ?"
    " AND partition >= ? AND (?4 IS NULL OR partition < ?4) ORDER BY lsn LIMIT ?5"
)


def _page(rows: Iterable[tuple[Any, ...]]) -> list[Record]:
    page: list[Record] = []
    size = 0
    for row in rows:
        record = record_of(row)
        page.append(record)
        size += len(record.value)
        if size > interface.PAGE_BYTES:
            break
    return page


def get(connection: apsw.Connection, request: interface.Get) -> Record | None:
    partition, key = request.partition, request.key
    for row in connection.execute(_GET, (request.container, identity_number(partition, key), partition, key)):
        return record_of(row)
    return None


def scan(connection: apsw.Connection, request: interface.Scan) -> list[Record]:
    if request.order is Order.CREATED:
        return _page(_scan_created(connection, request))
    if request.order is Order.HASHED:
        return _page(_scan_hashed(connection, request))
    after = request.after.number if request.after else 0
    bindings = (request.container, after, request.lower, request.upper, request.limit)
    return _page(connection.execute(_CHANGED, bindings))


def _scan_created(connection: apsw.Connection, request: interface.Scan) -> apsw.Cursor:
    first = row_id(request.container, request.after.number if request.after else 0)
    last = row_id(request.container, SEQ_MASK)
    if not request.lower and request.upper is None:
        return connection.execute(_CREATED, (first, last, request.limit))
    return connection.execute(_CREATED_IN, (first, last, request.lower, request.upper, request.limit))


def _scan_hashed(connection: apsw.Connection, request: interface.Scan) -> apsw.Cursor:
    lower, upper, container = request.lower, request.upper, request.container
    place, number = hash_number(lower), -1
    if request.after:
        after = (hash_number(request.after.partition), row_id(container, request.after.number))
        place, number = max((place, number), after)
    if upper == lower + b"\0":
        # No byte string lies between `lower` and `lower + b"\0"`: the range is exactly one partition.
        first = number if place == hash_number(lower) else _LAST_HASH
        return connection.execute(_PARTITION, (container, hash_number(lower), first, lower, request.limit))
    last = _LAST_HASH if upper is None else hash_number(upper)
    return connection.execute(_HASHED, (container, place, number, last, lower, upper, request.limit))


def entry_owners(connection: apsw.Connection, request: interface.EntryOwners) -> list[Record]:
    ids: set[int] = set()
    for entry in request.entries:
        found = connection.execute(
            "SELECT record FROM entry WHERE container = ? AND number = ? AND key = ?",
            (request.container, entry.index, entry.key),
        )
        ids.update(row[0] for row in found)
    statement = f"SELECT {COLUMNS} FROM record WHERE id = ?"
    return [record_of(row) for rowid in sorted(ids) for row in connection.execute(statement, (rowid,))]


def seek_index(connection: apsw.Connection, request: interface.SeekIndex) -> tuple[int, ...] | None:
    found: list[int] = []
    for each in request.ranges:
        rows = connection.execute(
            "SELECT record FROM entry WHERE container = ? AND number = ? AND key >= ? AND key < ? LIMIT ?",
            (request.container, request.index, each.lower, each.upper, request.limit + 1 - len(found)),
        )
        found += [rowid & SEQ_MASK for (rowid,) in rows]
        if len(found) > request.limit:
            return None
    return tuple(sorted(set(found)))


def fetch(connection: apsw.Connection, request: interface.Fetch) -> list[Record]:
    statement = f"SELECT {COLUMNS} FROM record WHERE id = ?"
    ids = (row_id(request.container, seq) for seq in request.seqs)
    return _page(row for id in ids for row in connection.execute(statement, (id,)))


_WALKED = ", ".join(f"record.{column}" for column in COLUMNS.split(", "))
_WALKS = {
    descending: f"SELECT entry.key, {_WALKED} FROM entry CROSS JOIN record ON record.id = entry.record"
    " WHERE entry.container = ? AND entry.number = ? AND entry.key >= ? AND entry.key < ?"
    f" AND (entry.key, entry.record) {'<' if descending else '>'} (?, ?)"
    f" ORDER BY entry.key{' DESC' * descending}, entry.record{' DESC' * descending} LIMIT ?"
    for descending in (False, True)
}


def scan_index(connection: apsw.Connection, request: interface.ScanIndex) -> list[tuple[bytes, Record]]:
    key, seq = request.after or ((request.range.upper, 0) if request.descending else (b"", 0))
    bounds = (request.range.lower, request.range.upper, key, row_id(request.container, seq))
    rows = connection.execute(_WALKS[request.descending], (request.container, request.index, *bounds, request.limit))
    keys: list[bytes] = []
    return list(zip(keys, _page(_split_keys(rows, keys)), strict=False))


def _split_keys(rows: Iterable[tuple[Any, ...]], keys: list[bytes]) -> Iterator[tuple[Any, ...]]:
    for key, *row in rows:
        keys.append(key)
        yield tuple(row)


_OWNERS = "SELECT DISTINCT record FROM entry WHERE record > ? AND record <= ? ORDER BY record LIMIT ?"


def entries(connection: apsw.Connection, request: interface.Entries) -> list[tuple[int, tuple[Entry, ...]]]:
    bounds = (row_id(request.container, request.after_seq), row_id(request.container, SEQ_MASK))
    owned = connection.execute(
        f"SELECT record, number, key FROM entry WHERE record IN ({_OWNERS}) ORDER BY record, container, number, key",
        (*bounds, request.limit),
    )
    return by_owner((rowid & SEQ_MASK, number, key) for rowid, number, key in owned)


_DUE_IN_SLOT = (
    f"SELECT {_WALKED} FROM entry CROSS JOIN record ON record.id = entry.record WHERE {_SLOT} AND entry.key <= ?3"
    " AND (entry.key, entry.record) > (?4, ?5) ORDER BY entry.key, entry.record LIMIT ?6"
)


def _due_in_slot(connection: apsw.Connection, request: interface.Due) -> list[Record]:
    after, seq = request.after or (None, 0)
    place = (b"", -1) if after is None else (instant_key(after), row_id(request.container, seq))
    bounds = (instant_key(request.upto), *place, request.limit)
    return _page(connection.execute(_DUE_IN_SLOT, (request.container, request.path, *bounds)))


def due(connection: apsw.Connection, request: interface.Due) -> list[Record]:
    if isinstance(request.path, int):
        return _due_in_slot(connection, request)
    # INDEXED BY is a check too: a statement that SQLite could not answer from the partial index fails.
    index, value, condition = PATHS[request.path]
    after = request.after or (-(1 << 63), -1)
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM record INDEXED BY {index} WHERE container = ?1 AND {condition} AND {value} <= ?2"
        f" AND ({value}, id) > (?3, ?4) ORDER BY {value}, id LIMIT ?5",
        (
            request.container,
            fit(request.upto),
            fit(after[0]),
            row_id(request.container, after[1]) if request.after else -1,
            request.limit,
        ),
    )
    return _page(rows)


def spared_condition(spared: Iterable[Identity]) -> tuple[str, tuple[str, ...]]:
    """A condition that leaves out these records, and its arguments.

    Another record with the same identity number is left out too; collisions are rare, and a later sweep removes it.
    """
    numbers = [identity_number(*identity) for identity in spared]
    if not numbers:
        return "", ()
    return " AND record.identity NOT IN (SELECT value FROM json_each(?))", (f"[{','.join(map(str, numbers))}]",)


def next_due(connection: apsw.Connection, request: interface.NextDue) -> Instant | None:
    others, named = spared_condition(request.spared)
    if isinstance(request.path, int):
        below = b"" if request.after is None else instant_key(request.after)
        left = f" AND EXISTS (SELECT 1 FROM record WHERE record.id = entry.record{others})" if named else ""
        found = connection.execute(
            f"SELECT key FROM entry WHERE {_SLOT} AND key > ?3{left} ORDER BY key LIMIT 1",
            (request.container, request.path, below, *named),
        )
        return next((date_of(key) for (key,) in found), None)
    index, value, condition = PATHS[request.path]
    floor = -(1 << 63) if request.after is None else fit(request.after)
    found = connection.execute(
        f"SELECT {value} FROM record INDEXED BY {index} WHERE container = ? AND {condition} AND {value} > ?{others}"
        f" ORDER BY {value} LIMIT 1",
        (request.container, floor, *named),
    )
    for (answer,) in found:
        return int(answer)
    return None


def count_due(connection: apsw.Connection, request: interface.CountDue) -> tuple[int, ...]:
    statement, bounds = _count_statement(request.path, request.upto)
    path = (request.path,) if isinstance(request.path, int) else ()
    return tuple(accumulate(connection.execute(statement, (request.container, *path, *pair)).get for pair in bounds))


def _count_statement(path: Path, upto: tuple[Instant, ...]) -> tuple[str, Iterable[tuple[Any, Any]]]:
    """The statement that counts the records of a path between two bounds, and the pairs of bounds."""
    if isinstance(path, int):
        statement = f"SELECT count(*) FROM entry WHERE {_SLOT} AND key > ? AND key <= ?"
        return statement, pairwise((b"", *map(instant_key, upto)))
    index, value, condition = PATHS[path]
    statement = (
        f"SELECT count(*) FROM record INDEXED BY {index}"
        f" WHERE container = ? AND {condition} AND {value} > ? AND {value} <= ?"
    )
    return statement, pairwise((-(1 << 63), *map(fit, upto)))


def count(connection: apsw.Connection, request: interface.Count) -> Totals:
    def number(source: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM record {source}", (request.container,)).get)

    records = number("INDEXED BY record_lsn WHERE container = ?")
    own = number(f"INDEXED BY record_deadline WHERE container = ? AND {HAS_OWN_TTL}")
    followers = number(f"INDEXED BY record_anchor WHERE container = ? AND {HAS_DEFAULT_TTL}")
    ignored = number("INDEXED BY record_ignored WHERE container = ? AND override = 0")
    size = 0
    if request.with_bytes:
        bounds = (row_id(request.container, 0), row_id(request.container, SEQ_MASK))
        statement = "SELECT coalesce(sum(length(value)), 0) FROM record NOT INDEXED WHERE id > ? AND id <= ?"
        size = int(connection.execute(statement, bounds).get)
    return Totals(records, own, ignored, records - own - followers, size)


def read_dropped(connection: apsw.Connection, request: interface.DroppedContainers) -> list[int]:
    return [row[0] for row in connection.execute("SELECT container FROM dropped ORDER BY container")]


def last_expiry(connection: apsw.Connection, request: interface.LastExpiry) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM expiry").get)


def expiries(connection: apsw.Connection, request: interface.Expiries) -> list[Expiry]:
    rows = connection.execute(
        f"SELECT {EXPIRY_COLUMNS} FROM expiry WHERE id > ?1 AND (?2 IS NULL OR container = ?2) ORDER BY id LIMIT ?3",
        (request.after, request.container, request.limit),
    )
    return [expiry_of(row) for row in rows]


def named_number(connection: apsw.Connection, request: interface.NamedNumber) -> int | None:
    for (value,) in connection.execute("SELECT value FROM setting WHERE name = ?", (request.name,)):
        return int(value)
    return None


def read_held(connection: apsw.Connection, request: interface.HeldRecords) -> tuple[Identity, ...]:
    return ()  # Only one process opens a file, so no other node holds records.


ANSWERS: dict[type[interface.Read[Any]], Callable[[apsw.Connection, Any], Any]] = {
    interface.Get: get,
    interface.Scan: scan,
    interface.EntryOwners: entry_owners,
    interface.Entries: entries,
    interface.SeekIndex: seek_index,
    interface.Fetch: fetch,
    interface.ScanIndex: scan_index,
    interface.Due: due,
    interface.NextDue: next_due,
    interface.CountDue: count_due,
    interface.Count: count,
    interface.DroppedContainers: read_dropped,
    interface.Expiries: expiries,
    interface.LastExpiry: last_expiry,
    interface.History: history,
    interface.NamedNumber: named_number,
    interface.HeldRecords: read_held,
}
"""Every read of tables. The catalogue is not among them: the store keeps it in memory."""

SLOW = frozenset({interface.CountDue, interface.Count})
"""Reads whose cost grows with the container. A store with a connection for them answers them off the event loop."""
