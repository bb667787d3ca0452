"""Regular expressions of clients, compiled and executed under a time limit, because backtracking can be exponential."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic

if TYPE_CHECKING:
    import regex  # type: ignore[import-untyped, unused-ignore]

LETTERS: Final = frozenset("imsx")
"""The supported flags: `i` ignore case, `m` multiline, `s` dot matches newlines, `x` verbose."""

_LITERAL: Final = r"(?:[^\\\[\](){}.*+?^$|#]|\\x[0-9a-fA-F]{2}|\\[^\w\s]|\[[^\]\\^]\])"
"""One character that stands for itself: plain, escaped, or alone in a class."""

_TOKEN: Final = re.compile(
    rf"(?P<run>{_LITERAL}{{65,}})"
    r"|\(\?#[^)]*\)"
    r"|\(\?(?:[=!>|:]|<[=!]|[A-Za-z0-9-]*[:)]|P?[<'=>&][^>')]*|.)"
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\{[^}]*\}"
    r"|\\.|.",
    re.DOTALL,
)
"""A run of literals, or what no run begins in: a comment, the opening of a group, a class, a count, an escape, a character."""

_UNIT: Final = re.compile(_LITERAL, re.DOTALL)

LONGEST_LITERAL: Final = 64
"""Literals that the library may take together. To look for n of them it builds tables in time n³, which no limit stops."""


def _cut(token: re.Match[str]) -> str:
    text: str = token[0]
    if token["run"] is None:
        return text
    # A quantifier may follow the last one, and belongs to it alone.
    units: list[str] = _UNIT.findall(text)
    last = units.pop()
    starts = range(0, len(units), LONGEST_LITERAL)
    return "".join(f"(?>{''.join(units[start : start + LONGEST_LITERAL])})" for start in starts) + last


def cut_literals(pattern: AnyStr) -> AnyStr:
    """An equal expression in which long runs of literals are cut into atomic groups, which the library leaves apart."""
    if isinstance(pattern, bytes):
        return _TOKEN.sub(_cut, pattern.decode("latin-1")).encode("latin-1")
    return _TOKEN.sub(_cut, pattern)


class LimitedPattern(Generic[AnyStr]):
    """A compiled regular expression. A call that takes longer than `seconds` raises the exception that `too_slow` returns."""

    __slots__ = ("_pattern", "_search", "_seconds", "_too_slow", "groupindex", "groups")

    def __init__(self, pattern: regex.Pattern[AnyStr], seconds: float, too_slow: Callable[[], Exception]) -> None:
        self._pattern = pattern
        self._search = pattern.search
        self._seconds = seconds
        self._too_slow = too_slow
        self.groups: int = pattern.groups
        self.groupindex: dict[str, int] = pattern.groupindex

    def search(self, text: AnyStr, start: int = 0) -> regex.Match[AnyStr] | None:
        """Return the first match at or after an offset."""
        try:
            return self._search(text, start, timeout=self._seconds)
        except TimeoutError:
            raise self._too_slow() from None

    def fullmatch(self, text: AnyStr) -> regex.Match[AnyStr] | None:
        """Return the match of the whole text."""
        try:
            return self._pattern.fullmatch(text, timeout=self._seconds)
        except TimeoutError:
            raise self._too_slow() from None

    def find_all(self, text: AnyStr) -> list[regex.Match[AnyStr]]:
        """Return all matches, without overlaps."""
        try:
            return list(self._pattern.finditer(text, timeout=self._seconds))
        except TimeoutError:
            raise self._too_slow() from None

    def replace(self, text: AnyStr, by: Callable[[Any], AnyStr]) -> AnyStr:
        """Return the text with each match replaced by the result of `by`."""
        try:
            replaced: AnyStr = self._pattern.sub(by, text, timeout=self._seconds)
        except TimeoutError:
            raise self._too_slow() from None
        return replaced


def compile_limited(
    pattern: AnyStr, letters: str, seconds: float, too_slow: Callable[[], Exception]
) -> LimitedPattern[AnyStr]:
    """Compile a pattern. `letters`: flags among LETTERS. ValueError with the reason for an invalid pattern."""
    import regex

    flags = regex.V0
    for letter in letters:
        flags |= {"i": regex.I, "m": regex.M, "s": regex.S, "x": regex.X}[letter]
    try:
        # Callers cache compiled patterns; the cache of the library would hold them a second time.
        return LimitedPattern(regex.compile(cut_literals(pattern), flags, cache_pattern=False), seconds, too_slow)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None
