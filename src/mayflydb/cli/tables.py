"""Tables for a terminal: as wide as their cells, and no wider than the screen."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Rows = Sequence[Mapping[str, Any]]

GAP: Final = "  "
LEAST: Final = 8
"""The least width to which a column is folded."""


def draw_table(rows: Rows, folded: Sequence[str] = (), width: int | None = None) -> list[str]:
    """Return the lines of a table. If it is wider than the terminal (`width`), the cells of `folded` columns are broken."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = {name: [cell(row.get(name)) for row in rows] for name in columns}
    widths = {name: max(map(columns_of, (name, *cells[name]))) for name in columns}
    screen = shutil.get_terminal_size().columns if width is None else width
    spare = screen - sum(widths.values()) - len(GAP) * (len(columns) - 1)
    # The widest of those that may be broken gives up columns first, so that the others stay whole as long as possible.
    for name in sorted((name for name in columns if name in folded), key=lambda name: -widths[name]):
        if spare < 0:
            kept = max(min(LEAST, widths[name]), widths[name] + spare)
            spare += widths[name] - kept
            widths[name] = kept
    numbers = {name for name in columns if all(type(row.get(name)) in (int, float) for row in rows)}
    lines = [_line([_pad(name, widths[name], name in numbers) for name in columns])]
    lines.append("─" * min(screen, sum(widths.values()) + len(GAP) * (len(columns) - 1)))
    for n in range(len(rows)):
        broken = [_fold(cells[name][n], widths[name]) for name in columns]
        for height in range(max(map(len, broken))):
            parts = [part[height] if height < len(part) else "" for part in broken]
            lines.append(
                _line([_pad(part, widths[name], name in numbers) for name, part in zip(columns, parts, strict=True)])
            )
    return lines


def cell(value: Any) -> str:
    """Format a value for a table: empty for null, yes and no, lists with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(cell(part) for part in value)
    if isinstance(value, Mapping):
        return msgspec.json.encode(value).decode()
    return _visible(str(value))


def columns_of(text: str) -> int:
    """Return the number of columns that a terminal uses for a text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_columns_of_character(character) for character in text)


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _visible(text: str) -> str:
    """Escape control characters: a name that a client chose must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _line(parts: Sequence[str]) -> str:
    return GAP.join(parts).rstrip()


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - columns_of(text))
    return space + text if right else text + space


def _fold(text: str, width: int) -> list[str]:
    """Break a text into lines of that width, at a space where there is one."""
    lines: list[str] = []
    while columns_of(text) > width:
        end = 0
        used = 0
        for character in text:
            used += _columns_of_character(character)
            if used > width and end > 0:
                break
            end += 1
        space = text.rfind(" ", 0, end + 1)
        lines.append(text[: space if space > 0 else end])
        text = text[space + 1 if space > 0 else end :]
    return [*lines, text]
