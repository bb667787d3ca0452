"""The measurements of the features before and after death, for docs/before-and-after.md.

A feature is one row of LIFECYCLE: its name, by which the page has its places, and a function that yields its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ahead import ahead
from erasing import erasing
from figures import Figure
from notifying import delivering, notifying
from sliding import sliding
from undeleting import undeleting
from unused import unused

LIFECYCLE: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "unused": unused,
    "guard-and-events": notifying,
    "delivery": delivering,
    "undelete": undeleting,
    "erasure": erasing,
    "sliding": sliding,
    "as-of": ahead,
}
"""`make bench ARGS=lifecycle` measures all of them, `make bench ARGS=undelete` one."""
