"""Pages of a query over items: reading records, evaluating the query, and the start of the next page.

A streaming query resumes after the last record that it read, by the record's position and not by a count of rows. So items that
are written, deleted or expire between two pages neither repeat nor hide others. Visibility is decided at each page's own `now`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from mayflydb.clock import monotonic_us
from mayflydb.engine import prices
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Scope
from mayflydb.evaluation.statement import CHEAP_BYTES, HERE, Computing
from mayflydb.frontends.cosmos import access
from mayflydb.frontends.cosmos.calls import ReadCounts
from mayflydb.frontends.cosmos.page_rows import (
    PAGE_BYTES,
    IndexRows,
    ItemRows,
    PageStart,
    StreamedRows,
    add_documents,
)
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import UNDEFINED, Accumulator, Caller, Context, Query, RowPosition, Search, SortedPage
from mayflydb.sockets.in_flight import LARGE_READ

MAX_KEY_BYTES: Final = 500
"""The limit for the sort values in a continuation token, in bytes."""

MAX_BATCH: Final = 256
"""Records in one read of a page."""

HELD_BYTES: Final = 64 * 1024
"""The bytes of rows after which a page charges them."""

PAGE_TIME: Final = 5 * SECOND
"""The time after which a page ends with its rows so far.
https://learn.microsoft.com/azure/cosmos-db/nosql/query/pagination
"""


class Page(msgspec.Struct):
    """The rows of one page as JSON texts, and the start of the next page (None: this was the last).

    `matched`: rows of FROM that passed WHERE.
    """

    rows: list[bytes]
    read_counts: ReadCounts
    next: PageStart | None
    matched: int

    @property
    def charge(self) -> float:
        """Request units."""
        return prices.query(self.read_counts.records, self.read_counts.size, len(self.rows))

    @property
    def hit_ratio(self) -> float:
        """The share of the records read that passed WHERE: 0 to 1, and 1 where none was read."""
        return min(1.0, self.matched / self.read_counts.records) if self.read_counts.records else 1.0


class Room(Protocol):
    """The account of the bytes of a page while it is made."""

    @property
    def turns(self) -> asyncio.Semaphore | None:
        """The turns in which large pages are made."""

    def hold(self, size: int) -> None:
        """Charge bytes until the page is sent. Overloaded if there is no room for them."""

    def release(self, size: int) -> None:
        """Give back bytes that were charged."""


class Unlimited:
    """The room of a page whose bytes are counted elsewhere."""

    turns: None = None

    def hold(self, size: int) -> None:
        """Charge nothing."""

    def release(self, size: int) -> None:
        """Give nothing back."""


UNLIMITED: Final = Unlimited()


class Pager:
    """Reads the page of one request."""

    def __init__(
        self, reads: access.Scanner, view: ContainerView, query: Query, scope: Scope, now: Instant, limit: int,
        call: Caller | None = None, engine: Engine | None = None, computing: Computing = HERE,
        room: Room = UNLIMITED,
    ) -> None:  # fmt: skip
        """`call`: calls the user-defined functions of the query. `engine`: the engine whose indexes may be used, or None.

        `computing`: runs what evaluates the query. Where it has a deadline, a page ends after PAGE_TIME. `room`: is charged with
        the records and rows that are held while the page is made.
        """
        self._engine = engine
        self._view = view
        self._query = query
        self._scope = scope
        self._now = now
        self._limit = limit
        self._context = Context(now, call=call)
        self._computing = computing
        self._room = room
        self._has_turn = False
        self._over_at = None if computing.deadline is None else monotonic_us() + PAGE_TIME
        self._source: access.RecordSource = access.ScopeScan(reads, view, scope, now)
        self.read_counts = ReadCounts()
        self.matched = 0
        """The number of records read that the query could use."""
        self._document = view.document_reader(query.reads)

    async def read(self, start: PageStart) -> Page:
        """Read the page that begins at `start`. EvaluationStopped, TooManyEvaluations, Overloaded."""
        try:
            return await self._read(start)
        finally:
            if self._has_turn and self._room.turns is not None:
                self._room.turns.release()

    async def _read(self, start: PageStart) -> Page:
        if self._query.ranking is not None:
            return await self._read_ranked(start)
        index_order = None if self._engine is None else await self._choose_source(self._engine)
        # A walk begins at a key. A start that only counts rows has none.
        if self._engine is not None and index_order is not None and (start.keys or not start.seen):
            return await self._read_by_index(self._engine, start, index_order)
        if self._query.can_resume:
            return await self._read_sorted(start)
        if not self._query.streams:
            return await self._read_all(start)
        return await self._read_stream(start)

    def _is_over(self) -> bool:
        return self._over_at is not None and monotonic_us() >= self._over_at

    async def _choose_source(self, engine: Engine) -> access.IndexOrder | None:
        """Return the index to walk, if one has the rows in order.

        Otherwise set the source of records: a lookup in indexes, or the scan.
        """
        access_path = await access.choose_access(engine, self._view, self._query, self._scope)
        if access_path is None or isinstance(access_path, access.IndexOrder):
            return access_path
        self._source = access.IndexLookup(engine, self._view, self._scope, self._now, access_path)
        return None

    async def _read_chunks(self, start: PageStart) -> AsyncIterator[list[Record]]:
        after = Position(start.partition, start.number) if start.number or start.partition else None
        # About as many records as the page needs, and one that tells whether there is a next page: at least 16, since WHERE
        # drops some, and at most 256, since a batch is one read and one turn of the event loop.
        wanted = max(self._limit + 1, 16)
        # Batches of one size, so that the last one reads no more than the page has room for.
        batch = -(-wanted // -(-wanted // MAX_BATCH))
        while True:
            async for chunk in self._source.batches(after, batch):
                if not chunk:
                    continue
                if not self._has_turn and self._is_large(chunk) and not await self._take_turn():
                    break
                yield chunk
                after = Position(chunk[-1].partition, chunk[-1].seq)
            else:
                return
            # It is read again then: the records of all pages that wait would be held meanwhile.
            del chunk
            await self._await_turn()

    def _is_large(self, chunk: Sequence[Record]) -> bool:
        return self._room.turns is not None and sum([len(record.value) for record in chunk]) > LARGE_READ

    async def _take_turn(self) -> bool:
        """Take a turn if one is free."""
        turns = self._room.turns
        if turns is not None and turns.locked():
            return False
        await self._await_turn()
        return True

    async def _await_turn(self) -> None:
        if self._room.turns is not None and not self._has_turn:
            await self._room.turns.acquire()
            self._has_turn = True

    async def _evaluate(self, adds: Callable[[list[Record]], Any], chunk: list[Record]) -> Any:
        """Evaluate the query over records, here or on a thread. True ends the page.

        Records are evaluated here in parts that take about a millisecond, if the query is cheap. A thread costs more.
        """
        size = sum([len(record.value) for record in chunk])
        weight = len(chunk) * len(self._query.statement.text)
        if not self._query.is_cheap or size + weight <= CHEAP_BYTES:
            await self._computing.take_turn()
            return await self._hold_and_compute(size, weight, adds, chunk)
        step = max(1, len(chunk) * CHEAP_BYTES * 3 // (size + weight) // 4)
        for start in range(0, len(chunk), step):
            part = chunk[start : start + step]
            size = sum([len(record.value) for record in part])
            await self._computing.take_turn()
            if await self._hold_and_compute(size, len(part) * len(self._query.statement.text), adds, part):
                return True
        return False

    async def _hold_and_compute(self, size: int, weight: int, adds: Callable[[Any], Any], chunk: Any) -> Any:
        """Compute over records of `size` bytes, which are charged meanwhile if they are many. `weight`: further work."""
        if size <= HELD_BYTES:
            return await self._computing.call(size + weight, adds, chunk)
        # Of larger ones only a few are held at a time, in turn. Where the limit is low, one of them must come in.
        held = min(size, LARGE_READ)
        self._room.hold(held)
        try:
            return await self._computing.call(size + weight, adds, chunk)
        finally:
            self._room.release(held)

    def _charge_rows(self, page: Page) -> Page:
        """Charge the rows of a page that were made in one step."""
        size = sum(map(len, page.rows))
        if size > HELD_BYTES:
            self._room.hold(size)
        return page

    def _make_page(self, rows: list[bytes], start: PageStart | None, matched: int | None = None) -> Page:
        return Page(rows, self.read_counts, start, self.matched if matched is None else matched)

    async def _read_stream(self, start: PageStart) -> Page:
        """Read a page of rows that depend on one record each."""
        kind = ItemRows if self._query.is_identity else StreamedRows
        rows = kind(
            self._query, self._context, self._view.links, self._document, start, self._limit, self.read_counts, self._is_over
        )  # fmt: skip
        if not rows.is_complete:
            # A page that ended within a record reads that record again.
            first = PageStart(start.partition, start.number - 1) if start.rows else start
            held = 0
            async for chunk in self._read_chunks(first):
                is_enough = await self._evaluate(rows.add, chunk)
                if rows.size - held > HELD_BYTES:
                    self._room.hold(rows.size - held)
                    held = rows.size
                if is_enough:
                    rows.is_sure = rows.is_sure or (rows.next is not None and rows.next.number != chunk[-1].seq)
                    break
        self.matched = rows.matched
        if rows.next is not None and not rows.is_sure:
            return await self._end_or_continue(rows.rows, rows.next)
        return self._make_page(rows.rows, rows.next)

    async def _end_or_continue(self, rows: list[bytes], start: PageStart) -> Page:
        """Make a page that has a next page only if records are left, so that clients fetch no empty page."""
        async for chunk in self._source.batches(Position(start.partition, start.number), 16):
            if chunk:
                return self._make_page(rows, start)
        return self._make_page(rows, None)

    async def _read_sorted(self, start: PageStart) -> Page:
        """Read all records and keep the rows after the last row of the previous page in the order of ORDER BY.

        The previous row is known by its sort values, so a change of its record does not move the position.
        """
        if start.seen and not start.keys:
            return await self._read_all(start)
        page, wanted = self._sorted_page(start)
        adds = partial(add_documents, page, self._document, self.read_counts)
        async for chunk in self._read_chunks(PageStart()):
            await self._evaluate(adds, chunk)
        return await self._cut(page, wanted, start)

    async def _read_by_index(self, engine: Engine, start: PageStart, index_order: access.IndexOrder) -> Page:
        """Read a sorted page in the order of an index, and stop where no later key can precede a row of the page."""
        page, wanted = self._sorted_page(start)
        rows = IndexRows(page, self._document, partial(access.is_within, self._scope), self.read_counts)
        after, batch = _row_position(start), min(256, max(wanted, 16))
        weight = len(self._query.statement.text)
        async for chunk in access.walk(engine, self._view, self._query, index_order, after, self._now, batch):
            size = sum([len(record.value) for _, record in chunk])
            if size > LARGE_READ:
                await self._await_turn()
            if await self._hold_and_compute(size, weight * len(chunk), rows.add, chunk):
                break
        # An index that was dropped during the walk had lost entries before: the rows are read again without it.
        if not await engine.indexes.has_all(self._view.id, [index_order.index]):
            return await self._read_sorted(start)
        return await self._cut(page, wanted, start)

    async def _cut(self, page: SortedPage, wanted: int, start: PageStart) -> Page:
        return self._charge_rows(await self._computing.call(self.read_counts.size, self._cut_page, page, wanted, start))

    def _sorted_page(self, start: PageStart) -> tuple[SortedPage, int]:
        """Return a collector of the rows of a page and one more, and the number of rows of the page.

        The extra row tells whether there is a next page.
        """
        remaining = None if self._query.take is None else self._query.take - start.seen
        wanted = self._limit if remaining is None else min(self._limit, remaining)
        return self._query.sorted_page(self._context, _row_position(start), wanted + 1), wanted

    def _cut_page(self, page: SortedPage, wanted: int, start: PageStart) -> Page:
        positioned_rows = page.positioned_rows()
        rows: list[bytes] = []
        size = 0
        for value, _ in positioned_rows[:wanted]:
            rows.append(self._query.encode(value))
            size += len(rows[-1])
            if size > PAGE_BYTES:
                break
        self.matched = len(rows)
        seen = start.seen + len(rows)
        if len(positioned_rows) <= len(rows) or self._query.take == seen:
            return self._make_page(rows, None, page.matched)
        return self._make_page(rows, _start_after(positioned_rows[len(rows) - 1][1], seen), page.matched)

    async def _read_all(self, start: PageStart) -> Page:
        """Read a page of groups, aggregates, DISTINCT or ORDER BY, which need every record before the first row."""
        # Without FROM, the first and only row is computed here.
        accumulator = await self._computing.call(0, self._query.accumulator, self._context)
        if not accumulator.full and not await self._count_by_index(accumulator):
            adds = partial(add_documents, accumulator, self._document, self.read_counts)
            async for chunk in self._read_chunks(PageStart()):
                await self._evaluate(adds, chunk)
                if accumulator.full:
                    break
        self.matched = accumulator.matched
        return self._charge_rows(
            await self._computing.call(self.read_counts.size, lambda: self._slice_results(start, accumulator.results()))
        )

    async def _count_by_index(self, accumulator: Accumulator) -> bool:
        """Count the items of a whole container without reading them; False if the query or the scope asks for more, or the
        container changed meanwhile.
        """
        is_whole = (self._scope.lower, self._scope.upper) == (b"", None)
        if self._engine is None or not is_whole or not self._query.counts_only:
            return False
        counted = await self._engine.expiry_counts.count_visible(self._view.node, self._now)
        return counted is not None and accumulator.count_all(counted)

    async def _read_ranked(self, start: PageStart) -> Page:
        """Read a page of ORDER BY RANK. A first pass counts the statistics of the scores, the next ones find the best rows."""
        search = await self._computing.call(0, Search, self._query, self._context)
        adds = partial(add_documents, search, self._view.document, self.read_counts)
        while search.needs_documents:
            async for chunk in self._read_chunks(PageStart()):
                await self._evaluate(adds, chunk)
            await self._computing.call(self.read_counts.size, search.advance)
        self.matched = len(search.results)
        return self._charge_rows(
            await self._computing.call(self.read_counts.size, self._slice_results, start, search.results)
        )

    def _slice_results(self, start: PageStart, results: list[Any]) -> Page:
        """Make the page of a result that is complete in memory."""
        rows: list[bytes] = []
        size = 0
        for row in islice(results, start.seen, start.seen + self._limit):
            rows.append(self._query.encode(row))
            size += len(rows[-1])
            if size > PAGE_BYTES:
                break
        stop = start.seen + len(rows)
        return self._make_page(rows, PageStart(seen=stop) if stop < len(results) else None)


def _row_position(start: PageStart) -> RowPosition | None:
    """Return the sort values and tie-breaker of the row after which a sorted page begins."""
    if not start.keys:
        return None
    values = tuple(key[0] if key else UNDEFINED for key in msgspec.json.decode(start.keys))
    return RowPosition(values, start.number, start.rows)


def _start_after(cursor: RowPosition, seen: int) -> PageStart:
    """Return the position after a row of a sorted result.

    Where the sort values are too long for a token, the position is a number of rows.
    """
    keys = msgspec.json.encode([[] if value is UNDEFINED else [value] for value in cursor.values])
    if len(keys) > MAX_KEY_BYTES:
        return PageStart(seen=seen)
    return PageStart(number=cursor.tie, rows=cursor.row, seen=seen, keys=keys)
