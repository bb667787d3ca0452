"""Trees of YSON: parsing and writing of the text form, the binary form and JSON.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/yson
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 200
"""The deepest nesting of containers."""


class YsonNode(msgspec.Struct, frozen=True):
    """`kind`: entity, bool, int64, uint64, double, string (bytes), list (of nodes), dict (bytes: nodes)."""

    kind: str
    value: Any = None
    attributes: dict[bytes, YsonNode] | None = None


ENTITY: Final = YsonNode("entity")

_BLANKS: Final = re.compile(rb"[ \t\r\n\f\v]*")
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.\-]*")
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?u?")
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_CONSTANT: Final = re.compile(rb"%(true|false|nan|[+-]?inf)")
_ESCAPED: Final = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0"}


def parse(data: bytes) -> YsonNode | None:
    """Parse YSON; None for bytes that are no YSON."""
    try:
        reader = _YsonParser(data)
        found = reader.node(0)
        reader.blanks()
        return found if reader.at == len(data) else None
    except (ValueError, IndexError, struct.error):
        return None


class _YsonParser:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def blanks(self) -> int:
        found = _BLANKS.match(self.data, self.at)
        assert found is not None
        self.at = found.end()
        return self.data[self.at] if self.at < len(self.data) else -1

    def node(self, depth: int) -> YsonNode:
        if depth > MAX_DEPTH:
            raise ValueError("too deep")
        attributes = None
        if self.blanks() == ord("<"):
            attributes = self._pairs(b">", depth)
            self.blanks()
        first = self.data[self.at]
        if first == ord("["):
            return YsonNode("list", self._list(depth), attributes)
        if first == ord("{"):
            return YsonNode("dict", self._pairs(b"}", depth), attributes)
        kind, value = self._scalar(first)
        return YsonNode(kind, value, attributes)

    def _list(self, depth: int) -> list[YsonNode]:
        self.at += 1
        found = []
        while self.blanks() != ord("]"):
            found.append(self.node(depth + 1))
            self._separator(b"]")
        self.at += 1
        return found

    def _pairs(self, closer: bytes, depth: int) -> dict[bytes, YsonNode]:
        self.at += 1
        found = {}
        while self.blanks() != closer[0]:
            kind, key = self._scalar(self.data[self.at])
            if kind != "string" or self.blanks() != ord("="):
                raise ValueError("expected a key")
            self.at += 1
            found[key] = self.node(depth + 1)
            self._separator(closer)
        self.at += 1
        return found

    def _separator(self, closer: bytes) -> None:
        following = self.blanks()
        if following == ord(";"):
            self.at += 1
        elif following != closer[0]:
            raise ValueError("expected a separator")

    def _scalar(self, first: int) -> tuple[str, Any]:
        if first < 7:
            return self._binary(first)
        if first == ord("#"):
            self.at += 1
            return "entity", None
        for grammar, read in ((_QUOTED, _parse_quoted), (_WORD, _word), (_CONSTANT, _constant), (_NUMBER, _number)):
            found = grammar.match(self.data, self.at)
            if found is not None:
                self.at = found.end()
                return read(found)
        raise ValueError("unexpected byte")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            # Ten bytes of seven bits hold 64 bits.
            if shift > 63:
                raise ValueError("too long a number")

    def _binary(self, first: int) -> tuple[str, Any]:
        self.at += 1
        # A marker and its value: 1 length and bytes, 2 Int64, 3 double in 8 bytes, 4 false, 5 true, 6 Uint64. Lengths
        # and Int64s are zigzag varints, Uint64s plain ones.
        if first in (4, 5):
            return "bool", first == 5
        if first == 3:
            self.at += 8
            return "double", struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        if first == 6:
            return "uint64", self._varint()
        if first not in (1, 2):
            raise ValueError("unexpected byte")
        number = self._varint()
        # Zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3.
        number = number >> 1 ^ -(number & 1)
        if first == 2:
            return "int64", number
        if number < 0 or self.at + number > len(self.data):
            raise ValueError("wrong length")
        self.at += number
        return "string", self.data[self.at - number : self.at]


def _parse_quoted(found: re.Match[bytes]) -> tuple[str, Any]:
    def one(escape: re.Match[bytes]) -> bytes:
        word = escape[1]
        if word[:1] == b"x" and len(word) > 1:
            return bytes((int(word[1:], 16),))
        if word.isdigit() and word[:1] < b"8":
            return bytes((int(word, 8) & 0xFF,))
        return _LETTERS.get(word, word)

    return "string", _ESCAPED.sub(one, found[1])


def _word(found: re.Match[bytes]) -> tuple[str, Any]:
    return "string", found[0]


def _constant(found: re.Match[bytes]) -> tuple[str, Any]:
    word = found[1]
    return ("bool", word == b"true") if word in (b"true", b"false") else ("double", float(word))


def _number(found: re.Match[bytes]) -> tuple[str, Any]:
    word = found[0]
    if word.endswith(b"u"):
        value = int(word[:-1])
        if not 0 <= value < 2**64:
            raise ValueError("too large")
        return "uint64", value
    if any(each in word for each in b".eE"):
        return "double", float(word)
    value = int(word)
    if not -(2**63) <= value < 2**63:
        raise ValueError("too large")
    return "int64", value


# --- JSON ------------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> YsonNode | None:
    """Parse JSON; None for a text that is no JSON."""
    try:
        return of_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def of_json(value: Any, depth: int = 0) -> YsonNode:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if value is None:
        return ENTITY
    if isinstance(value, bool):
        return YsonNode("bool", value)
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return YsonNode("int64", value)
        return YsonNode("uint64", value) if 0 <= value < 2**64 else YsonNode("double", float(value))
    if isinstance(value, float):
        return YsonNode("double", value)
    if isinstance(value, str):
        return YsonNode("string", value.encode())
    if isinstance(value, list):
        return YsonNode("list", [of_json(each, depth + 1) for each in value])
    return YsonNode("dict", {key.encode(): of_json(each, depth + 1) for key, each in value.items()})


def to_json(node: YsonNode) -> Any:
    """Return the form that a JSON encoder takes; attributes as in YT, `$attributes` and `$value`. ValueError: bytes that are
    no text.
    """
    value = node.value
    if node.kind == "string":
        value = value.decode()
    elif node.kind == "list":
        value = [to_json(each) for each in value]
    elif node.kind == "dict":
        value = {key.decode(): to_json(each) for key, each in value.items()}
    elif node.kind == "double" and value - value != 0:
        raise ValueError("JSON has no such number")
    if not node.attributes:
        return value
    return {"$attributes": {key.decode(): to_json(each) for key, each in node.attributes.items()}, "$value": value}


# --- writing ---------------------------------------------------------------------------------------------------------


def write_text(node: YsonNode) -> bytes:
    """The text form, without blanks."""
    before = b""
    if node.attributes:
        before = b"<" + _pairs_text(node.attributes) + b">"
    if node.kind == "list":
        return before + b"[" + b";".join(map(write_text, node.value)) + b"]"
    if node.kind == "dict":
        return before + b"{" + _pairs_text(node.value) + b"}"
    return before + _scalar_text(node)


def _pairs_text(pairs: dict[bytes, YsonNode]) -> bytes:
    return b";".join(_string_text(key) + b"=" + write_text(each) for key, each in pairs.items())


_ESCAPES: Final = {10: b"\\n", 9: b"\\t", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def _string_text(value: bytes) -> bytes:
    return (
        b'"'
        + b"".join(_ESCAPES.get(each) or (bytes((each,)) if 32 <= each < 127 else b"\\x%02X" % each) for each in value)
        + b'"'
    )


def _scalar_text(node: YsonNode) -> bytes:
    value = node.value
    if node.kind == "string":
        return _string_text(value)
    if node.kind == "bool":
        return b"%true" if value else b"%false"
    if node.kind == "double":
        if value != value:
            return b"%nan"
        if value - value != 0:
            return b"%inf" if value > 0 else b"%-inf"
        text = repr(value).removesuffix("0") if repr(value).endswith(".0") else repr(value)
        return text.encode()
    return b"#" if node.kind == "entity" else f"{value}{'u' if node.kind == 'uint64' else ''}".encode()


def write_binary(node: YsonNode) -> bytes:
    """The binary form."""
    before = b"<" + _pairs_binary(node.attributes) + b">" if node.attributes else b""
    value = node.value
    match node.kind:
        case "list":
            return before + b"[" + b"".join(write_binary(each) + b";" for each in value) + b"]"
        case "dict":
            return before + b"{" + _pairs_binary(value) + b"}"
        case "string":
            return before + _string_binary(value)
        case "bool":
            return before + (b"\5" if value else b"\4")
        case "double":
            return before + b"\3" + struct.pack("<d", value)
        case "int64":
            return before + b"\2" + _varint(value << 1 ^ value >> 63)
        case "uint64":
            return before + b"\6" + _varint(value)
        case _:
            return before + b"#"


def _pairs_binary(pairs: dict[bytes, YsonNode]) -> bytes:
    return b"".join(_string_binary(key) + b"=" + write_binary(each) + b";" for key, each in pairs.items())


def _string_binary(value: bytes) -> bytes:
    return b"\1" + _varint(len(value) << 1) + value


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
