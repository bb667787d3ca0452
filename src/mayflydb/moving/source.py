"""Sources of a copy. A source has a catalogue and gives its records in order, in pieces, from any seq on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from mayflydb.engine.catalog import Node, Nodes, catalogue, row_of
from mayflydb.engine.monitor import ENABLED, SLEEP
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.errors import NotFound, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    CatalogRow,
    Count,
    Decision,
    Entries,
    KeySegments,
    NamedNumber,
    NewId,
    Outcome,
    Scan,
    Store,
    ask,
)
from mayflydb.store.segments import KeySegment

PIECE_RECORDS = 512
"""Records of a piece, which is written in one transaction. A store returns fewer if they are large."""

RecordWithEntries = tuple[Record, tuple[Entry, ...]]
"""A record and its index entries."""


class Piece(msgspec.Struct, frozen=True):
    """One or more records of one container, by seq."""

    container: int
    records: Sequence[RecordWithEntries]

    def after(self, seq: int) -> Piece | None:
        """Return the records with larger sequence numbers; None: there are none."""
        rest = [moved for moved in self.records if moved[0].seq > seq]
        return Piece(self.container, rest) if rest else None


MOVED_SETTINGS = (SLEEP, ENABLED)
"""Settings of a store that users have made and that decide when records expire: the monitor's sleep and its switch."""


class Ending(msgspec.Struct, frozen=True):
    """The bounds that the target takes over: ids up to `last_id` are never given again, and time does not fall below `mark`.

    `settings`: the names and values of those in MOVED_SETTINGS that the source has.
    """

    last_id: int
    mark: Instant | None
    settings: tuple[tuple[str, int], ...] = ()


class Source(Protocol):
    """`rows`: the whole catalogue by id, so a parent may come behind its child. `records`: the number of all records."""

    @property
    def description(self) -> str:
        """The source's name for people, without secrets."""

    @property
    def rows(self) -> Sequence[CatalogRow]: ...

    @property
    def records(self) -> int: ...

    def pieces(self, after: Mapping[int, int]) -> AsyncIterator[Piece]:
        """Yield all records by container id, then seq. `after`: a container's seq behind which to begin; 0 without one."""

    async def segments(self, container: int) -> Sequence[KeySegment]:
        """Return the segments of a container whose records are sealed in the source; empty where it has none, or cannot tell."""

    async def ending(self) -> Ending:
        """Return the bounds, when all pieces have been read. WriteConflict if the source has changed in the meantime."""


def fingerprint(rows: Sequence[CatalogRow]) -> int:
    """Return a number for this state of a store, from 1 and below 2^63.

    Every change of a record moves its container's lsn, so the catalogue alone tells two states apart.
    """
    state = blake2b(digest_size=8)
    for row in rows:
        name = row.name.encode("utf-8", "surrogatepass")
        state.update(msgspec.msgpack.encode((row.id, row.parent, name, row.data, row.lsn, row.seq)))
    # 63 bits fit a signed column; 0 would mean "complete".
    return int.from_bytes(state.digest(), "big") >> 1 or 1


class StoreSource:
    """A store without other writers. `open` makes it."""

    def __init__(self, store: Store, rows: Sequence[CatalogRow], records: int) -> None:
        self._store = store
        self.rows = rows
        self.records = records

    @classmethod
    async def open(cls, store: Store) -> StoreSource:
        """Read the catalogue. NotFound if the store is empty."""
        rows = await catalogue(store)
        if not rows:
            raise NotFound(f"{store.description} holds nothing")
        return cls(store, rows, await count_records(store, rows))

    @property
    def description(self) -> str:
        return self._store.description

    async def pieces(self, after: Mapping[int, int]) -> AsyncIterator[Piece]:
        for row in self.rows:
            seq = after.get(row.id, 0)
            while records := await self._store.read(scan_after(row.id, seq, PIECE_RECORDS)):
                # The answer lists only records that have entries, so as many owners as records reach at least as far.
                owned = await self._store.read(Entries(row.id, seq, len(records)))
                entries = dict(owned)
                yield Piece(row.id, [(record, entries.get(record.seq, ())) for record in records])
                seq = records[-1].seq
                # A store may answer without waiting, and then no other task would get a turn.
                await asyncio.sleep(0)

    async def segments(self, container: int) -> Sequence[KeySegment]:
        found = await self._store.read(KeySegments(container))
        return [each for each in found if each.state in ("live", "plain")]

    async def ending(self) -> Ending:
        if fingerprint(await catalogue(self._store)) != fingerprint(self.rows):
            raise WriteConflict(
                f"{self.description} has been changed meanwhile; do this again while nothing writes to it"
            )
        last_id = (await self._store.write(_new_id)).reply
        found = [(name, await self._store.read(NamedNumber(name))) for name in MOVED_SETTINGS]
        settings = tuple((name, value) for name, value in found if value is not None)
        return Ending(last_id, await self._store.read(NamedNumber(MARK)), settings)


class PausedSource:
    """Another source, whose containers arrive with their expiry paused: no record expires before it is resumed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        nodes = Nodes()
        self.rows: Sequence[CatalogRow] = [_pause(row, nodes.of(row)) for row in source.rows]
        self.records = source.records

    @property
    def description(self) -> str:
        return self._source.description

    def pieces(self, after: Mapping[int, int]) -> AsyncIterator[Piece]:
        return self._source.pieces(after)

    async def segments(self, container: int) -> Sequence[KeySegment]:
        return await self._source.segments(container)

    async def ending(self) -> Ending:
        return await self._source.ending()


def _pause(row: CatalogRow, node: Node) -> CatalogRow:
    if not node.definition.rules:
        return row
    definition = msgspec.structs.replace(node.definition, paused="expiry")
    return msgspec.structs.replace(row, data=row_of(msgspec.structs.replace(node, definition=definition)).data)


def scan_after(container: int, after_seq: int, limit: int) -> Scan:
    """Build the read of the records behind a seq, by seq."""
    return Scan(container, b"", None, Order.CREATED, Position(b"", after_seq), limit)


async def count_records(store: Store, rows: Sequence[CatalogRow]) -> int:
    """Count the records of these containers."""
    return sum([(await store.read(Count(row.id))).records for row in rows])


def _new_id() -> Decision[int]:
    # This id is never used. It only tells how far the source's ids have come.
    id = yield from ask(NewId())
    return Outcome((), id)


def raise_ids(last: int) -> Generator[Any, Any, None]:
    """Inside a decision: use up ids up to `last`, so that the target never gives one of them again."""
    while (yield from ask(NewId())) < last:
        pass
