"""Capped collections, whose oldest documents make room for new ones, and the cursors that follow new documents.

https://www.mongodb.com/docs/manual/core/capped-collections/ and
https://www.mongodb.com/docs/manual/core/tailable-cursors/
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Scope
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.cursors import Cursor, ReadTime, no_results
from mayflydb.frontends.mongo.decisions import Steps
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.reading import Selection, matching_rows
from mayflydb.model.instant import Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.projection import Projection
from mayflydb.query.mongo.values import Document

OLDEST_BATCH_SIZE: Final = 64


class CapEnforcer:
    """Keeps a capped collection below its maximum size and number of documents, within one transaction."""

    def __init__(self, collection: Collection, workspace: Workspace) -> None:
        self.workspace = workspace
        self._collection = collection
        self._max_records = collection.options.get("max") or None
        self._max_bytes = int(collection.options["size"])
        self._records: int | None = None
        self._bytes = 0
        self._after = Position(b"", 0)
        self._oldest: deque[Record] = deque()

    def check_size(self, size: int) -> None:
        """Raise MqlError 10003 for a document of `size` bytes that exceeds the cap by itself."""
        if size > self._max_bytes:
            text = f"object to insert exceeds cappedMaxSize. size in bytes: {size}, cappedMaxSize: {self._max_bytes}"
            raise MqlError(10003, text)

    def make_room(self, size: int) -> Steps[None]:
        """Count an inserted document of `size` bytes, and remove the oldest documents while the collection exceeds its cap."""
        if self._records is None:
            stored = yield from self.workspace.count_stored()
            self._records, self._bytes = stored.records, stored.value_bytes
        self._records += 1
        self._bytes += size
        while self._bytes > self._max_bytes or (self._max_records is not None and self._records > self._max_records):
            oldest = yield from self._next_oldest()
            yield from self._remove(oldest)
            self._records -= 1
            self._bytes -= len(oldest.value)

    def trim(self, most: int) -> Steps[bool]:
        """Remove up to `most` of the oldest documents while the collection exceeds its cap; True: it still does."""
        stored = yield from self.workspace.count_stored()
        records, size = stored.records, stored.value_bytes
        for _ in range(most):
            if size <= self._max_bytes and (self._max_records is None or records <= self._max_records):
                return False
            oldest = yield from self._next_oldest()
            yield from self._remove(oldest)
            records, size = records - 1, size - len(oldest.value)
        return True

    def _next_oldest(self) -> Steps[Record]:
        while True:
            if not self._oldest:
                # Stored documents first, the oldest in front. After them, those that this transaction has inserted
                # itself.
                found = yield from self.workspace.read_stored(self._after, OLDEST_BATCH_SIZE)
                self._oldest.extend(found or sorted(self.workspace.written_records, key=lambda record: record.seq))
            record = self._oldest.popleft()
            self._after = Position(b"", record.seq)
            # The transaction may have removed or changed the stored document already.
            here = self.workspace.current_version(record)
            if here is not None:
                return here

    def _remove(self, record: Record) -> Steps[None]:
        # A hidden document fills the cap, too. It is purged with its expiry event; a visible one is deleted.
        if (yield from self.workspace.get(record.partition, record.key)) is None:
            yield from self.workspace.purge_hidden(record)
        else:
            yield from self.workspace.run(Command(Mode.DELETE, record.partition, record.key))


# --- tailable cursors ------------------------------------------------------------------------------------------------


def check_tailable(body: Document, collection: Collection | None) -> bool:
    """Return True if the client asks for a tailable cursor on an existing collection.

    Raise MqlError 9 and 2 for options that exclude each other.
    """
    tailable, awaits_data = bool(body.get("tailable")), bool(body.get("awaitData"))
    if awaits_data and not tailable:
        raise failed_to_parse("Cannot set 'awaitData' without also setting 'tailable'")
    if not tailable:
        return False
    if body.get("singleBatch"):
        raise failed_to_parse("Cannot use tailable option with the 'singleBatch' option")
    natural = [order.get("$natural", 0) for order in (body.get("sort") or {}, _natural_hint(body)) if order]
    if any(direction != 1 for direction in natural):
        raise bad_value("cannot use tailable option with a sort other than {$natural: 1}")
    if collection is not None and collection.series is not None:
        raise MqlError(168, f"tailable cursor requested on the time-series collection {collection.namespace}")
    if collection is not None and not collection.capped:
        text = f"error processing query: ns={collection.namespace}: tailable cursor requested on non capped collection"
        raise bad_value(text)
    return collection is not None


def _natural_hint(body: Document) -> Document:
    hint = body.get("hint")
    return hint if isinstance(hint, dict) and "$natural" in hint else {}


class TailCursor(Cursor):
    """A tailable cursor: documents in the order of insertion, then those that are inserted later.

    The position is the last document that was returned. The document may have been removed since.
    """

    def __init__(
        self,
        engine: Engine,
        collection: Collection,
        selection: Selection,
        projection: Projection | None,
        session: bytes | None,
        awaits_data: bool,
        read_time: ReadTime,
    ) -> None:
        super().__init__(collection.namespace, no_results(), read_time, lambda: (), 0, session)
        self.awaits_data = awaits_data
        self._engine = engine
        self._collection = collection
        self._selection = selection
        self._projection = projection
        self._skip = selection.skip
        self._remaining: int | None = selection.limit or None
        self._after: Position | None = None
        self._closed = False
        self._has_position = False
        self._cheap = selection.is_cheap and projection is None

    @property
    def exhausted(self) -> bool:
        # A tailable cursor needs a document as its position, so on an empty collection it ends at once.
        return self._closed or self._remaining == 0 or not self._has_position

    async def next_batch(self, size: int | None, now: Instant) -> list[bytes]:
        """The next documents. Raise MqlError 175 when the collection is gone, 136 when the cursor's document is."""
        node = await self._engine.node_by_id(self._collection.id)
        if node is None:
            self._closed = True
            raise MqlError(175, f"query plan killed :: caused by :: {self.namespace} dropped")
        # The client only opens the cursor. Its position is the beginning of the collection.
        if size == 0:
            self._has_position = True
            return []
        await self._check_position()
        found: list[bytes] = []
        total = 0
        async for batch in self._engine.scan(node, Scope(), self._after, now):
            for record in batch.records:
                self._has_position = True
                # One by one, since the position is that of the last document that was returned.
                raw = await self.read_time.evaluation.compute(self._cheap, len(record.value), self._encode, record)
                if raw is not None and found and total + len(raw) + 16 > MAX_DOCUMENT_BYTES:
                    return found
                self._after = Position(b"", record.seq)
                if raw is None:
                    continue
                if self._skip:
                    self._skip -= 1
                    continue
                found.append(raw)
                total += len(raw) + 16
                self._remaining = None if self._remaining is None else self._remaining - 1
                if len(found) == size or self._remaining == 0:
                    return found
            # The end of the batch, even if nothing in it was visible: the next batch must not read it again.
            self._after = Position(b"", batch.position.number)
        return found

    async def _check_position(self) -> None:
        if self._after is None:
            return
        # Read from just before the position: the first stored document must be the one there.
        here = Position(b"", self._after.number - 1)
        found = await self._engine.read_stored(self._collection.id, here, 1)
        if not found or found[0].seq != self._after.number:
            self._closed = True
            text = (
                "CollectionScan died due to position in capped collection being deleted. Last seen record id: RecordId"
            )
            raise MqlError(136, f"{text}({self._after.number})")

    def _encode(self, record: Record) -> bytes | None:
        rows = matching_rows([record], self._selection.filter)
        if not rows:
            return None
        return record.value if self._projection is None else self._projection.encode(record.value)

    async def close(self) -> None:
        self._closed = True
