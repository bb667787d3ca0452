"""Ordered indexes of containers: looked up, wanted, built while others write, and removed.

An entry's key is the index key, which the front end makes of a record, and then the hash of the record's partition, so that what
has one value lies by partition. From the commit that defines an index on, every write keeps it; what was there before is linked
stretch by stretch, each in a decision of its own that waits for users. It is used when it is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.engine.catalog import Index, Node, Nodes, next_number, row_of
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.model.keys import SortKeys
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    HASH_BYTES,
    Committed,
    Decision,
    Fetch,
    KeyRange,
    Link,
    Load,
    Order,
    Outcome,
    Position,
    PutRow,
    Scan,
    Seek,
    Store,
    Unlink,
    Walk,
    ask,
)

log = logging.getLogger(__name__)

KeyOf: TypeAlias = Callable[[Record, SortKeys], bytes]
"""The index key of a record, which is the front end's business."""

STRETCH = 128
"""Records that are linked in one transaction."""

MOST = 8
"""Indexes of one container: each is paid for by every write."""


def entry(index: Index, key: bytes, partition: bytes) -> Entry:
    """The entry of a record with this index key in this partition."""
    return Entry(index.number, key + hashed(partition))


def hashed(partition: bytes) -> bytes:
    """What of a partition stands in entries."""
    return partition[:HASH_BYTES].ljust(HASH_BYTES, b"\0")


class Indexes:
    """Those of all containers of a store."""

    def __init__(self, store: Store, nodes: Nodes) -> None:
        self._store = store
        self._nodes = nodes
        self._working: dict[int, asyncio.Task[None]] = {}

    # --- reads -----------------------------------------------------------------------------------------------------

    async def seek(
        self, container: Node, index: Index, ranges: Sequence[KeyRange], limit: int
    ) -> tuple[int, ...] | None:
        """The seqs, ascending, of records in ranges of entry keys, hidden ones included; None: more than `limit`."""
        return await self._store.read(Seek(container.id, index.number, tuple(ranges), limit)) if ranges else ()

    async def fetch(
        self, container: Node, seqs: Sequence[int], now: Instant, batch: int
    ) -> AsyncIterator[list[Record]]:
        """The visible ones of the records with these ascending seqs, stretch by stretch."""
        first = 0
        while first < len(seqs):
            wanted = tuple(seqs[first : first + batch])
            records = await self._store.read(Fetch(container.id, wanted))
            full = len(records) < len(wanted) and bool(records)
            first = seqs.index(records[-1].seq, first) + 1 if full else first + len(wanted)
            yield [record for record in records if visible_at(record, container.rules, now)]
            await asyncio.sleep(0)

    async def walk(
        self, container: Node, index: Index, within: KeyRange, descending: bool, now: Instant, batch: int
    ) -> AsyncIterator[list[tuple[bytes, Record]]]:
        """(index key, record) of the visible records in a range of entry keys, in order of their keys, stretch by stretch."""
        after: tuple[bytes, int] | None = None
        while True:
            found = await self._store.read(Walk(container.id, index.number, within, descending, after, batch))
            if not found:
                return
            after = found[-1][0], found[-1][1].seq
            rules = container.rules
            yield [(key[:-HASH_BYTES], record) for key, record in found if visible_at(record, rules, now)]
            await asyncio.sleep(0)

    async def stand(self, container: int, indexes: Iterable[Index]) -> bool:
        """Whether a container still has these indexes. Who has read one asks afterwards: it may have been dropped meanwhile."""
        row = await self._store.read(Load(container))
        return row is not None and set(self._nodes.of(row).definition.indexes).issuperset(indexes)

    # --- building and removing -------------------------------------------------------------------------------------

    async def define(self, container: int, keys: SortKeys, key_of: KeyOf) -> None:
        """Begin to build an index over these keys, unless there is one, or there are enough. Errors: those of a write."""

        def decide() -> Decision[bool]:
            row = yield from ask(Load(container))
            node = None if row is None else self._nodes.of(row)
            if node is None or not _missing(node.definition.indexes, keys):
                return Outcome((), False)
            number = next_number(node.definition)
            definition = msgspec.structs.replace(node.definition, numbered=number)
            node = msgspec.structs.replace(node, definition=definition)
            return Outcome((_with(node, (*definition.indexes, Index(number, keys))),), True)

        if (await self._store.write(decide)).reply:
            self.resume(container, key_of)

    def want(self, container: int, keys: SortKeys, key_of: KeyOf) -> None:
        """Define and build an index over these keys in the background, unless something is being done there already."""
        self._start(container, lambda: self._begin(container, keys, key_of))

    def resume(self, container: int, key_of: KeyOf) -> None:
        """Go on with what a container's indexes lack, in the background, unless that is being done."""
        self._start(container, lambda: self._complete(container, key_of))

    def _start(self, container: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if container not in self._working:
            task = asyncio.create_task(self._logged(container, work), name=f"indexes of {container}")
            self._working[container] = task
            task.add_done_callback(lambda _: self._working.pop(container, None))

    async def complete(self, container: int) -> None:
        """Wait for what is under way in a container."""
        task = self._working.get(container)
        if task is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Leave everything as it is; `resume` goes on with it."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _logged(self, container: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except MayflyError as error:
            # Queries go on without it, and ask again.
            log.warning("the indexes of container %d are not complete: %s", container, error)

    async def _begin(self, container: int, keys: SortKeys, key_of: KeyOf) -> None:
        await self.define(container, keys, key_of)
        await self._complete(container, key_of)

    async def _complete(self, container: int, key_of: KeyOf) -> None:
        while (index := await self._unfinished(container)) is not None:
            if index.state == "dropped":
                await self._remove(container, index)
            else:
                await self._build(container, index, key_of)

    async def _unfinished(self, container: int) -> Index | None:
        row = await self._store.read(Load(container))
        indexes = () if row is None else self._nodes.of(row).definition.indexes
        return next((index for index in indexes if index.state != "ready"), None)

    async def _build(self, container: int, index: Index, key_of: KeyOf) -> None:
        after: Position | None = None
        while True:

            def decide(after: Position | None = after) -> Decision[Position | None]:
                node = yield from self._node_with(container, index)
                if node is None:
                    return Outcome((), None)
                records = yield from ask(Scan(container, b"", None, Order.CREATED, after, STRETCH))
                if not records:
                    return Outcome((_with(node, _moved(node, index, "ready")),), None)
                entries = (
                    (record, entry(index, key_of(record, index.keys), record.partition).key) for record in records
                )
                return Outcome((Link(container, index.number, tuple(entries)),), Position(b"", records[-1].seq))

            after = (await self._store.write(decide, "sweep")).reply
            if after is None:
                return

    async def _remove(self, container: int, index: Index) -> None:
        await self._told(container, index)
        while True:

            def decide() -> Decision[None]:
                node = yield from self._node_with(container, index)
                return Outcome(() if node is None else (Unlink(container, index.number, STRETCH),), None)

            removed: Committed[None] = await self._store.write(decide, "sweep")
            if not removed.purged or removed.purged[0].records < STRETCH:
                await self._forget(container, index)
                return

    async def _told(self, container: int, index: Index) -> None:
        """Returns when all nodes know that the index is dropped: a change of the catalogue, be it none, is answered then."""

        def decide() -> Decision[None]:
            node = yield from self._node_with(container, index)
            return Outcome(() if node is None else (PutRow(row_of(node)),), None)

        await self._store.write(decide, "sweep")

    async def _forget(self, container: int, index: Index) -> None:
        def decide() -> Decision[None]:
            node = yield from self._node_with(container, index)
            if node is None:
                return Outcome((), None)
            left = tuple(each for each in node.definition.indexes if each != index)
            return Outcome((_with(node, left),), None)

        await self._store.write(decide, "sweep")

    def _node_with(self, container: int, index: Index) -> Any:
        """In a decision: the container, if it still has this index in this state."""
        row = yield from ask(Load(container))
        node = None if row is None else self._nodes.of(row)
        return node if node is not None and index in node.definition.indexes else None


def dropped(indexes: Sequence[Index], eligible: Callable[[SortKeys], bool]) -> tuple[Index, ...]:
    """The indexes of a container, those dropped whose keys it may no longer have one over."""
    return tuple(
        index if eligible(index.keys) else msgspec.structs.replace(index, state="dropped") for index in indexes
    )


def _missing(indexes: Sequence[Index], keys: SortKeys) -> bool:
    standing = [index for index in indexes if index.state != "dropped"]
    return len(standing) < MOST and all(index.keys != keys for index in standing)


def _moved(node: Node, index: Index, state: Literal["ready", "dropped"]) -> tuple[Index, ...]:
    moved = msgspec.structs.replace(index, state=state)
    return tuple(moved if each == index else each for each in node.definition.indexes)


def _with(node: Node, indexes: tuple[Index, ...]) -> PutRow:
    definition = msgspec.structs.replace(node.definition, indexes=indexes)
    return PutRow(row_of(msgspec.structs.replace(node, definition=definition)))
