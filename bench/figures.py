"""Rows of the report, as a table for a terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One row. `value` is the number that `target` speaks of, `how` what it was made of.

    `met` None: there is no target, or it was NOT RUN, and `how` says why. `used`: the processor time of one request, or record;
    where two are compared, ours and theirs.
    """

    name: str
    measured: str
    target: str
    met: bool | None
    how: str
    value: float | None = None
    used: str = ""


class Table(msgspec.Struct, frozen=True):
    """A table of its own form. `numbers`: what a plot shows of it, by line: (x, y)."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: dict[str, tuple[tuple[float, float], ...]] = {}


def ratio(
    name: str,
    measured: Sequence[float],
    against: Sequence[float],
    target: float | None,
    what: str,
    used: str = "",
) -> Figure:
    """How many times as fast, by the median of the rounds' ratios; the two of a round were measured side by side."""
    ratios = [each / other for each, other in zip(measured, against, strict=True)]
    value = median(ratios)
    spread = f"rounds {min(ratios):.2f}-{max(ratios):.2f}"
    how = f"{median(measured):,.0f}/s against {median(against):,.0f}/s; {spread}; {what}"
    if target is None:
        return Figure(name, f"{value:.2f} x", "", None, how, value, used)
    return Figure(name, f"{value:.2f} x", f">= {target:g} x", value >= target, how, value, used)


def at_most(name: str, value: float, unit: str, target: float, how: str, used: str = "") -> Figure:
    """The smaller the better."""
    return Figure(name, f"{value:.2f} {unit}", f"<= {target:g} {unit}", value <= target, how, value, used)


def microseconds(*each: float) -> str:
    """Processor times: `29 us`, `29 us against 69 us`."""
    return " against ".join(f"{value:,.0f} us" if value >= 10 else f"{value:.1f} us" for value in each)


def rate(name: str, value: float, target: float | None, how: str, used: str = "") -> Figure:
    """So many in a second."""
    if target is None:
        return Figure(name, f"{value:,.0f}/s", "", None, how, value, used)
    return Figure(name, f"{value:,.0f}/s", f">= {target:,.0f}/s", value >= target, how, value, used)


def not_run(name: str, why: str) -> Figure:
    """What could not be measured here."""
    return Figure(name, "NOT RUN", "", None, why)


def table(figures: Sequence[Figure]) -> str:
    """All rows, with the column `how` wrapped."""
    heads = ("figure", "measured", "processor", "target", "met", "how")
    words = {True: "yes", False: "NO", None: "-"}
    rows = [(each.name, each.measured, each.used, each.target, words[each.met], each.how) for each in figures]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(5)]
    lines = []
    for row in [heads, *rows]:
        how = textwrap.wrap(row[5], 76) or [""]
        first = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        lines.append(f"{first}  {how[0]}".rstrip())
        lines += [" " * (sum(widths) + 10) + more for more in how[1:]]
    return "\n".join(lines)


def document(machine: Mapping[str, str], figures: Sequence[Figure]) -> dict[str, Any]:
    """The same for programs."""
    return {"machine": dict(machine), "figures": [msgspec.to_builtins(each) for each in figures]}
