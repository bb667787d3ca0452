"""A store as it was at an earlier instant, for reads.

Each answer is that of the store, without what is newer, and with the versions that have ended since. So every path of a read - by
key, in any order, by an index - is that of the present, over an engine whose store is this one. A record is read before the
versions that have ended: one that is replaced in between is among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from mayflydb.engine.building import KeysOf
from mayflydb.engine.catalog import Node, Nodes, node_as_of_past, row_of
from mayflydb.engine.index_overlay import EntryPosition, Found, entry_keys, merge
from mayflydb.engine.lifecycle.past_versions import KeysOfRecord, PastVersions
from mayflydb.engine.lifecycle.pasts import Pasts
from mayflydb.model.errors import OwnerNotFound, Unsupported
from mayflydb.model.instant import Instant
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    CatalogRow,
    ChildRows,
    Committed,
    Decision,
    Fetch,
    FetchRange,
    FindRow,
    Get,
    KnownDamage,
    LoadRow,
    NamedNumber,
    Read,
    Scan,
    ScanIndex,
    SeekIndex,
    Store,
    Urgency,
)

T = TypeVar("T")

KeysFor: TypeAlias = Callable[[Node], KeysOf]
"""Returns the function that gives the index keys of a container's records."""

EVERYTHING: Final = KeyRange(b"", b"\xff" * 64)
"""All places in an order of records."""

LAST_SEQ: Final = 1 << 62


class PastStore:
    """A store as of an instant, as its own interface: reads of records and of the catalogue, and no writes.

    Rows of the catalogue are those of now, with the rules of then.
    """

    def __init__(self, store: Store, nodes: Nodes, pasts: Pasts, at: Instant, keys_for: KeysFor) -> None:
        self.at = at
        self._store = store
        self._nodes = nodes
        self._pasts = pasts
        self._keys_for = keys_for
        self._version = -1
        self._containers: dict[int, Node] = {}
        self._begun: set[int] = set()
        self._rows: dict[int, tuple[bytes, bytes]] = {}
        self._answers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {
            Get: self._get,
            Scan: self._scan,
            SeekIndex: self._seek,
            Fetch: self._fetch,
            FetchRange: self._fetch_range,
            ScanIndex: self._scan_index,
            FindRow: self._row,
            LoadRow: self._row,
            ChildRows: self._rows_below,
            NamedNumber: store.read,
            KnownDamage: store.read,
        }

    @property
    def description(self) -> str:
        """As in Store."""
        return self._store.description

    @property
    def durable(self) -> bool:
        """As in Store."""
        return self._store.durable

    @property
    def catalog_version(self) -> int:
        """As in Store."""
        return self._store.catalog_version

    async def read(self, request: Read[T]) -> T:
        """Answer as of the instant. Unsupported for a read of anything but records and the catalogue."""
        answer = self._answers.get(type(request))
        if answer is None:
            raise Unsupported(
                f"Reads as of an earlier instant do not support this ({type(request).__name__}) in Mayfly."
            )
        found: T = await answer(request)
        return found

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        """Raise Unsupported."""
        raise Unsupported("Writes as of an earlier instant are not supported by Mayfly.")

    async def reset(self) -> None:
        """Raise Unsupported."""
        raise Unsupported("Writes as of an earlier instant are not supported by Mayfly.")

    async def close(self) -> None:
        """Do nothing: the store is another one's."""

    # --- the catalogue -------------------------------------------------------------------------------------------------

    async def _row(self, request: LoadRow | FindRow) -> CatalogRow | None:
        row = await self._store.read(request)
        return None if row is None else self._row_then(row)

    async def _rows_below(self, request: ChildRows) -> list[CatalogRow]:
        return [self._row_then(row) for row in await self._store.read(request)]

    def _row_then(self, row: CatalogRow) -> CatalogRow:
        known = self._rows.get(row.id)
        if known is None or known[0] != row.data:
            node = self._nodes.of(row)
            then = node_as_of_past(node, self.at)
            known = self._rows[row.id] = row.data, row.data if then is node else row_of(then).data
        return row if known[1] is row.data else msgspec.structs.replace(row, data=known[1])

    async def _container(self, id: int) -> Node:
        """Return the container as it is now. OwnerNotFound if it is gone."""
        if self._version != self._store.catalog_version:
            self._containers.clear()
            self._version = self._store.catalog_version
        node = self._containers.get(id)
        if node is None:
            row = await self._store.read(LoadRow(id))
            if row is None:
                raise OwnerNotFound("the container is gone")
            node = self._containers[id] = self._nodes.of(row)
        return node

    async def _begin(self, container: int) -> None:
        """Prepare a read, before the records are read. BadRequest if the state of the instant is not kept."""
        if container not in self._begun:
            await self._pasts.begin(await self._container(container), self.at)
            self._begun.add(container)

    async def _past(self, container: int) -> PastVersions:
        """Return what has ended since, up to now. To be called after the records were read."""
        return await self._pasts.of(await self._container(container), self.at)

    # --- records -------------------------------------------------------------------------------------------------------

    async def _get(self, request: Get) -> Record | None:
        await self._begin(request.container)
        stored = await self._store.read(request)
        identity = request.partition, request.key
        one = await self._pasts.find_one(await self._container(request.container), self.at, identity)
        if one != "many":
            is_unchanged = stored is not None and stored.written <= self.at
            return one.record if one is not None else stored if is_unchanged else None
        past = await self._past(request.container)
        before = past.find_at(identity)
        return before if before is not None or stored is None or not past.is_unchanged(stored) else stored

    async def _fetch(self, request: Fetch) -> list[Record]:
        await self._begin(request.container)
        seqs = request.seqs
        while seqs:
            stored = await self._store.read(Fetch(request.container, seqs))
            past = await self._past(request.container)
            # A page that is not full may have been cut behind its last record.
            cut = 0 < len(stored) < len(seqs)
            here = seqs[: seqs.index(stored[-1].seq) + 1] if cut else seqs
            found = {record.seq: record for record in stored if past.is_unchanged(record)}
            found.update({seq: record for seq in here if (record := past.find(seq)) is not None})
            if found or not cut:
                return [found[seq] for seq in here if seq in found]
            seqs = seqs[len(here) :]
            await asyncio.sleep(0)
        return []

    async def _scan(self, request: Scan) -> list[Record]:
        place_of, lower, upper = _PLACES[request.order], request.lower, request.upper

        async def read(after: EntryPosition | None) -> list[Found]:
            page = await self._store.read(msgspec.structs.replace(request, after=_position(after, request.order)))
            return [(place_of(record)[0], record) for record in page]

        def is_wanted(record: Record) -> bool:
            return lower <= record.partition and (upper is None or record.partition < upper)

        def keys() -> KeysOfRecord:
            return lambda record: (place_of(record)[0],)

        after = None if request.after is None else _place(request.after, request.order)
        within = EVERYTHING if request.order is not Order.HASHED else KeyRange(lower, upper or EVERYTHING.upper)
        walk = _Walk(request.container, request.order, keys, within, False, request.limit)
        return [record for _, record in await self._walk(walk, read, after, is_wanted)]

    # --- indexes -------------------------------------------------------------------------------------------------------

    async def _seek(self, request: SeekIndex) -> tuple[int, ...] | None:
        await self._begin(request.container)
        stored = await self._store.read(request)
        if stored is None:
            return None
        past = await self._past(request.container)
        overlay = await past.overlay(request.index, await self._keys(request.container, request.index))
        seqs = {seq for seq in stored if past.find(seq) is None}
        for each in request.ranges:
            if len(seqs) <= request.limit:
                found = overlay.between(each, None, None, False, request.limit + 1)
                seqs.update(record.seq for _, record in found)
        return None if len(seqs) > request.limit else tuple(sorted(seqs))

    async def _fetch_range(self, request: FetchRange) -> list[Record] | None:
        await self._begin(request.container)
        stored = await self._store.read(request)
        if stored is None:
            return None
        past = await self._past(request.container)
        overlay = await past.overlay(request.index, await self._keys(request.container, request.index))
        found = {record.seq: record for record in stored if past.is_unchanged(record)}
        gone = overlay.between(request.range, None, None, False, request.limit + 1)
        found.update({record.seq: record for _, record in gone})
        return None if len(found) > request.limit else [found[seq] for seq in sorted(found)]

    async def _scan_index(self, request: ScanIndex) -> list[Found]:
        async def read(after: EntryPosition | None) -> list[Found]:
            return await self._store.read(msgspec.structs.replace(request, after=after))

        keys = await self._keys(request.container, request.index)
        walk = _Walk(request.container, request.index, keys, request.range, request.descending, request.limit)
        return await self._walk(walk, read, request.after, lambda record: True)

    async def _keys(self, container: int, number: int) -> Callable[[], KeysOfRecord]:
        node = await self._container(container)
        index = next((each for each in node.definition.indexes if each.number == number), None)
        if index is None:
            raise Unsupported("Reads as of an earlier instant do not support this index in Mayfly.")
        found = index

        def keys() -> KeysOfRecord:
            keys_of = self._keys_for(node)
            return lambda record: entry_keys(record, found, keys_of)

        return keys

    # --- both in order -------------------------------------------------------------------------------------------------

    async def _walk(
        self,
        walk: _Walk,
        read: Callable[[EntryPosition | None], Awaitable[list[Found]]],
        after: EntryPosition | None,
        is_wanted: Callable[[Record], bool],
    ) -> list[Found]:
        """Return the next page of an order; an empty page is the end."""
        await self._begin(walk.container)
        while True:
            stored = await read(after)
            past = await self._past(walk.container)
            overlay = await past.overlay(walk.order, walk.keys)
            last = _place_of(stored[-1]) if stored else None
            gone = overlay.between(walk.within, after, last, walk.descending, walk.limit)
            if len(gone) == walk.limit:
                # There may be more before the end of the stored page.
                last = _place_of(gone[-1])
                stored = [
                    each for each in stored if (_place_of(each) >= last if walk.descending else _place_of(each) <= last)
                ]
            kept = [each for each in stored if past.is_unchanged(each[1])]
            found = [each for each in merge(kept, gone, walk.descending) if is_wanted(each[1])]
            if found or last is None:
                return found[: walk.limit]
            after = last
            await asyncio.sleep(0)


class _Walk(msgspec.Struct, frozen=True):
    """Pages of a container in an order: by creation, and so on, or of an index."""

    container: int
    order: Order | int
    keys: Callable[[], KeysOfRecord]
    within: KeyRange
    descending: bool
    limit: int


def _place_of(found: Found) -> EntryPosition:
    return found[0], found[1].seq


_PLACES: Final[dict[Order, Callable[[Record], EntryPosition]]] = {
    Order.CREATED: lambda record: (b"", record.seq),
    Order.HASHED: lambda record: (record.partition, record.seq),
    Order.CHANGED: lambda record: (record.lsn.to_bytes(8, "big"), record.seq),
}
"""The place of a record in an order of scans, as if the order were an index."""


def _place(position: Position, order: Order) -> EntryPosition:
    if order is Order.CHANGED:
        # An lsn names one record.
        return position.number.to_bytes(8, "big"), LAST_SEQ
    return position.partition if order is Order.HASHED else b"", position.number


def _position(place: EntryPosition | None, order: Order) -> Position | None:
    if place is None:
        return None
    return (
        Position(place[0], place[1]) if order is not Order.CHANGED else Position(b"", int.from_bytes(place[0], "big"))
    )
