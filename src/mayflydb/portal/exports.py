"""Rows as files: JSON Lines and CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mayflydb.portal.results import VALUE, columns_of, encode, format_value


class FileForm(msgspec.Struct, frozen=True):
    """A form of files. `encode` makes the content of rows and their columns."""

    suffix: str
    kind: str
    encode: Callable[[Sequence[Any], Sequence[str]], bytes]


def encode_lines(rows: Sequence[Any], columns: Sequence[str] = ()) -> bytes:
    """Encode one row a line."""
    return b"".join(encode(row) + b"\n" for row in rows)


def encode_csv(rows: Sequence[Any], columns: Sequence[str] = ()) -> bytes:
    """Encode a line of names, and a line for each row. Strings are written as they are, other values as JSON."""
    names = list(columns) or columns_of(rows)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    for row in rows:
        values = row if isinstance(row, Mapping) else {VALUE: row}
        writer.writerow([format_value(values[name]) if name in values else "" for name in names])
    return text.getvalue().encode("utf-8", "replace")


def measure(rows: Sequence[Any]) -> int:
    """Return the bytes of rows as JSON."""
    return sum(len(encode(row)) for row in rows)


def disposition(name: str) -> dict[str, str]:
    """Return the header by which browsers save an answer as a file."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


FORMS: Final[Mapping[str, FileForm]] = {
    "export-jsonl": FileForm("jsonl", "application/x-ndjson", encode_lines),
    "export-csv": FileForm("csv", "text/csv; charset=utf-8", encode_csv),
}
"""By the actions of the buttons."""
