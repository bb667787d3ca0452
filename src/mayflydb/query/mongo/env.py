"""The environment of one command: the values that its filters, expressions and updates read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from bson import Timestamp

from mayflydb.query.mongo.collation import SIMPLE, Collation


def no_random() -> float:
    """The source of random numbers for commands that use none: raise AssertionError."""
    raise AssertionError("the command has no source of random numbers")


class Env(msgspec.Struct, frozen=True):
    """The environment of a command.

    `now`: milliseconds since 1970, for `$$NOW` and `$currentDate`. `variables`: those of `let`, by name without `$$`.
    `random`: returns a random number in [0, 1), for `$rand` and `$sampleRate`.
    `score`: returns the text score of a document for the `$text` of a pipeline; it is set only while documents are unchanged
    since they were read.
    `cluster_time`: for `$$CLUSTER_TIME`; None where the server has none.
    """

    now: int
    variables: Mapping[str, Any] = {}
    collation: Collation = SIMPLE
    random: Callable[[], float] = no_random
    score: Callable[[Any], float] | None = None
    cluster_time: Timestamp | None = None
