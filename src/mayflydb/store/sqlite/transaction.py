"""One write transaction: runs decisions one after the other on the writer's connection, and applies their changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar, cast

import apsw

from mayflydb.model.errors import Corrupt
from mayflydb.model.record import Record
from mayflydb.store import interface
from mayflydb.store.sqlite.catalog import Catalog
from mayflydb.store.sqlite.changes import APPLY, insert_all
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.damage import Damage
from mayflydb.store.sqlite.reads import ANSWERS, get
from mayflydb.store.sqlite.record_cache import PendingRecords, RecordCache
from mayflydb.store.sqlite.schema import CHOSEN
from mayflydb.store.sqlite.space import Space, grows

T = TypeVar("T")

STEP: Final = 64
"""Reads or changes after which `run` yields, so that its caller may give back the event loop."""


class Transaction:
    """The writer's view of its database. `begin`, any number of `run`, then `prepare` + COMMIT + `publish`, or `rollback`.

    `changed`: true if anything was written since `begin`.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.space: Space | None = None
        """Where set, decisions that make the store grow are refused while it is short."""
        self.connection = connection
        self.catalog = Catalog.load(connection)
        self._counters = counters = Counters(self.catalog)
        self._own_answers: dict[type, Callable[[Any], Any]] = {
            interface.LoadRow: lambda request: counters.with_counters(self.catalog.row_now(request.id)),
            interface.FindRow: lambda request: counters.with_counters(
                self.catalog.find_now(request.parent, request.name)
            ),
            interface.ChildRows: lambda request: [
                counters.with_counters(row) for row in self.catalog.children_now(request.parent)
            ],
            interface.Allocate: lambda request: counters.allocate(request.container, request.seq),
            interface.NewId: self._new_id,
            interface.Get: self._get,
        }
        self.changed = False
        self.damage = Damage()
        self.recent = RecordCache()
        self._pending = PendingRecords(self.recent)
        connection.execute(CHOSEN)
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
        self.changed = False

    def run(
        self, decide: Callable[[], interface.Decision[T]]
    ) -> Generator[None, None, tuple[T, tuple[interface.Purged, ...]]]:
        """Decide and apply, in steps. An exception of the decision itself comes before its first change, so it leaves no
        trace.
        """
        outcome = yield from self._drive(decide())
        if self.space is not None and self.space.is_short and grows(outcome.changes, self._has_row):
            raise self.space.refuse()
        purged: list[interface.Purged] = []
        changes = outcome.changes
        for first in range(0, len(changes), STEP):
            if first:
                yield
            step = changes[first : first + STEP]
            if len(step) < STEP:
                purged += [done for change in step if (done := self._apply(change)) is not None]
            else:
                purged += self._apply_step(step)
        return outcome.reply, tuple(purged)

    def _apply_step(self, changes: Sequence[interface.Change]) -> Iterator[interface.Purged]:
        """Apply changes in their order, inserts that follow each other at once."""
        for inserts, run in groupby(changes, key=_is_insert):
            if not inserts:
                yield from [done for change in run if (done := self._apply(change)) is not None]
                continue
            self.changed = True
            puts = cast("list[interface.Put]", list(run))
            for put in puts:
                self._pending.put(put.container, put.record)
            insert_all(self.connection, puts)

    def _drive(self, decision: interface.Decision[T]) -> Generator[None, None, interface.Outcome[T]]:
        answer: Any = None
        number = 0
        while True:
            try:
                request = decision.send(answer)
            except StopIteration as end:
                outcome: interface.Outcome[T] = end.value
                return outcome
            try:
                answer = self._answer(request)
            except Corrupt as error:
                self.damage.note(error)
                raise
            number += 1
            if not number % STEP:
                yield

    def _answer(self, request: interface.Read[Any]) -> Any:
        own = self._own_answers.get(type(request))
        return ANSWERS[type(request)](self.connection, request) if own is None else own(request)

    def _get(self, request: interface.Get) -> Record | None:
        try:
            record = self._pending.get(request.container, request.partition, request.key)
        except LookupError:
            return None
        if record is None and (record := get(self.connection, request)) is None:
            self.damage.refuse_absence()
        return record

    def _has_row(self, id: int) -> bool:
        return self.catalog.row_now(id) is not None

    def _new_id(self, request: interface.NewId) -> int:
        self._next_id += 1
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'next_id'", (self._next_id,))
        return self._next_id

    def _apply(self, change: interface.Change) -> interface.Purged | None:
        self.changed = True
        if isinstance(change, interface.Put):
            self._pending.put(change.container, change.record)
        elif isinstance(change, interface.Delete):
            self._pending.delete(change.container, change.record)
        elif isinstance(change, interface.Purge | interface.ClearDropped):
            self._pending.sweep(change.container)
        elif isinstance(change, interface.PutRow):
            self.catalog.put(self.connection, change.row)
            return None
        elif isinstance(change, interface.DropRow):
            self.catalog.drop(self.connection, change.id)
            return None
        return APPLY[type(change)](self.connection, self._counters, change)

    def prepare(self) -> None:
        """Write everything that belongs to the transaction, up to the COMMIT itself."""
        self._counters.save(self.connection)
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'commit_seq'", (self.commit_seq + 1,))
        if self.connection.changes() != 1:
            # A damaged file may lack the row: a page that was read short counts as zeros, without an error.
            raise apsw.CorruptError("commit_seq is gone")

    def publish(self) -> None:
        """Publish the changes to readers on the event loop, after COMMIT has returned."""
        self.commit_seq += 1
        self.catalog.commit()
        self._pending.commit()

    @property
    def stored_commit_seq(self) -> int:
        """The number of the last commit, as it is in the file."""
        return self._meta("commit_seq")

    def rollback(self) -> None:
        """Undo everything since `begin`. Harmless when SQLite has rolled back already."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self._counters.forget()
        self.catalog.rollback()
        self._pending.rollback()
        self._next_id = self._meta("next_id")

    def remove_all(self) -> None:
        """Remove all rows. Ids go on from where they are, so that no id of a removed row comes again."""
        for table in ("record", "entry", "expiry", "history", "catalog", "dropped", "setting"):
            self.connection.execute(f"DELETE FROM {table}")
        self.catalog.clear()
        self._pending.remove_all()


def _is_insert(change: interface.Change) -> bool:
    return isinstance(change, interface.Put) and change.insert
