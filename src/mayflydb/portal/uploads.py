"""Files of records that a person uploads: a JSON array or object, JSON Lines, or CSV. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from mayflydb.admin.record_files import CsvLines, FileRecord, JsonLines, LineReader, read_array
from mayflydb.model.errors import BadRequest

MAX_RECORDS: Final = 10_000
"""Records of one upload; a larger file is imported by the command line."""


def read_records(text: str, name: str = "") -> list[FileRecord]:
    """Read a file. `name`: of the file; a `.csv` is read as CSV. BadRequest names the line that is wrong."""
    if not text.strip():
        raise BadRequest("There is nothing to upload: choose a file or paste its text.")
    content = text.encode("utf-8", "replace")
    if name.lower().endswith(".csv"):
        found = _read_lines(content, CsvLines())
    elif text.lstrip().startswith("[") or _is_json(content):
        found = read_array(content)
    else:
        found = _read_lines(content, JsonLines())
    records: list[FileRecord] = []
    try:
        for record in found:
            if len(records) == MAX_RECORDS:
                break
            records.append(record)
        else:
            return records
    except BadRequest as error:
        raise BadRequest(f"{error.message[0].upper()}{error.message[1:]}.") from None
    raise BadRequest(f"A file has at most {MAX_RECORDS:,} records here. `mayfly data import` takes larger ones.")


def _is_json(content: bytes) -> bool:
    try:
        msgspec.json.decode(content, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _read_lines(content: bytes, reader: LineReader) -> Iterator[FileRecord]:
    try:
        for line in content.splitlines(keepends=True):
            record = reader.read(line)
            if record is not None:
                yield record
        reader.end()
    except BadRequest as error:
        raise BadRequest(f"{reader.place}: {error.message}") from None
