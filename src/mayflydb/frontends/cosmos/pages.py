"""Pages of a query over items: reading records, evaluating the query, and the start of the next page.

A streaming query resumes after the last record that it read, by the record's position and not by a count of rows. So items that
are written, deleted or expire between two pages neither repeat nor hide others. Visibility is decided at each page's own `now`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.engine import Engine, Scope
from mayflydb.frontends.cosmos import access
from mayflydb.frontends.cosmos.resources import item_body
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.instant import Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import UNDEFINED, Caller, Context, Query, RowPosition, Search, SortedPage

PAGE_BYTES = 4 * 1024 * 1024
"""A page ends with the row that exceeds this size, as pages of the service end at 4 MB."""

MAX_RECORDS_READ = 100_000
"""A page ends after this many records, full or not, which bounds the time of a request."""

MAX_KEY_BYTES = 500
"""The limit for the sort values in a continuation token, in bytes."""


class PageStart(msgspec.Struct, frozen=True, array_like=True):
    """The position at which the next page begins: after a record, or `rows` rows into it.

    `seen`: the rows of the result before it. `keys`: the sort values of the last row of a sorted result as JSON, each in an
    array that is empty for undefined.
    """

    partition: bytes = b""
    number: int = 0
    rows: int = 0
    seen: int = 0
    keys: bytes = b""

    @property
    def is_counted(self) -> bool:
        """Return True if the position is only a number of rows, not the position of a record."""
        return self.seen > 0 and self.number == 0 and not self.keys


class ReadCounts(msgspec.Struct):
    """The records that were read for a page so far, and the bytes of their values."""

    records: int = 0
    size: int = 0


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


class Pager:
    """Reads the page of one request."""

    def __init__(
        self, reads: access.Scanner, view: ContainerView, query: Query, scope: Scope, now: Instant, limit: int,
        call: Caller | None = None, engine: Engine | None = None,
    ) -> None:  # fmt: skip
        """`call`: calls the user-defined functions of the query. `engine`: the engine whose indexes may be used, or None."""
        self._engine = engine
        self._view = view
        self._query = query
        self._scope = scope
        self._now = now
        self._limit = limit
        self._context = Context(now, call=call)
        self._source: access.RecordSource = access.ScopeScan(reads, view, scope, now)
        self.read_counts = ReadCounts()
        self.matched = 0
        """The number of records read that the query could use."""
        self._document = view.document_reader(query.reads)

    async def read(self, start: PageStart) -> Page:
        """Read the page that begins at `start`."""
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
        if self._query.is_identity:
            return await self._read_items(start)
        return await self._read_stream(start)

    async def _choose_source(self, engine: Engine) -> access.IndexOrder | None:
        """Return the index to walk, if one has the rows in order.

        Otherwise set the source of records: a lookup in indexes, or the scan.
        """
        access_path = await access.choose_access(engine, self._view, self._query, self._scope)
        if access_path is None or isinstance(access_path, access.IndexOrder):
            return access_path
        self._source = access.IndexLookup(engine, self._view, self._scope, self._now, access_path)
        return None

    async def _read_records(self, start: PageStart) -> AsyncIterator[Record]:
        after = Position(start.partition, start.number) if start.number or start.partition else None
        # About as many as the page needs: at least 16, as WHERE drops some, and at most 256, since a batch is one read
        # and one turn of the event loop.
        batch = min(256, max(self._limit, 16))
        read_counts = self.read_counts
        async for chunk in self._source.batches(after, batch):
            for record in chunk:
                read_counts.records += 1
                read_counts.size += len(record.value)
                yield record

    def _make_page(self, rows: list[bytes], start: PageStart | None, matched: int | None = None) -> Page:
        return Page(rows, self.read_counts, start, self.matched if matched is None else matched)

    def _remaining(self, seen: int) -> int | None:
        """Return how many more rows TOP or LIMIT permits; None without them."""
        take, skip = self._query.take, self._query.skip
        return None if take is None else max(0, skip + take - seen)

    async def _read_items(self, start: PageStart) -> Page:
        """Read a page of rows that are the items themselves. Their stored bytes are sent without decoding."""
        rows: list[bytes] = []
        size, seen = 0, start.seen
        matches, context = self._query.matches, self._context
        remaining = self._remaining(seen)
        if remaining == 0:
            return self._make_page(rows, None)
        async for record in self._read_records(start):
            if matches(self._document(record), context):
                seen += 1
                self.matched += 1
                if seen > self._query.skip:
                    rows.append(item_body(self._view.links, record))
                    size += len(rows[-1])
                if self._remaining(seen) == 0:
                    return self._make_page(rows, None)
            if len(rows) >= self._limit or size > PAGE_BYTES or self.read_counts.records >= MAX_RECORDS_READ:
                return await self._end_or_continue(rows, PageStart(record.partition, record.seq, 0, seen))
        return self._make_page(rows, None)

    async def _read_stream(self, start: PageStart) -> Page:
        """Read a page of rows that depend on one record each. A record gives several rows where it joins its arrays."""
        rows: list[bytes] = []
        size, seen = 0, start.seen
        last: Record | None = None
        if self._remaining(seen) == 0:
            return self._make_page(rows, None)
        # A page that ended within a record reads the record again and skips the rows that it gave.
        async for record in self._read_records(
            PageStart(start.partition, start.number - 1 if start.rows else start.number)
        ):
            inside = start.rows if start.rows and record.seq == start.number else 0
            for number, row in enumerate(self._query.rows(self._document(record), self._context)):
                if number < inside:
                    continue
                if len(rows) >= self._limit or size > PAGE_BYTES:
                    return self._make_page(rows, _start_before(start, last, record, number, seen))
                seen += 1
                self.matched += 1
                if seen > self._query.skip:
                    rows.append(msgspec.json.encode(row))
                    size += len(rows[-1])
                if self._remaining(seen) == 0:
                    return self._make_page(rows, None)
            last = record
            if self.read_counts.records >= MAX_RECORDS_READ:
                return await self._end_or_continue(rows, PageStart(record.partition, record.seq, 0, seen))
        return self._make_page(rows, None)

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
        async for record in self._read_records(PageStart()):
            page.add(self._document(record), record.seq)
        return self._cut_page(page, wanted, start)

    async def _read_by_index(self, engine: Engine, start: PageStart, index_order: access.IndexOrder) -> Page:
        """Read a sorted page in the order of an index, and stop where no later key can precede a row of the page.

        Index keys are prefixes of the sort values, so records with equal keys may come in any order: all of them are read.
        """
        page, wanted = self._sorted_page(start)
        key, batch = None, min(256, max(wanted, 16))
        after = _row_position(start)
        async for at, record in access.walk(engine, self._view, self._query, index_order, after, self._now, batch):
            if page.is_satisfied and at != key:
                break
            key = at
            self.read_counts.records += 1
            self.read_counts.size += len(record.value)
            if access.is_within(self._scope, record):
                page.add(self._document(record), record.seq)
        # An index that was dropped during the walk had lost entries: the rows are read again without it.
        if not await engine.indexes.has_all(self._view.id, [index_order.index]):
            return await self._read_sorted(start)
        return self._cut_page(page, wanted, start)

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
            rows.append(msgspec.json.encode(value))
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
        accumulator = self._query.accumulator(self._context)
        if not accumulator.full:
            async for record in self._read_records(PageStart()):
                accumulator.add(self._document(record), record.seq)
                if accumulator.full:
                    break
        self.matched = accumulator.matched
        return self._slice_results(start, accumulator.results())

    async def _read_ranked(self, start: PageStart) -> Page:
        """Read a page of ORDER BY RANK. A first pass counts the statistics of the scores, the next ones find the best rows."""
        search = Search(self._query, self._context)
        while search.needs_documents:
            async for record in self._read_records(PageStart()):
                search.add(self._view.document(record), record.seq)
            search.advance()
        self.matched = len(search.results)
        return self._slice_results(start, search.results)

    def _slice_results(self, start: PageStart, results: list[Any]) -> Page:
        """Make the page of a result that is complete in memory."""
        stop = start.seen + self._limit
        rows = [msgspec.json.encode(row) for row in results[start.seen : stop]]
        return self._make_page(rows, PageStart(seen=stop) if stop < len(results) else None)


def _start_before(first: PageStart, last: Record | None, record: Record, number: int, seen: int) -> PageStart:
    """Return the position before a row: in its record, or after the record before it.

    `last` is None if the page has read no record before; the position is then that of the page's start.
    """
    if number:
        return PageStart(record.partition, record.seq, number, seen)
    return msgspec.structs.replace(first, seen=seen) if last is None else PageStart(last.partition, last.seq, 0, seen)


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
