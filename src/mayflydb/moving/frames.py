"""The form of an export: one file, written and read from beginning to end.

    b"mayfly export 2\\n"
    any number of frames:

    +----------------+----------------+-------------------+
    | length         | CRC-32         | payload           |
    | uint32, big-e. | uint32, big-e. | `length` bytes    |
    +----------------+----------------+-------------------+

A payload is one MessagePack array. Its first member names the kind of the frame; the structures below have the others. The order
is one `export`, every `row` of the catalogue by id, the `records` by container id and seq, and one `end`, which is last. The end
has the counts of rows and records, and the CRC-32 of the whole file before its own frame. So a torn file, or one put together
from two, is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, TypeAlias
from zlib import crc32

import msgspec

from mayflydb.model.errors import Corrupt, Unsupported
from mayflydb.model.instant import Instant
from mayflydb.model.record import Entry, Record
from mayflydb.moving.source import Piece
from mayflydb.store.interface import CatalogRow

_FIRST_WORDS = b"mayfly export "
VERSION = 2
OLDEST_VERSION = 1
"""The form in which records have no dates. Version 2 added them."""

MAGIC = b"%s%d\n" % (_FIRST_WORDS, VERSION)
_READABLE = tuple(b"%s%d\n" % (_FIRST_WORDS, version) for version in range(OLDEST_VERSION, VERSION + 1))

MAX_PAYLOAD_BYTES = 1 << 28
"""Bytes of a payload. A piece is about a megabyte; a length beyond this is damage, and must not be allocated."""

_HEAD = Struct(">II")
_INTEGERS = range(-(1 << 63), 1 << 64)
"""The integers that MessagePack can encode: int64 and uint64."""


class Header(msgspec.Struct, frozen=True, array_like=True, tag="export"):
    """The numbers of catalogue rows and records, the fingerprint of the catalogue, and the writer of the file."""

    rows: int
    records: int
    fingerprint: int
    writer: str


class FileRow(msgspec.Struct, frozen=True, array_like=True, tag="row"):
    """A catalogue row. `name` is UTF-8, lone surrogates included."""

    id: int
    parent: int
    name: bytes
    data: bytes
    lsn: int
    seq: int


class FileRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record, its entries (index, key) and dates (slot, instant).

    Instants are microseconds since 1970; one beyond 64 bits is decimal text.
    """

    partition: bytes
    key: bytes
    value: bytes
    written: int
    anchor: int | str | None
    override: int | None
    lsn: int
    seq: int
    entries: tuple[tuple[int, bytes], ...]
    dates: tuple[tuple[int, int | str], ...] = ()


class FileRecords(msgspec.Struct, frozen=True, array_like=True, tag="records"):
    """Some records of one container."""

    container: int
    records: tuple[FileRecord, ...]


class End(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """The numbers of rows and records, `last_id`, `mark` and `settings` as in Ending, and the CRC-32 of all bytes before."""

    rows: int
    records: int
    last_id: int
    mark: int | None
    checksum: int
    settings: tuple[tuple[str, int], ...] = ()


Frame: TypeAlias = Header | FileRow | FileRecords | End

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Frame)


class Torn(Corrupt):
    """The file is whole up to some byte, and ends or is damaged there."""


class Frames:
    """Reads and writes the frames of a file. `end`: the end of the last good frame, `checksum`: the CRC-32 of all before."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """`name`: the file's name in errors."""
        self._file = file
        self._name = name
        self.end = 0
        self.checksum = 0

    def begin(self) -> None:
        """Write the first line of a new file."""
        self.cut(0, 0)
        self._append(MAGIC)

    def cut(self, end: int, checksum: int) -> None:
        """Truncate the file at `end`. `checksum`: the CRC-32 of all bytes before."""
        self._file.truncate(self._file.seek(end))
        self.end, self.checksum = end, checksum

    def append(self, frame: Frame) -> None:
        """Write a frame."""
        payload = _encode(frame)
        self._append(_HEAD.pack(len(payload), crc32(payload)) + payload)

    def read(self) -> Iterator[Frame]:
        """Yield all frames from the beginning. Torn at the first incomplete one, Unsupported for another version of the form."""
        self._file.seek(0)
        first = self._file.read(len(MAGIC))
        if first not in _READABLE:
            raise _unreadable_error(first, self._name)
        self._advance(first)
        while head := self._file.read(_HEAD.size):
            yield self._frame(head)

    def _frame(self, head: bytes) -> Frame:
        if len(head) < _HEAD.size:
            raise self._torn_error()
        length, checksum = _HEAD.unpack(head)
        payload = self._file.read(min(length, MAX_PAYLOAD_BYTES))
        if len(payload) < length or crc32(payload) != checksum:
            raise self._torn_error()
        try:
            frame: Frame = _decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise self._torn_error() from error
        if isinstance(frame, End) and frame.checksum != self.checksum:
            raise self._torn_error()
        self._advance(head + payload)
        return frame

    def _torn_error(self) -> Torn:
        return Torn(f"{self._name} is torn, or damaged: it is whole up to byte {self.end} only")

    def _append(self, data: bytes) -> None:
        self._file.write(data)
        self._advance(data)

    def _advance(self, data: bytes) -> None:
        self.end += len(data)
        self.checksum = crc32(data, self.checksum)


def _unreadable_error(first: bytes, name: str) -> Corrupt | Unsupported:
    version = first.removeprefix(_FIRST_WORDS).partition(b"\n")[0]
    if first.startswith(_FIRST_WORDS) and version.isdigit() and int(version) not in range(OLDEST_VERSION, VERSION + 1):
        return Unsupported(
            f"{name} is an export of form {int(version)}; this version of Mayfly reads forms up to {VERSION}"
        )
    # After a power cut a file system may show zeros in place of bytes that were not written yet.
    if any(line.startswith(first.rstrip(b"\0")) for line in _READABLE):
        return Torn(f"{name} is torn: it ends in its first line")
    return Corrupt(f"{name} is no export of Mayfly")


# --- rows and pieces as they are in the file -----------------------------------------------------------------------------


def encode_row(row: CatalogRow) -> FileRow:
    """Turn a row into its frame."""
    return FileRow(row.id, row.parent, row.name.encode("utf-8", "surrogatepass"), row.data, row.lsn, row.seq)


def decode_row(row: FileRow) -> CatalogRow:
    """Turn a frame into a row."""
    return CatalogRow(row.id, row.parent, row.name.decode("utf-8", "surrogatepass"), row.data, row.lsn, row.seq)


def encode_piece(piece: Piece) -> FileRecords:
    """Turn a piece into its frame."""
    return FileRecords(piece.container, tuple(_encode_record(record, entries) for record, entries in piece.records))


def decode_piece(piece: FileRecords) -> Piece:
    """Turn a frame into a piece."""
    return Piece(piece.container, [_decode_record(record) for record in piece.records])


def _encode_record(record: Record, entries: tuple[Entry, ...]) -> FileRecord:
    return FileRecord(
        record.partition,
        record.key,
        record.value,
        record.written,
        None if record.anchor is None else _encode_instant(record.anchor),
        record.override,
        record.lsn,
        record.seq,
        tuple((entry.index, entry.key) for entry in entries),
        tuple((slot, _encode_instant(date)) for slot, date in record.dates),
    )


def _encode_instant(instant: Instant) -> int | str:
    return instant if instant in _INTEGERS else str(instant)


def _decode_record(found: FileRecord) -> tuple[Record, tuple[Entry, ...]]:
    place = (found.partition, found.key, found.value, found.written)
    anchor = None if found.anchor is None else int(found.anchor)
    dates = tuple((slot, int(date)) for slot, date in found.dates)
    record = Record(*place, anchor, found.override, found.lsn, found.seq, dates)
    return record, tuple(Entry(index, key) for index, key in found.entries)
