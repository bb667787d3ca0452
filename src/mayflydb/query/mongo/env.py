"""What the filters, expressions and updates of one command are evaluated in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mayflydb.query.mongo.collation import SIMPLE, Collation


def no_chance() -> float:
    """For commands that draw nothing."""
    raise AssertionError("nobody has said where chance comes from")


class Env(msgspec.Struct, frozen=True):
    """`now`: milliseconds since 1970, what `$$NOW` and `$currentDate` give; `variables`: those of `let`, by name without `$$`;
    `chance`: numbers in [0, 1) for `$rand` and `$sampleRate`; `score`: how well a document is found by the `$text` of a pipeline,
    for expressions, while documents are as they were read."""

    now: int
    variables: Mapping[str, Any] = {}
    collation: Collation = SIMPLE
    chance: Callable[[], float] = no_chance
    score: Callable[[Any], float] | None = None
