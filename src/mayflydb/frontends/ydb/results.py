"""Result sets in messages of limited size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from mayflydb.evaluation.statement import HERE, Computing
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.packing import RowsEncoder, result_encoder
from mayflydb.frontends.ydb.query_run import Columns, QueryStats, ResultPart
from mayflydb.query.yql.faults import Issue
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Primitive, Type, bare

DEFAULT_MESSAGE_BYTES: Final = 1 << 20
"""Bytes of rows in one message, unless the client asks for another limit."""

MAX_REQUESTED_BYTES: Final = 48 << 20
"""The upper bound of that limit. Clients refuse messages of 64 MiB."""

SLICE_BYTES: Final = 64 << 10
SLICE_ROWS: Final = 1024
"""About so many bytes or rows are encoded before other tasks run: well under two milliseconds of work."""

FIRST_ROWS: Final = 16
"""Rows in the first slice, before the size of rows is known."""


class ResultMessages(Protocol):
    """Encodes one result set as a series of messages."""

    def add(self, rows: Sequence[Row]) -> AsyncIterator[bytes]:
        """Take more rows. Yield the contents of the messages that are full."""

    def flush(self) -> bytes:
        """Return the content of the last message, which may have no rows. To be called once, at the end."""


class ResultFormat(Protocol):
    """A format of ResultSet messages."""

    def begin(self, columns: Columns, computing: Computing) -> ResultMessages:
        """Begin a new result set. `computing` runs the encoding of its rows."""


class ProtobufFormat:
    """Rows as values of protobuf.

    `limit`: bytes of one message; 0: the default. `columns_once`: columns stand in the first message of each result set only.
    """

    def __init__(self, limit: int = 0, columns_once: bool = False) -> None:
        self._limit = limit
        self._columns_once = columns_once

    def begin(self, columns: Columns, computing: Computing) -> ResultMessages:
        """See `ResultFormat.begin`."""
        head, encode = result_encoder(tuple(columns))
        plain = all(isinstance(bare(type), Primitive) for _, type in columns)
        return RowMessages(head, encode, self._limit, columns_once=self._columns_once, computing=computing, plain=plain)


class RowMessages:
    """Encodes rows in slices, and collects slices in messages of about `limit` bytes, each beginning with `head`.

    `limit` 0: the default. `max_rows`: limit of rows in a message; 0: none. `columns_once`: only the first message has the
    head. A row above the limit has a message of its own. At most one message and one slice are in memory. `computing`
    encodes each slice. `plain`: no value is a container.
    """

    def __init__(
        self,
        head: bytes,
        encode: RowsEncoder,
        limit: int = 0,
        max_rows: int = 0,
        columns_once: bool = False,
        computing: Computing = HERE,
        plain: bool = True,
    ) -> None:
        self._computing = computing
        self._plain = plain
        self._head = head
        self._encode = encode
        self._limit = min(limit or DEFAULT_MESSAGE_BYTES, MAX_REQUESTED_BYTES)
        self._max_rows = max_rows or (1 << 62)
        self._columns_once = columns_once
        self._slices: list[bytes] = []
        self._size = 0
        self._rows = 0
        self._slice_rows = FIRST_ROWS
        self._work_since_turn = 0

    async def add(self, rows: Sequence[Row]) -> AsyncGenerator[bytes, None]:
        """See `ResultMessages.add`."""
        start = 0
        while start < len(rows):
            # A slice either fits into the message that is being filled, or, if that one is full, into the next.
            room = self._max_rows - self._rows or self._max_rows
            slice_rows = rows[start : start + min(self._slice_rows, room)]
            start += len(slice_rows)
            encoded = 0
            # Few rows of plain values are copied, whatever their length.
            computing = HERE if len(slice_rows) <= FIRST_ROWS and self._plain else self._computing
            for content, count in await computing.call(
                SLICE_BYTES, _encode_slice, self._encode, slice_rows, self._limit
            ):
                if self._slices and (self._size + len(content) > self._limit or self._rows + count > self._max_rows):
                    yield self.flush()
                self._slices.append(content)
                self._size += len(content)
                self._rows += count
                encoded += len(content)
            # Rows of one result set are alike, so this slice tells how many rows the next one may have.
            fitting = SLICE_BYTES * len(slice_rows) // max(1, encoded)
            self._slice_rows = max(1, min(fitting, SLICE_ROWS))
            # Work is counted in rows: SLICE_BYTES count as much as SLICE_ROWS rows, whichever is more.
            self._work_since_turn += max(encoded * SLICE_ROWS // SLICE_BYTES, len(slice_rows))
            if self._work_since_turn >= SLICE_ROWS:
                self._work_since_turn = 0
                await asyncio.sleep(0)

    def flush(self) -> bytes:
        """Return the collected slices as one message."""
        content = self._head + b"".join(self._slices)
        self._slices, self._size, self._rows = [], 0, 0
        if self._columns_once:
            self._head = b""
        return content


def _encode_slice(encode: RowsEncoder, rows: Sequence[Row], limit: int) -> list[tuple[bytes, int]]:
    return list(_encode_within(encode, rows, limit))


def _encode_within(encode: RowsEncoder, rows: Sequence[Row], limit: int) -> Iterator[tuple[bytes, int]]:
    """Encode rows, halved until each part is within the limit or a single row. Yield (bytes, number of rows)."""
    content = encode(rows)
    if len(content) <= limit or len(rows) == 1:
        yield content, len(rows)
        return
    middle = len(rows) // 2
    yield from _encode_within(encode, rows[:middle], limit)
    yield from _encode_within(encode, rows[middle:], limit)


class ResponsePart(msgspec.Struct, frozen=True):
    """The parts of one response message.

    `content`: the inside of a ResultSet; None: the message has none. `tx_id`: see ResultPart.

    `warnings` stand in the first message of a query, `stats` in the last one, if the request asks for statistics.
    """

    index: int
    content: bytes | None
    tx_id: str
    stats: QueryStats | None = None
    warnings: tuple[Issue, ...] = ()


async def encode_results(
    results: AsyncIterator[ResultPart], result_format: ResultFormat, computing: Computing
) -> AsyncGenerator[ResponsePart, None]:
    """Yield the messages of a query's result sets, at least one for each. `computing` encodes their rows."""
    messages: ResultMessages | None = None
    last: ResultPart | None = None
    warnings: tuple[Issue, ...] = ()
    async for part in results:
        # The last message of a result set is held until the next part is there: statistics belong into the very last
        # message, and only then it is known that this one is not it.
        warnings += part.warnings
        if messages is not None and last is not None and part.index != last.index:
            yield ResponsePart(last.index, messages.flush(), last.tx_id, None, warnings)
            messages, warnings = None, ()
        last = part
        if part.index < 0:
            yield ResponsePart(part.index, None, part.tx_id, part.stats, warnings)
            warnings = ()
            continue
        messages = messages or result_format.begin(part.columns, computing)
        async for content in messages.add(part.rows):
            yield ResponsePart(part.index, content, part.tx_id, None, warnings)
            warnings = ()
    if messages is not None and last is not None:
        yield ResponsePart(last.index, messages.flush(), last.tx_id, last.stats, warnings)


def encode_result_set(columns: Sequence[tuple[str, Type]], rows: Sequence[Row], truncated: bool = False) -> bytes:
    """Return the inside of a ResultSet."""
    head, encode = result_encoder(tuple(columns))
    return head + encode(rows) + wire.int_field(3, int(truncated))
