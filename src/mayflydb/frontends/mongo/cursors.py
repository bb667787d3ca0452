"""Cursors: results that are returned batch by batch, each batch by the visibility at its own instant.

A document that expires between two batches is not returned, although an earlier batch may have read it already.

An idle cursor stays open for ten minutes of the host's time, whatever a virtual clock shows. It ends earlier with its
session, with its transaction, by killCursors, or by an error of a batch. Sizes of batches:
https://www.mongodb.com/docs/manual/tutorial/iterate-a-cursor/
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from mayflydb.expiry.deadline import visible_at
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.spending import SpentUnits
from mayflydb.model.instant import MINUTE, Instant
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

FIRST_BATCH_SIZE: Final = 101
"""Maximum results of a first batch whose client names no size."""
IDLE_LIMIT: Final = 10 * MINUTE
"""The default of the server parameter `cursorTimeoutMillis`."""

CursorItem: TypeAlias = tuple[Record | None, bytes]
"""A result and its record, if it has one. A record that expires between two batches is not returned."""

CurrentRules: TypeAlias = Callable[[], Sequence[Rule]]
"""Returns the present rules of the cursor's collection."""


class ReadTime:
    """The instant of the present read.

    The generator of a cursor outlives the command that opened it. Each getMore sets the instant anew before it continues the
    generator.
    """

    def __init__(self, now: Instant) -> None:
        self.now = now


async def no_results() -> AsyncIterator[list[CursorItem]]:
    """The results of a cursor that makes its batches itself."""
    return
    yield


class Cursor:
    """One result in progress."""

    def __init__(
        self,
        namespace: str,
        items: AsyncIterator[list[CursorItem]],
        read_time: ReadTime,
        rules: CurrentRules,
        limit: int = 0,
        session: bytes | None = None,
    ) -> None:
        """`limit`: results in total; 0: no limit. `session`: the id of the session in which the cursor was opened; no other
        session may use the cursor.

        Attributes that are set later: `transaction`, in which the cursor was opened, which alone may use the cursor, and whose
        end closes it. `spent`: counts the reads. `payer`: the collection whose budget pays for them.
        """
        self.namespace = namespace
        self.session = session
        self.read_time = read_time
        self.id = 0
        self.last_used: Instant = 0
        self.no_timeout = False
        self.busy = False
        self.transaction: object = None
        self.spent: SpentUnits | None = None
        self.payer: tuple[str, str] | None = None
        self.awaits_data = False
        self._items = items
        self._rules = rules
        self._remaining = limit or None
        self._buffer: list[CursorItem] = []
        self._next_item = 0
        self._ended = False

    @property
    def reply_fields(self) -> Document:
        """Additional fields of a reply within `cursor`."""
        return {}

    @property
    def exhausted(self) -> bool:
        """True if nothing can follow. A cursor that awaits data stays open while it has no results."""
        return self._remaining == 0 or (self._ended and self._next_item >= len(self._buffer))

    async def next_batch(self, size: int | None, now: Instant) -> list[bytes]:
        """Return up to `size` results (None: as many as fit), and at most 16 MiB unless a single result is larger."""
        self.read_time.now = now
        found: list[bytes] = []
        total = 0
        while (size is None or len(found) < size) and self._remaining != 0:
            if self._next_item >= len(self._buffer) and not await self._fill():
                break
            record, raw = self._buffer[self._next_item]
            # 16: more than the type, the index as text and the NUL that an array element costs. A first result is
            # always returned, or a large document could never be read.
            if found and total + len(raw) + 16 > MAX_DOCUMENT_BYTES:
                break
            self._next_item += 1
            # The record was read at the instant of an earlier batch perhaps, and may have expired since.
            if record is not None and not visible_at(record, self._rules(), now):
                continue
            found.append(raw)
            total += len(raw) + 16
            if self._remaining is not None:
                self._remaining -= 1
        return found

    async def _fill(self) -> bool:
        """Fetch the next items into the buffer. Return False at the end."""
        while not self._ended:
            try:
                self._buffer = await anext(self._items)
            except StopAsyncIteration:
                self._ended = True
                self._buffer = []
            self._next_item = 0
            if self._buffer:
                return True
        return False

    async def close(self) -> None:
        """Close the generators that the cursor reads from."""
        self._ended, self._buffer = True, []
        closing = getattr(self._items, "aclose", None)
        # A generator cannot be closed while a getMore runs it.
        if closing is not None and not self.busy:
            await closing()


class Cursors:
    """All open cursors of a server."""

    def __init__(self, chance: Callable[[], int], clock: Callable[[], Instant]) -> None:
        """`chance` returns 63 random bits; `clock` the host's monotonic time in microseconds."""
        self._chance = chance
        self._clock = clock
        self._open: dict[int, Cursor] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, cursor: Cursor, no_timeout: bool = False) -> int:
        """Keep a cursor open, and return its id. `no_timeout`: no timeout applies."""
        # In a reply, the id 0 says that the cursor is at its end.
        while not cursor.id or cursor.id in self._open:
            cursor.id = self._chance() or 1
        cursor.no_timeout = no_timeout
        cursor.last_used = self._clock()
        self._open[cursor.id] = cursor
        return cursor.id

    async def get(self, id: int, namespace: str, session: bytes | None, transaction: object = None) -> Cursor:
        """Find an open cursor.

        Raise MqlError 43 if there is none, 13 if the cursor belongs to another collection or session, 50739 to 50741 if it was
        not opened in this transaction.
        """
        await self.close_idle()
        cursor = self._open.get(id)
        if cursor is None:
            raise MqlError(43, f"cursor id {id} not found")
        if cursor.namespace != namespace:
            text = f"Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace"
            raise MqlError(13, f"{text} {cursor.namespace}")
        if cursor.session != session:
            text = "in session" if session is not None else "not in a session"
            raise MqlError(13, f"Cannot run getMore on cursor {id}, which was created in another session, {text}")
        if cursor.transaction is not transaction:
            code, how = 50741, "created in another transaction"
            if cursor.transaction is None:
                code, how = 50739, "not created in a transaction"
            elif transaction is None:
                code, how = 50740, "created in a transaction"
            raise MqlError(code, f"Cannot run getMore on cursor {id}, which was {how}")
        # Two getMore of one cursor at a time would mix their batches.
        if cursor.busy:
            raise MqlError(12051, f"cursor id {id} is already in use")
        cursor.last_used = self._clock()
        return cursor

    async def kill(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Close cursors. Return (ids that were open, ids that were not)."""
        killed: list[int] = []
        unknown: list[int] = []
        for id in ids:
            cursor = self._open.pop(id, None)
            (unknown if cursor is None else killed).append(id)
            if cursor is not None:
                await cursor.close()
        return killed, unknown

    def remove(self, cursor: Cursor) -> None:
        """Remove a cursor that has reached its end."""
        self._open.pop(cursor.id, None)

    async def close_idle(self) -> None:
        """Close cursors that were not used for IDLE_LIMIT."""
        now = self._clock()
        stale = [
            id
            for id, each in self._open.items()
            if not each.no_timeout and not each.busy and now - each.last_used > IDLE_LIMIT
        ]
        if stale:
            await self.kill(stale)

    async def end_transaction(self, transaction: object) -> None:
        """Close the cursors of a transaction."""
        await self.kill([id for id, each in self._open.items() if each.transaction is transaction])

    async def end_session(self, session: bytes) -> None:
        """Close the cursors of a session."""
        await self.kill([id for id, each in self._open.items() if each.session == session])

    def counts(self) -> Mapping[str, int]:
        """The counts that `serverStatus` shows."""
        return {"total": len(self._open), "noTimeout": sum(each.no_timeout for each in self._open.values())}
