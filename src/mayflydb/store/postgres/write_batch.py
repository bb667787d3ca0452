"""The changes of single records in a write transaction, gathered and written by one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mayflydb.model.record import Entry, Expiry, Record
from mayflydb.store import interface
from mayflydb.store.postgres import citus, history
from mayflydb.store.postgres.reads import Connection, entry_columns
from mayflydb.store.postgres.statement import Statement
from mayflydb.store.rows import clamp, hash_number, identity_number, state_columns

_STATE = "written, anchor, override, lsn, exact_anchor, checksum, value"
_STATE_TYPES = "bigint[], {5}::bigint[], {6}::bigint[], {7}::bigint[], {8}::text[], {9}::bigint[], {10}::bytea[]"
_PLACES = "{0}::bigint[], {1}::bigint[], {2}::bigint[]"
# `read` is the lsn under which the record was read. Under the lock of the container it cannot have changed, except on Citus,
# where a worker may commit late: then fewer rows change than expected, and the group is run again.
_SAME = "r.container = n.container AND r.hash = n.hash AND r.seq = n.seq AND (n.read IS NULL OR r.lsn = n.read)"
_ROUTE = " AND r.hash = ANY({1}::bigint[])"
"""The condition that tells Citus which workers hold the records."""

_INSERT = (
    f"INSERT INTO mayfly.record(container, hash, seq, identity, partition, key, {_STATE})"
    f" SELECT * FROM unnest({_PLACES}, {{3}}::bigint[], {{4}}::bytea[], {{5}}::bytea[], {{6}}::bigint[], {{7}}::bigint[],"
    " {8}::bigint[], {9}::bigint[], {10}::text[], {11}::bigint[], {12}::bytea[]) WHERE true"
)
_UPDATE = (
    f"UPDATE mayfly.record r SET {', '.join(f'{name} = n.{name}' for name in _STATE.split(', '))}"
    f" FROM unnest({_PLACES}, {{3}}::bigint[], {{4}}::{_STATE_TYPES}) AS n(container, hash, seq, read, {_STATE}) WHERE {_SAME}"
)
_DELETE = f"DELETE FROM mayfly.record r USING unnest({_PLACES}, {{3}}::bigint[]) AS n(container, hash, seq, read) WHERE {_SAME}"
_UNLINK = (
    f"DELETE FROM mayfly.entry r USING unnest({_PLACES}) AS n(container, hash, seq)"
    " WHERE r.container = n.container AND r.hash = n.hash AND r.record = n.seq"
)
_LINK = (
    "INSERT INTO mayfly.entry(container, hash, record, number, digest, key)"
    f" SELECT * FROM unnest({_PLACES}, {{3}}::integer[], {{4}}::bigint[], {{5}}::bytea[]) WHERE true"
)
_NUMBER = "UPDATE mayfly.meta SET value = value + {0}::bigint WHERE name = 'events'"
EVENT = (
    "INSERT INTO mayfly.expiry(id, hash, container, partition, key, version, lsn, anchor, override, cause, rule_version,"
    " deadline, purged, how)"
)
_ADD_EVENTS = (
    f"{EVENT} SELECT numbered.before + n.n, n.hash, container, partition, key, version, lsn, anchor, override, cause,"
    " rule_version, deadline, purged, how FROM numbered, unnest({0}::bigint[], {1}::bigint[], {2}::bigint[], {3}::bytea[],"
    " {4}::bytea[], {5}::bigint[], {6}::bigint[], {7}::bigint[], {8}::bigint[], {9}::text[], {10}::bigint[], {11}::bigint[],"
    " {12}::bigint[], {13}::text[]) AS n(n, hash, container, partition, key, version, lsn, anchor, override, cause,"
    " rule_version, deadline, purged, how) WHERE true"
)

Place = tuple[int, int, int]
"""A record's container, hash and seq."""


class WriteBatch:
    """The changes of single records since the last `flush`, and the events of those that expired."""

    def __init__(self, connection: Connection, distributed: bool) -> None:
        self._connection = connection
        self._distributed = distributed
        self._inserted: dict[Place, Record] = {}
        self._updated: dict[Place, Record] = {}
        self._deleted: dict[Place, None] = {}
        self._entries: dict[Place, tuple[Entry, ...]] = {}
        self._known: dict[tuple[int, bytes, bytes], Record | None] = {}
        self._read: dict[Place, int] = {}
        self._events: list[Expiry] = []
        self._history_rows: list[tuple[Any, ...]] = []

    def remember(self, requests: Sequence[interface.Get], found: Sequence[Record | None]) -> None:
        """Note records that were read under the lock of their containers."""
        for request, record in zip(requests, found, strict=True):
            self._known[request.container, request.partition, request.key] = record
            if record is not None:
                self._read[_place(request.container, record)] = record.lsn

    def note_read(self, container: int, records: Iterable[Record]) -> None:
        """Note the versions of records that were read under the lock of their container, while nothing is gathered."""
        self._read.update({_place(container, record): record.lsn for record in records})

    def get(self, request: interface.Get) -> Record | None:
        """The record as this transaction sees it; KeyError if it was neither read nor written."""
        return self._known[request.container, request.partition, request.key]

    def put(self, change: interface.Put) -> None:
        record = change.record
        place = _place(change.container, record)
        written = self._inserted if change.insert or place in self._inserted else self._updated
        written[place] = record
        if change.entries is not None:
            self._entries[place] = change.entries
        self._known[change.container, record.partition, record.key] = record

    def delete(self, change: interface.Delete) -> None:
        record = change.record
        place = _place(change.container, record)
        self._updated.pop(place, None)
        self._entries.pop(place, None)
        # A record that this transaction inserted is not in the table yet, so there is nothing to delete.
        if self._inserted.pop(place, None) is None:
            self._deleted[place] = None
        self._known[change.container, record.partition, record.key] = None
        if change.expiry is not None:
            self._events.append(change.expiry)

    def remember_version(self, change: interface.AddVersion) -> None:
        self._history_rows.append(history.row(change))

    @property
    def has_events(self) -> bool:
        """True if `flush` numbers expiry events."""
        return bool(self._events)

    async def flush(self, forget: bool = True, statement: Statement | None = None) -> None:
        """Write all that is gathered, together with the parts of `statement`.

        `forget`: drop what is known of records, because the next changes are made in SQL and not seen here.
        """
        statement = statement or Statement()
        if self._events and self._distributed:
            # Event ids ascend in the order of commits only if their allocation waits for unfinished commits on workers.
            await citus.lock(self._connection, [citus.EVENTS])
        self.add_to(statement)
        if statement:
            await statement.run(self._connection)
        self._settle(forget)

    def add_to(self, statement: Statement) -> None:
        """Add all that is gathered to a statement."""
        if self._deleted:
            places = _columns(self._deleted)
            statement.add("unlinked", _UNLINK, *places)
            self._add_guarded(
                statement, "deleted", _DELETE, _columns((*place, self._read.get(place)) for place in self._deleted)
            )
        if self._inserted:
            rows = (
                (*place, identity_number(r.partition, r.key), r.partition, r.key, *state_columns(r))
                for place, r in self._inserted.items()
            )
            statement.add("inserted", _INSERT, *_columns(rows))
        if self._updated:
            rows = ((*place, self._read.get(place), *state_columns(r)) for place, r in self._updated.items())
            self._add_guarded(statement, "updated", _UPDATE, _columns(rows))
        if self._entries:
            self._add_entries(statement)
        if self._events:
            statement.add("numbered", _NUMBER, len(self._events), returning="value - {0}::bigint AS before")
            statement.add("told", _ADD_EVENTS, *_columns(_event(n, event) for n, event in enumerate(self._events, 1)))
        if self._history_rows:
            statement.add("remembered", history.REMEMBER, *_columns(self._history_rows))

    def _add_guarded(self, statement: Statement, name: str, sql: str, columns: list[list[Any]]) -> None:
        route = _ROUTE if self._distributed else ""
        statement.add(name, f"{sql}{route}", *columns, expected=len(columns[0]))

    def _add_entries(self, statement: Statement) -> None:
        replaced = [place for place in self._entries if place not in self._inserted]
        if replaced:
            statement.add("replaced", _UNLINK, *_columns(replaced))
        owners = [place for place, entries in self._entries.items() for _ in entries]
        if owners:
            entries = [entry for entries in self._entries.values() for entry in entries]
            statement.add("linked", _LINK, *_columns(owners), *entry_columns(entries))

    def _settle(self, forget: bool) -> None:
        if forget:
            self._known.clear()
            self._read.clear()
        else:
            for written in (self._inserted, self._updated):
                self._read.update({place: record.lsn for place, record in written.items()})
        for gathered in (self._deleted, self._inserted, self._updated, self._entries):
            gathered.clear()
        self._events.clear()
        self._history_rows.clear()


def _place(container: int, record: Record) -> Place:
    return container, hash_number(record.partition), record.seq


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _event(n: int, e: Expiry) -> tuple[Any, ...]:
    dead = (n, hash_number(e.partition), e.container, e.partition, e.key, e.version, e.lsn, clamp(e.anchor), e.override)
    return (*dead, e.cause, e.rule_version, clamp(e.deadline), e.purged, e.how)
