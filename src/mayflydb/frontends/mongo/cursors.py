"""Cursors: results that are returned batch by batch, each batch by the visibility at its own instant.

A document that expires between two batches is not returned, although an earlier batch may have read it already.

An idle cursor stays open for ten minutes of the host's time, whatever a virtual clock shows. It ends earlier with its
session, with its transaction, by killCursors, or by an error of a batch. Sizes of batches:
https://www.mongodb.com/docs/manual/tutorial/iterate-a-cursor/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from mayflydb.evaluation.stops import StopReason
from mayflydb.expiry.deadline import visibility
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.evaluation import Evaluation
from mayflydb.frontends.mongo.spending import SpentUnits
from mayflydb.model.errors import Overloaded
from mayflydb.model.instant import MINUTE, Instant
from mayflydb.model.quota import Quota
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document
from mayflydb.sockets.in_flight import SMALL_ANSWER, BytesInFlight

FIRST_BATCH_SIZE: Final = 101
"""Maximum results of a first batch whose client names no size."""
IDLE_LIMIT: Final = 10 * MINUTE
"""The default of the server parameter `cursorTimeoutMillis`."""

CURSOR_BYTES: Final = 8 * 1024
"""Bytes of an open cursor without results: its generators and what it has compiled."""

RESULT_BYTES: Final = 512
"""Bytes of a result that a cursor keeps, besides its document."""

CursorItem: TypeAlias = tuple[Record | None, bytes]
"""A result and its record, if it has one. A record that expires between two batches is not returned."""

CurrentRules: TypeAlias = Callable[[], Sequence[Rule]]
"""Returns the present rules of the cursor's collection."""


class ReadTime:
    """The instant of the present read, and the evaluation that computes for it.

    The generator of a cursor outlives the command that opened it. Each getMore sets the instant and the limits of the evaluation
    anew before it continues the generator. `as_of`: the instant of all batches until the clock passes it; None: each has its own.
    `is_past`: the clock had passed it before, so that it stays.
    """

    __slots__ = ("as_of", "evaluation", "is_past", "now")

    def __init__(
        self, now: Instant, evaluation: Evaluation, as_of: Instant | None = None, is_past: bool = False
    ) -> None:
        self.is_past = is_past
        self.now = now
        self.evaluation = evaluation
        self.as_of = as_of


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
        end closes it. `owner`: the user, who alone may use it. `held_bytes`: those that the quota of bytes has been charged.
        `time_left`: microseconds of the host that `maxTimeMS` leaves for further batches; None: no limit. `killed`: it was closed
        while a getMore ran. `spent`: counts the reads. `payer`: the collection whose budget pays for them.
        `in_flight`: the account that pays for a batch while it is made. `epoch`: the engine's, whose content the cursor reads.
        """
        self.namespace = namespace
        self.session = session
        self.owner = ""
        self.held_bytes = 0
        self.read_time = read_time
        self.id = 0
        self.last_used: Instant = 0
        self.no_timeout = False
        self.busy = False
        self.killed = False
        self.time_left: int | None = None
        self.transaction: object = None
        self.spent: SpentUnits | None = None
        self.payer: tuple[str, str] | None = None
        self.awaits_data = False
        self.in_flight: BytesInFlight | None = None
        self.epoch: int | None = None
        self._batch_bytes = 0
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

    def build_undone_error(self) -> MqlError:
        """Return the error after everything was replaced: a server that is restored knows no cursors of before."""
        return MqlError(43, f"cursor id {self.id} not found")

    async def next_batch(self, size: int | None, now: Instant) -> list[bytes]:
        """Return up to `size` results (None: as many as fit), and at most 16 MiB unless a single result is larger.

        Overloaded if the process holds as much for its clients as it may.
        """
        # Once the clock has passed the instant, what it left out may be purged: the batch is then of the present.
        as_of = self.read_time.as_of or now
        self.read_time.now = now = as_of if self.read_time.is_past else max(now, as_of)
        try:
            return await self._collect(size, now)
        finally:
            self._charge_batch(0)

    async def _collect(self, size: int | None, now: Instant) -> list[bytes]:
        found: list[bytes] = []
        total = 0
        is_visible = visibility(self._rules(), now)
        while (size is None or len(found) < size) and self._remaining != 0:
            if self._next_item >= len(self._buffer):
                if not await self._fill():
                    break
                size_read = sum([len(raw) for _, raw in self._buffer])
                self._charge_batch(total + size_read)
                if size_read > SMALL_ANSWER:
                    await self.read_time.evaluation.admit(size_read)
                is_visible = visibility(self._rules(), now)
            record, raw = self._buffer[self._next_item]
            # 16: more than the type, the index as text and the NUL that an array element costs. A first result is
            # always returned, or a large document could never be read.
            if found and total + len(raw) + 16 > MAX_DOCUMENT_BYTES:
                break
            self._next_item += 1
            # The record was read at the instant of an earlier batch perhaps, and may have expired since.
            if is_visible is not None and record is not None and not is_visible(record):
                continue
            found.append(raw)
            total += len(raw) + 16
            if self._remaining is not None:
                self._remaining -= 1
        return found

    def _charge_batch(self, size: int) -> None:
        """Charge the results of a batch that is being made, instead of what was charged for it. Overloaded without room."""
        in_flight, before = self.in_flight, self._batch_bytes
        if in_flight is None or (size <= SMALL_ANSWER and not before):
            return
        if size > before and not in_flight.may_hold(size - before):
            raise Overloaded("The server holds as many bytes for its clients as it may. Please retry later.")
        self._batch_bytes = size
        in_flight.charge(size - before)

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

    def count_held_bytes(self) -> int:
        """Return the bytes of the results that are kept for the next batches."""
        # The buffer keeps the results that were returned, too, until it is filled again.
        return CURSOR_BYTES + sum([len(raw) + RESULT_BYTES for _, raw in self._buffer])

    async def close(self) -> None:
        """Close the generators that the cursor reads from."""
        self._ended, self._buffer = True, []
        if self.busy:
            self.killed = True
            self.read_time.evaluation.stop(StopReason.KILLED)
        closing = getattr(self._items, "aclose", None)
        # A generator cannot be closed while a getMore runs it.
        if closing is not None and not self.busy:
            await closing()


class CursorLimits(msgspec.Struct, frozen=True):
    """Limits of open cursors: their `count`, the `size` in bytes of the results that they keep, the count `per_session`."""

    count: Quota
    size: Quota
    per_session: int


class Cursors:
    """All open cursors of a server."""

    def __init__(self, chance: Callable[[], int], clock: Callable[[], Instant], limits: CursorLimits) -> None:
        """`chance` returns 63 random bits; `clock` the host's monotonic time in microseconds."""
        self._chance = chance
        self._clock = clock
        self._limits = limits
        self._open: dict[int, Cursor] = {}
        self._by_session: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, cursor: Cursor, no_timeout: bool = False) -> int:
        """Keep a cursor open, and return its id. `no_timeout`: no timeout applies. Overloaded if there are too many."""
        self._check_room(cursor)
        # In a reply, the id 0 says that the cursor is at its end.
        while not cursor.id or cursor.id in self._open:
            cursor.id = self._chance() or 1
        cursor.no_timeout = no_timeout
        cursor.last_used = self._clock()
        self._open[cursor.id] = cursor
        if cursor.session is not None:
            self._by_session[cursor.session] += 1
        return cursor.id

    def _check_room(self, cursor: Cursor) -> None:
        limits = self._limits
        if cursor.session is not None and self._by_session[cursor.session] >= limits.per_session:
            limits.count.refused += 1
            raise Overloaded(f"The session has {limits.per_session} open cursors, and may have no more.")
        if not limits.count.take():
            raise Overloaded(f"{limits.count.limit} cursors are open, and no more may be.")
        try:
            self._charge(cursor)
        except Overloaded:
            limits.count.give()
            raise

    def recharge(self, cursor: Cursor) -> None:
        """Charge the results that a cursor keeps now, if it is open. Overloaded if all cursors together keep too much."""
        if cursor.id in self._open:
            self._charge(cursor)

    def _charge(self, cursor: Cursor) -> None:
        size, wanted = self._limits.size, cursor.count_held_bytes()
        size.give(cursor.held_bytes)
        cursor.held_bytes = 0
        if not size.take(wanted):
            raise Overloaded(f"Open cursors keep {size.used} bytes of results, and {wanted} more do not fit.")
        cursor.held_bytes = wanted

    def _discard(self, id: int) -> Cursor | None:
        cursor = self._open.pop(id, None)
        if cursor is not None:
            self._limits.count.give()
            self._limits.size.give(cursor.held_bytes)
            cursor.held_bytes = 0
            if cursor.session is not None:
                self._by_session[cursor.session] -= 1
                if not self._by_session[cursor.session]:
                    del self._by_session[cursor.session]
        return cursor

    async def get(
        self, id: int, namespace: str, owner: str, session: bytes | None, transaction: object = None
    ) -> Cursor:
        """Find an open cursor.

        Raise MqlError 43 if there is none, 13 if the cursor belongs to another collection, user or session, 50739 to 50741 if
        it was not opened in this transaction.
        """
        await self.close_idle()
        cursor = self._open.get(id)
        if cursor is None:
            raise MqlError(43, f"cursor id {id} not found")
        if cursor.namespace != namespace:
            text = f"Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace"
            raise MqlError(13, f"{text} {cursor.namespace}")
        if cursor.owner != owner:
            raise MqlError(13, f"cursor id {id} was not created by the authenticated user")
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

    def check_owner(self, ids: Sequence[int], owner: str) -> None:
        """Raise MqlError 13 if one of the open cursors belongs to another user."""
        for id in ids:
            cursor = self._open.get(id)
            if cursor is not None and cursor.owner != owner:
                raise MqlError(13, f"not authorized to kill cursor on {cursor.namespace}")

    async def kill(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Close cursors. Return (ids that were open, ids that were not)."""
        killed: list[int] = []
        unknown: list[int] = []
        for id in ids:
            cursor = self._discard(id)
            (unknown if cursor is None else killed).append(id)
            if cursor is not None:
                await cursor.close()
        return killed, unknown

    async def close_all(self) -> None:
        """Close all cursors, as the server stops: the event loop cannot close generators whose steps run on threads."""
        await self.kill([*self._open])

    def remove(self, cursor: Cursor) -> None:
        """Remove a cursor that has reached its end."""
        self._discard(cursor.id)

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

    def list_idle(self) -> list[Cursor]:
        """The cursors that no command reads at present."""
        return [each for each in self._open.values() if not each.busy]

    def counts(self) -> Mapping[str, int]:
        """The counts that `serverStatus` shows."""
        return {"total": len(self._open), "noTimeout": sum(each.no_timeout for each in self._open.values())}
