"""Builds a new file from the readable data of a damaged one. The damaged file is never written.

A record is copied if its own checksum matches, even if that of its page does not. Indexes are rebuilt from the records. Entries
are stored in the table and in its index, in two orders, so the entries of a damaged page are read from the other order. Entries
of date slots are computed from the records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from mayflydb.model.due import date_key
from mayflydb.model.errors import Conflict, Unavailable
from mayflydb.model.record import Kind
from mayflydb.store.findings import Expected, Facts, Repaired, ReportProgress, Tally
from mayflydb.store.interface import CatalogRow
from mayflydb.store.rows import (
    EXPIRY_COLUMNS,
    HISTORY_COLUMNS,
    SEQ_BITS,
    SEQ_MASK,
    hash_number,
    identity_number,
    state_columns,
)
from mayflydb.store.sqlite.connection import check_library, open_file
from mayflydb.store.sqlite.directory import ADD, places_of
from mayflydb.store.sqlite.doctor.contents import RECORD, index_counts, is_version, lost_ids, read_record
from mayflydb.store.sqlite.doctor.examination import format_of
from mayflydb.store.sqlite.doctor.source import UNREADABLE, ReadOnlyFile, row_at, rows_by_id, rows_from_both_ends
from mayflydb.store.sqlite.page_checksums import VFS, load_checksums
from mayflydb.store.sqlite.schema import FORMAT, SEALING_FORMAT, TABLES
from mayflydb.store.sqlite.sealing import KEYS

BATCH = 5_000
"""Rows in one transaction."""

_RECORD = (
    "INSERT INTO record(id, container, hash, identity, partition, key, written, anchor, override, lsn, exact_anchor,"
    " checksum, value) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_ENTRY = "INSERT OR IGNORE INTO entry(container, number, key, record) VALUES(?,?,?,?)"
_UNTRUSTED = "{} are taken from a page that does not match its checksum: look at them before they are used"
_EVENT = EXPIRY_COLUMNS.removeprefix("id, ")


def repair(path: Path, to: Path, expected: Expected, report: ReportProgress) -> Repaired:
    """Write the readable data of a file to a new one. Conflict if that exists; Unavailable; OSError."""
    check_library()
    unfinished = to.with_name(f"{to.name}.unfinished")
    if to.exists():
        raise Conflict(f"{to} exists; a repair makes a new file")
    for end in ("", "-wal", "-shm"):
        Path(f"{unfinished}{end}").unlink(missing_ok=True)
    source = ReadOnlyFile(path)
    try:
        version = format_of(source)
        # SQLite would create it with the rights of the umask. It gives the log the mode of the file.
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = _Copy(source, unfinished, expected, report)
        try:
            keys = copy.copy_segments() if version >= SEALING_FORMAT else None
            repaired = copy.make(to)
        finally:
            copy.close()
    finally:
        source.close()
    if keys is not None:
        _copy_keys(Path(f"{path}-keys"), Path(f"{to}-keys"))
    unfinished.rename(to)
    return repaired


def _copy_keys(keys: Path, to: Path) -> None:
    """Copy the file of keys, if it lies beside the damaged file: the new file needs the same keys."""
    if keys.exists():
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor, made with its mode.
            file.write(keys.read_bytes())
            file.flush()
            os.fsync(descriptor)


class _Copy:
    """The new file, and a tally of the data that was left out."""

    def __init__(self, source: ReadOnlyFile, path: Path, expected: Expected, report: ReportProgress) -> None:
        self._old = source.connect(verified=False)
        # Some rows have no checksum. They count as trusted if they can be read over this connection, from a verified page.
        self._strict = source.connect(verified=True)
        self._new = open_file(str(path), VFS if load_checksums() else None)
        with self._new:
            for statement in TABLES.split(";\n"):
                self._new.execute(statement)
        self._expected = expected
        self._report = report
        self._tally = Tally()
        self._rows: dict[int, CatalogRow] = {}
        self._facts: dict[int, Facts] = {}
        self._highest: dict[int, tuple[int, int]] = {}
        self._counts = {"records": 0, "entries": 0, "events": 0, "versions": 0}

    def close(self) -> None:
        self._old.close()
        self._strict.close()
        self._new.close()

    def copy_segments(self) -> int | None:
        """Copy the segments of sealed records, and the id of their keys; None: there are none.

        Unavailable if they cannot be read: sealed values would be taken for plain ones.
        """
        meta = dict(rows_from_both_ends(self._old, "SELECT name, value FROM meta", "name"))
        keys = meta.get(KEYS)
        if keys is None and "commit_seq" in meta:
            return None
        try:
            rows = self._strict.execute("SELECT * FROM sealing").fetchall()
        except UNREADABLE as error:
            raise Unavailable(f"the segments of sealed records cannot be read: {error}") from error
        if keys is None and rows:
            raise Unavailable("the id of the keys of sealed records cannot be read")
        if keys is not None:
            with self._new:
                self._new.executemany("INSERT INTO sealing VALUES(?,?,?,?,?,?,?)", rows)
                self._new.execute("INSERT INTO meta(name, value) VALUES(?, ?)", (KEYS, keys))
        return keys

    def make(self, to: Path) -> Repaired:
        """Fill the new file."""
        self._copy_catalogue()
        self._copy_records()
        self._copy_entries()
        self._copy_events()
        self._copy_histories()
        self._finish()
        self._new.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return Repaired(str(to), **self._counts, left_out=self._tally.findings())

    def _copy_catalogue(self) -> None:
        columns = "parent, name, data, lsn, seq"
        trusted = {id for id, row in rows_by_id(self._strict, "catalog", columns) if row is not None}
        for id, row in rows_by_id(self._old, "catalog", columns):
            if id not in trusted:
                self._tally.add("catalogue", _UNTRUSTED.format("catalogue rows"), f"row {id}", "none")
            try:
                assert row is not None
                self._facts[id] = self._expected.facts_of(CatalogRow(id, *row))
            except Exception as error:  # noqa: BLE001 - whatever a decoder says of damaged bytes
                self._tally.add(
                    "catalogue", "catalogue rows, with all that is below them", f"row {id}: {error}", "lost"
                )
                continue
            self._rows[id] = CatalogRow(id, *row)
        with self._new:
            rows = [(row.id, row.parent, row.name, row.data, row.lsn, row.seq) for row in self._rows.values()]
            self._new.executemany("INSERT INTO catalog(id, parent, name, data, lsn, seq) VALUES(?,?,?,?,?,?)", rows)
            self._copy_settings()

    def _copy_settings(self) -> None:
        statement = "SELECT name, value FROM setting"
        trusted = dict(rows_from_both_ends(self._strict, statement, "name"))
        for name, value in rows_from_both_ends(self._old, statement, "name"):
            if name not in trusted and isinstance(value, int):
                self._tally.add("counter", _UNTRUSTED.format("named numbers"), f"{name} = {value}", "none")
                trusted[name] = value
        self._new.executemany("INSERT INTO setting(name, value) VALUES(?,?)", list(trusted.items()))

    def _copy_records(self) -> None:
        found = rows_by_id(self._old, "record", RECORD)
        taken = (row for id, record in found if (row := self._record_row(id, record)) is not None)
        for batch in _batches(taken):
            self._add_records(batch)
            self._report("records", self._counts["records"], 0)
        self._copy_hidden_records()
        self._name_lost_records()

    def _copy_hidden_records(self) -> None:
        """Copy the records that only an index still names, one by one."""
        for id in self._missing():
            taken = self._record_row(id, row_at(self._old, "record", RECORD, id))
            if taken is not None:
                self._add_records([taken])

    def _add_records(self, rows: list[tuple[Any, ...]]) -> None:
        with self._new:
            self._new.executemany(_RECORD, rows)
            self._new.executemany(ADD, [places_of(row) for row in rows])
        self._counts["records"] += len(rows)

    def _missing(self) -> list[int]:
        """The ids that an index of the old file names and the new file lacks. There are few, unless damage is everywhere."""
        if index_counts(self._old) == {self._counts["records"]}:
            return []
        known = self._new.execute
        missing = {id for id in lost_ids(self._old) if known("SELECT 1 FROM record WHERE id = ?", (id,)).get is None}
        return sorted(missing)

    def _is_whole(self, table: str) -> bool:
        try:
            self._old.execute(f"SELECT count(*) FROM {table} NOT INDEXED").fetchall()
        except apsw.Error:
            return False
        return True

    def _record_row(self, id: int, row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """The row of a record for the new file; None if it is left out. Its numbers for lookups are computed anew."""
        record = None if row is None else read_record(id, row)
        container = id >> SEQ_BITS
        if record is None or container not in self._rows:
            return None
        lsn, seq = self._highest.get(container, (0, 0))
        self._highest[container] = max(lsn, record.lsn), max(seq, record.seq)
        numbers = hash_number(record.partition), identity_number(record.partition, record.key)
        return (id, container, *numbers, record.partition, record.key, *state_columns(record))

    def _name_lost_records(self) -> None:
        missing = self._missing()
        if not missing and not self._is_whole("record"):
            self._tally.add("record", "records in pages that cannot be read: no index says how many", mending="lost")
        for id in missing:
            row = self._rows.get(id >> SEQ_BITS)
            name = (
                f"container {id >> SEQ_BITS}, whose catalogue row is lost"
                if row is None
                else f"container {row.name!r} ({row.id})"
            )
            self._tally.add("record", f"records of {name}", f"record {id & SEQ_MASK}", "lost")

    def _copy_entries(self) -> None:
        for order in ("container, number, key, record", "record, container, number, key"):
            way = "NOT INDEXED" if order.startswith("container") else "INDEXED BY entry_record"
            statement = f"SELECT container, number, key, record FROM entry {way}"
            for batch in _batches(rows_from_both_ends(self._old, statement, order)):
                with self._new:
                    self._new.executemany(_ENTRY, (row for row in batch if self._is_entry(row)))
                self._report("entries", self._new.total_changes(), 0)
        for id, row in rows_by_id(self._new, "record", RECORD):
            record = None if row is None else read_record(id, row)
            if record is not None and record.dates:
                slots = self._facts[id >> SEQ_BITS].slots
                dates = [(id >> SEQ_BITS, slot, date_key(date), id) for slot, date in record.dates if slot in slots]
                with self._new:
                    self._new.executemany(_ENTRY, dates)
        self._counts["entries"] = int(self._new.execute("SELECT count(*) FROM entry").get)

    def _is_entry(self, row: tuple[Any, ...]) -> bool:
        """Return True if an entry names a record of its container. False for date slots, whose entries come from the records."""
        container, number, key, record = row
        if not isinstance(key, bytes) or not isinstance(record, int) or record >> SEQ_BITS != container:
            return False
        if container not in self._facts or number in self._facts[container].slots:
            return False
        return self._new.execute("SELECT 1 FROM record WHERE id = ?", (record,)).get is not None

    def _copy_events(self) -> None:
        statement = (
            f"INSERT OR IGNORE INTO expiry({EXPIRY_COLUMNS}) SELECT ?1, {', '.join(f'?{n}' for n in range(2, 14))}"
            " WHERE NOT EXISTS (SELECT 1 FROM record WHERE container = ?2 AND lsn = ?5 AND partition = ?3 AND key = ?4)"
        )
        for batch in _batches(rows_by_id(self._old, "expiry", _EVENT)):
            readable = [(id, *row) for id, row in batch if row is not None]
            if len(readable) < len(batch):
                self._tally.add("event", "expiry events", mending="lost", count=len(batch) - len(readable))
            with self._new:
                self._new.executemany(statement, readable)
        self._counts["events"] = int(self._new.execute("SELECT count(*) FROM expiry").get)

    def _copy_histories(self) -> None:
        names = f"id, container, {HISTORY_COLUMNS}"
        statement = (
            f"INSERT OR IGNORE INTO history({names}) VALUES({', '.join('?' * (2 + len(HISTORY_COLUMNS.split(', '))))})"
        )
        broken = False
        for batch in _batches(rows_by_id(self._old, "history", f"container, {HISTORY_COLUMNS}")):
            whole = [(id, *row) for id, row in batch if row is not None and is_version(row[1:])]
            if len(whole) < len(batch):
                self._tally.add("history", "versions", mending="lost", count=len(batch) - len(whole))
                broken = True
            with self._new:
                self._new.executemany(statement, [row for row in whole if row[1] in self._rows])
        if broken:
            self._close_histories()
        self._counts["versions"] = int(self._new.execute("SELECT count(*) FROM history").get)

    def _close_histories(self) -> None:
        """Replace each history by a GAP, so that its readers get an error."""
        with self._new:
            containers = [id for (id,) in self._new.execute("SELECT DISTINCT container FROM history")]
            self._new.execute("DELETE FROM history")
            for container in containers:
                gap = (container, self._rows[container].lsn, Kind.GAP.value)
                self._new.execute(
                    "INSERT INTO history(container, lsn, kind, written, partition, key, seq, previous, value)"
                    " VALUES(?, ?, ?, 0, x'', x'', 0, 0, x'')",
                    gap,
                )
        self._tally.add("history", "histories, which begin anew with a gap", mending="lost", count=len(containers))

    def _finish(self) -> None:
        """Write the format, and counters that are not behind the copied data."""
        meta = {"next_id": 0, "commit_seq": 0}
        for name, value in rows_from_both_ends(self._old, "SELECT name, value FROM meta", "name"):
            if name in meta and isinstance(value, int):
                meta[name] = value
        meta["next_id"] = max(meta["next_id"], *self._rows, 0)
        meta["page_checksums"] = int(load_checksums())
        with self._new:
            self._new.executemany("INSERT INTO meta(name, value) VALUES(?,?)", list(meta.items()))
            for container, (lsn, seq) in self._highest.items():
                self._new.execute(
                    "UPDATE catalog SET lsn = max(lsn, ?), seq = max(seq, ?) WHERE id = ?", (lsn, seq, container)
                )
            self._new.pragma("user_version", FORMAT)


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
