"""What all reliability tests share: a seed that repeats a run, sizes, and figures that are reported at the end."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
HOURS = float(os.environ.get("HOURS") or 0.05)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """This test's own seed, drawn from SEED and the test's name, so that a test alone repeats what it did among others."""
    print(f"SEED={SEED}")
    yield zlib.crc32(f"{SEED}:{request.node.name}".encode())
    print(f"SEED={SEED}")


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Report a figure of this run: it is printed here and in the summary at the end."""

    def report(text: str) -> None:
        record_property("figure", text)
        print(text)

    return report


@pytest.fixture
def soaking() -> Callable[[float], Iterator[int]]:
    """`for n in soaking(share)`: count up until this share of HOURS has gone."""

    def rounds(share: float) -> Iterator[int]:
        end, n = monotonic() + HOURS * 3600 * share, 0
        while monotonic() < end:
            yield n
            n += 1

    return rounds
