"""Validation of YSON documents, in the text and binary forms.

Source: https://ydb.tech/docs/en/yql/reference/types/yson
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = re.compile(rb"[ \t\r\n\f\v]*")
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.\-]*")
_NUMBER: Final = re.compile(rb"[+-]?[0-9]+u|[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONSTANT: Final = re.compile(rb"%(?:true|false|nan|[+-]?inf)")
# At most ten bytes of seven bits each: a number of 64 bits.
_VARINT: Final = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]", re.DOTALL)

_STRING: Final = 1
_CLOSERS: Final = {ord("["): ord("]"), ord("{"): ord("}"), ord("<"): ord(">")}


def is_valid(data: bytes) -> bool:
    """True if the data is one document, with nothing but blanks around it."""
    return _Validator(data).check_document()


class _Validator:
    """Checks a document with an explicit stack, so that deep nesting takes memory and never ends in a RecursionError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.open: list[int] = []

    def check_document(self) -> bool:
        """Check the whole document: a value, then the rest of each open container."""
        if not self.check_value():
            return False
        while self.open:
            if not self.check_after_item():
                return False
        self.skip_blanks()
        return self.at == len(self.data)

    def skip_blanks(self) -> int | None:
        """Skip blanks, and return the next byte without consuming it."""
        match = _BLANKS.match(self.data, self.at)
        self.at = match.end() if match else self.at
        return self.data[self.at] if self.at < len(self.data) else None

    def check_value(self) -> bool:
        """Check a scalar, or the beginning of a container down to its first scalar or empty container."""
        while True:
            byte = self.skip_blanks()
            if byte is None:
                return False
            closer = _CLOSERS.get(byte)
            if closer is None:
                return self.check_scalar(byte)
            self.at += 1
            self.open.append(closer)
            if self.skip_blanks() == closer:
                return True
            if closer != ord("]") and not self.check_key():
                return False

    def check_after_item(self) -> bool:
        """Check the end of the innermost container, or `;` and the next item."""
        closer = self.open[-1]
        byte = self.skip_blanks()
        if byte == ord(";"):
            self.at += 1
            byte = self.skip_blanks()
            if byte != closer:
                return (closer == ord("]") or self.check_key()) and self.check_value()
        if byte != closer:
            return False
        self.at += 1
        self.open.pop()
        # Attributes come before a value.
        return closer != ord(">") or self.check_value()

    def check_key(self) -> bool:
        byte = self.skip_blanks()
        if byte is None or not (self.skip_binary_string() if byte == _STRING else self.skip_one_of(_QUOTED, _WORD)):
            return False
        if self.skip_blanks() != ord("="):
            return False
        self.at += 1
        return True

    def check_scalar(self, byte: int) -> bool:
        # The bytes of the binary form: 1 string, 2 Int64, 3 Double, 4 false, 5 true, 6 Uint64. 35 is `#`, the entity.
        match byte:
            case 1:
                return self.skip_binary_string()
            case 2 | 6:
                self.at += 1
                return self.skip_one_of(_VARINT)
            case 3:
                self.at += 9
                return self.at <= len(self.data)
            case 4 | 5 | 35:
                self.at += 1
                return True
            case _:
                return self.skip_one_of(_QUOTED, _NUMBER, _CONSTANT, _WORD)

    def skip_one_of(self, *grammars: re.Pattern[bytes]) -> bool:
        for grammar in grammars:
            match = grammar.match(self.data, self.at)
            if match is not None:
                self.at = match.end()
                return True
        return False

    def skip_binary_string(self) -> bool:
        """Check a length as a signed varint in zigzag form, and as many bytes."""
        match = _VARINT.match(self.data, self.at + 1)
        if match is None:
            return False
        number = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(match.group()))
        self.at = match.end() + (number >> 1)
        # Odd numbers are negative in zigzag form, and no length.
        return number % 2 == 0 and self.at <= len(self.data)
