"""A store under test, called without awaiting: one event loop carries it from its opening to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mayflydb.model.due import DuePath, Path, date_key
from mayflydb.model.instant import Instant, Span
from mayflydb.model.record import Dates, Entry, Expiry, Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    Change,
    Committed,
    CompetingRule,
    Decision,
    Delete,
    Get,
    NewId,
    Outcome,
    Purge,
    Put,
    PutRow,
    Read,
    Store,
    Urgency,
    ask,
)
from mayflydb.store.sqlite.store import SqliteStore
from store_suite.contract import Contract

T = TypeVar("T")


class Subject:
    """The store, with one word for each thing that tests do all the time."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self.store = store
        self.run = runner.run
        self.closed = False

    def read(self, request: Read[T]) -> T:
        """The answer, which is the same from what the store remembers and from what it has written."""
        answer = self.run(self.store.read(request))
        for store in _within(self.store):
            if isinstance(store, SqliteStore):
                store._transaction.recent.clear()
        assert self.run(self.store.read(request)) == answer
        return answer

    def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        return self.run(self.store.write(decide, urgency))

    def together(self, *decides: Callable[[], Decision[Any]]) -> list[Any]:
        """Decisions queued at once: their commits, or what they raised."""

        async def gather() -> list[Any]:
            writes = (self.store.write(decide) for decide in decides)
            return list(await asyncio.gather(*writes, return_exceptions=True))

        return self.run(gather())

    def change(self, *changes: Change) -> Committed[None]:
        """Commit these changes."""

        def decide() -> Decision[None]:
            return Outcome(changes, None)
            yield

        return self.write(decide)

    def new_row(self, name: str, parent: int = 0, data: bytes = b"") -> CatalogRow:
        """A new catalogue row."""

        def decide() -> Decision[CatalogRow]:
            row = CatalogRow((yield from ask(NewId())), parent, name, data)
            return Outcome((PutRow(row),), row)

        return self.write(decide).reply

    def container(self, name: str = "sessions") -> int:
        """The id of a new container."""
        return self.new_row(name).id

    def put(
        self,
        container: int,
        key: bytes,
        *,
        partition: bytes = b"p",
        value: bytes = b"v",
        anchor: Instant | None = 0,
        override: int | None = None,
        entries: tuple[Entry, ...] | None = None,
        dates: Dates = (),
    ) -> Record:
        """Insert a record, or replace the one with this key."""

        def decide() -> Decision[Record]:
            before = yield from ask(Get(container, partition, key))
            lsn, seq = yield from ask(Allocate(container, before is None))
            seq = seq if before is None else before.seq
            record = Record(partition, key, value, 1_000 + lsn, anchor, override, lsn, seq, dates)
            owned = (*(entries or ()), *dated(dates)) if dates or (before and before.dates) else entries
            return Outcome((Put(container, record, before is None, owned),), record)

        return self.write(decide).reply

    def keep(self, container: int, lives: dict[bytes, tuple[Instant | None, int | None]]) -> list[Record]:
        """Insert records given as key -> (anchor, override)."""
        return [self.put(container, key, anchor=life[0], override=life[1]) for key, life in lives.items()]

    def delete(self, container: int, record: Record, expiry: Expiry | None = None) -> None:
        self.change(Delete(container, record, expiry))

    def purge(
        self,
        container: int,
        upto: Instant,
        path: Path = DuePath.ANCHOR,
        limit: int = 100,
        span: Span | None = None,
        not_before: Instant | None = None,
        competing: tuple[CompetingRule, ...] = (),
    ) -> Committed[None]:
        """Purge as a sweep would; with a span of 10 s unless said, but on the path of deadlines."""
        if span is None and path is not DuePath.DEADLINE:
            span = 10_000_000
        cause = "default" if path is DuePath.ANCHOR else "item"

        def decide() -> Decision[None]:
            purge = Purge(container, path, upto, limit, span, not_before, cause, 3, 77, "sweep", competing=competing)
            return Outcome((purge,), None)
            yield

        return self.write(decide, "sweep")


def dated(dates: Dates) -> tuple[Entry, ...]:
    """The entries that dates stand for."""
    return tuple(Entry(slot, date_key(date)) for slot, date in dates)


def _within(store: Store) -> Iterator[Store]:
    """A store and those it wraps."""
    yield store
    for inner in vars(store).values():
        if isinstance(inner, Contract | SqliteStore):
            yield from _within(inner)


def keys(records: list[Record]) -> list[bytes]:
    """What was found, by key."""
    return [record.key for record in records]
