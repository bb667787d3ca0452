"""One write transaction: runs decisions one after the other on the writer's connection, and applies their changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import apsw

from mayflydb.model.errors import Corrupt
from mayflydb.model.record import Record
from mayflydb.store import interface
from mayflydb.store.segments import BeginSegment, ForgetSegments, ShredEmpty, ShredUndone
from mayflydb.store.snapshots import RESTORES
from mayflydb.store.sqlite import directory
from mayflydb.store.sqlite.catalog import Catalog
from mayflydb.store.sqlite.changes import APPLY, insert_all, new_state, put, remove_range, replace_all, replaces_alone
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.damage import UNREADABLE, Damage, describe
from mayflydb.store.sqlite.directory_rounds import StaleRecords
from mayflydb.store.sqlite.kept_counts import KeptCounts
from mayflydb.store.sqlite.reads import ANSWERS, Steps, get, scan_in_steps
from mayflydb.store.sqlite.record_cache import PendingRecords, RecordCache
from mayflydb.store.sqlite.schema import CHOSEN, SEALING_FORMAT
from mayflydb.store.sqlite.sealing import Sealing, foreign_keys
from mayflydb.store.sqlite.space import Space, grows

T = TypeVar("T")

CONTENT: Final = (
    "record",
    "directory",
    "purged",
    "entry",
    "expiry",
    "history",
    "catalog",
    "dropped",
    "setting",
    "sealing",
)
"""The tables of what is stored. `meta` is about the file."""


def content_of(version: int) -> Sequence[str]:
    """The tables of CONTENT that a database of a format has, of those whose copies can be restored."""
    return CONTENT if version >= SEALING_FORMAT else [table for table in CONTENT if table != "sealing"]


STEP: Final = 64
"""Reads or changes after which `run` yields, so that its caller may give back the event loop."""


class Transaction:
    """The writer's view of its database. `begin`, any number of `run`, then `prepare` + COMMIT + `publish`, or `rollback`.

    `changed`: true if anything was written since `begin`.
    """

    def __init__(self, connection: apsw.Connection, keys: Path | None = None) -> None:
        """`keys`: the path of the file of keys; None: the store has none."""
        self.space: Space | None = None
        """Where set, decisions that make the store grow are refused while it is short."""
        self.connection = connection
        self.catalog = Catalog.load(connection)
        self._counters = counters = Counters(self.catalog)
        self._own_answers: dict[type, Callable[[Any], Any]] = {
            interface.LoadRow: counters.row,
            interface.FindRow: lambda request: counters.with_counters(
                self.catalog.find_now(request.parent, request.name)
            ),
            interface.ChildRows: lambda request: [
                counters.with_counters(row) for row in self.catalog.children_now(request.parent)
            ],
            interface.Allocate: counters.allocate,
            interface.NewId: self._new_id,
        }
        self.changed = False
        # Records to replace. One statement for those of several decisions takes less than one for each.
        self._replacements: list[tuple[Any, ...]] = []
        self.damage = Damage()
        self.recent = RecordCache()
        self._pending = PendingRecords(self.recent)
        self.stale = StaleRecords(connection)
        self.counts = KeptCounts()
        # The containers of the changes since `begin`.
        self._touched: set[int] = set()
        self._all_touched = False
        connection.execute(CHOSEN)
        self._next_id = self._meta("next_id")
        self.commit_seq = self._meta("commit_seq")
        self.sealing = Sealing(connection, keys)

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
        decision, answer, number = decide(), None, 0
        outcome: interface.Outcome[T] | None = None
        while outcome is None:
            try:
                request = decision.send(answer)
            except StopIteration as end:
                outcome = end.value
                continue
            try:
                if type(request) is interface.Scan:
                    answer = yield from self._scan(request)
                else:
                    answer = self._answer(request)
            except Corrupt as error:
                self.damage.note(error)
                raise
            except UNREADABLE as error:
                self.damage.note(error)
                raise Corrupt(f"the store file is damaged: {describe(error)}") from error
            number += 1
            if not number % STEP:
                yield
        changes = self._admit(outcome.changes)
        if len(changes) == 1:
            # Nearly every decision: one change of one record.
            done = self._apply(changes[0])
            return outcome.reply, () if done is None else (done,)
        purged: list[interface.Purged] = []
        for first in range(0, len(changes), STEP):
            if first:
                yield
            step = changes[first : first + STEP]
            if len(step) < STEP:
                purged += [done for change in step if (done := self._apply(change)) is not None]
            else:
                purged += self._apply_step(step)
        return outcome.reply, tuple(purged)

    def _admit(self, changes: tuple[interface.Change, ...]) -> tuple[interface.Change, ...]:
        """Return the changes to apply. OutOfSpace if they make the store grow while the disk is short of space."""
        if self.space is not None and self.space.is_short and grows(changes, self._has_row):
            raise self.space.refuse()
        return self.sealing.without_begun(changes) if self.sealing.is_on else changes

    def _scan(self, request: interface.Scan) -> Steps[list[Record]]:
        self._flush()
        found = yield from scan_in_steps(self.connection, request)
        return self.sealing.open_answer(request, found) if self.sealing.is_on else found

    def _apply_step(self, changes: Sequence[interface.Change]) -> Iterator[interface.Purged]:
        """Apply changes in their order, inserts that follow each other at once."""
        for inserts, run in groupby(changes, key=_is_insert):
            if not inserts:
                yield from [done for change in run if (done := self._apply(change)) is not None]
                continue
            self.changed = True
            self._flush()
            puts = cast("list[interface.Put]", list(run))
            for each in puts:
                self._pending.put(each.container, each.record)
            self._touched.update([each.container for each in puts])
            insert_all(self.connection, map(self.sealing.seal_put, puts) if self.sealing.is_on else puts)

    def _answer(self, request: interface.Read[Any]) -> Any:
        kind = type(request)
        if kind is interface.Get:
            return self._get(request)  # type: ignore[arg-type]  # Its type was just compared.
        own = self._own_answers.get(kind)
        if own is not None:
            return own(request)
        self._flush()
        answer = ANSWERS[kind](self.connection, request)
        return self.sealing.open_answer(request, answer) if self.sealing.is_on else answer

    def _get(self, request: interface.Get) -> Record | None:
        try:
            record = self._pending.get(request.container, request.partition, request.key)
        except LookupError:
            return None
        if record is None:
            self._flush()
            record = get(self.connection, request)
            if record is None:
                self.damage.refuse_absence()
            elif self.sealing.is_on:
                record = self.sealing.open(request.container, record)
        return record

    @property
    def is_published(self) -> bool:
        """True if `recent` is as new as the tables: no transaction has changed records since the last `publish`."""
        return self._pending.is_empty

    def _has_row(self, id: int) -> bool:
        return self.catalog.row_now(id) is not None

    def _new_id(self, request: interface.NewId) -> int:
        self._next_id += 1
        self.connection.execute("UPDATE meta SET value = ? WHERE name = 'next_id'", (self._next_id,))
        return self._next_id

    def _apply(self, change: interface.Change) -> interface.Purged | None:
        self.changed = True
        if isinstance(change, interface.Put):
            self._touched.add(change.container)
            self._pending.put(change.container, change.record)
            if self.sealing.is_on:
                change = self.sealing.seal_put(change)
            if replaces_alone(change):
                self._replacements.append(new_state(change))
                if len(self._replacements) >= STEP:
                    self._flush()
                return None
            self._flush()
            put(self.connection, self._counters, change)
            return None
        self._flush()
        if isinstance(change, _COUNTED):
            self._touched.add(change.container)
        if isinstance(change, interface.Delete):
            self._pending.delete(change.container, change.record)
        elif isinstance(change, interface.Purge | interface.ClearDropped):
            self._pending.sweep(change.container)
            done = APPLY[type(change)](self.connection, self._counters, change)
            if done is not None and done.records >= directory.FEWEST_STALE:
                self.stale.note(change.container, done.records)
            return done
        elif isinstance(change, _OF_CONTAINERS):
            self._change_containers(change)
            return None
        return APPLY[type(change)](self.connection, self._counters, change)

    def _change_containers(self, change: ContainerChange) -> None:
        match change:
            case interface.PutRow():
                self.catalog.put(self.connection, change.row)
            case interface.DropRow():
                self.catalog.drop(self.connection, change.id)
                self._counters.drop(change.id)
            case BeginSegment():
                self._touched.add(change.container)
                self.sealing.begin(change)
            case ShredEmpty():
                self.sealing.shred_empty(self._counters, change)
            case ShredUndone():
                self.sealing.shred_undone(change)
            case ForgetSegments():
                self.sealing.forget(change)

    def _flush(self) -> None:
        """Make the replacements that were put off."""
        rows = self._replacements
        if rows:
            self._replacements = []
            replace_all(self.connection, rows)

    def prepare(self) -> None:
        """Write everything that belongs to the transaction, up to the COMMIT itself."""
        self._flush()
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
        self.stale.commit()
        self.sealing.commit()
        self._forget_counts()

    def _forget_counts(self) -> None:
        if self._all_touched:
            self.counts.clear()
        self.counts.forget(self._touched)
        self._touched.clear()
        self._all_touched = False

    @property
    def stored_commit_seq(self) -> int:
        """The number of the last commit, as it is in the file."""
        return self._meta("commit_seq")

    def rollback(self) -> None:
        """Undo everything since `begin`. Harmless when SQLite has rolled back already."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self._replacements.clear()
        self._counters.forget()
        self.catalog.rollback()
        self._pending.rollback()
        self.stale.rollback()
        self.sealing.rollback()
        # After a failed COMMIT only the file knows which state is committed.
        self._forget_counts()
        self._next_id = self._meta("next_id")

    def give_back_numbers(self) -> None:
        """Let this commit, and those that follow, store the last numbers of the containers instead of reserved ones."""
        self._counters.give_back()

    def remove_all(self) -> None:
        """Remove all rows. Ids go on from where they are, so that no id of a removed row comes again."""
        self._replacements.clear()
        for table in CONTENT:
            if table == "sealing":
                # The keys are still to be destroyed.
                self.sealing.make_all_gone()
                continue
            # The number of restores stays, as ids do: what was read before a reset must not fit what is restored after it.
            kept = f" WHERE name != '{RESTORES}'" if table == "setting" else ""
            self.connection.execute(f"DELETE FROM {table}{kept}")
        self.catalog.clear()
        self._counters.forget()
        self._pending.remove_all()
        self._all_touched = True

    def commit_alone(self) -> None:
        """Commit what was done since `begin`, behind the keys that it needs."""
        self.prepare()
        self.sealing.flush()
        self.connection.execute("COMMIT")

    def drop_unreadable(self) -> int:
        """Remove the records of a copy of the data whose keys were destroyed since; return their number. At the start."""
        if not self.sealing.load():
            return 0
        self.begin()
        try:
            dropped = self._drop_unreadable()
            self.commit_alone()
        except BaseException:
            self.rollback()
            raise
        self.publish()
        self.stale.reload(self.connection)
        return dropped

    def _drop_unreadable(self) -> int:
        dropped = 0
        for container, first, end in self.sealing.load():
            dropped += remove_range(self.connection, container, first, end).records
            row = self.connection.execute("SELECT lsn FROM catalog WHERE id = ?", (container,)).get
            self.sealing.renew(container, first, end, row)
        self.sealing.load()
        return dropped

    def replace_all_by(
        self, address: str, kept: Sequence[str], rising: Sequence[str]
    ) -> tuple[list[interface.CatalogRow], int]:
        """Replace all rows by those of a copy of this or another store, in a transaction of its own.

        Return the new catalogue, and the number of records that are left out because their keys were destroyed.

        `kept`: named numbers that stay; `rising`: those of which the larger value stays. The numbers of containers go on behind
        those that were given out: what was read before with such a number must not be taken for what is written afterwards.
        `renew` publishes the change. Errors: apsw.Error, and nothing was done; Corrupt for a copy with other tables; Conflict for
        one whose records are sealed with keys of another store.
        """
        connection = self.connection
        # What has expired by now does not come back because its key is destroyed a moment later.
        self.sealing.destroy()
        connection.execute("ATTACH ? AS copy", (address,))
        try:
            self.begin()
            try:
                tables = self._check_tables()
                self._replace_rows(tables, kept, rising)
                dropped = self._drop_unreadable() if self.sealing.is_on else 0
                rows = Catalog.read_rows(connection)
                self.commit_alone()
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                    self.sealing.rollback()
        finally:
            connection.execute("DETACH copy")
        return rows, dropped

    def _check_tables(self) -> Sequence[str]:
        """Return the tables that the copy has."""
        tables = content_of(self.connection.pragma("user_version", schema="copy"))
        for table in tables:
            here, there = (
                self.connection.execute("SELECT name FROM pragma_table_info(?, ?)", (table, schema)).fetchall()
                for schema in ("main", "copy")
            )
            if here != there:
                raise Corrupt(f"the table {table} of the copy has other columns")
        if "sealing" in tables and self.sealing.is_foreign(self.connection, "copy"):
            raise foreign_keys()
        return tables

    def _replace_rows(self, tables: Sequence[str], kept: Sequence[str], rising: Sequence[str]) -> None:
        connection = self.connection
        segments = self.sealing.read_rows()
        numbers = {str(name): value for name, value in connection.execute("SELECT name, value FROM setting")}
        given = connection.execute("SELECT lsn, seq, id FROM catalog").fetchall()
        for table in CONTENT:
            connection.execute(f"DELETE FROM main.{table}")
            if table in tables:
                # Between equal tables, of which one is empty, SQLite copies whole trees.
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM copy.{table}")
        self.sealing.keep_undone(segments)
        # One more: even where nothing was written since, answers that are kept by number are those of another content.
        connection.executemany("UPDATE catalog SET lsn = max(lsn, ?), seq = max(seq, ?) WHERE id = ?", given)
        connection.execute("UPDATE catalog SET lsn = lsn + 1")
        connection.execute(
            "INSERT INTO setting VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = max(value + 1, excluded.value)",
            (RESTORES, numbers.get(RESTORES, 0) + 1),
        )
        for name in kept:
            connection.execute("DELETE FROM setting WHERE name = ?", (name,))
        for name in (*kept, *rising):
            if name in numbers:
                connection.execute(
                    "INSERT INTO setting VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
                    (name, numbers[name]),
                )
        connection.execute(
            "UPDATE main.meta SET value = max(value, (SELECT value FROM copy.meta WHERE name = 'next_id'))"
            " WHERE name = 'next_id'"
        )

    def renew(self, rows: Sequence[interface.CatalogRow]) -> None:
        """Publish what `replace_all_by` has committed. `rows`: the catalogue."""
        self.commit_seq += 1
        self._next_id = self._meta("next_id")
        self._counters.forget()
        self.catalog.replace(rows)
        self.sealing.commit()
        self._pending.remove_all()
        self._pending.commit()
        self.counts.clear()
        self.stale.reload(self.connection)


ContainerChange: TypeAlias = (
    interface.PutRow | interface.DropRow | BeginSegment | ShredEmpty | ShredUndone | ForgetSegments
)
_OF_CONTAINERS = (interface.PutRow, interface.DropRow, BeginSegment, ShredEmpty, ShredUndone, ForgetSegments)

_COUNTED = (
    interface.Delete,
    interface.Purge,
    interface.ClearDropped,
    interface.ReplaceEntries,
    interface.RemoveEntries,
)
"""Changes, beside those that put a record, after which a container has other counts."""


def _is_insert(change: interface.Change) -> bool:
    return isinstance(change, interface.Put) and change.insert
