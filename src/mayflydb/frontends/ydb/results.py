"""Result sets in messages that clients can take: each is filled with rows up to a number of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.packing import Encode, layout_of
from mayflydb.frontends.ydb.work import Columns, ResultPart, Stats
from mayflydb.query.yql.faults import Issue
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type

USUAL: Final = 1 << 20
"""Bytes of rows in one message where a client asks for nothing else."""

LARGEST: Final = 48 << 20
"""And at most: clients refuse messages of 64 MiB."""

SLICE_BYTES: Final = 64 << 10
SLICE_ROWS: Final = 512
"""Bytes and rows that are encoded in one turn of the event loop, about: well under two milliseconds of work."""

FIRST_ROWS: Final = 16
"""Rows of the first slice, before it is known how large they are."""


class Filling(Protocol):
    """One result set on its way into messages."""

    def add(self, rows: Sequence[Row]) -> AsyncIterator[bytes]:
        """Take more rows; the messages' contents that are full by that."""

    def rest(self) -> bytes:
        """The content of the last message, which may be without rows. It is asked for once, at the end."""


class Layout(Protocol):
    """How rows become ResultSet messages."""

    def begin(self, columns: Columns) -> Filling:
        """A new result set."""


class Parts:
    """Values of protobuf. `limit`: bytes of a message, 0: the usual. `once`: columns stand in the first one of each set only."""

    def __init__(self, limit: int = 0, once: bool = False) -> None:
        self._limit = limit
        self._once = once

    def begin(self, columns: Columns) -> Filling:
        """As in Layout."""
        head, encode = layout_of(tuple(columns))
        return RowFilling(head, encode, self._limit, once=self._once)


class RowFilling:
    """Rows, encoded slice by slice, in messages of about `limit` bytes, each with `head` in front.

    `limit` 0: the usual. `most_rows`: of a message; 0: any number. `once`: only the first message has the head. A row that is
    larger than the limit has a message of its own. No more than one message and one slice are held.
    """

    def __init__(self, head: bytes, encode: Encode, limit: int = 0, most_rows: int = 0, once: bool = False) -> None:
        self._head = head
        self._encode = encode
        self._limit = min(limit or USUAL, LARGEST)
        self._most_rows = most_rows or (1 << 62)
        self._once = once
        self._kept: list[bytes] = []
        self._size = 0
        self._rows = 0
        self._slice = FIRST_ROWS
        self._turn = 0

    async def add(self, rows: Sequence[Row]) -> AsyncGenerator[bytes, None]:
        """As in Filling."""
        start = 0
        while start < len(rows):
            room = self._most_rows - self._rows or self._most_rows
            some = rows[start : start + min(self._slice, room)]
            start += len(some)
            encoded = 0
            for content, count in _halved(self._encode, some, self._limit):
                if self._kept and (self._size + len(content) > self._limit or self._rows + count > self._most_rows):
                    yield self.rest()
                self._kept.append(content)
                self._size += len(content)
                self._rows += count
                encoded += len(content)
            fitting = SLICE_BYTES * len(some) // max(1, encoded)
            self._slice = max(1, min(fitting, SLICE_ROWS))
            self._turn += max(encoded * SLICE_ROWS // SLICE_BYTES, len(some))
            if self._turn >= SLICE_ROWS:
                self._turn = 0
                await asyncio.sleep(0)

    def rest(self) -> bytes:
        """What is held, as one message."""
        content = self._head + b"".join(self._kept)
        self._kept, self._size, self._rows = [], 0, 0
        if self._once:
            self._head = b""
        return content


def _halved(encode: Encode, rows: Sequence[Row], limit: int) -> Iterator[tuple[bytes, int]]:
    """Rows, encoded, in pieces within the limit as far as single rows are; with the number of rows in each."""
    content = encode(rows)
    if len(content) <= limit or len(rows) == 1:
        yield content, len(rows)
        return
    middle = len(rows) // 2
    yield from _halved(encode, rows[:middle], limit)
    yield from _halved(encode, rows[middle:], limit)


class Piece(msgspec.Struct, frozen=True):
    """What one message says. `content`: the inside of a ResultSet; None: there is none. `tx_id` as in ResultPart.

    `warnings`: in the first one. `stats`: in the last one, where asked for.
    """

    index: int
    content: bytes | None
    tx_id: str
    stats: Stats | None = None
    warnings: tuple[Issue, ...] = ()


async def filled(results: AsyncIterator[ResultPart], layout: Layout) -> AsyncGenerator[Piece, None]:
    """The messages of a query's result sets: one at least for each."""
    filling: Filling | None = None
    last: ResultPart | None = None
    warnings: tuple[Issue, ...] = ()
    async for part in results:
        warnings += part.warnings
        if filling is not None and last is not None and part.index != last.index:
            yield Piece(last.index, filling.rest(), last.tx_id, None, warnings)
            filling, warnings = None, ()
        last = part
        if part.index < 0:
            yield Piece(part.index, None, part.tx_id, part.stats, warnings)
            warnings = ()
            continue
        filling = filling or layout.begin(part.columns)
        async for content in filling.add(part.rows):
            yield Piece(part.index, content, part.tx_id, None, warnings)
            warnings = ()
    if filling is not None and last is not None:
        yield Piece(last.index, filling.rest(), last.tx_id, last.stats, warnings)


def result_set(columns: Sequence[tuple[str, Type]], rows: Sequence[Row], truncated: bool = False) -> bytes:
    """The inside of one ResultSet."""
    head, encode = layout_of(tuple(columns))
    return head + encode(rows) + wire.number(3, int(truncated))
