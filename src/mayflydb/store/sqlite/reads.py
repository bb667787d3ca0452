"""Answers to store reads, one function per request, in SQL over one connection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, TypeVar, cast

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
from mayflydb.store.segments import KeySegment
from mayflydb.store.sqlite.directory import StalePlaces
from mayflydb.store.sqlite.history import history
from mayflydb.store.sqlite.schema import (
    COLUMNS,
    DEADLINE,
    HAS_DEFAULT_TTL,
    HAS_OWN_TTL,
    HASH,
    IDENTITY,
    STATES,
    row_id,
)

T = TypeVar("T")

PATHS = {
    DuePath.ANCHOR: ("record_anchor", "anchor", HAS_DEFAULT_TTL),
    DuePath.DEADLINE: ("record_deadline", DEADLINE, HAS_OWN_TTL),
}
"""Due path -> index, ordered expression, and the condition of that partial index."""

_SLOT = "entry.container = ?1 AND entry.number = ?2"
"""The condition of the entries of a date slot, whose keys are dates."""

_RECORD = ", ".join(f"record.{column}" for column in COLUMNS.split(", "))
_GET = (
    f"SELECT {_RECORD}, directory.record FROM directory LEFT JOIN record NOT INDEXED ON record.id = directory.record"
    f" WHERE directory.container = ? AND directory.kind = {IDENTITY} AND directory.number = ?"
)
_CREATED = f"SELECT {COLUMNS} FROM record NOT INDEXED WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
_CREATED_IN = (
    f"SELECT {COLUMNS} FROM record NOT INDEXED WHERE id > ? AND id <= ?"
    " AND partition >= ? AND (?4 IS NULL OR partition < ?4) ORDER BY id LIMIT ?5"
)
_PLACES = (
    f"SELECT {_RECORD}, directory.number, directory.record FROM directory"
    " LEFT JOIN record NOT INDEXED ON record.id = directory.record"
    f" WHERE directory.container = ? AND directory.kind = {HASH}"
)
_HASHED = (
    f"{_PLACES} AND (directory.number, directory.record) > (?2, ?3) AND directory.number <= ?4"
    " AND (record.id IS NULL OR record.partition >= ?5 AND (?6 IS NULL OR record.partition < ?6))"
    " ORDER BY directory.number, directory.record LIMIT ?7"
)
_PARTITION = (
    f"{_PLACES} AND directory.number = ?2 AND directory.record > ?3 AND (record.id IS NULL OR record.partition = ?5)"
    " ORDER BY directory.record LIMIT ?7"
)
_STEP = 256
"""The most places that one statement of a scan looks at, where most are stale."""

_LAST_HASH = (1 << 63) - 1
_CHANGED = (
    f"SELECT {COLUMNS} FROM record INDEXED BY record_lsn WHERE container = ? AND lsn > ?"
    " AND partition >= ? AND (?4 IS NULL OR partition < ?4) ORDER BY lsn LIMIT ?5"
)


Steps: TypeAlias = Generator[None, None, T]
"""A read in steps, between which other work may run."""


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
    for row in connection.execute(_GET, (request.container, identity_number(partition, key))):
        if row[0] == partition and row[1] == key:
            return record_of(row[:-1])
        if row[0] is None:
            StalePlaces(connection).check(row[-1])
    return None


def scan_in_steps(connection: apsw.Connection, request: interface.Scan) -> Steps[list[Record]]:
    """A page of a scan. Between two steps other work may run."""
    if request.order is Order.HASHED:
        return (yield from _scan_hashed(connection, request))
    if request.order is Order.CREATED:
        return _page(_scan_created(connection, request))
    after = request.after.number if request.after else 0
    bindings = (request.container, after, request.lower, request.upper, request.limit)
    return _page(connection.execute(_CHANGED, bindings))


def scan(connection: apsw.Connection, request: interface.Scan) -> list[Record]:
    steps = scan_in_steps(connection, request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("list[Record]", end.value)


def _scan_created(connection: apsw.Connection, request: interface.Scan) -> apsw.Cursor:
    first = row_id(request.container, request.after.number if request.after else 0)
    last = row_id(request.container, SEQ_MASK)
    if not request.lower and request.upper is None:
        return connection.execute(_CREATED, (first, last, request.limit))
    return connection.execute(_CREATED_IN, (first, last, request.lower, request.upper, request.limit))


def _scan_hashed(connection: apsw.Connection, request: interface.Scan) -> Steps[list[Record]]:
    """A page in HASHED order, in steps: where many places are stale, each step passes some of them."""
    lower, upper, container = request.lower, request.upper, request.container
    place = hash_number(lower), -1
    if request.after:
        after = (hash_number(request.after.partition), row_id(container, request.after.number))
        place = max(place, after)
    # No byte string lies between `lower` and `lower + b"\0"`: the range is exactly one partition.
    single = upper == lower + b"\0"
    last = _LAST_HASH if upper is None else hash_number(upper)
    page: list[Record] = []
    size, limit = 0, max(request.limit, _STEP)
    if single and place[0] != hash_number(lower):
        return page
    stale = StalePlaces(connection)
    while True:
        looked = 0
        for row in connection.execute(
            _PARTITION if single else _HASHED, (container, *place, last, lower, upper, limit)
        ):
            looked += 1
            place = row[-2:]
            if row[0] is None:
                stale.check(place[1])
                continue
            page.append(record_of(row[:-2]))
            size += len(row[2])
            if len(page) == request.limit or size > interface.PAGE_BYTES:
                return page
        # A page is of one state: after other work may have run, it has to begin anew.
        if page or looked < limit:
            return page
        yield


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


def fetch_range(connection: apsw.Connection, request: interface.FetchRange) -> list[Record] | None:
    """The caller sees to it that nothing is committed between the two reads."""
    container, within = request.container, (request.range,)
    seqs = seek_index(connection, interface.SeekIndex(container, request.index, within, request.limit))
    if seqs is None:
        return None
    found = fetch(connection, interface.Fetch(container, seqs))
    is_whole = len(found) == len(seqs) and sum([len(record.value) for record in found]) <= interface.PAGE_BYTES
    return found if is_whole else None


_WALK = (
    f"SELECT entry.key, {_RECORD} FROM entry CROSS JOIN record ON record.id = entry.record"
    " WHERE entry.container = ? AND entry.number = ?"
)
_WALKS = {
    False: f"{_WALK} AND (entry.key, entry.record) > (?, ?) AND entry.key < ? ORDER BY entry.key, entry.record LIMIT ?",
    True: f"{_WALK} AND (entry.key, entry.record) < (?, ?) AND entry.key >= ?"
    " ORDER BY entry.key DESC, entry.record DESC LIMIT ?",
}
"""By direction. The side on which a page begins has one bound: of two, SQLite may seek by the one that is farther away, and
step over all entries between.
"""


def scan_index(connection: apsw.Connection, request: interface.ScanIndex) -> list[tuple[bytes, Record]]:
    first, last = request.range.lower, request.range.upper
    if request.descending:
        first, last = last, first
    # No record has the number -1: the place before all entries of the first key, forwards, and behind them, backwards.
    place = (first, -1)
    if request.after is not None:
        nearer = min if request.descending else max
        place = nearer(place, (request.after[0], row_id(request.container, request.after[1])))
    bounds = (*place, last)
    rows = connection.execute(_WALKS[request.descending], (request.container, request.index, *bounds, request.limit))
    page: list[tuple[bytes, Record]] = []
    size = 0
    for row in rows:
        page.append((row[0], record_of(row[1:])))
        size += len(row[3])
        if size > interface.PAGE_BYTES:
            break
    return page


_OWNERS = "SELECT DISTINCT record FROM entry WHERE record > ? AND record <= ? ORDER BY record LIMIT ?"


def entries(connection: apsw.Connection, request: interface.Entries) -> list[tuple[int, tuple[Entry, ...]]]:
    bounds = (row_id(request.container, request.after_seq), row_id(request.container, SEQ_MASK))
    owned = connection.execute(
        f"SELECT record, number, key FROM entry WHERE record IN ({_OWNERS}) ORDER BY record, container, number, key",
        (*bounds, request.limit),
    )
    return by_owner((rowid & SEQ_MASK, number, key) for rowid, number, key in owned)


_DUE_IN_SLOT = (
    f"SELECT {_RECORD} FROM entry CROSS JOIN record ON record.id = entry.record WHERE {_SLOT} AND entry.key <= ?3"
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
    if not request.upto:
        return ()
    source, path, edges = _due_between(request.path, request.upto)
    spans = [(n, *pair) for n, pair in enumerate(pairwise(edges))]
    # One statement: a forecast has many spans, in most of which nothing expires.
    rows = ", ".join(["(?, ?, ?)"] * len(spans))
    statement = f"WITH span(n, low, high) AS (VALUES {rows}) SELECT (SELECT count(*) {source}) FROM span ORDER BY n"
    values = [value for span in spans for value in span]
    return tuple(accumulate(row[0] for row in connection.execute(statement, (*values, request.container, *path))))


def count_some_due(connection: apsw.Connection, request: interface.CountDue, limit: int) -> int:
    """Return the number of records that the last bound of a count includes, or `limit` if there are more."""
    if not request.upto:
        return 0
    source, path, edges = _due_between(request.path, request.upto)
    statement = (
        f"WITH span(low, high) AS (VALUES (?, ?)) SELECT (SELECT count(*) FROM (SELECT 1 {source} LIMIT ?)) FROM span"
    )
    return int(connection.execute(statement, (edges[0], edges[-1], request.container, *path, limit)).get)


def _due_between(path: Path, upto: tuple[Instant, ...]) -> tuple[str, tuple[int, ...], tuple[Any, ...]]:
    """The source of the records of a path between `low` and `high`, its arguments behind the container, and the spans' edges."""
    if isinstance(path, int):
        source = "FROM entry WHERE container = ? AND number = ? AND key > low AND key <= high"
        return source, (path,), (b"", *map(instant_key, upto))
    index, value, condition = PATHS[path]
    source = f"FROM record INDEXED BY {index} WHERE container = ? AND {condition} AND {value} > low AND {value} <= high"
    return source, (), (-(1 << 63), *map(fit, upto))


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


def segments(connection: apsw.Connection, request: interface.KeySegments) -> list[KeySegment]:
    rows = connection.execute(
        "SELECT container, first, number, state FROM sealing WHERE ?1 IS NULL OR container = ?1 ORDER BY container, first",
        (request.container,),
    )
    return [KeySegment(container, first, number, STATES[state]) for container, first, number, state in rows]


def key_bytes(connection: apsw.Connection, request: interface.KeyBytes) -> tuple[int, ...]:
    statement = "SELECT coalesce(sum(length(key)), 0) FROM entry WHERE container = ? AND number = ?"
    return tuple(int(connection.execute(statement, (request.container, index)).get) for index in request.indexes)


def count_plain(connection: apsw.Connection, request: interface.CountPlain) -> int:
    found = [
        each
        for each in segments(connection, interface.KeySegments(request.container))
        if each.state in ("live", "plain")
    ]
    bounds = [0, *(each.first for each in found), fit(1 << 63)]
    is_plain = [True, *(each.state == "plain" for each in found)]
    statement = "SELECT count(*) FROM record INDEXED BY record_lsn WHERE container = ? AND lsn >= ? AND lsn < ?"
    return sum(
        int(connection.execute(statement, (request.container, *pair)).get)
        for pair, counts in zip(pairwise(bounds), is_plain, strict=True)
        if counts
    )


def read_held(connection: apsw.Connection, request: interface.HeldRecords) -> tuple[Identity, ...]:
    return ()  # Only one process opens a file, so no other node holds records.


ANSWERS: dict[type[interface.Read[Any]], Callable[[apsw.Connection, Any], Any]] = {
    interface.Get: get,
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
    interface.DroppedContainers: read_dropped,
    interface.Expiries: expiries,
    interface.LastExpiry: last_expiry,
    interface.History: history,
    interface.NamedNumber: named_number,
    interface.HeldRecords: read_held,
    interface.KeySegments: segments,
    interface.CountPlain: count_plain,
    interface.KeyBytes: key_bytes,
}
"""Every read of tables. The catalogue is not among them: the store keeps it in memory."""
