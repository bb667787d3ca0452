"""One transaction over several records: reads see what was written before in it, changes are gathered for one commit."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.decide import drafted, judge, obituary, rivals, state
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import Instant
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Allocate, Change, Delete, Get, Holders, Put, Read, ask


class Workspace:
    """Commands run one after the other against a container, at one instant, under the rules of that instant."""

    def __init__(self, container: int, rules: tuple[Rule, ...], now: Instant) -> None:
        self._container = container
        self._rules = rules
        self._now = now
        self.changes: list[Change] = []
        self._records: dict[tuple[bytes, bytes], Record | None] = {}
        self._entries: dict[int, tuple[Record | None, tuple[Entry, ...]]] = {}

    def run(self, command: Command) -> Generator[Read[Any], Any, Written]:
        """Decide one command and note its changes. A refusal notes nothing."""
        identity = (command.partition, command.key)
        current: Record | None
        if identity in self._records:
            current = self._records[identity]
        else:
            current = yield Get(self._container, *identity)
        visible = judge(command, current, self._rules, self._now)
        if command.mode is Mode.READ and visible is not None:
            return Written(Mode.READ, visible, False, self._now)
        if command.mode is Mode.DELETE and visible is not None:
            yield from ask(Allocate(self._container, seq=False))  # A deletion moves the session's lsn too.
            self._remove(visible)
            return Written(Mode.DELETE, visible, False, self._now)
        draft = drafted(command, visible, self._rules)
        hidden: list[Record] = []
        if draft.entries:
            hidden = rivals((yield from self._holders(draft.entries)), visible, self._rules, self._now)
        if visible is None and current is not None and all(other.seq != current.seq for other in hidden):
            hidden.append(current)
        for dead in hidden:
            yield from self._bury(dead)
        lsn, seq = yield Allocate(self._container, seq=visible is None)
        record = state(command, draft, self._now, lsn, seq if visible is None else visible.seq)
        self._keep(record, draft.entries, insert=visible is None)
        return Written(command.mode, record, visible is None, self._now)

    def now_is(self, record: Record) -> Record | None:
        """What a stored record has become here; None: it is gone."""
        return self._records.get((record.partition, record.key), record)

    @property
    def kept(self) -> list[Record]:
        """The records that were written here, and are there still."""
        return [record for record in self._records.values() if record is not None]

    def _holders(self, entries: tuple[Entry, ...]) -> Generator[Read[Any], Any, list[Record]]:
        stored = yield from ask(Holders(self._container, entries))
        holders = [record for record in stored if record.seq not in self._entries]
        for record, own in self._entries.values():
            if record is not None and not set(own).isdisjoint(entries):
                holders.append(record)
        return holders

    def _bury(self, dead: Record) -> Generator[Read[Any], Any, None]:
        lsn, _ = yield from ask(Allocate(self._container, seq=False))
        event = obituary(self._container, dead, self._rules, self._now, lsn, "replaced")
        self.changes.append(Delete(self._container, dead, event))
        self._forget(dead)

    def _remove(self, record: Record) -> None:
        self.changes.append(Delete(self._container, record))
        self._forget(record)

    def _forget(self, record: Record) -> None:
        self._records[record.partition, record.key] = None
        self._entries[record.seq] = (None, ())

    def _keep(self, record: Record, entries: tuple[Entry, ...] | None, insert: bool) -> None:
        self.changes.append(Put(self._container, record, insert, entries))
        self._records[record.partition, record.key] = record
        self._entries[record.seq] = (record, entries or ())
