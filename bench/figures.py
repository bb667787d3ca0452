"""What was measured: one row of the report per figure, as a table for people and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One row. `value` is the number that `target` speaks of, `how` what it was made of.

    `met` None: there is no target, or it was NOT RUN, and `how` says why.
    """

    name: str
    measured: str
    target: str
    met: bool | None
    how: str
    value: float | None = None


def ratio(name: str, measured: Sequence[float], against: Sequence[float], target: float, what: str) -> Figure:
    """How many times as fast, by the median of the rounds' ratios; the two of a round were measured side by side."""
    ratios = [each / other for each, other in zip(measured, against, strict=True)]
    value = median(ratios)
    spread = f"rounds {min(ratios):.2f}-{max(ratios):.2f}"
    how = f"{median(measured):,.0f}/s against {median(against):,.0f}/s; {spread}; {what}"
    return Figure(name, f"{value:.2f} x", f">= {target:g} x", value >= target, how, value)


def at_most(name: str, value: float, unit: str, target: float, how: str) -> Figure:
    """The smaller the better."""
    return Figure(name, f"{value:.2f} {unit}", f"<= {target:g} {unit}", value <= target, how, value)


def rate(name: str, value: float, target: float | None, how: str) -> Figure:
    """So many in a second."""
    if target is None:
        return Figure(name, f"{value:,.0f}/s", "", None, how, value)
    return Figure(name, f"{value:,.0f}/s", f">= {target:,.0f}/s", value >= target, how, value)


def not_run(name: str, why: str) -> Figure:
    """What could not be measured here."""
    return Figure(name, "NOT RUN", "", None, why)


def table(figures: Sequence[Figure]) -> str:
    """All rows, with the column `how` wrapped."""
    heads = ("figure", "measured", "target", "met", "how")
    words = {True: "yes", False: "NO", None: "-"}
    rows = [(each.name, each.measured, each.target, words[each.met], each.how) for each in figures]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(4)]
    lines = []
    for row in [heads, *rows]:
        how = textwrap.wrap(row[4], 76) or [""]
        first = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        lines.append(f"{first}  {how[0]}".rstrip())
        lines += [" " * (sum(widths) + 8) + more for more in how[1:]]
    return "\n".join(lines)


def document(machine: Mapping[str, str], figures: Sequence[Figure]) -> dict[str, Any]:
    """The same for programs."""
    return {"machine": dict(machine), "figures": [msgspec.to_builtins(each) for each in figures]}
