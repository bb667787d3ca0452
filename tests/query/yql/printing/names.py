"""Names and literals as text."""

from __future__ import annotations

import re
from typing import Final

from mayflydb.query.yql.keywords import KEYWORDS
from mayflydb.query.yql.syntax import Literal_

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
_NAME_ESCAPES: Final = str.maketrans({**{chr(k): v for k, v in _CONTROLS.items()}, "\\": "\\\\", "`": "\\`"})
_TEXT_ESCAPES: Final = str.maketrans(
    {**{chr(k): v for k, v in _CONTROLS.items()}, "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}
)


def is_plain(name: str) -> bool:
    """True if a name that is no keyword needs no backticks."""
    return _PLAIN.match(name) is not None


def quote(name: str) -> str:
    """Format a name, in backticks if it needs them."""
    return name if is_plain(name) and name.upper() not in KEYWORDS else backtick(name)


def backtick(name: str) -> str:
    """Format a name in backticks."""
    return f"`{name.translate(_NAME_ESCAPES)}`"


def parameter(name: str) -> str:
    """Format `$name`; every word may follow the dollar."""
    return f"${name if is_plain(name) else backtick(name)}"


def names(these: tuple[str, ...]) -> str:
    """Format names with commas between them."""
    return ", ".join(map(quote, these))


def function(name: str) -> str:
    """Format the name of a function, with its module."""
    if is_plain(name):
        return name
    return "::".join(part if is_plain(part) else backtick(part) for part in name.split("::"))


def text(value: str | bytes) -> str:
    """Format a text literal without a suffix."""
    if isinstance(value, str):
        return f'"{value.translate(_TEXT_ESCAPES)}"'
    try:
        return text(value.decode())
    except UnicodeDecodeError:
        body = "".join(chr(each) if 32 <= each < 127 else f"\\x{each:02x}" for each in value.replace(b"\\", b"\\\\"))
        return '"' + body.replace('"', '\\"') + '"'


def literal(node: Literal_) -> str:
    """Format a literal with its suffix."""
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (str, bytes)):
        return text(value) + node.suffix
    if isinstance(value, float):
        return repr(value) + node.suffix
    return f"{value}{node.suffix}"
