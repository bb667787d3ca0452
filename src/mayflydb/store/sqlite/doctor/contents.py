"""Checks of the contents of tables: records, their entries, expiry events, histories, counters, the clock, the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import apsw

from mayflydb.model.due import date_key
from mayflydb.model.errors import Corrupt
from mayflydb.model.instant import DAY, SECOND, to_rfc3339
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.model.record import Record
from mayflydb.store.findings import Expected, Facts, ReportProgress, Tally
from mayflydb.store.interface import CatalogRow
from mayflydb.store.rows import (
    HISTORY_COLUMNS,
    SEQ_BITS,
    SEQ_MASK,
    hash_number,
    identity_number,
    record_of,
    version_of,
)
from mayflydb.store.sqlite.doctor.source import rows_by_id
from mayflydb.store.sqlite.schema import COLUMNS, HASH, IDENTITY

RECORD = f"{COLUMNS.replace('id, ', '')}, container, hash, identity"
"""The columns of a record beside its id."""

_STEP = 20_000
"""Rows between two reports of progress."""


class Contents:
    """The checks over one connection, and their counts."""

    def __init__(self, connection: apsw.Connection, expected: Expected, tally: Tally, report: ReportProgress) -> None:
        self._connection = connection
        self._expected = expected
        self._tally = tally
        self._report = report
        self.rows: dict[int, CatalogRow] = {}
        self.facts: dict[int, Facts] = {}
        self.records = self.entries = self.events = self.versions = 0

    def check(self) -> None:
        """Run all checks. A check that cannot be completed is a finding, and the others go on."""
        for check in (
            self._check_catalogue,
            self._check_records,
            self._check_directory,
            self._check_entries,
            self._check_unique,
            self._check_events,
            self._check_history,
            self._check_counters,
            self._check_clock,
        ):
            try:
                check()
            except (apsw.Error, TypeError, ValueError, OverflowError) as error:
                # A damaged page may hold a value of another type in the place of a number.
                self._tally.add("structure", f"{_words(check.__name__)} cannot be checked to the end", str(error))

    def describe(self, container: int, seq: int = 0) -> str:
        """Name a container, or a record in it, for a person."""
        row = self.rows.get(container)
        name = f"container {container}" if row is None else f"container {row.name!r} ({container})"
        return f"{name}, record {seq}" if seq else name

    def _check_catalogue(self) -> None:
        for id, row in rows_by_id(self._connection, "catalog", "parent, name, data, lsn, seq"):
            if row is None:
                self._tally.add("catalogue", "catalogue rows cannot be read", f"row {id}", "lost")
                continue
            self.rows[id] = CatalogRow(id, *row)
            try:
                self.facts[id] = self._expected.facts_of(self.rows[id])
            except Exception as error:  # noqa: BLE001 - whatever a decoder says of damaged bytes
                self._tally.add(
                    "catalogue", "catalogue rows cannot be decoded", f"{self.describe(id)}: {error}", "none"
                )
        for id, entry in self.rows.items():
            if entry.parent and entry.parent not in self.rows:
                self._tally.add(
                    "catalogue", "catalogue rows are below a row that is not there", self.describe(id), "none"
                )

    def _check_records(self) -> None:
        total = max((number for number in index_counts(self._connection) if number is not None), default=0)
        dropped = {id for (id,) in self._connection.execute("SELECT container FROM dropped")}
        last = 0
        for id, row in rows_by_id(self._connection, "record", RECORD):
            record = None if row is None else read_record(id, row)
            if record is None or row is None:
                self._tally.add("record", "records do not match their checksums", self._describe_record(id), "lost")
                continue
            self.records += 1
            if not self.records % _STEP:
                self._report("records", self.records, total)
            if row[-2:] != (hash_number(record.partition), identity_number(record.partition, record.key)):
                self._tally.add("record", "records have wrong numbers for their lookup", self._describe_record(id))
            container = id >> SEQ_BITS
            if container != last and container not in self.rows and container not in dropped:
                self._tally.add(
                    "catalogue", "containers have records and no catalogue row", self.describe(container), "lost"
                )
            last = container
            if record.dates:
                self._check_dates(container, id, record)
        lost = total - self.records
        if lost > 0:
            # The tree no longer leads to these records: only indexes name them.
            self._tally.add("record", "records are named by an index and cannot be read", mending="lost", count=lost)
        self._report("records", self.records, total)

    def _check_directory(self) -> None:
        if not has_directory(self._connection):
            return
        for id, identity, hash in self._connection.execute(PLACES_MISSING):
            kinds = " and ".join(name for name, found in (("identity", identity), ("partition", hash)) if not found)
            text = "records cannot be found by their lookups: the directory lacks them"
            self._tally.add("structure", text, f"{self._describe_record(id)}, by its {kinds}")
        for (id,) in self._connection.execute(PLACES_WRONG):
            text = "places in the directory name a record that is not there, or has another number"
            self._tally.add("structure", text, self._describe_record(id))
        for (id,) in self._connection.execute(PURGED_LIVING):
            self._tally.add("structure", "records are there and noted as purged", self._describe_record(id))

    def _check_dates(self, container: int, id: int, record: Record) -> None:
        slots = self.facts.get(container, Facts()).slots
        statement = "SELECT count(*) FROM entry WHERE container = ? AND number = ? AND key = ? AND record = ?"
        for slot, date in record.dates:
            if slot in slots and self._number(statement, container, slot, date_key(date), id) != 1:
                self._tally.add("entry", "dates of records have no entry", self._describe_record(id))

    def _check_entries(self) -> None:
        self.entries = self._number("SELECT count(*) FROM entry INDEXED BY entry_record")
        orphans = (
            "SELECT entry.record, entry.number FROM entry"
            " WHERE NOT EXISTS (SELECT 1 FROM record NOT INDEXED WHERE record.id = entry.record)"
        )
        for record, number in self._connection.execute(orphans):
            self._tally.add(
                "entry", "entries name a record that is not there", f"{self._describe_record(record)}, index {number}"
            )
        moved = "SELECT record, container FROM entry INDEXED BY entry_record WHERE record >> ? <> container"
        for record, container in self._connection.execute(moved, (SEQ_BITS,)):
            self._tally.add(
                "entry", "entries name a record of another container", f"{container}: {self._describe_record(record)}"
            )
        for container, facts in self.facts.items():
            for slot in facts.slots:
                self._check_slot(container, slot)

    def _check_slot(self, container: int, slot: int) -> None:
        statement = (
            f"SELECT entry.key, record.id, {', '.join(f'record.{column}' for column in RECORD.split(', '))}"
            " FROM entry CROSS JOIN record ON record.id = entry.record WHERE entry.container = ? AND entry.number = ?"
        )
        for key, id, *row in self._connection.execute(statement, (container, slot)):
            record = read_record(id, tuple(row))
            if record is not None and key not in [date_key(date) for own, date in record.dates if own == slot]:
                self._tally.add("entry", "entries have a date that their record has not", self._describe_record(id))

    def _check_unique(self) -> None:
        for container, facts in self.facts.items():
            for number in chain(range(FIRST_ORDERED), sorted(facts.unique)):
                statement = (
                    "SELECT count(*), min(record) FROM entry WHERE container = ? AND number = ?"
                    " GROUP BY key HAVING count(DISTINCT record) > 1"
                )
                for _, record in self._connection.execute(statement, (container, number)):
                    self._tally.add(
                        "unique", "unique values have several records", self._describe_record(record), "none"
                    )

    def _check_events(self) -> None:
        self._report("events", 0, 1)
        self.events = self._number("SELECT count(*) FROM expiry")
        living = (
            "SELECT expiry.id, record.id FROM expiry CROSS JOIN record INDEXED BY record_lsn"
            " ON record.container = expiry.container AND record.lsn = expiry.version"
            " WHERE record.partition = expiry.partition AND record.key = expiry.key"
        )
        for event, record in self._connection.execute(living):
            self._tally.add(
                "event", "expiry events are of records that live", f"event {event}: {self._describe_record(record)}"
            )
        doubled = "SELECT count(*), container, version FROM expiry NOT INDEXED GROUP BY container, version HAVING count(*) > 1"
        for number, container, version in self._connection.execute(doubled):
            self._tally.add(
                "event", "deaths have several events", f"{self.describe(container)}, lsn {version}", count=number - 1
            )
        self._report("events", 1, 1)

    def _check_history(self) -> None:
        for id, row in rows_by_id(self._connection, "history", HISTORY_COLUMNS):
            if row is None or not is_version(row):
                self._tally.add("history", "versions do not match their checksums", f"version {id}", "lost")
            else:
                self.versions += 1

    def _check_counters(self) -> None:
        next_id = self._number("SELECT value FROM meta WHERE name = 'next_id'")
        if next_id < max(self.rows, default=0):
            self._tally.add("counter", "the counter of ids is behind the largest id", f"{next_id} < {max(self.rows)}")
        for id, row in self.rows.items():
            highest = self._number(
                "SELECT coalesce(max(lsn), 0) FROM record INDEXED BY record_lsn WHERE container = ?", id
            )
            seq = self._number("SELECT coalesce(max(id), 0) FROM record NOT INDEXED WHERE id >> ? = ? AND id >= ? AND id < ?",
                               SEQ_BITS, id, id << SEQ_BITS, (id + 1) << SEQ_BITS) & SEQ_MASK  # fmt: skip
            if row.lsn < highest or row.seq < seq:
                self._tally.add("counter", "counters of containers are behind their records", self.describe(id))

    def _check_clock(self) -> None:
        mark = None
        for (value,) in self._connection.execute("SELECT value FROM setting WHERE name = ?", (self._expected.mark,)):
            mark = int(value)
        if mark is None:
            if self.records:
                self._tally.add("clock", "the clock's mark is missing: no server has used this file", mending="note")
            return
        if mark > self._expected.wall + DAY:
            text = (
                "the clock's mark is more than a day ahead of this host: a virtual clock was used, or a clock was wrong"
            )
            self._tally.add("clock", text, to_rfc3339(mark), "note")
        latest = self._number("SELECT coalesce(max(purged), ?) FROM expiry", mark)
        if latest > mark + SECOND:
            self._tally.add("clock", "expiry events are later than the clock's mark", to_rfc3339(latest), "none")

    def _number(self, statement: str, *bindings: Any) -> int:
        return int(self._connection.execute(statement, bindings).get)

    def _describe_record(self, id: object) -> str:
        # A damaged entry may hold a value of another type in the place of a number.
        if not isinstance(id, int):
            return f"record {id!r}"
        return self.describe(id >> SEQ_BITS, id & SEQ_MASK)


def read_record(id: int, row: tuple[Any, ...]) -> Record | None:
    """Build a record from a row of RECORD; None if its checksum does not match, or its id belongs to another container."""
    partition, key, value, written, anchor, override, lsn, exact, stored, container, *_ = row
    if container != id >> SEQ_BITS:
        return None
    try:
        return record_of((partition, key, value, written, anchor, override, lsn, id, exact, stored))
    except (Corrupt, TypeError, ValueError, OverflowError, AttributeError):
        return None
    except Exception as error:
        if type(error).__name__ == "error":  # struct.error: a number that is a text now, and the like
            return None
        raise


def is_version(row: tuple[Any, ...]) -> bool:
    """Return True if the checksum of a row of HISTORY_COLUMNS matches."""
    try:
        version_of(row)
    except (Corrupt, TypeError, ValueError):
        return False
    return True


def _words(name: str) -> str:
    return name.removeprefix("_check_")


_IS_PURGED = "coalesce((SELECT last FROM purged WHERE first <= {0} ORDER BY first DESC LIMIT 1), -1) >= {0}"
"""True for the id of a purged record that still has places in the directory."""

_HAS_PLACE = (
    "EXISTS (SELECT 1 FROM directory WHERE container = record.container AND kind = {} AND number = record.{}"
    " AND record = record.id)"
)
# Contradictions between the directory and the records.
PLACES_MISSING = (
    f"SELECT id, identified, hashed FROM (SELECT id, {_HAS_PLACE.format(IDENTITY, 'identity')} AS identified,"
    f" {_HAS_PLACE.format(HASH, 'hash')} AS hashed FROM record NOT INDEXED) WHERE NOT (identified AND hashed)"
)
PLACES_WRONG = (
    "SELECT directory.record FROM directory LEFT JOIN record NOT INDEXED ON record.id = directory.record"
    f" WHERE CASE WHEN record.id IS NULL THEN NOT {_IS_PURGED.format('directory.record')}"
    f" ELSE number <> CASE kind WHEN {IDENTITY} THEN record.identity WHEN {HASH} THEN record.hash END"
    " OR directory.container <> record.container END"
)
PURGED_LIVING = (
    "SELECT record.id FROM purged CROSS JOIN record NOT INDEXED ON record.id BETWEEN purged.first AND purged.last"
)
_NAMED = {"record_lsn": "FROM record INDEXED BY record_lsn WHERE container > 0"}
_NAMED_BEFORE_5 = {
    name: f"FROM record INDEXED BY {name} WHERE container > 0" for name in ("record_identity", "record_hash")
}
_NAMED_SINCE_5 = {
    str(kind): f"FROM (SELECT record AS id, kind FROM directory WHERE container > 0) WHERE kind = {kind}"
    f" AND NOT {_IS_PURGED.format('id')}"
    for kind in (IDENTITY, HASH)
}


def has_directory(connection: apsw.Connection) -> bool:
    """Return True if a file has the directory, which format 5 brought."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'directory'").get is not None


def _sources(connection: apsw.Connection) -> list[str]:
    """The indexes that name every record, and the directory."""
    other = _NAMED_SINCE_5 if has_directory(connection) else _NAMED_BEFORE_5
    return [*other.values(), *_NAMED.values()]


def index_counts(connection: apsw.Connection) -> set[int | None]:
    """Return the numbers of records that the indexes name, and None for an unreadable one: one number if all is well."""
    found: set[int | None] = set()
    for source in _sources(connection):
        try:
            found.add(int(connection.execute(f"SELECT count(*) {source}").get))
        except apsw.Error:
            found.add(None)
    return found


def lost_ids(connection: apsw.Connection) -> Iterator[int]:
    """Yield the ids of records that an index names; an id may come several times."""
    for source in _sources(connection):
        try:
            for (id,) in connection.execute(f"SELECT id {source}"):
                if isinstance(id, int):
                    yield id
        except apsw.Error:
            continue
