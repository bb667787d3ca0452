"""Rows and errors of a query as a page shows them: a table, JSON, and the line and column of an error. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mayflydb.model.errors import MayflyError

MAX_COLUMNS: Final = 40
MAX_CELL: Final = 200
"""Characters of a cell of the table."""

MAX_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the rows that one page shows."""

VALUE: Final = "value"
"""The column of rows that are no objects."""


class Fault(msgspec.Struct, frozen=True):
    """An error of a query. `location`: line and column of the text; `start` and `end`: its characters, or -1."""

    message: str
    code: str = ""
    location: str = ""
    start: int = -1
    end: int = -1


class ShownRows(msgspec.Struct, frozen=True):
    """Rows of a table, with the address of each row's record or an empty text, and the rows as JSON.

    `left_out`: rows that are not shown since the page would be too large. `more_columns`: columns that the JSON alone shows.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    json: str
    left_out: int
    more_columns: int


def describe(rows: Sequence[Any], columns: Sequence[str] = (), links: Sequence[str] = ()) -> ShownRows:
    """Return rows as a page shows them. `columns`: their order, if the rows do not tell."""
    texts, size = [], 0
    for row in rows:
        texts.append(format_json(row))
        size += len(texts[-1])
        if size > MAX_BYTES and len(texts) > 1:
            texts.pop()
            break
    shown = rows[: len(texts)]
    names = list(columns) or columns_of(shown)
    few = names[:MAX_COLUMNS]
    lines = [
        (links[at] if at < len(links) else "", [format_cell(row, name) for name in few]) for at, row in enumerate(shown)
    ]
    body = ",\n".join(texts)
    return ShownRows(few, lines, f"[\n{body}\n]" if texts else "[]", len(rows) - len(texts), len(names) - len(few))


def columns_of(rows: Sequence[Any]) -> list[str]:
    """Return the names of all properties, in the order of their first appearance."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row if isinstance(row, Mapping) else (VALUE,)))
    return list(names)


def format_cell(row: Any, name: str) -> str:
    """Return the text of a cell: a string as it is, other values as JSON, a missing property as nothing."""
    if isinstance(row, Mapping):
        return shorten(format_value(row[name])) if name in row else ""
    return shorten(format_value(row)) if name == VALUE else ""


def format_value(value: Any) -> str:
    """Return a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else encode(value).decode("utf-8", "replace")


def shorten(text: str) -> str:
    """Cut a text that is too long for a cell."""
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def format_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return msgspec.json.format(encode(value), indent=2).decode("utf-8", "replace")


def encode(value: Any) -> bytes:
    """Encode as JSON. Halves of surrogate pairs, which UTF-8 cannot encode, become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_halves(value))


def _without_halves(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_without_halves(name): _without_halves(each) for name, each in value.items()}
    return [_without_halves(each) for each in value] if isinstance(value, list) else value


def locate(error: MayflyError, ran: str, text: str, offset: int = 0) -> Fault:
    """Return the error with its place in `text`, of which `ran` is the part at `offset`."""
    code, start, end = (error.detail.get(name) for name in ("code", "start", "end"))
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= len(ran):
        return Fault(error.message, str(code or ""))
    before = text[: offset + start]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return Fault(
        error.message, str(code or ""), f"line {line}, column {column}", offset + start, offset + max(end, start)
    )
