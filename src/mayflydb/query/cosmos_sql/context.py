"""The context of a query's execution: the instant, the seed of RAND and the user-defined functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mayflydb.model.instant import Instant

Caller: TypeAlias = Callable[[str, Sequence[Any]], Any]
_FRACTION_BITS = 53


class Context:
    """One execution of a query: `now` for the time functions, `seed` for RAND. Use one for each request.

    `call` calls a user-defined function: name and arguments to result, all JSON values or UNDEFINED.
    """

    __slots__ = ("call", "draws", "now", "seed")

    def __init__(self, now: Instant, seed: int = 0, call: Caller | None = None) -> None:
        self.now = now
        self.seed = seed
        self.call = call
        self.draws = 0

    def draw_random(self) -> float:
        """Draw the next number in [0, 1); the same seed gives the same sequence."""
        self.draws += 1
        # The hash of a counter: a seed gives the same numbers whatever other queries run. A double below 1 has 53 bits.
        digest = hashlib.blake2b(b"%d:%d" % (self.seed, self.draws), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> (64 - _FRACTION_BITS)) / (1 << _FRACTION_BITS)
