"""The forecast as a plot of bars: a rectangle for each span of time, and the sentence that names the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from mayflydb.model.errors import BadRequest
from mayflydb.portal import words

HORIZONS: Final[Mapping[str, tuple[int, str, str]]] = {
    "1h": (60, "1 h", "hour"),
    "1d": (48, "1 d", "day"),
    "7d": (56, "7 d", "7 days"),
    "30d": (60, "30 d", "30 days"),
}
"""By the value in the address: the number of bars, the label, and the words for a sentence."""

HEIGHT: Final = 180
"""Pixels of the highest bar."""


class Bar(msgspec.Struct, frozen=True):
    """`x` and `width` in percent, `y` and `height` in pixels. `address`: the list of the records that are due in it."""

    x: float
    width: float
    y: float
    height: float
    since: str
    to: str
    count: int
    address: str


class ForecastPlot(msgspec.Struct, frozen=True):
    """`summary`: one sentence with the peak. `ticks`: the numbers at the axis of counts, from the top down. `exact` False: the
    counts are estimates.
    """

    horizon: str
    bars: Sequence[Bar]
    summary: str
    ticks: Sequence[int]
    marks: Sequence[str]
    exact: bool
    choices: Sequence[tuple[str, str]] = tuple((value, label) for value, (_, label, _) in HORIZONS.items())
    height: int = HEIGHT


def check_horizon(text: str) -> str:
    """Return a horizon that the page offers. BadRequest for another one."""
    if text not in HORIZONS:
        raise BadRequest(f"the page has no horizon {text!r}", hint=f"one of {', '.join(HORIZONS)}")
    return text


def plot_forecast(horizon: str, forecast: Mapping[str, Any]) -> ForecastPlot:
    """Lay out a forecast of the admin API."""
    buckets = forecast["buckets"]
    peak = max((bucket["count"] for bucket in buckets), default=0)
    step = 100 / len(buckets)
    bars = []
    for n, bucket in enumerate(buckets):
        # A bar of one record stays visible beside one of many.
        height = max(2.0, HEIGHT * bucket["count"] / peak) if bucket["count"] else 0.0
        address = f"/_explorer/due?{urlencode({'from': bucket['from'], 'to': bucket['to']})}"
        since, to = words.readable(bucket["from"]), words.readable(bucket["to"])
        bars.append(
            Bar(
                round(n * step + step * 0.1, 3), round(step * 0.8, 3), round(HEIGHT - height, 1), round(height, 1),
                since, to, bucket["count"], address,
            )
        )  # fmt: skip
    ticks = (peak, peak // 2, 0) if peak > 1 else (peak, 0) if peak else ()
    marks = (bars[0].since, bars[len(bars) // 2].since, bars[-1].to)
    return ForecastPlot(
        horizon, bars, _summarize(HORIZONS[horizon][2], forecast, bars, peak), ticks, marks, forecast["exact"]
    )


def _summarize(span: str, forecast: Mapping[str, Any], bars: Sequence[Bar], peak: int) -> str:
    if not peak:
        if not forecast["exact"]:
            return f"In a sample of the records none expires within the next {span}."
        return f"No record expires within the next {span}."
    top = next(bar for bar in bars if bar.count == peak)
    total = forecast["in_horizon"]
    verb = "record expires" if total == 1 else "records expire"
    said = words.count(total, forecast["exact"])
    said = said[0].upper() + said[1:]
    return f"{said} {verb} within the next {span}; the peak is {words.count(peak, forecast['exact'])} up to {top.to}."
