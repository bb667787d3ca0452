"""Regular expressions from clients: compiled once, each search under a time limit, because they may backtrack without end."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.functions.signature import Function, function
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

if TYPE_CHECKING:
    import regex  # type: ignore[import-untyped, unused-ignore]

SEARCH_SECONDS: Final = 0.05
LONGEST_PATTERN: Final = 4096


@lru_cache(maxsize=256)
def _compiled(pattern: str, modifiers: str) -> regex.Pattern[str] | None:
    """The pattern, None for a modifier other than i, m, s and x; BadQuery for what is no pattern."""
    import regex

    flags = regex.V0
    for modifier in modifiers:
        if modifier not in "imsx":
            return None
        flags |= {"i": regex.I, "m": regex.M, "s": regex.S, "x": regex.X}[modifier]
    if len(pattern) > LONGEST_PATTERN:
        raise BadQuery(f"A regular expression may be {LONGEST_PATTERN} characters long.")
    try:
        return regex.compile(pattern, flags, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise BadQuery(f"The regular expression {pattern!r} is not valid: {error}.") from None


def _slow(pattern: str) -> BadQuery:
    return BadQuery(f"The regular expression {pattern!r} takes more than {SEARCH_SECONDS * 1000:.0f} ms on one string.")


def _match(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compiled(pattern, modifiers)
    if compiled is None:
        return UNDEFINED
    try:
        return compiled.search(text, timeout=SEARCH_SECONDS) is not None
    except TimeoutError:
        raise _slow(pattern) from None


def _extract(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compiled(pattern, modifiers)
    if compiled is None:
        return UNDEFINED
    try:
        found = compiled.search(text, timeout=SEARCH_SECONDS)
    except TimeoutError:
        raise _slow(pattern) from None
    return UNDEFINED if found is None else found.group()


def _extract_all(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compiled(pattern, modifiers)
    if compiled is None:
        return UNDEFINED
    try:
        return [found.group() for found in compiled.finditer(text, timeout=SEARCH_SECONDS)]
    except TimeoutError:
        raise _slow(pattern) from None


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("REGEXMATCH", "ss?s", _match),
    function("REGEXEXTRACT", "ss?s", _extract),
    function("REGEXEXTRACTALL", "ss?s", _extract_all),
)
