"""The life of one record as a line: written, expired, purged, and the present."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mayflydb.admin.requests import parse_moment
from mayflydb.portal import words

MARGIN: Final = 3.0
"""Percent of the line on both sides of what is drawn."""


class Moment(msgspec.Struct, frozen=True):
    """`x`: its place in percent. `kind`: written, expiry, purge or now."""

    kind: str
    label: str
    time: str
    x: float


class LifeLine(msgspec.Struct, frozen=True):
    """`moments` by time. `alive_to` and `waits_to`: the ends of the life and of the wait for the purge, in percent.

    `left`: the span until the expiry; empty when the record has expired, or never does. `summary`: the line as a sentence.
    """

    moments: list[Moment]
    alive_to: float
    waits_to: float
    left: str
    deadline: str
    summary: str


def draw_life(explained: Mapping[str, Any]) -> LifeLine:
    """Lay out the explanation of a record's deadline, as the admin API gives it."""
    given = {
        "written": ("Written", explained["written"]),
        "expiry": ("Expires" if explained["state"] == "alive" else "Expired", explained["deadline"]),
        "purge": ("Purge", explained["purge_from"]),
        "now": ("Now", explained["now"]),
    }
    times = {kind: parse_moment(time) for kind, (_, time) in given.items() if time is not None}
    start, end = min(times.values()), max(times.values())
    width = max(1, end - start)
    # A life without an end goes on behind the present.
    reach = 100 - 2 * MARGIN if "expiry" in times else 70.0
    places = {kind: round(MARGIN + reach * (time - start) / width, 2) for kind, time in times.items()}
    moments = [
        Moment(kind, given[kind][0], words.deadline(given[kind][1]), places[kind])
        for kind in sorted(times, key=lambda kind: (times[kind], list(given).index(kind)))
    ]
    alive_to = places.get("expiry", 100.0)
    left = times["expiry"] - times["now"] if "expiry" in times else 0
    return LifeLine(
        moments,
        alive_to,
        places.get("purge", alive_to),
        words.short_span(left) if left > 0 else "",
        explained["deadline"] or "",
        "; ".join(f"{each.label.lower()} {each.time}" for each in moments if each.kind != "now"),
    )
