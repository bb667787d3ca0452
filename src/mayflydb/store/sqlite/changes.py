"""Changes applied inside the write transaction, one function per kind. `catalog` applies those of catalogue rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

from mayflydb.model.due import Path, instant_key
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Entry, Expiry
from mayflydb.store import interface
from mayflydb.store.rows import (
    SEQ_MASK,
    clamp,
    fit,
    hash_number,
    identity_number,
    state_columns,
)
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.directory import ADD, is_run, leave_places, places_of, remove_places
from mayflydb.store.sqlite.history import add_expired_versions, add_version, clear_history, trim_history
from mayflydb.store.sqlite.reads import PATHS, spared_condition
from mayflydb.store.sqlite.schema import DATE, row_id

_INSERT = (
    "INSERT INTO record(id, container, hash, identity, partition, key,"
    " written, anchor, override, lsn, exact_anchor, checksum, value) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_UPDATE = (
    "UPDATE record SET written = ?, anchor = ?, override = ?, lsn = ?, exact_anchor = ?, checksum = ?, value = ?"
    " WHERE id = ?"
)
_INSERT_ENTRY = "INSERT INTO entry(container, number, key, record) VALUES(?,?,?,?)"
_CHOSEN = "record.id, length(record.value), record.partition, record.key, record.lsn, record.override"
_EVENT = (
    "INSERT INTO expiry(container, partition, key, version, lsn, anchor, override, cause, rule_version,"
    " deadline, purged, how)"
)


def put(connection: apsw.Connection, counters: Counters, change: interface.Put) -> None:
    if change.insert:
        row = _new_row(change)
        connection.execute(_INSERT, row)
        connection.execute(ADD, places_of(row))
    else:
        rowid = row_id(change.container, change.record.seq)
        connection.execute(_UPDATE, (*state_columns(change.record), rowid))
        if change.entries is not None:
            connection.execute("DELETE FROM entry WHERE record = ?", (rowid,))
    if change.entries:
        connection.executemany(_INSERT_ENTRY, _entry_rows(change, change.entries))


def replaces_alone(change: interface.Put) -> bool:
    """Return True if a change replaces a record and leaves its entries, so that `replace_all` can make it."""
    return not change.insert and change.entries is None


def new_state(change: interface.Put) -> tuple[Any, ...]:
    """The row of a change for `replace_all`."""
    return (*state_columns(change.record), row_id(change.container, change.record.seq))


def replace_all(connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Replace records, in this order."""
    if len(rows) == 1:
        connection.execute(_UPDATE, rows[0])
    else:
        connection.executemany(_UPDATE, rows)


def insert_all(connection: apsw.Connection, puts: Iterable[interface.Put]) -> None:
    """Insert records. One call for all of them takes a third less time than one call for each."""
    changes = list(puts)
    rows = [_new_row(change) for change in changes]
    connection.executemany(_INSERT, rows)
    connection.executemany(ADD, [places_of(row) for row in rows])
    entries = [row for change in changes if change.entries for row in _entry_rows(change, change.entries)]
    if entries:
        connection.executemany(_INSERT_ENTRY, entries)


def _new_row(change: interface.Put) -> tuple[Any, ...]:
    record = change.record
    partition, key = record.partition, record.key
    numbers = (hash_number(partition), identity_number(partition, key))
    return (row_id(change.container, record.seq), change.container, *numbers, partition, key, *state_columns(record))


def _entry_rows(change: interface.Put, entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    rowid = row_id(change.container, change.record.seq)
    return [(change.container, entry.index, entry.key, rowid) for entry in entries]


def delete(connection: apsw.Connection, counters: Counters, change: interface.Delete) -> None:
    record = change.record
    rowid = row_id(change.container, record.seq)
    connection.execute("DELETE FROM record WHERE id = ?", (rowid,))
    remove_places(connection, change.container, record.seq, record.partition, record.key)
    connection.execute("DELETE FROM entry WHERE record = ?", (rowid,))
    if change.expiry is not None:
        _write_event(connection, change.expiry)


def _write_event(connection: apsw.Connection, event: Expiry) -> None:
    connection.execute(
        f"{_EVENT} VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            event.container,
            event.partition,
            event.key,
            event.version,
            event.lsn,
            clamp(event.anchor),
            event.override,
            event.cause,
            event.rule_version,
            clamp(event.deadline),
            event.purged,
            event.how,
        ),
    )


def purge(connection: apsw.Connection, counters: Counters, change: interface.Purge) -> interface.Purged:
    """All in SQL: no row passes through Python, so that other threads run meanwhile."""
    connection.execute(*_choose_records(change))
    span = change.span if change.span is None else clamp(change.span)
    floor = _floor(change)
    chosen = connection.changes()
    connection.execute(
        f"{_EVENT} SELECT ?8, partition, key, lsn, ?1 + n, anchor, override, ?2, ?3,"
        f" max(anchor + coalesce(?4, override * {SECOND}), ?5), ?6, ?7 FROM temp.chosen ORDER BY n",
        (
            counters.lsn(change.container),
            change.cause,
            change.rule_version,
            span,
            floor,
            change.purged,
            change.how,
            change.container,
        ),
    )
    if change.history:
        add_expired_versions(connection, change, counters.lsn(change.container))
    counters.advance(change.container, chosen)
    return _remove_chosen(connection)


def _floor(way: interface.Purge | interface.CompetingRule) -> Instant:
    return -(1 << 63) if way.not_before is None else clamp(way.not_before)


def _choose_records(change: interface.Purge) -> tuple[str, tuple[Any, ...]]:
    """The statement that notes the records to remove, with the anchors of their lives, in `chosen`; and its arguments."""
    if isinstance(change.path, int):
        value, order = DATE.format("entry.key"), "entry.key, entry.record"
        chosen = (
            f"SELECT {value}, {_CHOSEN} FROM main.entry CROSS JOIN main.record ON record.id = entry.record"
            " WHERE entry.container = ? AND entry.number = ? AND entry.key <= ?"
        )
        bindings: list[Any] = [change.container, change.path, instant_key(change.upto)]
    else:
        index, value, condition = PATHS[change.path]
        order = f"{value}, id"
        chosen = (
            f"SELECT anchor, {_CHOSEN} FROM main.record INDEXED BY {index}"
            f" WHERE container = ? AND {condition} AND {value} <= ?"
        )
        bindings = [change.container, fit(change.upto)]
    for rule in change.competing:
        other, named = _path_value(rule.path)
        sooner = "<=" if rule.wins_tie else "<"
        # max is NULL where the record is not on the other path: then that rule does not compete.
        chosen += f" AND NOT coalesce(max({other} + ?, ?) {sooner} max({value} + ?, ?), 0)"
        bindings += [*named, clamp(rule.span or 0), _floor(rule), clamp(change.span or 0), _floor(change)]
    others, spared = spared_condition(change.spared)
    chosen += others
    bindings += spared
    chosen += f" ORDER BY {order} LIMIT ?"
    columns = "anchor, id, size, partition, key, lsn, override"
    return f"INSERT INTO temp.chosen({columns}) {chosen}", (*bindings, change.limit)


def _path_value(path: Path) -> tuple[str, tuple[int, ...]]:
    """An expression for the value of `record` on a path, NULL if it is not on the path; and its arguments."""
    if isinstance(path, int):
        value = DATE.format("other.key")
        return f"(SELECT {value} FROM main.entry AS other WHERE other.record = record.id AND other.number = ?)", (path,)
    _, value, condition = PATHS[path]
    return f"iif({condition}, {value}, NULL)", ()


def clear(connection: apsw.Connection, counters: Counters, change: interface.ClearDropped) -> interface.Purged:
    bounds = (row_id(change.container, 0), row_id(change.container, SEQ_MASK))
    connection.execute(
        "INSERT INTO temp.chosen(id, size) SELECT id, length(value) FROM main.record NOT INDEXED"
        " WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
        (*bounds, change.limit),
    )
    purged = _remove_chosen(connection)
    if not purged.records and change.history:
        purged = clear_history(connection, change.container, change.limit)
    connection.execute(
        "DELETE FROM dropped WHERE container = ?1"
        " AND NOT EXISTS (SELECT 1 FROM record NOT INDEXED WHERE id > ?2 AND id <= ?3)"
        " AND NOT EXISTS (SELECT 1 FROM history WHERE container = ?1)",
        (change.container, *bounds),
    )
    return purged


def remove_range(connection: apsw.Connection, container: int, first: int, end: int) -> interface.Purged:
    """Remove the records of a container with first <= lsn < end, without events."""
    connection.execute(
        "INSERT INTO temp.chosen(id, size) SELECT id, length(value) FROM main.record INDEXED BY record_lsn"
        " WHERE container = ? AND lsn >= ? AND lsn < ?",
        (container, first, end),
    )
    return _remove_chosen(connection)


def _remove_chosen(connection: apsw.Connection) -> interface.Purged:
    """Remove the records that are noted in `chosen`, and forget the note."""
    bounds = "SELECT count(*), coalesce(sum(size), 0), coalesce(min(id), 0), coalesce(max(id), 0) FROM temp.chosen"
    ((number, size, first, last),) = connection.execute(bounds)
    if number:
        leave_places(connection, number, first, last)
        # A range without a subquery is removed in one walk; else SQLite lists the rows and then seeks each.
        run = is_run(number, first, last)
        ids, named = ("BETWEEN ? AND ?", (first, last)) if run else ("IN (SELECT id FROM temp.chosen)", ())
        connection.execute(f"DELETE FROM main.entry WHERE record {ids}", named)
        connection.execute(f"DELETE FROM main.record NOT INDEXED WHERE id {ids}", named)
        if connection.changes() != number:
            # A row that an index names and the table has not stays due: every sweep would choose it again, for ever.
            raise apsw.CorruptError("records that are due are not there")
        connection.execute("DELETE FROM temp.chosen")
    return interface.Purged(number, size)


def replace_entries(connection: apsw.Connection, counters: Counters, change: interface.ReplaceEntries) -> None:
    ids = [row_id(change.container, record.seq) for record, _ in change.entries]
    connection.executemany(
        "DELETE FROM entry WHERE record = ? AND number = ?", [(rowid, change.index) for rowid in ids]
    )
    connection.executemany(
        _INSERT_ENTRY,
        [
            (change.container, change.index, key, id)
            for id, (_, keys) in zip(ids, change.entries, strict=True)
            for key in keys
        ],
    )


def remove_entries(
    connection: apsw.Connection, counters: Counters, change: interface.RemoveEntries
) -> interface.Purged:
    connection.execute(
        "DELETE FROM entry WHERE (container, number, key, record) IN"
        " (SELECT container, number, key, record FROM entry WHERE container = ? AND number = ? LIMIT ?)",
        (change.container, change.index, change.limit),
    )
    return interface.Purged(connection.changes(), 0)


def set_number(connection: apsw.Connection, counters: Counters, change: interface.SetNumber) -> None:
    connection.execute(
        "INSERT INTO setting(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE"
        " SET value = iif(?3, max(value, excluded.value), excluded.value)",
        (change.name, change.value, change.rising),
    )


def trim(connection: apsw.Connection, counters: Counters, change: interface.TrimEvents) -> None:
    connection.execute(
        "DELETE FROM expiry WHERE id IN (SELECT id FROM expiry WHERE id <= ? ORDER BY id LIMIT ?)",
        (change.upto, change.limit),
    )


APPLY: dict[type, Callable[[apsw.Connection, Counters, Any], interface.Purged | None]] = {
    interface.Put: put,
    interface.Delete: delete,
    interface.Purge: purge,
    interface.AddVersion: add_version,
    interface.TrimHistory: trim_history,
    interface.ClearDropped: clear,
    interface.ReplaceEntries: replace_entries,
    interface.RemoveEntries: remove_entries,
    interface.SetNumber: set_number,
    interface.TrimEvents: trim,
}
