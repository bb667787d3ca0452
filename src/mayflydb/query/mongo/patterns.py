"""Regular expressions, run by `regex` under a time limit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from bson import Regex

from mayflydb.query.mongo.faults import MqlError

if TYPE_CHECKING:
    import regex  # type: ignore[import-untyped, unused-ignore]

SEARCH_SECONDS: Final = 0.05

_LETTERS: Final = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.UNICODE, "u"), (re.VERBOSE, "x"))


def letters_of(pattern: Regex[str]) -> str:
    """The flags of a regular expression value, as `$options` has them."""
    flags = pattern.flags
    return "".join(letter for flag, letter in _LETTERS if flags & flag)


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, letters: str = "") -> regex.Pattern[str]:
    """A pattern with flags among `imsxu`. MqlError 51108 for another flag, 51091 for what is no pattern."""
    import regex

    flags = regex.V0
    for letter in letters:
        if letter not in "imsxu":
            raise MqlError(51108, f"invalid flag in regex options: {letters}")
        flags |= {"i": regex.I, "m": regex.M, "s": regex.S, "x": regex.X, "u": regex.V0}[letter]
    try:
        return regex.compile(pattern, flags, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise MqlError(51091, f"Regular expression is invalid: {error}") from None


def search(pattern: regex.Pattern[str], text: str, start: int = 0) -> regex.Match[str] | None:
    """The first match from an offset on. MqlError 51156 when it takes too long."""
    try:
        return pattern.search(text, start, timeout=SEARCH_SECONDS)
    except TimeoutError:
        raise MqlError(51156, "Error occurred while executing the regular expression: match limit exceeded") from None
