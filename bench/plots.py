"""Plots as SVG, in plain text, that can be read on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 46, 44
COLOURS = ("#3b82f6", "#f97316", "#16a34a", "#dc2626", "#a855f7", "#0d9488", "#ca8a04")
"""Of about the same contrast to black and to white."""

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

_STYLE = """<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}.quiet{fill:#59636e}.grid{stroke:#d1d9e0}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}.grid{stroke:#3d444d}}
</style>"""

Points = Sequence[tuple[float, float]]


def lines(title: str, x_title: str, series: Mapping[str, Points], band: float) -> str:
    """Lines over logarithmic axes, each as a share of its first value. `band`: the share up to which a line counts as flat."""
    relative = {name: [(x, y / points[0][1]) for x, y in points] for name, points in series.items()}
    xs = sorted({x for points in relative.values() for x, _ in points})
    ys = [y for points in relative.values() for _, y in points]
    low, high = math.log(min(0.5, *ys)), math.log(max(2.0, *ys) * 1.1)
    inner = WIDTH - LEFT - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        share = math.log(x / xs[0]) / max(1e-9, math.log(xs[-1] / xs[0]))
        return LEFT + share * inner, HEIGHT - BOTTOM - (math.log(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 20, title)]
    upper, lower = place(xs[0], band)[1], place(xs[0], 1 / band)[1]
    parts.append(
        f'<rect x="{LEFT}" y="{upper:.1f}" width="{inner}" height="{lower - upper:.1f}" fill="#888" opacity=".2"/>'
    )
    for tick in TICKS:
        if low <= math.log(tick) <= high:
            y = place(xs[0], tick)[1]
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + inner}"/>')
            parts.append(_text(LEFT - 8, y + 4, f"{tick:g} x", "end", "quiet"))
    parts += [_text(place(x, 1)[0], HEIGHT - BOTTOM + 18, f"{x:,.0f}", "middle", "quiet") for x in xs]
    parts.append(_text(LEFT + inner / 2, HEIGHT - 8, x_title, "middle", "quiet"))
    parts += _drawn(relative, place)
    return _document(parts, title)


def _drawn(relative: Mapping[str, Points], place: Callable[[float, float], tuple[float, float]]) -> list[str]:
    """The lines, and their names beside their ends, apart from each other."""
    parts = []
    ends = sorted((place(*points[-1])[1], name) for name, points in relative.items())
    lowest = TOP - 16.0
    names = {}
    for y, name in ends:
        lowest = max(y, lowest + 16)
        names[name] = lowest
    over = max(0.0, lowest - (HEIGHT - BOTTOM))
    for number, (name, points) in enumerate(relative.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        at = names[name] - over
        parts.append(f'<rect x="{WIDTH - RIGHT + 10}" y="{at - 5:.1f}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 26, at + 5, name))
    return parts


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """Horizontal bars with their values."""
    step, left = 30, 260
    height = TOP + step * len(values) + 8
    most = max(values.values())
    parts = [_text(10, 20, title)]
    for number, (name, value) in enumerate(values.items()):
        y = TOP + number * step
        width = max(1.0, value / most * (WIDTH - left - 120))
        colour = COLOURS[0] if number % 2 == 0 else COLOURS[1]
        parts.append(_text(left - 10, y + 15, name, "end"))
        parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="20" fill="{colour}"/>')
        parts.append(_text(left + width + 8, y + 15, f"{value:,.0f} {unit}", "start", "quiet"))
    return _document(parts, title, height)


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def _document(parts: Sequence[str], title: str, height: float = HEIGHT) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", _STYLE, *parts, "</svg>", ""])
