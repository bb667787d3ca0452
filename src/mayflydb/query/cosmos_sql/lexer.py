"""The lexer: query text to tokens."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from mayflydb.query.cosmos_sql.faults import syntax_error


class TokenKind(Enum):
    """The kind of a token; the end of the text is a token too."""

    WORD = "word"
    NUMBER = "number"
    STRING = "string"
    PARAMETER = "parameter"
    MARK = "mark"
    END = "end"


class Token(NamedTuple):
    """`text` is the token as written, `upper` a word in upper case, `value` the value of a literal."""

    kind: TokenKind
    text: str
    upper: str
    value: object
    start: int
    end: int


# No two alternatives match the same text, so that matching takes linear time.
_TOKEN: Final = re.compile(
    r"""
    (?P<SPACE>(?:\s+|--[^\n]*)+)
  | (?P<WORD>[^\W\d]\w*)
  | (?P<NUMBER>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<STRING>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<PARAMETER>@\w+)
  | (?P<MARK>>>>|>>|<<|<=|>=|<>|!=|\|\||\?\?|[=<>|^&~+\-*/%?:,.()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip

_EXACT_INTEGER: Final = 1 << 64

_WORD: Final = re.compile(r"[^\W\d]\w*")


def is_word(text: str) -> bool:
    """True if the whole text is one word, in any script, a reserved word included."""
    return _WORD.fullmatch(text) is not None


def tokenize(text: str) -> list[Token]:
    """Return all tokens of `text`, and one of kind END behind them; BadQuery SC1001 for an invalid token."""
    tokens: list[Token] = []
    position, size = 0, len(text)
    match = _TOKEN.match
    while position < size:
        found = match(text, position)
        if found is None:
            raise syntax_error(text[position : position + 1], position, position + 1)
        end = found.end()
        if found.lastgroup != "SPACE":
            tokens.append(_build_token(found, text, position, end))
        position = end
    tokens.append(Token(TokenKind.END, "", "", None, size, size))
    return tokens


def _build_token(found: re.Match[str], text: str, start: int, end: int) -> Token:
    lexeme = found.group()
    match found.lastgroup:
        case "WORD":
            return Token(TokenKind.WORD, lexeme, lexeme.upper(), None, start, end)
        case "MARK":
            return Token(TokenKind.MARK, lexeme, lexeme, None, start, end)
        case "PARAMETER":
            return Token(TokenKind.PARAMETER, lexeme, lexeme, lexeme, start, end)
        case "STRING":
            return Token(TokenKind.STRING, lexeme, lexeme, _decode_string(lexeme, start), start, end)
    # `1a` is one wrong token, and no number before a name.
    if text[end : end + 1].isidentifier():
        raise syntax_error(lexeme + text[end], start, end + 1)
    return Token(TokenKind.NUMBER, lexeme, lexeme, _parse_number(lexeme, start, end), start, end)


def _parse_number(lexeme: str, start: int, end: int) -> float:
    """Return an int for an integer literal of at most 64 bits, as JSON decoding gives it, else the nearest double."""
    if lexeme.isdecimal() and len(lexeme) <= 20 and (whole := int(lexeme)) < _EXACT_INTEGER:
        return whole
    number = float(lexeme)
    if number in (float("inf"), float("-inf")):
        raise syntax_error(lexeme, start, end)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _decode_string(lexeme: str, start: int) -> str:
    body = lexeme[1:-1]
    if "\\" not in body and body.isascii():
        return body

    def decode_escape(match: re.Match[str]) -> str:
        code, letter = match.groups()
        if code:
            return chr(int(code, 16))
        if letter not in _ESCAPED:
            position = start + 1 + match.start()
            raise syntax_error(match.group(), position, position + len(match.group()))
        return _ESCAPED[letter]

    try:
        # Two \u escapes may be the surrogate pair of one character; a lone surrogate is an error.
        return _ESCAPE.sub(decode_escape, body).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise syntax_error(lexeme, start, start + len(lexeme)) from None
