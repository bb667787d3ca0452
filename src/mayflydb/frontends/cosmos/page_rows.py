"""The rows of a page, collected from chunks of records. Nothing here waits, so that a chunk can be evaluated on a thread.

`add` takes a chunk and returns True if the page needs no further one. Then `next` is the start of the next page, unless there is
none; `is_sure` is False if the next page might be empty, so that the caller looks for another record first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from mayflydb.frontends.cosmos.calls import ReadCounts
from mayflydb.frontends.cosmos.resources import ContainerLinks, item_bodies, item_body
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import MAX_COPIES, UNDEFINED, Accumulator, Context, Query, SortedPage

PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page ends with the row that exceeds this size, as pages of the service end at 4 MB."""

MAX_RECORDS_READ: Final = 100_000
"""A page ends after this many records, full or not, which bounds the time of a request."""


ROW_OVERHEAD: Final = 512
"""The bytes of a row besides those of its document: the system properties, and the names of a projection."""


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


class StreamedRows:
    """The rows of a query whose rows depend on one record each."""

    def __init__(
        self,
        query: Query,
        context: Context,
        links: ContainerLinks,
        document: Callable[[Record], Any],
        start: PageStart,
        limit: int,
        counts: ReadCounts,
        is_over: Callable[[], bool],
    ) -> None:
        """`document`: decodes a record. `limit`: the rows of a page. `is_over`: True when the time of a page is over."""
        self.rows: list[bytes] = []
        self.size = 0
        self.matched = 0
        self.next: PageStart | None = None
        self.is_sure = True
        self._query = query
        self._context = context
        self._document = document
        self._start = start
        self._links = links
        self._limit = limit
        self._counts = counts
        self._is_over = is_over
        self._seen = start.seen
        self._last: Record | None = None
        self._find_row = query.value_of(context) if query.has_small_rows else None

    @property
    def is_complete(self) -> bool:
        """True if TOP or LIMIT permits no further row."""
        take, skip = self._query.take, self._query.skip
        return take is not None and self._seen >= skip + take

    @property
    def _is_full(self) -> bool:
        return len(self.rows) >= self._limit or self.size > PAGE_BYTES

    def _keep(self, row: bytes) -> None:
        self.rows.append(row)
        self.size += len(row)

    def _end_after(self, record: Record) -> bool:
        self.next, self.is_sure = PageStart(record.partition, record.seq, 0, self._seen), False
        return True

    def add(self, chunk: Sequence[Record]) -> bool:
        """Add the rows of records."""
        find_row, document, encode = self._find_row, self._document, self._query.encode
        while find_row is not None and (part := self._cut(chunk, MAX_COPIES)):
            found = [row for record in part if (row := find_row(document(record))) is not UNDEFINED]
            if self._add_part(part, [encode(row) for row in found]):
                return True
            chunk = chunk[len(part) :]
        for record in chunk:
            self._counts.add(record)
            if self._add_rows(record):
                return True
            self._last = record
            if self._counts.records >= MAX_RECORDS_READ or self._is_over():
                return self._end_after(record)
        return False

    def _cut(self, chunk: Sequence[Record], copies: int = 1) -> Sequence[Record]:
        """Return the first records of a chunk, within which the page does not end, whichever of them have a row; [] for none.

        `copies`: a row has at most so many copies of its document.
        """
        part = chunk[: min(self._limit - len(self.rows), MAX_RECORDS_READ - self._counts.records)]
        size = copies * sum([len(record.value) for record in part]) + ROW_OVERHEAD * len(part)
        is_counted = self._query.take is not None or self._seen < self._query.skip or self._start.rows > 0
        return [] if is_counted or self.size + size > PAGE_BYTES else part

    def _add_part(self, part: Sequence[Record], rows: list[bytes]) -> bool:
        """Add the rows of records for which the page has room. True if the page ends behind them."""
        self._counts.add_all(part)
        self._seen += len(rows)
        self.matched += len(rows)
        self.rows += rows
        self.size += sum(map(len, rows))
        self._last = part[-1]
        if self._is_full or self._counts.records >= MAX_RECORDS_READ or self._is_over():
            return self._end_after(part[-1])
        return False

    def _add_rows(self, record: Record) -> bool:
        """Add the rows of one record, which gives several where it joins its arrays."""
        start = self._start
        # After a page that ended within a record, the record is read again, and its returned rows are skipped.
        inside = start.rows if start.rows and record.seq == start.number else 0
        for number, row in enumerate(self._query.rows(self._document(record), self._context)):
            if number < inside:
                continue
            # A slow page makes progress too: it ends within a record only after a row of that record.
            if self._is_full or (number > inside and self._is_over()):
                self.next = self._before(record, number)
                return True
            self._seen += 1
            self.matched += 1
            if self._seen > self._query.skip:
                self._keep(self._query.encode(row))
            if self.is_complete:
                return True
        return False

    def _before(self, record: Record, number: int) -> PageStart:
        """Return the position before a row: in its record, or after the record before it, or that of this page's start."""
        if number:
            return PageStart(record.partition, record.seq, number, self._seen)
        last = self._last
        if last is None:
            return msgspec.structs.replace(self._start, seen=self._seen)
        return PageStart(last.partition, last.seq, 0, self._seen)


class ItemRows(StreamedRows):
    """Rows that are the items themselves. Their stored bytes are sent without decoding."""

    def add(self, chunk: Sequence[Record]) -> bool:
        """Add the records that match."""
        matches, context, document, skip = self._query.matches, self._context, self._document, self._query.skip
        while part := self._cut(chunk):
            found = part
            if self._query.has_condition:
                found = [record for record in part if matches(document(record), context)]
            if self._add_part(part, item_bodies(self._links, found)):
                return True
            chunk = chunk[len(part) :]
        for record in chunk:
            self._counts.add(record)
            if matches(document(record), context):
                self._seen += 1
                self.matched += 1
                if self._seen > skip:
                    self._keep(item_body(self._links, record))
                if self.is_complete:
                    return True
            if self._is_full or self._counts.records >= MAX_RECORDS_READ or self._is_over():
                return self._end_after(record)
        return False


class IndexRows:
    """The rows of a sorted page, from records in the order of an index.

    Index keys are prefixes of the sort values, so records with equal keys may come in any order: all of them are read.
    """

    def __init__(
        self,
        page: SortedPage,
        document: Callable[[Record], Any],
        is_within: Callable[[Record], bool],
        counts: ReadCounts,
    ) -> None:
        self._page = page
        self._document = document
        self._is_within = is_within
        self._counts = counts
        self._key: bytes | None = None

    def add(self, chunk: Sequence[tuple[bytes, Record]]) -> bool:
        """Add records with their keys. True where no later key can precede a row of the page."""
        page = self._page
        for key, record in chunk:
            if page.is_satisfied and key != self._key:
                return True
            self._key = key
            self._counts.add(record)
            if self._is_within(record):
                page.add(self._document(record), record.seq)
        return False


class Adds(Protocol):
    """An accumulation of documents. `tie` orders equal ones."""

    def add(self, document: Any, tie: int) -> None: ...


def add_documents(
    accumulator: Adds, document: Callable[[Record], Any], counts: ReadCounts, chunk: Sequence[Record]
) -> None:
    """Add the documents of records to an accumulation."""
    counts.add_all(chunk)
    if isinstance(accumulator, Accumulator) and accumulator.count_all(len(chunk)):
        return
    add = accumulator.add
    for record in chunk:
        add(document(record), record.seq)
