"""What all reliability tests share: sizes, and figures that are reported at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from reliability.eager import make_rounds_eager

HOURS = float(os.environ.get("HOURS") or 0.05)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Report a figure of this run: it is printed here and in the summary at the end."""

    def report(text: str) -> None:
        record_property("figure", text)
        print(text)

    return report


@pytest.fixture(autouse=True)
def eager_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sweeps of a SQLite store leave stale places too, and rounds begin at once."""
    make_rounds_eager(monkeypatch.setattr)


@pytest.fixture
def soaking() -> Callable[[float], Iterator[int]]:
    """`for n in soaking(share)`: count up until this share of HOURS has gone."""

    def rounds(share: float) -> Iterator[int]:
        end, n = monotonic() + HOURS * 3600 * share, 0
        while monotonic() < end:
            yield n
            n += 1

    return rounds
