"""Settings by which the small sweeps of tests go the way of large ones, through the rounds of the directory."""

from __future__ import annotations

from collections.abc import Callable

from mayflydb.store.sqlite import directory, directory_rounds


def make_rounds_eager(set_to: Callable[[object, str, object], None] = setattr) -> None:
    """Let sweeps of two records leave their places, and rounds of short steps begin at once."""
    set_to(directory, "FEWEST_STALE", 2)
    set_to(directory_rounds, "FEWEST", 1)
    set_to(directory_rounds, "SHARE", 1 << 60)
    for name in ("STEP", "LONGEST_STEP", "LONGEST_STEP_ON_LOOP"):
        set_to(directory_rounds, name, 5)
