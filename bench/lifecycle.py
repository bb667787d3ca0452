"""The measurements of the features before and after death, for docs/before-and-after.md.

A feature is one row of LIFECYCLE: its name, by which the page has its places, and a function that yields its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from advising import advising
from ahead import ahead
from erasing import erasing
from figures import Figure
from leaving import archiving, cascading, holding, keeping_images, rolling_up
from notifying import delivering, notifying
from past import past
from shredding import shredding
from sliding import sliding
from undeleting import undeleting
from unused import unused

LIFECYCLE: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "unused": unused,
    "guard-and-events": notifying,
    "undelete": undeleting,
    "delivery": delivering,
    "last-images": keeping_images,
    "erasure": erasing,
    "shredding": shredding,
    "sliding": sliding,
    "archive": archiving,
    "roll-up": rolling_up,
    "cascade": cascading,
    "hold": holding,
    "as-of": ahead,
    "earlier": past,
    "advice": advising,
}
"""`make bench ARGS=lifecycle` measures all of them, `make bench ARGS=undelete` one."""
