"""Regular expressions from clients: compiled once and cached; each search has a time limit."""

from __future__ import annotations

from typing import Final

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value
from mayflydb.query.regexes import FLAG_LETTERS, LimitedPattern, compile_limited, keep_compiled

SEARCH_SECONDS: Final = 0.05
MAX_PATTERN_CHARACTERS: Final = 4096


@keep_compiled
def _compile_pattern(pattern: str, modifiers: str) -> LimitedPattern[str] | None:
    """Compile a pattern; None for a modifier other than i, m, s and x. BadQuery for an invalid pattern."""
    if not FLAG_LETTERS.issuperset(modifiers):
        return None
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadQuery(f"A regular expression may be {MAX_PATTERN_CHARACTERS} characters long.")
    try:
        return compile_limited(pattern, modifiers, SEARCH_SECONDS, lambda: _slow(pattern))
    except ValueError as error:
        raise BadQuery(f"The regular expression {pattern!r} is not valid: {error}.") from None


def _slow(pattern: str) -> BadQuery:
    return BadQuery(f"The regular expression {pattern!r} takes more than {SEARCH_SECONDS * 1000:.0f} ms on one string.")


def _match(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compile_pattern(pattern, modifiers)
    return UNDEFINED if compiled is None else compiled.search(text) is not None


def _extract(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compile_pattern(pattern, modifiers)
    found = None if compiled is None else compiled.search(text)
    return UNDEFINED if found is None else found.group()


def _extract_all(text: str, pattern: str, modifiers: str = "") -> Value:
    compiled = _compile_pattern(pattern, modifiers)
    return UNDEFINED if compiled is None else [found.group() for found in compiled.find_all(text)]


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("REGEXMATCH", "ss?s", _match),
    function("REGEXEXTRACT", "ss?s", _extract),
    function("REGEXEXTRACTALL", "ss?s", _extract_all),
)
