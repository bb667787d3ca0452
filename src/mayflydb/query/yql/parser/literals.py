"""Decoding of literals: texts with escapes, numbers with suffixes.

Escapes are those of C: `\\n`, `\\0`, `\\x41`, `\\101`, `\\u0041`, `\\U00000041`. Raw texts stand between `@@`; inside,
`@@@@` stands for `@@`.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|((?s:.)))")
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SUFFIX: Final = re.compile(r"(?:[sSuUyYjJ]|[pP][tTbBvV]?)?\Z")
_BASES: Final = {"x": 16, "o": 8, "b": 2}
_INTEGER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|[0-9]+", re.ASCII)


def split_text(token: str, ansi: bool = False) -> tuple[bytes, str]:
    """Decode a STRING_VALUE into bytes, and return them with the suffix in lower case. Raises ValueError for a bad
    escape.

    `ansi`: two quotes stand for one, and there are no other escapes.
    """
    quote = token[0]
    if quote == "@":
        return _raw(token)
    # No suffix has a quote, so the last quote is the closing one.
    close = token.rindex(quote)
    body, suffix = token[1:close], token[close + 1 :].lower()
    return body.replace("''", "'").encode("utf-8", "surrogatepass") if ansi else unescape(body), suffix


def _raw(token: str) -> tuple[bytes, str]:
    suffix = _SUFFIX.search(token)
    end = suffix.start() if suffix else len(token)
    body = token[2:end]
    # `@@a@@@` is the text `a@`: of three signs at the end the first belongs to the text.
    trailing = body.endswith("@@@") and not body.endswith("@@@@")
    body = body[:-3] + "@" if trailing else body[:-2]
    return body.replace("@@@@", "@@").encode("utf-8", "surrogatepass"), token[end:].lower()


def unescape(body: str) -> bytes:
    """Decode the text between quotes. Raises ValueError for a bad escape."""
    if "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    end = 0
    for escape in _ESCAPE.finditer(body):
        parts.append(body[end : escape.start()].encode("utf-8", "surrogatepass"))
        parts.append(_decode_escape(escape))
        end = escape.end()
    parts.append(body[end:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _decode_escape(escape: re.Match[str]) -> bytes:
    octal, byte, short, long, other = escape.groups()
    if octal is not None:
        # An octal escape has three digits, up to \377; only \0 is shorter.
        if len(octal) == 3 and int(octal, 8) < 256:
            return bytes([int(octal, 8)])
        if octal == "0":
            return b"\0"
        raise ValueError(f"Invalid octal value near byte {escape.start() + 2}")
    if byte is not None:
        return bytes([int(byte, 16)])
    code = short if short is not None else long
    if code is not None:
        point = int(code, 16)
        if point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise ValueError(f"Invalid unicode value near byte {escape.start() + 2}")
        return chr(point).encode()
    # An escape with too few digits has matched as its letter alone.
    if other in "xX":
        raise ValueError(f"Invalid hexadecimal value near byte {escape.start() + 4}")
    if other in "uU":
        raise ValueError(f"Invalid unicode value near byte {escape.start() + 4}")
    return _SIMPLE.get(other, other).encode("utf-8", "surrogatepass")


def unquote(name: str) -> str:
    """Decode a name between backticks, or ANSI's double quotes. Raises ValueError for a bad escape and for text that is
    no UTF-8."""
    body = name[1:-1]
    if name[0] == '"':
        return body.replace('""', '"')
    if "\\" not in body and "`" not in body:
        return body
    return unescape(body.replace("``", "`")).decode("utf-8")


def split_integer(token: str) -> tuple[int, str]:
    """Decode an INTEGER_VALUE into a number and its suffix in lower case."""
    digits = _INTEGER.match(token)
    assert digits is not None
    text = digits[0]
    base = _BASES.get(text[1:2].lower(), 10)
    return int(text[2:], base) if base != 10 else int(text), token[digits.end() :].lower()
