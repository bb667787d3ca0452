"""The matchers of LIKE, ILIKE, REGEXP, RLIKE and MATCH: compilation of patterns to functions of bytes or text.

LIKE uses no regular expression: it matches segment by segment, in time linear in the text. Regular expressions are those of
RE2, which has neither backreferences nor lookaround. Each search has a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from mayflydb.query.regexes import LimitedPattern, compile_limited, keep_compiled
from mayflydb.query.wildcards import ANY, MAX_SEGMENT_LENGTH, Element, Matcher, SegmentTooLong, match_segments
from mayflydb.query.yql.faults import Fault, Position, fault

Test = Callable[[Any], bool]
"""Tests a String or Utf8."""

# RE2 takes linear time. The library here backtracks, so a search that would take long is stopped.
SEARCH_SECONDS: Final = 0.05
MAX_PATTERN_BYTES: Final = 65_536


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def compile_matcher(operator: str, pattern: Any, escape: Any = None, position: Position | None = None) -> Test:
    """Compile the test of `value OPERATOR pattern [ESCAPE escape]`, with operators in the form of syntax.Like. Fault: a wrong
    pattern.
    """
    text = _bytes(pattern)
    symbol = None if escape is None else _bytes(escape)
    if operator in ("LIKE", "ILIKE"):
        return compile_like(text, symbol, operator == "ILIKE", position)
    if symbol is not None:
        raise fault(f"ESCAPE is not allowed with {operator}", position)
    if operator == "GLOB":
        return _compile_glob(text)
    return compile_regexp(text, whole=operator == "MATCH", position=position)


# --- LIKE ------------------------------------------------------------------------------------------------------------

_ANY, _ONE = -1, -2
"""`%` and `_` among the characters of a pattern."""


@lru_cache(maxsize=512)
def compile_like(pattern: bytes, escape: bytes | None, any_case: bool, position: Position | None = None) -> Test:
    """Compile a LIKE pattern: `%` is any text, `_` one character of UTF-8; `escape` makes the next character a literal."""
    # `_` is one character, so patterns are compared as texts; bytes that are no UTF-8 become surrogates, one each.
    tokens = _parse_like(_text(pattern), None if escape is None else _text(escape), position)
    plain = _plain_matcher(tokens, any_case)
    if plain is not None:
        return plain
    fold = _fold if any_case else str
    test = _general_matcher([each if isinstance(each, int) else fold(each) for each in tokens], position)
    return lambda value: test(fold(_text(value)))


def prefix_of(pattern: Any, escape: Any = None) -> tuple[bytes, bool]:
    """The prefix of every text that is LIKE the pattern, and whether every text with this prefix matches (`abc%`)."""
    symbol = None if escape is None else _text(escape)
    tokens = _parse_like(_text(pattern), symbol, None)
    first = next((index for index, each in enumerate(tokens) if isinstance(each, int)), len(tokens))
    return "".join(map(str, tokens[:first])).encode("utf-8", "surrogateescape"), tokens[first:] == [_ANY]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value, "utf-8", "surrogateescape")


def _fold(text: str) -> str:
    """Fold the case of each character, except where the result is several characters: `_` counts the characters of the text."""
    folded = text.casefold()
    if len(folded) == len(text):
        return folded
    return "".join(fold if len(fold := each.casefold()) == 1 else each for each in text)


def _parse_like(pattern: str, escape: str | None, position: Position | None) -> list[str | int]:
    if escape is not None and len(escape) != 1:
        raise fault("ESCAPE clause requires single character argument", position)
    tokens: list[str | int] = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            following = next(characters, None)
            if following not in ("%", "_", escape):
                raise fault("LIKE: the escape character stands before what needs none", position)
            tokens.append(following)
        elif each == "%":
            # `%%` means the same as `%`, and one segment less to search for.
            if tokens[-1:] != [_ANY]:
                tokens.append(_ANY)
        else:
            tokens.append(_ONE if each == "_" else each)
    return tokens


def _plain_matcher(tokens: list[str | int], any_case: bool) -> Test | None:
    """Return a test of bytes for a pattern that has `%` only at its ends; None for others."""
    inner = [each for each in tokens[1:-1] if isinstance(each, int)] or _ONE in tokens or any_case
    if inner or not tokens:
        return None if inner else (lambda value: not value)
    text = "".join(each for each in tokens if isinstance(each, str)).encode("utf-8", "surrogateescape")
    first, last = tokens[0] == _ANY, tokens[-1] == _ANY
    if first and last:
        return lambda value: text in _bytes(value)
    if first:
        return lambda value: _bytes(value).endswith(text)
    if last:
        return lambda value: _bytes(value).startswith(text)
    return lambda value: _bytes(value) == text


def _general_matcher(tokens: list[str | int], position: Position | None = None) -> Matcher:
    """Return a test of texts for any pattern."""
    segments: list[list[Element]] = [[]]
    for each in tokens:
        if each == _ANY:
            segments.append([])
        else:
            segments[-1].append(ANY if isinstance(each, int) else each)
    try:
        return match_segments(segments)
    except SegmentTooLong:
        raise fault(f"A pattern with _ may have {MAX_SEGMENT_LENGTH} characters between two %", position) from None


def _compile_glob(pattern: bytes) -> Test:
    """Compile a glob: `*` is any text, `?` one character."""
    tokens: list[str | int] = [{"*": _ANY, "?": _ONE}.get(each, each) for each in _text(pattern)]
    test = _general_matcher(tokens)
    return lambda value: test(_text(value))


# --- regular expressions ---------------------------------------------------------------------------------------------


@keep_compiled
def compile_pattern(pattern: bytes, any_case: bool = False, position: Position | None = None) -> LimitedPattern[bytes]:
    """Compile an expression of RE2 over bytes. Faults: an invalid expression, one that RE2 does not support, a search that
    takes too long.
    """
    if len(pattern) > MAX_PATTERN_BYTES:
        raise fault("Regular expression is too large", position)
    refused = _find_unsupported(pattern)
    if refused:
        raise fault(f"Regular expression: {refused} is not supported", position)
    try:
        text = pattern.decode()
        # RE2's `\z`, the end of the text, is `\Z` here.
        rewritten = pattern.replace(rb"\z", rb"\Z") if text.isascii() else _utf8_pattern(text).encode()
        return compile_limited(rewritten, "i" if any_case else "", SEARCH_SECONDS, _search_fault)
    except ValueError as error:
        raise fault(f"Invalid regular expression: {error}", position) from None


def _utf8_pattern(text: str) -> str:
    """Replace characters beyond ASCII, outside of sets, by groups of their bytes; within a set that form is not possible."""
    parts, within, escaped = [], False, False
    for each in text:
        if not escaped and each in "[]":
            within = each == "["
        escaped = each == "\\" and not escaped
        if each.isascii():
            parts.append(each)
        elif within:
            raise ValueError("a set of characters beyond ASCII is not supported")
        else:
            # The pattern matches bytes, and this character has several: a quantifier behind it must repeat all.
            parts.append(f"(?:{each})")
    return "".join(parts)


_UNSUPPORTED: Final = {
    b"(?=": "looking ahead",
    b"(?!": "looking ahead",
    b"(?<=": "looking behind",
    b"(?<!": "looking behind",
    b"(?>": "an atomic group",
    b"(?|": "a branch reset",
    b"(?P=": "a backreference",
    b"(?R": "recursion",
    b"(?(": "a condition",
    b"(?#": "a comment",
    b"(?&": "a call",
}


def _find_unsupported(pattern: bytes) -> str | None:
    """Return the first construct in an expression that RE2 does not support; None if there is none."""
    at, within = 0, False
    while at < len(pattern):
        each = pattern[at : at + 1]
        if each == b"\\":
            following = pattern[at + 1 : at + 2]
            # RE2 has no backreferences (`\1`, `\g`, `\k`), nor `\K`, `\G`, `\R`, `\X`.
            if not within and following and following in b"123456789gkKGRX":
                return f"\\{following.decode()}"
            at += 2
            continue
        if each == b"[" and not within:
            within = True
            # Directly behind `[`, a `]` is a member of the set, and `^` negates it.
            at += 2 if pattern[at + 1 : at + 2] in (b"]", b"^") else 1
            continue
        if each == b"]":
            within = False
        if each == b"(" and not within:
            for start, what in _UNSUPPORTED.items():
                if pattern.startswith(start, at):
                    return what
        if not within and each in b"*+?}" and pattern[at + 1 : at + 2] == b"+":
            return "a possessive quantifier"
        at += 1
    return None


def _search_fault() -> Fault:
    return fault("Regular expression takes too long on this text")


def compile_regexp(pattern: bytes, whole: bool, any_case: bool = False, position: Position | None = None) -> Test:
    """Compile REGEXP, which finds a match anywhere, or MATCH (`whole`), which must match the whole text."""
    found = compile_pattern(pattern, any_case, position)
    find = found.fullmatch if whole else found.search
    return lambda value: find(_bytes(value)) is not None
