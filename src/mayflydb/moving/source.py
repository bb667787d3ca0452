"""Where data comes from: a catalogue, then records in order, piece by piece, from any place on."""

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
from mayflydb.store.interface import CatalogRow, Count, Decision, Entries, NamedNumber, NewId, Outcome, Scan, Store, ask

PIECE_RECORDS = 512
"""Records that are read, and written in one transaction; fewer where they are large."""

RecordWithEntries = tuple[Record, tuple[Entry, ...]]
"""A record and its index entries."""


class Piece(msgspec.Struct, frozen=True):
    """Some records of one container, at least one, by seq."""

    container: int
    records: Sequence[RecordWithEntries]

    def after(self, seq: int) -> Piece | None:
        """The records behind a sequence number."""
        rest = [moved for moved in self.records if moved[0].seq > seq]
        return Piece(self.container, rest) if rest else None


MOVED_SETTINGS = (SLEEP, ENABLED)
"""Numbers of a store that people have set, and that say when its records go."""


class Ending(msgspec.Struct, frozen=True):
    """Bounds that the target takes over: ids up to `last_id` are never given again, and time does not fall below `mark`.

    `settings`: those of MOVED_SETTINGS that were set.
    """

    last_id: int
    mark: Instant | None
    settings: tuple[tuple[str, int], ...] = ()


class Source(Protocol):
    """`rows`: the whole catalogue by id, so that parents may come later than children. `records`: how many there are."""

    @property
    def description(self) -> str:
        """As people are told, without secrets."""

    @property
    def rows(self) -> Sequence[CatalogRow]: ...

    @property
    def records(self) -> int: ...

    def pieces(self, after: Mapping[int, int]) -> AsyncIterator[Piece]:
        """All records behind the seq that `after` names for their container (else 0), by container id, then seq."""

    async def ending(self) -> Ending:
        """Asked for when all pieces have been read. WriteConflict if what was read is not what is there."""


def fingerprint(rows: Sequence[CatalogRow]) -> int:
    """A number from 1 below 2^63 that stands for this state of a store: every change of a record moves its container's lsn."""
    state = blake2b(digest_size=8)
    for row in rows:
        name = row.name.encode("utf-8", "surrogatepass")
        state.update(msgspec.msgpack.encode((row.id, row.parent, name, row.data, row.lsn, row.seq)))
    return int.from_bytes(state.digest(), "big") >> 1 or 1


class StoreSource:
    """A store without other writers. `open` makes it."""

    def __init__(self, store: Store, rows: Sequence[CatalogRow], records: int) -> None:
        self._store = store
        self.rows = rows
        self.records = records

    @classmethod
    async def open(cls, store: Store) -> StoreSource:
        """NotFound if there is nothing to move."""
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
                # Nobody but owners is in the answer, so it reaches at least as far as these records do.
                owned = await self._store.read(Entries(row.id, seq, len(records)))
                entries = dict(owned)
                yield Piece(row.id, [(record, entries.get(record.seq, ())) for record in records])
                seq = records[-1].seq
                # A store may answer without waiting for anything, and then nobody else would have a turn.
                await asyncio.sleep(0)

    async def ending(self) -> Ending:
        if fingerprint(await catalogue(self._store)) != fingerprint(self.rows):
            raise WriteConflict(
                f"{self.description} has been changed meanwhile; do this again when nobody writes to it"
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

    async def ending(self) -> Ending:
        return await self._source.ending()


def _pause(row: CatalogRow, node: Node) -> CatalogRow:
    if not node.definition.rules:
        return row
    definition = msgspec.structs.replace(node.definition, paused="expiry")
    return msgspec.structs.replace(row, data=row_of(msgspec.structs.replace(node, definition=definition)).data)


def scan_after(container: int, after_seq: int, limit: int) -> Scan:
    """Records behind a seq in the order of their seqs."""
    return Scan(container, b"", None, Order.CREATED, Position(b"", after_seq), limit)


async def count_records(store: Store, rows: Sequence[CatalogRow]) -> int:
    """The number of records."""
    return sum([(await store.read(Count(row.id))).records for row in rows])


def _new_id() -> Decision[int]:
    # Asking for one uses one up, which costs nothing.
    id = yield from ask(NewId())
    return Outcome((), id)


def raise_ids(last: int) -> Generator[Any, Any, None]:
    """Inside decisions: use up ids until all up to `last` are."""
    while (yield from ask(NewId())) < last:
        pass
