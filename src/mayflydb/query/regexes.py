"""Regular expressions of clients, compiled and executed under a time limit, because backtracking can be exponential."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic

if TYPE_CHECKING:
    import regex  # type: ignore[import-untyped, unused-ignore]

FLAG_LETTERS: Final = frozenset("imsx")
"""The supported flags: `i` ignore case, `m` multiline, `s` dot matches newlines, `x` verbose."""

_LITERAL: Final = r"(?:[^\\\[\](){}.*+?^$|#]|\\x[0-9a-fA-F]{2}|\\[^\w\s]|\[[^\]\\^]\])"
"""A literal character: plain, escaped, or the only member of a class."""

_TOKEN: Final = re.compile(
    rf"(?P<run>{_LITERAL}{{65,}})"
    r"|\(\?#[^)]*\)"
    r"|\(\?(?:[=!>|:]|<[=!]|[A-Za-z0-9-]*[:)]|P?[<'=>&][^>')]*|.)"
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\{[^}]*\}"
    r"|\\.|.",
    re.DOTALL,
)
"""A long run of literals, or a token in which no run begins: a comment, the opening of a group, a class, a count, an escape."""

_UNIT: Final = re.compile(_LITERAL, re.DOTALL)

MAX_LITERAL_RUN: Final = 64
"""The maximum length of a run of literals. For a run of n the library builds tables in time n³, which no time limit stops."""


def _split_run(token: re.Match[str]) -> str:
    text: str = token[0]
    if token["run"] is None:
        return text
    # A quantifier behind the run applies to its last literal only, so this one stays outside of the groups.
    units: list[str] = _UNIT.findall(text)
    last = units.pop()
    starts = range(0, len(units), MAX_LITERAL_RUN)
    return "".join(f"(?>{''.join(units[start : start + MAX_LITERAL_RUN])})" for start in starts) + last


def split_literals(pattern: AnyStr) -> AnyStr:
    """Return an equivalent pattern with long runs of literals split into atomic groups, which the library does not join."""
    if isinstance(pattern, bytes):
        return _TOKEN.sub(_split_run, pattern.decode("latin-1")).encode("latin-1")
    return _TOKEN.sub(_split_run, pattern)


class LimitedPattern(Generic[AnyStr]):
    """A compiled regular expression. A call that takes longer than `seconds` raises the exception that `too_slow` returns.

    Calls are `concurrent`: the interpreter is free for other threads while the library matches.
    """

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
            return self._search(text, start, timeout=self._seconds, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None

    def fullmatch(self, text: AnyStr) -> regex.Match[AnyStr] | None:
        """Return the match of the whole text."""
        try:
            return self._pattern.fullmatch(text, timeout=self._seconds, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None

    def find_all(self, text: AnyStr) -> list[regex.Match[AnyStr]]:
        """Return all matches, without overlaps."""
        try:
            return list(self._pattern.finditer(text, timeout=self._seconds, concurrent=True))
        except TimeoutError:
            raise self._too_slow() from None

    def replace(self, text: AnyStr, by: Callable[[Any], AnyStr]) -> AnyStr:
        """Return the text with each match replaced by the result of `by`."""
        try:
            replaced: AnyStr = self._pattern.sub(by, text, timeout=self._seconds, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None
        return replaced


def compile_limited(
    pattern: AnyStr, letters: str, seconds: float, too_slow: Callable[[], Exception]
) -> LimitedPattern[AnyStr]:
    """Compile a pattern. `letters`: flags among LETTERS. ValueError with the reason for an invalid pattern."""
    import regex

    # V0 reads sets as `re` does. In V1 a [ within a set would begin an inner set.
    flags = regex.V0
    for letter in letters:
        flags |= {"i": regex.I, "m": regex.M, "s": regex.S, "x": regex.X}[letter]
    try:
        # Callers cache compiled patterns; the cache of the library would hold them a second time.
        return LimitedPattern(regex.compile(split_literals(pattern), flags, cache_pattern=False), seconds, too_slow)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None
