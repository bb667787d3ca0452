"""One write transaction: runs decisions one after the other on the writer's connection and applies what they come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from mayflydb.model.record import Record
from mayflydb.store import interface as ask
from mayflydb.store.sqlite.catalog import Catalog
from mayflydb.store.sqlite.changes import APPLY
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.reads import ANSWERS
from mayflydb.store.sqlite.recent import Recent
from mayflydb.store.sqlite.schema import DOOMED

T = TypeVar("T")


class Transaction:
    """The writer's view of its database. `begin`, any number of `run`, then `prepare` + COMMIT + `committed`, or `rollback`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.catalog = Catalog.load(connection)
        self._counters = counters = Counters(self.catalog)
        self._own_answers: dict[type, Callable[[Any], Any]] = {
            ask.Load: lambda request: counters.shown(self.catalog.row_now(request.id)),
            ask.Find: lambda request: counters.shown(self.catalog.find_now(request.parent, request.name)),
            ask.Children: lambda request: [counters.shown(row) for row in self.catalog.children_now(request.parent)],
            ask.Allocate: lambda request: counters.allocate(request.container, request.seq),
            ask.NewId: self._new_id,
            ask.Get: self._get,
        }
        self.recent = Recent()
        self._written: dict[tuple[int, bytes, bytes], Record | None] = {}
        self._swept: set[int] = set()
        self._emptied = False
        connection.execute(DOOMED)
        self._next_id = self._meta("next_id")
        self.commit_seq = self._meta("commit_seq")

    def _meta(self, name: str) -> int:
        value = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
        if value is None:
            raise apsw.CorruptError(f"{name} is gone")
        return int(value)

    def begin(self) -> None:
        """Take the write lock."""
        self.connection.execute("BEGIN IMMEDIATE")

    def run(self, decide: Callable[[], ask.Decision[T]]) -> tuple[T, tuple[ask.Purged, ...]]:
        """Decide and apply. An exception of the decision itself comes before its first change, so it leaves no trace."""
        outcome = self._drive(decide())
        purged: list[ask.Purged] = []
        for change in outcome.changes:
            done = self._apply(change)
            if done is not None:
                purged.append(done)
        return outcome.reply, tuple(purged)

    def _drive(self, decision: ask.Decision[T]) -> ask.Outcome[T]:
        answer: Any = None
        try:
            while True:
                answer = self._answer(decision.send(answer))
        except StopIteration as end:
            outcome: ask.Outcome[T] = end.value
            return outcome

    def _answer(self, request: ask.Read[Any]) -> Any:
        own = self._own_answers.get(type(request))
        return ANSWERS[type(request)](self.connection, request) if own is None else own(request)

    def _get(self, request: ask.Get) -> Record | None:
        identity = (request.container, request.partition, request.key)
        if identity in self._written:
            return self._written[identity]
        known = not self._emptied and request.container not in self._swept
        record = self.recent.get(*identity) if known else None
        if record is None:
            record = ANSWERS[ask.Get](self.connection, request)
        return record

    def _new_id(self, request: ask.NewId) -> int:
        self._next_id += 1
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'next_id'", (self._next_id,))
        return self._next_id

    def _apply(self, change: ask.Change) -> ask.Purged | None:
        if isinstance(change, ask.PutRow):
            self.catalog.put(self.connection, change.row)
            return None
        if isinstance(change, ask.DropRow):
            self.catalog.drop(self.connection, change.id)
            return None
        self._note(change)
        return APPLY[type(change)](self.connection, self._counters, change)

    def _note(self, change: ask.Change) -> None:
        """What this transaction makes of single records, for the reads that follow in it."""
        if isinstance(change, ask.Put | ask.Delete):
            record = change.record
            identity = (change.container, record.partition, record.key)
            self._written[identity] = record if isinstance(change, ask.Put) else None
        elif isinstance(change, ask.Purge | ask.Clear):
            self._swept.add(change.container)
            self._written = {
                identity: kept for identity, kept in self._written.items() if identity[0] != change.container
            }

    def prepare(self) -> None:
        """Everything but the COMMIT itself."""
        self._counters.save(self.connection)
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'commit_seq'", (self.commit_seq + 1,))
        if self.connection.changes() != 1:
            # A page that was read short counts as zeros, without an error.
            raise apsw.CorruptError("commit_seq is gone")

    def committed(self) -> None:
        """COMMIT returned."""
        self.commit_seq += 1
        self.catalog.commit()
        if self._emptied:
            self.recent.clear()
        for container in self._swept:
            self.recent.forget_container(container)
        for (container, partition, key), record in self._written.items():
            if record is None:
                self.recent.forget(container, partition, key)
            else:
                self.recent.keep(container, record)
        self._forget_notes()

    def _forget_notes(self) -> None:
        self._written.clear()
        self._swept.clear()
        self._emptied = False

    def rollback(self) -> None:
        """Undo everything since `begin`; harmless when SQLite has already done so."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self._counters.forget()
        self.catalog.rollback()
        self._forget_notes()
        # After a failed COMMIT only the file knows.
        self.recent.clear()
        self._next_id = self._meta("next_id")

    def empty(self) -> None:
        """Forget all rows; ids go on from where they are."""
        for table in ("record", "entry", "expiry", "catalog", "dropped", "setting"):
            self.connection.execute(f"DELETE FROM {table}")
        self.catalog.clear()
        self._written.clear()
        self._emptied = True
