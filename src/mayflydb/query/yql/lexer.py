"""The lexer: a text of YQL as tokens.

Lexical rules: https://github.com/ydb-platform/ydb `yql/essentials/sql/v1/SQLv1Antlr4.g.in`, the default lexer, not the
ANSI one. `>>`, `>>|` and `??` are no tokens, because types end with `>>` and `??`; the parser of expressions joins the
single signs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from mayflydb.query.yql.faults import syntax_fault, unsupported
from mayflydb.query.yql.keywords import KEYWORDS
from mayflydb.query.yql.syntax import At

ID: Final = "ID_PLAIN"
QUOTED: Final = "ID_QUOTED"
STRING: Final = "STRING_VALUE"
INTEGER: Final = "INTEGER_VALUE"
REAL: Final = "REAL"
END: Final = "<EOF>"

# Atomic groups `(?>...)` give nothing back, so a comment or a text without an end is refused at once, and not split in
# every possible way.
_SKIPPED: Final = r"(?>(?:[ \t\r\n\f]+|--[^\r\n]*|/\*(?s:.*?)\*/)*)"
_STRING: Final = (
    r"""'(?>(?:[^'\\]+|\\(?s:.))*)'(?:[sSuUyYjJ]|[pP][tTbBvV]?)?"""
    r"""|"(?>(?:[^"\\]+|\\(?s:.))*)"(?:[sSuUyYjJ]|[pP][tTbBvV]?)?"""
    r"""|(?>(?:@@(?s:.*?)@@)+)@?(?:[sSuUyYjJ]|[pP][tTbBvV]?)?"""
)
# Suffixes that begin with p or P are PostgreSQL's. They are lexed, so that the parser refuses them by name.
_REAL: Final = r"(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?:[fF]|[pP](?:[fF][48]|[nN])?)?"
_INTEGER: Final = r"(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+)(?:[pPuU]?[lLsStTiIbBnN]|[pPuU])?"
_QUOTED: Final = r"`(?>(?:[^`\\]+|``|\\(?s:.))*)`"
# Alternatives are tried from left to right, so a long sign stands before its beginnings. `@@` begins a raw text and
# `/*` a comment; neither is a sign.
_SIGN: Final = r"\|<<|<=|<>|<<|<\||>=|\|\||\|>|==|!=|->|::|@(?!@)|/(?!\*)|[-=<>&|+~*%;.,()?:${}^\[\]]"
_ANSI_STRING: Final = (
    r"""'(?>(?:[^']+|'')*)'(?:[sSuUyYjJ]|[pP][tTbBvV]?)?"""
    r"""|(?>(?:@@(?s:.*?)@@)+)@?(?:[sSuUyYjJ]|[pP][tTbBvV]?)?"""
)
_ANSI_QUOTED: Final = rf"""{_QUOTED}|"(?>(?:[^"]+|"")*)\""""


def _pattern(strings: str, quoted: str) -> re.Pattern[str]:
    word = "[A-Za-z_][A-Za-z0-9_]*"
    # Real numbers stand before integers: of `1.5` or `1e5` an integer would take the `1`.
    tokens = rf"({word})|({_SIGN})|({strings})|({quoted})|({_REAL})|({_INTEGER})|(\Z)"
    return re.compile(rf"{_SKIPPED}(?:{tokens})", re.ASCII)


_TOKEN: Final = _pattern(_STRING, _QUOTED)
_ANSI_TOKEN: Final = _pattern(_ANSI_STRING, _ANSI_QUOTED)
_BLANK: Final = re.compile(_SKIPPED)
# The kinds by number of the group in the pattern. Words and signs have kinds of their own.
_KINDS: Final = (None, None, None, STRING, QUOTED, REAL, INTEGER, END)
_WORD: Final = 1
_SIGN_GROUP: Final = 2
_END_GROUP: Final = 7
_MODE: Final = re.compile(r"\s*--!\s*(\w*)[^\r\n]*")
_FOREIGN: Final = frozenset({"syntax_v0", "syntax_pg"})


class LinePositions:
    """Converts offsets in a text to rows and columns."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rows = [0]
        self._plain = text.isascii()
        self._last = (0, 1)  # The last offset and its column: most positions are asked for from left to right.
        if "\n" in text:
            self._rows.extend(each.end() for each in re.finditer("\n", text))

    def at(self, offset: int) -> At:
        """The position of an offset: row and column from 1; columns count bytes of UTF-8."""
        row = bisect_right(self._rows, offset) if len(self._rows) > 1 else 1
        start = self._rows[row - 1]
        if self._plain:
            return At(row, offset - start + 1)
        known, column = self._last
        if not start <= known <= offset:
            known, column = start, 1
        column += len(self._text[known:offset].encode("utf-8", "surrogatepass"))
        self._last = offset, column
        return At(row, column)


class Tokens:
    """The tokens of a text; the last one is the end.

    `kinds`: the name of a keyword in capitals, a sign itself, or one of the constants above. `texts`: the tokens as
    written. `starts`: offsets in characters.
    """

    __slots__ = ("ansi", "kinds", "positions", "starts", "text", "texts")

    def __init__(self, text: str) -> None:
        self.text = text
        self.ansi = False
        self.positions = LinePositions(text)
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []

    def end(self, index: int) -> int:
        """The offset behind a token."""
        return self.starts[index] + len(self.texts[index])


def tokenize(text: str) -> Tokens:
    """Tokenize a text. Faults: a character that begins no token; a text in another language."""
    found = Tokens(text)
    if "--!" in text:
        found.ansi = _is_ansi(text, found.positions)
    kinds, texts, starts = found.kinds, found.texts, found.starts
    match, keywords = (_ANSI_TOKEN if found.ansi else _TOKEN).match, KEYWORDS
    offset = 0
    while True:
        token = match(text, offset)
        if token is None:
            raise _unknown_token(text, offset, found.positions)
        group = token.lastindex
        # Each alternative of the pattern is a group, the end included.
        assert group is not None
        value = token[group]
        if group == _WORD:
            # Keywords in capitals or small letters are found as they are; `upper()` is for words in mixed case.
            kind = keywords.get(value) or keywords.get(value.upper(), ID)
        elif group == _SIGN_GROUP:
            kind = value
        else:
            kind = _KINDS[group] or END
        kinds.append(kind)
        texts.append(value)
        offset = token.end()
        # The match begins with the blanks before the token, so the start is counted from the end.
        starts.append(offset - len(value))
        if group == _END_GROUP:
            return found


def _unknown_token(text: str, offset: int, positions: LinePositions) -> Exception:
    blank = _BLANK.match(text, offset)
    start = blank.end() if blank else offset
    return syntax_fault(f"token recognition error at: '{text[start : start + 16]}'", positions.at(start))


def _is_ansi(text: str, positions: LinePositions) -> bool:
    """True if the lines before the first statement ask for the ANSI lexer. Faults: they ask for another language."""
    ansi = False
    offset = 0
    # Only lines `--!` at the very beginning count; any other text ends them.
    while mode := _MODE.match(text, offset):
        if mode[1] in _FOREIGN:
            raise unsupported(f"--!{mode[1]}", positions.at(mode.start(1)))
        ansi = ansi or mode[1] == "ansi_lexer"
        offset = mode.end()
    return ansi
