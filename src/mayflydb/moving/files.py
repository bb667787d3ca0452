"""Writes an export to a file, continues an interrupted one, and reads one as a source."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from mayflydb.model.errors import Conflict, Corrupt
from mayflydb.moving.copy import CopyResult
from mayflydb.moving.frames import (
    End,
    FileRecords,
    FileRow,
    Frame,
    Frames,
    Header,
    Torn,
    decode_piece,
    decode_row,
    encode_piece,
    encode_row,
)
from mayflydb.moving.source import Ending, Piece, Source, fingerprint
from mayflydb.store.interface import CatalogRow
from mayflydb.store.segments import KeySegment


class Contents:
    """The parts of an export that were read so far: header, catalogue rows and end. Records are only counted."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.rows: list[CatalogRow] = []
        self.records = 0
        self.last: dict[int, int] = {}
        self.end: End | None = None

    def add(self, frame: Frame) -> None:
        """Add the next frame. Corrupt if it may not follow here."""
        match frame:
            case Header() if self.header is None:
                self.header = frame
            case FileRow() if self.header is not None and len(self.rows) < self.header.rows:
                self.rows.append(decode_row(frame))
            case FileRecords() if self._may_follow(frame):
                self.records += len(frame.records)
                self.last[frame.container] = frame.records[-1].seq
            case End() if self._may_end(frame):
                self.end = frame
            case _:
                raise Corrupt(f"what an export may not hold there: {type(frame).__name__}")

    def _may_follow(self, frame: FileRecords) -> bool:
        seqs = [self.last.get(frame.container, 0), *(record.seq for record in frame.records)]
        ascends = len(seqs) > 1 and all(left < right for left, right in pairwise(seqs))
        return self.end is None and self._has_rows() and ascends

    def _has_rows(self) -> bool:
        return self.header is not None and len(self.rows) == self.header.rows

    def _may_end(self, end: End) -> bool:
        return self.end is None and self._has_rows() and (end.rows, end.records) == (len(self.rows), self.records)


# --- reading -------------------------------------------------------------------------------------------------------------


class FileSource:
    """An export as a source. `open` reads and checks the whole file before the first record is taken from it."""

    def __init__(self, file: BinaryIO, description: str, contents: Contents) -> None:
        assert contents.end is not None
        self._file = file
        self.description = description
        self._end = contents.end
        self.rows: Sequence[CatalogRow] = contents.rows
        self.records = contents.records

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Iterator[FileSource]:
        """Open and check a file. Torn or Corrupt if it is not whole, Unsupported for another version of the form; OSError."""
        with path.open("rb") as file:
            contents = Contents()
            for frame in Frames(file, str(path)).read():
                _add_frame(contents, frame, path)
            if contents.end is None:
                raise Torn(f"{path} is torn: its end is missing")
            yield cls(file, str(path), contents)

    async def pieces(self, after: Mapping[int, int]) -> AsyncIterator[Piece]:
        for frame in Frames(self._file, self.description).read():
            if isinstance(frame, FileRecords):
                rest = decode_piece(frame).after(after.get(frame.container, 0))
                if rest is not None:
                    yield rest
            # Reading a file never waits; the progress bar needs its turns.
            await asyncio.sleep(0)

    async def segments(self, container: int) -> Sequence[KeySegment]:
        return ()  # An export has plain values.

    async def ending(self) -> Ending:
        return Ending(self._end.last_id, self._end.mark, self._end.settings)


def _add_frame(contents: Contents, frame: Frame, path: Path) -> None:
    try:
        contents.add(frame)
    except Corrupt as error:
        raise Corrupt(f"{path} is damaged: {error}") from error


# --- writing -------------------------------------------------------------------------------------------------------------


def unfinished_path(path: Path) -> Path:
    """Return the path of an export until it is complete."""
    return path.with_name(f"{path.name}.unfinished")


async def export(source: Source, path: Path, writer: str, report: Callable[[int, int], None]) -> CopyResult:
    """Write everything to a new file. The file gets its name when all of it is on disk.

    An interrupted export of the same source is continued. `writer`: the version that writes, for people. Conflict if the file
    exists or another export writes it; WriteConflict if the source was changed meanwhile; OSError.
    """
    if path.exists():
        raise Conflict(f"{path} exists")
    place = unfinished_path(path)
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        _lock(file, place)
        frames, contents = _resume_file(file, place, source, writer)
        before = contents.records
        report(before, source.records)
        async for piece in source.pieces(contents.last):
            _append(frames, contents, encode_piece(piece))
            report(contents.records, source.records)
        ending = await source.ending()
        if contents.records != source.records:
            raise Corrupt(f"{source.description} gave {contents.records} of {source.records} records")
        counted = (len(contents.rows), contents.records)
        frames.append(End(*counted, ending.last_id, ending.mark, frames.checksum, ending.settings))
        # The order matters after a power cut: first the content, then the name, then the directory that holds the name.
        file.flush()
        os.fsync(descriptor)
        place.rename(path)
    _sync_directory(path.absolute().parent)
    return CopyResult(source.records, before)


def _lock(file: BinaryIO, place: Path) -> None:
    # The system drops this lock when its process ends, so a crash leaves none behind.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Conflict(f"another export is writing {place}") from None


def _resume_file(file: BinaryIO, place: Path, source: Source, writer: str) -> tuple[Frames, Contents]:
    """Return the file after its last whole frame, with the catalogue complete. An export of another source is overwritten."""
    frames, contents = Frames(file, str(place)), Contents()
    end = checksum = 0
    with contextlib.suppress(Torn):
        for frame in frames.read():
            if isinstance(frame, End):
                # The interruption came between the end and the rename: the end is written again.
                break
            _add_frame(contents, frame, place)
            end, checksum = frames.end, frames.checksum
    state = fingerprint(source.rows)
    if contents.header is None or (contents.header.fingerprint, contents.header.records) != (state, source.records):
        contents = Contents()
        frames.begin()
        _append(frames, contents, Header(len(source.rows), source.records, state, writer))
    else:
        frames.cut(end, checksum)
    for row in source.rows[len(contents.rows) :]:
        _append(frames, contents, encode_row(row))
    return frames, contents


def _append(frames: Frames, contents: Contents, frame: Frame) -> None:
    contents.add(frame)
    frames.append(frame)


def _sync_directory(directory: Path) -> None:
    """Flush a directory: a new name survives a power cut only when its directory is on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
