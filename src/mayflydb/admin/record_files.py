"""Files of records, read line by line: JSON Lines and CSV; and JSON arrays as a whole. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from mayflydb.model.errors import BadRequest

MAX_LINE: Final = 4 << 20
"""Bytes of a line of JSON Lines, and of a record of CSV."""


class FileRecord(msgspec.Struct, frozen=True):
    """A record of a file. `place`: its line, or its number in an array. `size`: about its bytes."""

    place: str
    value: dict[str, Any]
    size: int


class LineCutter:
    """Cuts the parts of a file into lines, with their ends."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def cut(self, part: bytes) -> Iterator[bytes]:
        """Yield the lines that a part completes. BadRequest for a line that is too long."""
        start = 0
        while (end := part.find(b"\n", start) + 1) > 0:
            line = part[start:end]
            if self._rest:
                line = b"".join([*self._rest, line])
                self._rest, self._size = [], 0
            yield line
            start = end
        if start < len(part):
            self._rest.append(part[start:])
            self._size += len(part) - start
            if self._size > MAX_LINE:
                raise BadRequest(f"a line has at most {MAX_LINE >> 20} MiB")

    def end(self) -> bytes:
        """Return the last line, if it has no end."""
        return b"".join(self._rest)


class LineReader(Protocol):
    """Reads the records of a file from its lines, in their order."""

    @property
    def place(self) -> str:
        """The place of the last line."""
        ...

    def read(self, line: bytes) -> FileRecord | None:
        """Return the record that a line completes; None: there is none. BadRequest without the place of the line."""
        ...

    def end(self) -> None:
        """Raise BadRequest if the file ends within a record."""
        ...


class JsonLines:
    """Reads one JSON object a line. Empty lines are passed over."""

    def __init__(self) -> None:
        self._number = 0

    @property
    def place(self) -> str:
        return f"line {self._number}"

    def read(self, line: bytes) -> FileRecord | None:
        self._number += 1
        if not line.strip():
            return None
        return FileRecord(self.place, check_object(decode_json(line)), len(line))

    def end(self) -> None:
        pass


class CsvLines:
    """Reads CSV. The first line names the properties; an empty cell is a missing one. A cell in quotes may have several lines."""

    def __init__(self) -> None:
        self._number = 0
        self._names: list[str] = []
        self._open = b""

    @property
    def place(self) -> str:
        return f"line {self._number}"

    def read(self, line: bytes) -> FileRecord | None:
        self._number += 1
        is_first, text = not self._open, self._open + line
        self._open = b""
        if len(text) > MAX_LINE:
            raise BadRequest(f"a record has at most {MAX_LINE >> 20} MiB")
        # An open quote goes on in the next line. A quote within a cell that has none around it opens nothing.
        if text.count(b'"') % 2 and (not is_first or self._parse(text) is None):
            self._open = text
            return None
        cells = self._parse(text)
        if cells is None:
            raise BadRequest("the quotes of a cell are not closed, or text follows them")
        if not self._names:
            self._names = _check_names(cells)
            return None
        if len(cells) > len(self._names):
            raise BadRequest(f"{len(cells)} cells, and {len(self._names)} names")
        values = {name: read_cell(cell) for name, cell in zip(self._names, cells, strict=False) if cell}
        return FileRecord(self.place, values, len(text)) if values else None

    def end(self) -> None:
        if self._open:
            raise BadRequest("the file ends within quotes")

    def _parse(self, text: bytes) -> list[str] | None:
        """Return the cells of a record; None: it is not complete, or no CSV. BadRequest for text that is not UTF-8."""
        try:
            decoded = text.decode("utf-8" if self._names else "utf-8-sig")
        except UnicodeDecodeError:
            raise BadRequest("this is no text in UTF-8") from None
        try:
            rows = list(csv.reader(io.StringIO(decoded, newline=""), strict=True))
        except csv.Error:
            return None
        if len(rows) > 1:
            raise BadRequest("lines end with a line feed, and not with a carriage return alone")
        return rows[0] if rows else []


def _check_names(cells: list[str]) -> list[str]:
    if not cells or not all(cells) or len(set(cells)) != len(cells):
        raise BadRequest("the first line of a CSV file names each property once")
    return cells


def read_array(text: bytes) -> Iterator[FileRecord]:
    """Read a JSON array of objects, or one object."""
    # Others get the interpreter between two records, and not while a whole array is decoded.
    values = _split(text) if text.lstrip(b" \t\r\n").startswith(b"[") else [text]
    for number, value in enumerate(values, 1):
        place = f"record {number}"
        try:
            yield FileRecord(place, check_object(decode_json(bytes(value))), len(bytes(value)))
        except BadRequest as error:
            raise BadRequest(f"{place}: {error.message}") from None


def _split(text: bytes) -> list[msgspec.Raw]:
    try:
        return _decode_array(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"this is no JSON: {error}") from None


_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read_cell(cell: str) -> Any:
    """Return the JSON value of a cell; a cell that is none is text."""
    try:
        return msgspec.json.decode(cell)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return cell


def format_cell(value: Any) -> str:
    """Return text as it is, unless it would be read as another value, or as none; any other value as JSON."""
    if isinstance(value, str) and value:
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return value
    return msgspec.json.encode(value).decode()


def decode_json(text: bytes) -> Any:
    """Decode JSON. BadRequest."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"this is no JSON: {error}") from None


def check_object(value: Any) -> dict[str, Any]:
    """Return a JSON object. BadRequest for another value."""
    if not isinstance(value, dict):
        raise BadRequest("this is no object")
    return value
