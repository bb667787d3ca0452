"""RecordIO: a stream of rows in HybridRow. A segment begins it, and a record with length and checksum precedes each row.

https://github.com/microsoft/HybridRow, src/Serialization/HybridRow (Docs/RecordIO.md, SystemSchemas/SystemSchema.json)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

from mayflydb.frontends.cosmos.batch_formats.rows import (
    HEADER,
    Column,
    Schema,
    Storage,
    Type,
    read_row,
    refuse,
    schema_id,
    write_row,
)
from mayflydb.model.errors import Unsupported

SEGMENT: Final = Schema(
    "Segment",
    2147473648,
    Column("length", Type.INT32, Storage.FIXED),
    Column("comment", Type.UTF8, Storage.SPARSE),
    Column("sdl", Type.UTF8, Storage.SPARSE),
    Column("schema", Type.ROW, Storage.SPARSE),
)
"""The beginning of a stream. `length`: the bytes of this row itself."""

RECORD: Final = Schema(
    "Record",
    2147473649,
    Column("length", Type.INT32, Storage.REQUIRED),
    Column("crc32", Type.UINT32, Storage.REQUIRED),
)
"""Length and checksum of the row that follows."""

SHORTEST_SEGMENT: Final = HEADER.size + 1 + 4
RECORD_SIZE: Final = HEADER.size + 4 + 4


def read_records(body: bytes) -> Iterator[memoryview]:
    """Return the rows of a stream one after the other. BadRequest for a stream that is cut short or damaged; Unsupported."""
    stream = memoryview(body)
    if schema_id(stream) != SEGMENT.id:
        refuse("it does not begin with a segment")
    position = _segment_length(stream)
    while position < len(stream):
        rest = stream[position:]
        if schema_id(rest) == SEGMENT.id:
            raise Unsupported("Batches of several segments of RecordIO are not supported by Mayfly.")
        record = read_row(RECORD, rest[:RECORD_SIZE])
        start = position + RECORD_SIZE
        position = start + record["length"]
        if not start + HEADER.size <= position <= len(stream):
            refuse("it is cut short, or the length of a record is wrong")
        row = stream[start:position]
        if crc32(row) != record["crc32"]:
            refuse("the checksum of a record is wrong")
        yield row


def _segment_length(stream: memoryview) -> int:
    length = read_row(SEGMENT, stream[:SHORTEST_SEGMENT]).get("length", 0)
    if not SHORTEST_SEGMENT <= length <= len(stream):
        refuse("it is cut short, or the length of a segment is wrong")
    # A comment, and a schema in words, may follow. They tell nothing that is needed.
    read_row(SEGMENT, stream[:length])
    return int(length)


def write_records(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Return the pieces of a stream of one segment."""
    yield write_row(SEGMENT, {"length": SHORTEST_SEGMENT})
    for row in rows:
        yield write_row(RECORD, {"length": len(row), "crc32": crc32(row)})
        yield row
