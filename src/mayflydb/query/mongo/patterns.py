r"""Regular expressions with the syntax of the server's PCRE, executed by `regex` under a time limit against backtracking.

The syntax that the two libraries read differently is rewritten: classes such as `\\w` are ASCII (only case is Unicode), `(?i)`
applies from its place to the end of its group, `\\Z` allows a final newline, and a `{` that begins no count is literal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bson import Regex

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Value
from mayflydb.query.regexes import FLAG_LETTERS, LimitedPattern, compile_limited, keep_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

SEARCH_SECONDS: Final = 0.05
"""The maximum time of one search. The server limits the steps of a match instead (PCRE's match limit)."""

MAX_PATTERN_LENGTH: Final = 16384
"""The maximum length of a pattern in characters. The server limits it to 16384 bytes."""

_LETTERS: Final = ((re.IGNORECASE, "i"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.UNICODE, "u"), (re.VERBOSE, "x"))


def flag_letters(pattern: Regex[str]) -> str:
    """Return the flags of a regular expression value, as `$options` writes them."""
    flags = pattern.flags
    return "".join(letter for flag, letter in _LETTERS if flags & flag)


@keep_compiled
def compile_pattern(pattern: str, letters: str = "") -> LimitedPattern[str]:
    """Compile a pattern with flags among `imsxu`. MqlError 51108 for another flag, 51091 for an invalid or unsupported pattern.

    A search that exceeds the time limit raises MqlError 51156.
    """
    # Patterns are Unicode with or without `u`.
    flags = letters.replace("u", "")
    if not FLAG_LETTERS.issuperset(flags):
        raise MqlError(51108, f"invalid flag in regex options: {letters}")
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise _invalid_pattern("regular expression is too large")
    if "\0" in pattern:
        raise MqlError(2, "Regular expression cannot contain an embedded null byte")
    try:
        return compile_limited(_Rewriter(pattern, "x" in letters).run(), flags, SEARCH_SECONDS, _timeout_error)
    except ValueError as error:
        raise _invalid_pattern(str(error)) from None


def _timeout_error() -> MqlError:
    return MqlError(51156, "Error occurred while executing the regular expression: match limit exceeded")


def pattern_test(pattern: str, letters: str) -> Callable[[Value], bool]:
    """Return the test that a value is a string with a match, or an equal regular expression."""
    # Plain text is found by a string search, which needs neither the library nor its time limit.
    literal = _parse_literal(pattern, letters)
    if literal is not None:
        anchored, text = literal
        has_match: Callable[[str], bool] = (
            (lambda value: value.startswith(text)) if anchored else (lambda value: text in value)
        )
    else:
        compiled = compile_pattern(pattern, letters)

        def has_match(value: str) -> bool:
            return compiled.search(value) is not None

    own = frozenset(letters)

    def test(value: Value) -> bool:
        if type(value) is str:
            return has_match(value)
        return type(value) is Regex and value.pattern == pattern and frozenset(flag_letters(value)) == own

    return test


def is_literal(pattern: str) -> bool:
    """Return True if a pattern without flags is plain text, possibly after `^`."""
    return _parse_literal(pattern, "") is not None


def _parse_literal(pattern: str, letters: str) -> tuple[bool, str] | None:
    """Return (anchored, text) of a pattern that is plain text, possibly after `^`; None for others."""
    anchored = pattern.startswith("^")
    text = pattern[anchored:]
    # Letters, digits and these four signs mean themselves in any pattern without the flags i, m and x.
    plain = text.isascii() and text.replace("_", "").replace("-", "").replace(" ", "").replace("/", "").isalnum()
    return (anchored, text) if plain and set(letters) <= {"s", "u"} and len(pattern) <= MAX_PATTERN_LENGTH else None


def _invalid_pattern(reason: str) -> MqlError:
    return MqlError(51091, f"Regular expression is invalid: {reason}")


# The contents of character sets. Complements are ranges, so that they can stand beside other members of a set.
_CLASSES: Final = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": "\\t-\\r ",
    "D": "\\x00-/:-\\U0010FFFF",
    "W": "\\x00-/:-@\\[-\\^`{-\\U0010FFFF",
    "S": "\\x00-\\x08\\x0e-\\x1f!-\\U0010FFFF",
}
_POSIX: Final = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "A-Za-z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": "\\t-\\r ",
    "blank": "\\t ",
    "punct": "!-/:-@\\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": "A-Za-z0-9_",
    "cntrl": "\\x00-\\x1f\\x7f",
    "graph": "!-~",
    "print": " -~",
    "ascii": "\\x00-\\x7f",
}
_WORD: Final = "[A-Za-z0-9_]"
# To `regex` any letter is a word character, to PCRE only those of ASCII.
_ASSERTIONS: Final = {
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
    "Z": "(?=\\n?\\Z)",
    "z": "\\Z",
    "e": "\\x1b",
    "h": "[\\t \\xa0]",
    "H": "[^\\t \\xa0]",
    "V": "[^\\n-\\r\\x85\\u2028\\u2029]",
    "v": "[\\n-\\r\\x85\\u2028\\u2029]",
    "N": "[^\\n]",
}
# Escapes that only `regex` knows, or that `regex` and PCRE read differently.
_REJECTED_ESCAPES: Final = frozenset("mMLCUulG")
_COUNT: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_INLINE: Final = re.compile(r"\(\?([imsx]*)(?:-([imsx]+))?\)")
_FLAGGED_GROUP: Final = re.compile(r"\(\?([imsx]*)(?:-([imsx]+))?:")
_SET_NAME: Final = re.compile(r"\[:(\^?)(\w+):\]")
_HEX: Final = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_BARE_HEX: Final = re.compile(r"\\x([0-9A-Fa-f]{0,2})")
_NAMED_REFERENCE: Final = re.compile(r"\\k(?:<(\w+)>|'(\w+)'|\{(\w+)\})")
_GROUP: Final = re.compile(r"\\g(?:\{(-?\w+)\}|(-?\d+))")


class _Rewriter:
    """Rewrites a pattern in one pass. `open`: for each open group, the openings of the groups that stand for inline flags
    in it, and whether the flag `x` applies.
    """

    def __init__(self, pattern: str, verbose: bool) -> None:
        self.pattern = pattern
        self.at = 0
        self.out: list[str] = []
        self.open: list[tuple[list[str], bool]] = [([], verbose)]
        self.groups = 0

    def run(self) -> str:
        """Return the pattern in the syntax of `regex`."""
        while self.at < len(self.pattern):
            self._rewrite_next(self.pattern[self.at])
        if len(self.open) > 1:
            raise ValueError("missing closing parenthesis")
        return "".join(self.out) + ")" * len(self.open[0][0])

    def _rewrite_next(self, character: str) -> None:
        if character == "\\":
            self._rewrite_escape()
        elif character == "[":
            self._rewrite_set()
        elif character == "(":
            self._rewrite_group()
        elif character in "|)":
            self._close_group(character)
        elif character == "{" and not _COUNT.match(self.pattern, self.at):
            self._emit("\\{", 1)
        elif character == "#" and self.open[-1][1]:
            end = self.pattern.find("\n", self.at)
            self.at = len(self.pattern) if end < 0 else end + 1
        else:
            self._emit(character, 1)

    def _emit(self, text: str, read: int) -> None:
        self.out.append(text)
        self.at += read

    def _rewrite_group(self) -> None:
        inline = _INLINE.match(self.pattern, self.at)
        scopes, verbose = self.open[-1]
        if inline is not None:
            # `regex` applies `(?i)` to the whole pattern. It becomes `(?i:`, closed where the group around it ends.
            scopes.append(_group_opening(inline))
            self.open[-1] = (scopes, _is_verbose(inline, verbose))
            self._emit(scopes[-1], len(inline.group()))
            return
        if self.pattern.startswith("(*", self.at):
            raise ValueError("verbs are not supported")
        if self.pattern.startswith("(?#", self.at):
            end = self.pattern.find(")", self.at)
            if end < 0:
                raise ValueError("missing ) after (?# comment")
            self.at = end + 1
            return
        scoped = _FLAGGED_GROUP.match(self.pattern, self.at)
        if scoped is not None:
            self.open.append(([], _is_verbose(scoped, verbose)))
            self._emit(scoped.group(), len(scoped.group()))
            return
        self.open.append(([], verbose))
        if not self.pattern.startswith("(?", self.at):
            # Counted for relative references such as `\g{-1}`.
            self.groups += 1
            self._emit("(", 1)
            return
        # `regex` reads the rest of the group's opening, such as `?<name>`.
        self.groups += bool(re.match(r"\(\?(?:P?<[A-Za-z_]|')", self.pattern[self.at : self.at + 5]))
        self._emit("(?", 2)

    def _close_group(self, character: str) -> None:
        scopes, _ = self.open[-1]
        self.out.append(")" * len(scopes))
        if character == "|":
            # Inline flags of one branch apply in the following branches too.
            self._emit("|" + "".join(scopes), 1)
            return
        if len(self.open) == 1:
            raise ValueError("unmatched closing parenthesis")
        self.open.pop()
        self._emit(")", 1)

    def _rewrite_escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if not following:
            raise ValueError("\\ at end of pattern")
        if following == "Q":
            end = self.pattern.find("\\E", self.at)
            end = len(self.pattern) if end < 0 else end
            self._emit(re.escape(self.pattern[self.at + 2 : end]), end + 2 - self.at)
        elif following == "E":
            self.at += 2
        elif following in _CLASSES:
            self._emit(f"[{_CLASSES[following]}]", 2)
        elif following in _ASSERTIONS:
            self._emit(_ASSERTIONS[following], 2)
        elif following == "g" and (group := _GROUP.match(self.pattern, self.at)) is not None:
            self._emit(self._format_reference(group[1] or group[2]), len(group.group()))
        elif following == "k" and (named := _NAMED_REFERENCE.match(self.pattern, self.at)) is not None:
            self._emit(self._format_reference(named[1] or named[2] or named[3]), len(named.group()))
        elif following in "pP":
            self._copy_property()
        else:
            self._rewrite_character(following)

    def _copy_property(self) -> None:
        """Copy a Unicode property class, which has the same syntax inside and outside of sets."""
        braced = self.pattern.startswith("{", self.at + 2)
        end = self.pattern.find("}", self.at) + 1 if braced else self.at + 3
        if end <= self.at:
            raise ValueError("malformed \\P or \\p sequence")
        self._emit(self.pattern[self.at : end], end - self.at)

    def _format_reference(self, name: str) -> str:
        if name.startswith("-"):
            name = str(self.groups + 1 + int(name))
        # The group keeps a digit behind the reference from becoming a part of its number.
        return f"(?P={name})" if not name.isdecimal() else f"(?:\\{name})"

    def _rewrite_character(self, following: str) -> None:
        """Rewrite an escape of one character, inside or outside of a set."""
        if following in _REJECTED_ESCAPES:
            raise ValueError(f"unrecognized or unsupported escape \\{following}")
        code = _HEX.match(self.pattern, self.at)
        if code is not None:
            self._emit(f"\\U{int(code[1], 16):08X}", len(code.group()))
        elif following == "x" and (bare := _BARE_HEX.match(self.pattern, self.at)) is not None:
            self._emit(f"\\x{int(bare[1] or '0', 16):02X}", len(bare.group()))
        # `\cA` is Ctrl+A: the letter with bit 6 inverted.
        elif following == "c":
            self._emit(f"\\x{ord(self.pattern[self.at + 2 : self.at + 3].upper() or '@') ^ 64:02X}", 3)
        else:
            self._emit("\\" + following, 2)

    def _rewrite_set(self) -> None:
        start = "[^" if self.pattern.startswith("[^", self.at) else "["
        self._emit(start, len(start))
        # A ] right behind the opening is a member of the set.
        if self.pattern.startswith("]", self.at):
            self._emit("\\]", 1)
        while True:
            character = self.pattern[self.at : self.at + 1]
            if character in ("", "]"):
                break
            if character == "[":
                self._rewrite_set_name()
            elif character == "\\":
                self._rewrite_set_escape()
            else:
                self._emit(character, 1)
        if not character:
            raise ValueError("missing terminating ] for character class")
        self._emit("]", 1)

    def _rewrite_set_name(self) -> None:
        name = _SET_NAME.match(self.pattern, self.at)
        if name is None:
            self._emit("\\[", 1)
            return
        if name[1] or name[2] not in _POSIX:
            raise ValueError("unknown or unsupported POSIX class name")
        self._emit(_POSIX[name[2]], len(name.group()))

    def _rewrite_set_escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        if following in _CLASSES:
            self._emit(_CLASSES[following], 2)
        elif following == "b":
            self._emit("\\x08", 2)
        elif following == "h":
            self._emit("\\t \\xa0", 2)
        elif following == "e":
            self._emit("\\x1b", 2)
        elif following and following in "pP":
            self._copy_property()
        elif not following:
            raise ValueError("\\ at end of pattern")
        else:
            self._rewrite_character(following)


def _group_opening(found: Any) -> str:
    return f"(?{found[1]}-{found[2]}:" if found[2] else f"(?{found[1]}:"


def _is_verbose(found: Any, verbose: bool) -> bool:
    return (verbose or "x" in found[1]) and "x" not in (found[2] or "")
