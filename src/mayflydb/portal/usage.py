"""The request units of the last hour as a plot of bars, one a minute, with the requests that a budget refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mayflydb.engine.meter import MinuteUse

HEIGHT: Final = 120
"""Pixels of the highest bar."""


class UsageBar(msgspec.Struct, frozen=True):
    """A minute. `x` and `width` in percent, `y` and `height` in pixels. `ago`: minutes before this one."""

    x: float
    width: float
    y: float
    height: float
    ago: int
    rate: str
    refused: int


class UsagePlot(msgspec.Struct, frozen=True):
    """`summary`: one sentence with the peak. `ticks`: RU/s at the axis, from the top down; empty: nothing was spent."""

    bars: Sequence[UsageBar]
    summary: str
    ticks: Sequence[str]
    height: int = HEIGHT


def plot_usage(minutes: Sequence[MinuteUse]) -> UsagePlot:
    """Lay out minutes, the oldest first."""
    peak, step = max(minute.rate for minute in minutes), 100 / len(minutes)
    bars = []
    for n, minute in enumerate(minutes):
        # A minute with little stays visible beside one with much.
        height = max(2.0, HEIGHT * minute.rate / peak) if minute.units else 0.0
        bars.append(
            UsageBar(
                round(n * step + step * 0.1, 3), round(step * 0.8, 3), round(HEIGHT - height, 1), round(height, 1),
                len(minutes) - 1 - n, _format_rate(minute.rate), minute.refused,
            )
        )  # fmt: skip
    refused = sum(minute.refused for minute in minutes)
    ticks = (_format_rate(peak), _format_rate(peak / 2), "0") if peak else ()
    return UsagePlot(bars, _summarize(sum(minute.units for minute in minutes), peak, refused), ticks)


def describe_usage(minutes: Sequence[MinuteUse]) -> list[dict[str, Any]]:
    """Return minutes for programs, the oldest first."""
    return [
        {"request_units": round(each.units, 2), "rate": round(each.rate, 2), "refused": each.refused}
        for each in minutes
    ]


def _summarize(units: float, peak: float, refused: int) -> str:
    if not units and not refused:
        return "No request units were spent in the last 60 minutes."
    answers = f"{refused:,} {'request was' if refused == 1 else 'requests were'} throttled (429)"
    return (
        f"{units:,.0f} request units in the last 60 minutes; the peak minute has {_format_rate(peak)} RU/s on average. "
        f"{answers if refused else 'No request was throttled (429)'}."
    )


def _format_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 or rate == int(rate) else f"{rate:,.2f}"
