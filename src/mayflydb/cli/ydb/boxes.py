"""Tables with lines around their cells, and names in columns, as YDB's command line prints them.

Form and widths: https://github.com/ydb-platform/ydb `ydb/public/lib/ydb_cli/common/pretty_table.cpp`, `tabbed_table.cpp`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click
import msgspec

DEFAULT_LINE_WIDTH: Final = 80
"""Characters of a line where there is no terminal."""


class BoxRow(msgspec.Struct):
    """One row of a table. `text`: lines below the cells, over the whole width."""

    cells: Sequence[str]
    text: str = ""


def render_box(
    names: Sequence[str] | None, rows: Sequence[BoxRow | Sequence[str]], *, lines_between: bool = False, width: int = 0
) -> str:
    """Return a table. `names` None: without a header. `width`: limit of a whole line, in characters; 0: no limit."""
    box_rows = [each if isinstance(each, BoxRow) else BoxRow(each) for each in rows]
    lines = box_rows if names is None else [BoxRow(names), *box_rows]
    if not lines:
        return ""
    widths = _column_widths([each.cells for each in lines], width)
    out = [_rule_line(widths, "┌┬┐")]
    for number, row in enumerate(lines):
        out += _row_lines(row.cells, widths)
        if row.text:
            out.append(_rule_line(widths, "├┴┤", "╴"))
            out += _text_lines(row.text, sum(widths) + 3 * (len(widths) - 1))
        is_header = names is not None and number == 0
        # Below a text no cells are joined, so the line has no crossings there.
        if (lines_between and number < len(lines) - 1) or is_header:
            out.append(_rule_line(widths, "├┬┤" if row.text else "├┼┤"))
    out.append(_rule_line(widths, "└─┘" if lines[-1].text else "└┴┘"))
    return "\n".join(out) + "\n"


def _column_widths(rows: Sequence[Sequence[str]], line: int) -> list[int]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    most = (line or sys.maxsize) - (3 * len(widths) + 1)
    # As YDB's program does: the widest column is halved, again and again; the last step takes no more than what is too
    # much.
    while (total := sum(widths)) > most and max(widths) > 1:
        place = widths.index(max(widths))
        wide = widths[place]
        widths[place] = wide - (total - most) if total - most < wide // 2 else max(wide // 2, 1)
    return widths


def _rule_line(widths: Sequence[int], ends: str, dash: str = "─") -> str:
    return ends[0] + ends[1].join(dash * (width + 2) for width in widths) + ends[2]


def _row_lines(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    pieces = [
        [cell[at : at + width] for at in range(0, len(cell), max(width, 1))]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, pieces), default=0)):
        shown = (
            (piece[number] if number < len(piece) else "").ljust(width)
            for piece, width in zip(pieces, widths, strict=True)
        )
        yield f"│ {' │ '.join(shown)} │"


def _text_lines(text: str, width: int) -> Iterator[str]:
    for line in text.splitlines():
        for at in range(0, len(line), max(width, 1)):
            yield f"│ {line[at : at + width].ljust(width)} │"


def render_columns(names: Sequence[str], line: int) -> str:
    """Return names in as many columns as fit a line, two blanks apart, ordered downwards."""
    # The most columns that fit a line; one if even that is too wide.
    count = max((each for each in range(1, len(names) + 1) if _fits(names, each, line)), default=1)
    parts = _split_columns(names, count)
    widths = [max(map(len, part)) + 2 for part in parts[:-1]] + [0]
    rows = (
        "".join(part[number].ljust(width) for part, width in zip(parts, widths, strict=True) if number < len(part))
        for number in range(max(map(len, parts), default=0))
    )
    return "".join(f"{row}\n" for row in rows)


def _split_columns(names: Sequence[str], count: int) -> list[Sequence[str]]:
    height = -(-len(names) // count)
    return [names[at : at + height] for at in range(0, len(names), height or 1)]


def _fits(names: Sequence[str], count: int, line: int) -> bool:
    parts = _split_columns(names, count)
    # Two blanks stand behind each column but the last, and no column is narrower than three characters.
    widths = [max(max(map(len, part)) + (2 if part is not parts[-1] else 0), 3) for part in parts]
    return len(parts) == count and sum(widths) < line


def terminal_width() -> int:
    """Return the width of the terminal; 0 if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def print_text(text: str) -> None:
    """Print a text that ends with a line break of its own."""
    click.echo(text, nl=False)
