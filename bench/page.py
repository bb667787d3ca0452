"""Writes docs/performance.md with its plots, and docs/before-and-after.md.

A part that was not run keeps its tables, and the day on which it was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import plots
from figures import Figure, Table

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "performance.md", DOCS / "before-and-after.md")
FLAT = 1.15
HEADS = ("what", "measured", "processor time", "target", "held", "how")
_HELD = {True: "yes", False: "**no**", None: ""}

PURGES = {
    "purge from a file, items of 1 KB, unloaded": "Mayfly, file, 1 KB",
    "bare SQLite, file, items of 1 KB: DELETE of all in one statement, with an event each": "DELETE in SQLite, 1 KB",
    "purge from a file, items of 200 B, unloaded": "Mayfly, file, 200 B",
    "bare SQLite, file, items of 200 B: DELETE of all in one statement, with an event each": "DELETE in SQLite, 200 B",
}
"""Rows of the part `purge` that are drawn, with their names in the plot."""


def write(name: str, measured: Sequence[Figure | Table], about: Mapping[str, str]) -> None:
    """Replace what the pages say of one part. A page without a place for it stays as it is."""
    figures = [each for each in measured if isinstance(each, Figure)]
    tables = [_table(each.heads, each.rows) for each in measured if isinstance(each, Table)]
    if figures:
        tables.append(_table(HEADS, [_cells(each) for each in figures]))
    content = "\n\n".join([*tables, _told(about)])
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        page = replace_between(page, f"<!-- {name} -->\n", f"<!-- end of {name} -->", f"{content}\n")
        page = replace_between(page, f"<!-- {name} in short -->", f"<!-- end of {name} in short -->", _shorten(figures))
        path.write_text(page, encoding="utf-8")
    _draw(name, measured)


def replace_between(page: str, begin: str, end: str, content: str) -> str:
    """Return a page with other content between two marks; without them it is unchanged."""
    if begin not in page:
        return page
    head, _, rest = page.partition(begin)
    return f"{head}{begin}{content}{end}{rest.partition(end)[2]}"


def _shorten(figures: Sequence[Figure]) -> str:
    """The same for a cell: each figure with its target."""
    told = []
    for each in figures:
        target = f" (goal {each.target}{', missed' if each.met is False else ''})" if each.target else ""
        told.append(_clean(f"{each.name}: {each.measured}{target}"))
    return "; ".join(told)


def _draw(name: str, measured: Sequence[Figure | Table]) -> None:
    if name == "growth":
        for each in measured:
            if isinstance(each, Table) and each.numbers:
                title = "Processor time of an operation, as a share of that over few records (grey: within 15 %)"
                drawn = plots.lines(title, "records", each.numbers, FLAT)
                (DOCS / "performance-growth.svg").write_text(drawn, encoding="utf-8")
    if name == "purge":
        values = {each.name: each.value for each in measured if isinstance(each, Figure) and each.value is not None}
        shown = {words: values[row] for row, words in PURGES.items() if row in values}
        if shown:
            drawn = plots.bars("Expired records removed in a second, each with its event", "/s", shown)
            (DOCS / "performance-purge.svg").write_text(drawn, encoding="utf-8")


def _cells(each: Figure) -> tuple[str, ...]:
    return (each.name, each.measured, each.used, each.target, _HELD[each.met], each.how)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_clean(cell) for cell in row) + " |" for row in lines)


def _clean(cell: str) -> str:
    cell = re.sub(r"[|\n<>{}]", " ", cell.replace("<=", "≤").replace(">=", "≥"))
    return re.sub(r"(?<=\d) us\b", " µs", cell)


def _told(about: Mapping[str, str]) -> str:
    """A sentence about the machine and the day, and a warning if it was busy."""
    busy = float(about["busy before"].partition("%")[0])
    warning = (
        "" if busy < 10 else f" **The machine was busy with other work ({busy:.0f} %): these figures are no measure.**"
    )
    return (
        f"Measured on {about['date'][5:16]} at {about['mayfly']}, Python {about['python']}, {about['processor']},"
        f" {about['system']};"
        f" a synced write of 4 KB takes {about['fdatasync of 4 KB'].partition(' at')[0]}; other server: {about['rival']};"
        f" load by {about['load generator']}.{warning}"
    )
