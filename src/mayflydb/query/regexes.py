"""Regular expressions of clients, compiled and executed under a time limit, because backtracking can be exponential."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    import regex  # type: ignore[import-untyped, unused-ignore]

P = ParamSpec("P")
T = TypeVar("T")

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
    `elements`: as of `count_elements`.

    Calls are `concurrent`: the interpreter is free for other threads while the library matches.
    """

    __slots__ = ("_pattern", "_search", "_seconds", "_too_slow", "elements", "groupindex", "groups")

    def __init__(
        self, pattern: regex.Pattern[AnyStr], seconds: float, too_slow: Callable[[], Exception], elements: int = 1
    ) -> None:
        self._pattern = pattern
        self._search = pattern.search
        self._seconds = seconds
        self._too_slow = too_slow
        self.elements = elements
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


MAX_ELEMENTS: Final = 16_384
"""The maximum number of elements of a pattern after the library has written out its counts: `(ab){50}` becomes 100 elements, of
some 400 bytes each. `((((ab){50}){50}){50}){50}` would take gigabytes."""

MAX_KEPT_ELEMENTS: Final = 4 * MAX_ELEMENTS

_COUNT: Final = re.compile(r"\{([0-9]+)")
_VERBOSE_TOKEN: Final = re.compile(rf"(?P<comment>\s|#[^\n]*)|{_TOKEN.pattern}", re.DOTALL)
_VERBOSE: Final = re.compile(r"\(\?[A-Za-z0-9]*x")


def count_elements(pattern: str, verbose: bool = False) -> int:
    """Return the number of elements that a pattern has when its counts are written out; at least MAX_ELEMENTS: too many."""
    if "{" not in pattern:
        return min(len(pattern), MAX_ELEMENTS - 1)
    if not verbose and "#" in pattern and _VERBOSE.search(pattern):
        # Where comments begin and end is not known: all counts are taken for nested ones.
        return _multiply(len(pattern), *map(int, _COUNT.findall(pattern)))
    # The sizes of the groups that are open, and of the element that a count applies to.
    outer: list[int] = []
    size = last = 0
    for token in (_VERBOSE_TOKEN if verbose else _TOKEN).finditer(pattern):
        text = token[0]
        if token.lastgroup == "comment":
            continue
        if text[0] == "(" and text[-1] != ")":
            opened = 2 if text == "(?(" else 1
            outer += [size, 0][:opened]
            size = last = 0
        elif text == ")":
            size, last = (outer.pop() if outer else 0) + size, size
        elif text[0] == "{" and (count := _COUNT.match(text)):
            size += _multiply(last, int(count[1])) - last
            last = _multiply(last, int(count[1]))
        elif text not in ("?", "*", "+", "|"):
            last = len(text) if token["run"] else 1
            size += last
        if size >= MAX_ELEMENTS:
            break
    return size


def _multiply(*factors: int) -> int:
    product = 1
    for factor in factors:
        product = min(product * max(factor, 1), MAX_ELEMENTS)
    return product


def keep_compiled(compile_it: Callable[P, T]) -> Callable[P, T]:
    """Return a function that returns what `compile_it` does, and keeps some patterns: at most MAX_KEPT_ELEMENTS together."""
    kept: dict[Any, T] = {}

    def find(*given: P.args, **named: P.kwargs) -> T:
        key = (given, *named.items())
        try:
            return kept[key]
        except KeyError:
            found = compile_it(*given, **named)
        kept[key] = found
        # Other threads may do the same: each step works on a copy.
        held = [*kept.items()]
        excess = sum([_weigh(each) for _, each in held]) - MAX_KEPT_ELEMENTS
        for oldest, each in held:
            if excess <= 0:
                break
            kept.pop(oldest, None)
            excess -= _weigh(each)
        return found

    return find


def _weigh(compiled: object) -> int:
    return 128 + getattr(compiled, "elements", 0)


def compile_limited(
    pattern: AnyStr, letters: str, seconds: float, too_slow: Callable[[], Exception]
) -> LimitedPattern[AnyStr]:
    """Compile a pattern. `letters`: flags among LETTERS. ValueError with the reason for an invalid pattern."""
    import regex

    text: Any = pattern
    elements = count_elements(text if type(text) is str else text.decode("latin-1"), "x" in letters)
    if elements >= MAX_ELEMENTS:
        raise ValueError("it is too large when its counts are written out")
    # V0 reads sets as `re` does. In V1 a [ within a set would begin an inner set.
    flags = regex.V0
    for letter in letters:
        flags |= {"i": regex.I, "m": regex.M, "s": regex.S, "x": regex.X}[letter]
    try:
        # Callers cache compiled patterns; the cache of the library would hold them a second time.
        return LimitedPattern(
            regex.compile(split_literals(pattern), flags, cache_pattern=False), seconds, too_slow, elements
        )
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None
